//! Several servers at one address: lists are joined, everything else goes to the server it is for,
//! and no server hurts another.

mod feeds;

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Settings;
use crate::harness::tool_server::script::{LEGACY, MODERN};
use crate::harness::until;
use serde_json::{Value, json};

/// Two pages: one entry and a cursor, then one more.
fn page(seen: &Seen, key: &str, entry: impl Fn(&str) -> Value) -> Reply {
    let result = match seen.body["params"].get("cursor").and_then(Value::as_str) {
        None => json!({ key: [entry("1")], "nextCursor": "the second page" }),
        Some("the second page") => json!({ key: [entry("2")] }),
        Some(_) => {
            return Reply::Message(
                json!({ "jsonrpc": "2.0", "error": { "code": -32602, "message": "no such page" } }),
            );
        }
    };
    Reply::Result(result)
}

/// A server with two prompts, two resources and a template, all of which bear its name.
async fn server(name: &'static str, making: Offers) -> ScriptedServer {
    let scripted = ScriptedServer::start(Offers {
        tools: vec![tool("read")],
        ..making
    })
    .await;
    scripted.answers(move |seen| {
        let params = &seen.body["params"];
        match seen.method() {
            "prompts/list" => page(seen, "prompts", |number| json!({ "name": format!("p{number}"), "title": name })),
            "resources/list" => {
                page(seen, "resources", |number| json!({ "uri": format!("{name}://{number}"), "name": number }))
            }
            "resources/templates/list" => page(
                seen,
                "resourceTemplates",
                |number| json!({ "uriTemplate": format!("{name}-t{number}://{{id}}/x"), "name": number }),
            ),
            "prompts/get" => {
                Reply::Result(json!({ "messages": [], "description": format!("{name} {}", params["name"]) }))
            }
            "completion/complete" => {
                let reference = params["ref"].get("name").or(params["ref"].get("uri")).unwrap();
                Reply::Result(json!({ "completion": { "values": [name, reference] } }))
            }
            "resources/read" => Reply::Result(json!({ "contents": [{ "uri": params["uri"], "text": name }] })),
            _ => Reply::Result(json!({})),
        }
    });
    scripted
}

