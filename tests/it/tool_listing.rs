//! `tools/list`: what this caller may call, in the servers' order, page by page; what cannot be
//! judged or reached is not there, and leaves the rest alone.

use crate::harness::agent::Agent;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Offers, ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::until;
use serde_json::{Value, json};
use std::fmt::Write as _;

const CALLERS: &str = "
  - { agent: owner, token: token-of-the-owner, owner: true }
  - { agent: reader, token: token-of-the-reader }
  - { agent: nothing, token: token-for-nothing-at-all }
  - { agent: narrow, token: token-of-the-narrow }
";

const POLICY: &str = r#"
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__read: { purpose: test, actions: [read], secrets: [] }
  oracle__drop_table: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [] }
  oracle__send: { purpose: test, actions: [notify], side_effect: { writes: test, rollback: { tool: oracle__undo } }, owner_only: true, secrets: [] }
  oracle__add: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [] }
layers:
  global: { deny: ["*__drop_*"] }
  agent:
    nothing: { allow: [] }
    narrow: { allow: ["*__read"] }
"#;

fn tools() -> Vec<Value> {
    ["send", "read", "drop_table", "uncontracted", "add"]
        .map(tool)
        .to_vec()
}

async fn governed(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(tools()).await;
    let servers = vec![("oracle", scripted.url())];
    let gate = Gate::start(Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: POLICY.to_owned(),
        observe,
    })
    .await;
    (scripted, gate)
}

async fn both(agent: Agent) -> [Agent; 2] {
    [agent.clone(), agent.initialized().await]
}

/// 003-21 and design §2: owner-only, layers and contracts decide what is listed, the same on both
/// wires, in the server's order; at the server's own address under its own names.
#[tokio::test]
async fn each_agent_is_shown_what_it_may_call() {
    let (_scripted, gate) = governed(false).await;
    for (token, expected) in [
        ("token-of-the-owner", &["send", "read", "add"][..]),
        ("token-of-the-reader", &["read", "add"]),
        ("token-for-nothing-at-all", &[]),
        ("token-of-the-narrow", &["read"]),
    ] {
        for agent in both(gate.agent().token(token)).await {
            let names: Vec<String> = expected
                .iter()
                .map(|name| format!("oracle__{name}"))
                .collect();
            assert_eq!(agent.tools().await, names, "{token}");
        }
        for agent in both(gate.agent().token(token).at("/mcp/oracle")).await {
            assert_eq!(agent.tools().await, expected, "{token}");
        }
    }
}

/// design §2 `mode`: observe lists all, to everybody.
#[tokio::test]
async fn observe_lists_everything() {
    let (_scripted, gate) = governed(true).await;
    for token in ["token-of-the-owner", "token-for-nothing-at-all"] {
        for agent in both(gate.agent().token(token).at("/mcp/oracle")).await {
            assert_eq!(
                agent.tools().await,
                ["send", "read", "drop_table", "uncontracted", "add"]
            );
        }
    }
}

/// protocol §1.9: the list depends on who asks and may change at any moment; legacy agents see no
/// such members.
#[tokio::test]
async fn a_listing_says_how_long_and_for_whom_it_holds() {
    let (_scripted, gate) = governed(false).await;
    let [modern, legacy] = both(gate.agent().token("token-of-the-reader")).await;
    let listed = modern.ask("tools/list", json!({})).await;
    let result = &listed["result"];
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"]),
        (&json!(0), &json!("private"))
    );
    assert_eq!(result["resultType"], "complete");
    let again = modern.ask("tools/list", json!({})).await;
    assert_eq!(
        again["result"].to_string(),
        result.to_string(),
        "the same bytes while nothing changes"
    );
    let listed = legacy.ask("tools/list", json!({})).await;
    for key in ["ttlMs", "cacheScope", "resultType"] {
        assert!(listed["result"].get(key).is_none(), "{listed}");
    }
    assert_eq!(listed["result"]["tools"], result["tools"]);
}

/// 003-21: an unknown tool, a hidden one, one without a contract and one for owners answer with the
/// same bytes.
#[tokio::test]
async fn unknown_and_hidden_tools_cannot_be_told_apart() {
    let (scripted, gate) = governed(false).await;
    for agent in both(gate.agent().token("token-of-the-reader")).await {
        let mut answers = Vec::new();
        for name in ["no_such_tool", "drop_table", "uncontracted", "send"] {
            // Arguments that would be wrong otherwise change nothing.
            let params = json!({ "name": format!("oracle__{name}"), "arguments": { "a": name } });
            let mut message = agent.request("tools/call", params);
            message["id"] = json!(77);
            let mut answer = agent.answered(&message).await;
            let decision = &mut answer["error"]["data"]["dev.toolgate/decision"];
            assert!(decision["action_id"].take().is_string(), "{answer}");
            assert_eq!(answer["error"]["code"], -32602);
            assert_eq!(answer["error"]["data"]["code"], "tool_not_allowlisted");
            answers.push(answer.to_string());
        }
        assert!(
            answers.windows(2).all(|pair| pair[0] == pair[1]),
            "{answers:#?}"
        );
    }
    assert_eq!(scripted.executions(), 0);
}

/// protocol §1.9, threat-model §8: more than 1000 tools come in pages under cursors of ours; one
/// that was tampered with, is the server's, or another agent's, gets −32602.
#[tokio::test]
async fn long_listings_have_pages_and_cursors_of_ours() {
    let names: Vec<String> = (0..1_500)
        .map(|number| format!("tool_{number:04}"))
        .collect();
    let tools = names.iter().map(|name| tool(name)).collect();
    let scripted = ScriptedServer::start(Offers {
        tools,
        page: 400,
        ..Offers::default()
    })
    .await;
    let gate = Gate::start(Settings::observed(scripted.url())).await;
    for agent in both(gate.agent().at("/mcp/oracle")).await {
        assert_eq!(agent.tools().await, names);
        let first = agent.ask("tools/list", json!({})).await;
        assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 1_000);
        let cursor = first["result"]["nextCursor"].as_str().unwrap();
        let mut tampered = cursor.to_owned();
        tampered.insert(1, 'A');
        for wrong in [
            json!("400"),
            json!(""),
            json!(tampered),
            json!(7),
            json!({ "offset": 0 }),
        ] {
            let answer = agent.ask("tools/list", json!({ "cursor": wrong })).await;
            assert_eq!(answer["error"]["code"], -32602, "{wrong}: {answer}");
        }
    }
}

/// A tool with this schema.
fn with_schema(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "inputSchema": schema })
}

/// A tool with one argument, of this schema.
fn of_one(name: &str, argument: &Value) -> Value {
    with_schema(
        name,
        &json!({ "type": "object", "properties": { "a": argument } }),
    )
}

/// Tools that would hang, bloat or fetch from `fetched`.
fn hostile_tools(fetched: &str) -> Vec<Value> {
    let pattern = json!({ "type": "string", "pattern": "^\\p{L}{1,100}k$" });
    let patterns = (0..50).map(|at| (format!("p{at}"), pattern.clone()));
    let patterns: serde_json::Map<String, Value> = patterns.collect();
    let mut ladder = json!({ "d0": { "type": "string" } });
    for at in 1..30 {
        let below = json!({ "$ref": format!("#/$defs/d{}", at - 1) });
        ladder[format!("d{at}")] = json!({ "allOf": [below.clone(), below] });
    }
    let ladder = json!({ "type": "object", "$defs": ladder, "properties": { "a": { "$ref": "#/$defs/d29" } } });
    let mut deep = json!({ "type": "string" });
    for _ in 0..60 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    let objects: Vec<Value> = (0..500).map(|number| json!({ "n": number })).collect();
    let file = json!({ "type": "object", "$defs": { "unused": { "$ref": "file:///etc/passwd" } } });
    let dialect = json!({ "$schema": format!("{fetched}#"), "type": "object" });
    vec![
        of_one("remote", &json!({ "$ref": fetched })),
        with_schema("file", &file),
        with_schema("dialect", &dialect),
        with_schema(
            "patterns",
            &json!({ "type": "object", "properties": patterns }),
        ),
        with_schema("ladder", &ladder),
        with_schema("deep", &deep),
        of_one("enum", &json!({ "enum": objects })),
        with_schema("list", &json!([])),
        json!({ "name": "none" }),
        with_schema("twin", &json!({ "type": "object" })),
        with_schema("Twin", &json!({ "type": "object" })),
    ]
}

/// threat-model §2.2: what would hang, bloat or fetch is quarantined. Nothing is fetched, the rest
/// is served, and operators read why.
#[tokio::test]
async fn tools_that_cannot_be_judged_are_quarantined() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let mut tools = hostile_tools(&format!("http://{address}/schema.json"));
    let count = tools.len();
    let lookaround = json!({ "type": "string", "pattern": "(?=a)(.*)*b" });
    tools.insert(0, tool("before"));
    // In the middle of them.
    tools.insert(5, of_one("lookaround", &lookaround));
    tools.push(tool("after"));
    let scripted = ScriptedServer::with(tools).await;
    let gate = Gate::start(Settings::observed(scripted.url())).await;
    let agent = gate.agent().at("/mcp/oracle");
    assert_eq!(agent.tools().await, ["before", "lookaround", "after"]);
    let long = "a".repeat(100_000);
    let judged = agent.call("lookaround", json!({ "a": long })).await;
    assert!(
        judged["result"].is_object(),
        "judged in time, although one engine would take a minute: {judged}"
    );
    let refused = agent.call("remote", json!({ "a": 1 })).await;
    assert_eq!(refused["error"]["data"]["code"], "tool_not_allowlisted");
    assert!(agent.call("after", json!({})).await["result"].is_object());
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "nothing was fetched"
    );
    judge_reasons(gate, count).await;
}