fn settings(servers: Vec<(&'static str, String)>) -> Settings {
    let contract = |(name, _): &(&str, String)| {
        format!("  {name}__read: {{ purpose: t, actions: [read], secrets: [] }}\n")
    };
    let policy = format!(
        "contracts:\n{}",
        servers.iter().map(contract).collect::<String>()
    );
    Settings {
        servers,
        callers: "",
        more: "",
        policy,
        observe: false,
    }
}

async fn two(north: Offers, south: Offers) -> (ScriptedServer, ScriptedServer, Gate) {
    let (north, south) = (server("north", north).await, server("south", south).await);
    let gate = Gate::start(settings(vec![
        ("north", north.url()),
        ("south", south.url()),
    ]))
    .await;
    (north, south, gate)
}

fn of_era(modern: bool, legacy: bool) -> Offers {
    Offers {
        modern,
        legacy,
        ..Offers::default()
    }
}

/// The entries of all pages, and the cursors on the way.
async fn all(agent: &Agent, method: &str, key: &str, member: &str) -> (Vec<String>, Vec<String>) {
    let (mut entries, mut cursors, mut params) = (Vec::new(), Vec::new(), json!({}));
    loop {
        let answer = agent.ask(method, params).await;
        let page = answer["result"][key]
            .as_array()
            .unwrap_or_else(|| panic!("{method}: {answer}"));
        entries.extend(
            page.iter()
                .map(|entry| entry[member].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = answer["result"].get("nextCursor") else {
            return (entries, cursors);
        };
        cursors.push(cursor.as_str().unwrap().to_owned());
        params = json!({ "cursor": cursor });
    }
}

#[tokio::test]
async fn lists_are_joined_page_by_page_under_toolgates_own_cursors() {
    let (_north, _south, gate) = two(Offers::default(), Offers::default()).await;
    for agent in [gate.agent(), gate.legacy("/mcp").await] {
        let (prompts, cursors) = all(&agent, "prompts/list", "prompts", "name").await;
        assert_eq!(
            prompts,
            ["north__p1", "north__p2", "south__p1", "south__p2"]
        );
        assert!(
            cursors.len() == 3 && cursors.iter().all(|cursor| !cursor.contains("second page")),
            "{cursors:?}"
        );
        let (resources, _) = all(&agent, "resources/list", "resources", "uri").await;
        assert_eq!(
            resources,
            ["north://1", "north://2", "south://1", "south://2"]
        );
        let (templates, _) = all(
            &agent,
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
        )
        .await;
        let expected = [
            "north-t1://{id}/x",
            "north-t2://{id}/x",
            "south-t1://{id}/x",
            "south-t2://{id}/x",
        ];
        assert_eq!(templates, expected);
        let reversed: String = cursors[0].chars().rev().collect();
        let longer = format!("{}AAAA", cursors[0]);
        for tampered in [
            json!(reversed),
            json!(longer),
            json!("the second page"),
            json!(""),
            json!(7),
            json!({}),
        ] {
            let answer = agent
                .ask("prompts/list", json!({ "cursor": tampered }))
                .await;
            assert_eq!(answer["error"]["code"], -32602, "{tampered}: {answer}");
        }
    }
}

#[tokio::test]
async fn prompts_and_completions_go_to_the_server_that_the_name_says() {
    let (north, south, gate) = two(Offers::default(), Offers::default()).await;
    for agent in [gate.agent(), gate.legacy("/mcp").await] {
        let answer = agent
            .ask("prompts/get", json!({ "name": "south__p2" }))
            .await;
        assert_eq!(answer["result"]["description"], "south \"p2\"", "{answer}");
        let argument = json!({ "name": "a", "value": "b" });
        let reference = json!({ "type": "ref/prompt", "name": "north__p1" });
        let answer = agent
            .ask(
                "completion/complete",
                json!({ "ref": reference, "argument": argument }),
            )
            .await;
        assert_eq!(
            answer["result"]["completion"]["values"],
            json!(["north", "p1"]),
            "{answer}"
        );
        let reference = json!({ "type": "ref/resource", "uri": "south-t1://{id}/x" });
        let answer = agent
            .ask(
                "completion/complete",
                json!({ "ref": reference, "argument": argument }),
            )
            .await;
        assert_eq!(
            answer["result"]["completion"]["values"],
            json!(["south", "south-t1://{id}/x"]),
            "{answer}"
        );
        north.forget();
        south.forget();
        for name in ["p1", "west__p1", ""] {
            let answer = agent.ask("prompts/get", json!({ "name": name })).await;
            assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
        }
        assert!(north.seen().is_empty() && south.seen().is_empty());
    }
}

#[tokio::test]
async fn a_resource_is_read_at_the_server_that_lists_it_or_has_a_template_for_it() {
    let (north, south, gate) = two(Offers::default(), Offers::default()).await;
    for agent in [gate.agent(), gate.legacy("/mcp").await] {
        for (uri, owner) in [
            ("north://1", "north"),
            ("south://1", "south"),
            ("south://2", "south"),
            ("north-t1://7/x", "north"),
            ("south-t1://7/x", "south"),
            ("south-t2://7/x", "south"),
        ] {
            let answer = agent.ask("resources/read", json!({ "uri": uri })).await;
            let content = &answer["result"]["contents"][0];
            assert_eq!(
                (&content["uri"], &content["text"]),
                (&json!(uri), &json!(owner)),
                "{answer}"
            );
        }
        north.forget();
        south.forget();
        let answer = agent
            .ask("resources/read", json!({ "uri": "west://1" }))
            .await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let read = |scripted: &ScriptedServer| {
            scripted
                .seen()
                .iter()
                .any(|seen| seen.method() == "resources/read")
        };
        assert!(!read(&north) && !read(&south));
    }
}

#[tokio::test]
async fn a_level_of_logging_is_set_at_every_server() {
    let (north, south, gate) = two(Offers::default(), Offers::default()).await;
    let answer = gate
        .legacy("/mcp")
        .await
        .ask("logging/setLevel", json!({ "level": "debug" }))
        .await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    for scripted in [north, south] {
        let seen = scripted
            .sees("the level", |seen| seen.method() == "logging/setLevel")
            .await;
        assert_eq!(seen.body["params"]["level"], "debug");
    }
}

#[tokio::test]
async fn what_servers_can_do_is_said_together() {
    let can = |capabilities: Value| Offers {
        capabilities,
        ..Offers::default()
    };
    let north = can(json!({ "tools": {}, "prompts": { "listChanged": false }, "completions": {} }));
    let south = can(
        json!({ "tools": {}, "prompts": { "listChanged": true }, "resources": { "subscribe": true } }),
    );
    let (_north, _south, gate) = two(north, south).await;
    let together = json!({
        "tools": { "listChanged": true }, "prompts": { "listChanged": true }, "completions": {},
        "resources": { "subscribe": true },
    });
    let discovered = gate.agent().ask("server/discover", json!({})).await["result"].clone();
    let mut of_modern = together.clone();
    // A call that takes long can become a task of toolgate's own.
    of_modern["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
    assert_eq!(discovered["capabilities"], of_modern, "{discovered}");
    let versions = discovered["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!(MODERN)), "{discovered}");
    let info = json!({ "name": "agent", "version": "1" });
    let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let initialized = gate.agent().answered(&message).await["result"].clone();
    assert_eq!(initialized["capabilities"], together, "{initialized}");
    assert_eq!(
        (
            &initialized["protocolVersion"],
            &initialized["serverInfo"]["name"]
        ),
        (&json!(LEGACY), &json!("toolgate"))
    );
}

/// Whatever mixture of eras the servers speak, an agent of either reaches all of them.
#[tokio::test]
async fn servers_of_two_eras_together_are_served_in_every_revision() {
    for eras in [(false, true), (true, false)] {
        let (_north, _south, gate) = two(of_era(true, true), of_era(eras.0, eras.1)).await;
        for agent in [gate.agent(), gate.legacy("/mcp").await] {
            assert_eq!(
                agent.tools().await,
                ["north__read", "south__read"],
                "{eras:?}"
            );
        }
        let discovered = gate.agent().ask("server/discover", json!({})).await;
        let versions = discovered["result"]["supportedVersions"].as_array();
        assert_eq!(versions.map(Vec::len), Some(4), "{discovered}");
    }
}

#[tokio::test]
async fn a_server_that_is_down_takes_only_its_own_with_it() {
    let (north, _south, gate) = two(Offers::default(), Offers::default()).await;
    let agents = [gate.agent(), gate.legacy("/mcp").await];
    north.down();
    for agent in agents {
        until("north's tools are hidden", || async {
            let _ = agent.call("north__read", json!({})).await;
            (agent.tools().await == ["south__read"]).then_some(())
        })
        .await;
        assert_eq!(
            all(&agent, "prompts/list", "prompts", "name").await.0,
            ["south__p1", "south__p2"]
        );
        let answer = agent
            .ask("prompts/get", json!({ "name": "north__p1" }))
            .await;
        assert!(answer["error"].is_object(), "{answer}");
        let answer = agent
            .ask("prompts/get", json!({ "name": "south__p1" }))
            .await;
        assert_eq!(answer["result"]["description"], "south \"p1\"", "{answer}");
        let answer = agent
            .ask("resources/read", json!({ "uri": "south://1" }))
            .await;
        assert_eq!(answer["result"]["contents"][0]["text"], "south", "{answer}");
        assert!(agent.call("south__read", json!({})).await["result"].is_object());
    }
    assert_eq!(
        gate.legacy("/mcp").await.tools().await,
        ["south__read"],
        "a new session opens without it"
    );
    north.up().await;
    until("north's tools are back", || async {
        (gate.agent().tools().await == ["north__read", "south__read"]).then_some(())
    })
    .await;
}