/// Operators read in metrics, and from doctor, why so many tools are quarantined.
async fn judge_reasons(gate: Gate, count: usize) {
    let mut metric = 0.0;
    for reason in [
        "remote_reference",
        "unknown_dialect",
        "unusable_pattern",
        "too_many_expansions",
        "too_deep",
        "enum_too_long",
        "no_schema",
        "twin",
    ] {
        let one = gate
            .metric(&format!(
                "toolgate_quarantined_tools{{reason=\"{reason}\"}}"
            ))
            .await;
        assert!(one >= 1.0, "{reason}");
        metric += one;
    }
    assert!(
        (metric - f64::from(u32::try_from(count).unwrap())).abs() < 0.5,
        "{metric} of {count}"
    );
    let setup = gate.stop().await;
    let (code, said, _) = run(&setup, &["doctor", "--config", "toolgate.yaml"]).await;
    assert_eq!(code, 1, "{said}");
    assert_eq!(said.matches("is quarantined").count(), count, "{said}");
    for words in [
        "`remote`: a `$ref` leads out of the schema",
        "`deep`: the schema is nested more than 32 deep",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

/// Issue 2: a server that is down hides its tools without hurting the others; agents that listen
/// are told; it comes back.
#[tokio::test]
async fn a_server_that_goes_down_hides_its_tools_and_comes_back() {
    let (steady, shaky) = (
        ScriptedServer::with(vec![tool("stay")]).await,
        ScriptedServer::with(vec![tool("go")]).await,
    );
    let mut policy = "contracts:\n".to_owned();
    for name in ["steady__stay", "shaky__go"] {
        writeln!(
            policy,
            "  {name}: {{ purpose: test, actions: [read], secrets: [] }}"
        )
        .unwrap();
    }
    let servers = vec![("steady", steady.url()), ("shaky", shaky.url())];
    let gate = Gate::start(Settings {
        servers,
        callers: "",
        more: "",
        policy,
        observe: false,
    })
    .await;
    let [modern, legacy] = both(gate.agent()).await;
    let all = ["shaky__go", "steady__stay"];
    assert_eq!(modern.tools().await, all);
    let (modern, mut listening) = modern.listens_for_tools(true).await;
    let mut standalone = legacy.get(None).await;

    for (goes, expected) in [(true, &all[1..]), (false, &all[..])] {
        if goes {
            shaky.down();
        } else {
            shaky.up().await;
        }
        if goes {
            // Nobody need call it, but an agent that does is told why there is no answer.
            let answer = modern.call("shaky__go", json!({})).await;
            let code = crate::harness::answer::code(&answer).unwrap();
            let known = ["upstream_unavailable", "upstream_failed"];
            assert!(known.contains(&code.as_str()), "{answer}");
        }
        for agent in [&modern, &legacy] {
            until("the listing follows", || async {
                (agent.tools().await == expected).then_some(())
            })
            .await;
            assert!(agent.call("steady__stay", json!({})).await["result"]["isError"] != true);
        }
        for stream in [&mut listening, &mut standalone] {
            let told = stream.message().await;
            assert_eq!(told["method"], "notifications/tools/list_changed");
        }
    }
    for agent in [&modern, &legacy] {
        let answer = agent.call("shaky__go", json!({})).await;
        assert_eq!(crate::harness::answer::code(&answer), None, "{answer}");
    }
    assert_eq!(shaky.executions(), 2);
}

/// Issue 2: a server that announces other tools is listed again, and agents are told once the new
/// list can be asked for.
#[tokio::test]
async fn changed_tools_reach_agents_that_listen() {
    for modern in [true, false] {
        let making = Offers {
            modern,
            legacy: !modern,
            tools: vec![tool("old")],
            ..Offers::default()
        };
        let scripted = ScriptedServer::start(making).await;
        let gate = Gate::start(Settings::observed(scripted.url())).await;
        let (agent, mut listening) = gate
            .agent()
            .at("/mcp/oracle")
            .listens_for_tools(modern)
            .await;
        until("toolgate listens", || async {
            (scripted.listeners() > 0).then_some(())
        })
        .await;
        scripted
            .changes_tools(vec![tool("new"), tool("newer")])
            .await;
        assert_eq!(
            listening.message().await["method"],
            "notifications/tools/list_changed"
        );
        assert_eq!(agent.tools().await, ["new", "newer"], "modern: {modern}");
    }
}
