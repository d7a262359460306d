//! The side doors: what agents and servers do besides calling tools is judged by layers
//! (threat-model §3C C3, C6, C7, C12, §5), before a server that keeps everything that arrives.

use crate::harness::agent::Agent;
use crate::harness::gate::{Gate, runs};
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::Setup;
use crate::harness::stdio::StdioGate;
use crate::harness::until;
use serde_json::{Value, json};
use tokio::sync::mpsc;

mod indirect;
mod layer_matrix;
mod servers;
mod spellings;
mod uris;

/// The one who may do nothing, and the one who may read the documents.
const CALLERS: &str = "
  - { agent: carol, token: token-of-carol-the-agent }
  - { agent: alice, token: token-of-alice-the-agent }
";
const CAROL: &str = "token-of-carol-the-agent";
const ALICE: &str = "token-of-alice-the-agent";

const CLOSED: &str = "
contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }
layers: { agent: { carol: { allow: [] } } }
";

const OPEN_TO_ALICE: &str = "
contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }
layers:
  agent:
    carol: { allow: [] }
    alice:
      resources: { allow: [\"docs__file:///srv/docs/*\"], deny: [\"docs__file:///srv/docs/private/*\"] }
      prompts: { allow: [docs__greet] }
      completions: { allow: [\"docs__greet\", \"docs__file:///srv/docs/*\"] }
      logging: { allow: [docs] }
";

/// A server with a secret file, a secret prompt, and completions of everything.
async fn docs() -> ScriptedServer {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    scripted.answers(answer);
    scripted
}

fn answer(seen: &Seen) -> Reply {
    let params = &seen.body["params"];
    Reply::Result(match seen.method() {
        "resources/list" => {
            json!({ "resultType": "complete", "ttlMs": 9, "cacheScope": "public", "resources": [
            { "uri": "file:///srv/docs/a.md", "name": "a" }, { "uri": "file:///etc/secret", "name": "TOP" },
            { "uri": "file:///srv/docs/private/b.md", "name": "TOP" }, { "uri": "no uri", "name": "TOP" } ] })
        }
        "resources/templates/list" => json!({ "resultType": "complete", "resourceTemplates": [
            { "uriTemplate": "file:///srv/docs/{name}", "name": "docs" },
            { "uriTemplate": "file:///etc/{name}", "name": "TOP" } ] }),
        "prompts/list" => {
            json!({ "resultType": "complete", "prompts": [{ "name": "greet" }, { "name": "TOP" }] })
        }
        "resources/read" => {
            json!({ "resultType": "complete", "contents": [{ "uri": params["uri"], "text": "TOP SECRET FILE" }] })
        }
        "prompts/get" => json!({ "resultType": "complete", "messages": [], "description": "TOP" }),
        "completion/complete" => {
            json!({ "resultType": "complete", "completion": { "values": ["TOP"] } })
        }
        _ => json!({}),
    })
}

/// Every request of an agent that goes through a side door, with whether only a legacy session has
/// it.
fn requests(uri: &str, prompt: &str) -> Vec<(&'static str, Value, bool)> {
    let argument = json!({ "name": "a", "value": "" });
    vec![
        ("resources/list", json!({}), false),
        ("resources/templates/list", json!({}), false),
        ("resources/read", json!({ "uri": uri }), false),
        ("resources/subscribe", json!({ "uri": uri }), true),
        ("resources/unsubscribe", json!({ "uri": uri }), true),
        ("prompts/list", json!({}), false),
        ("prompts/get", json!({ "name": prompt }), false),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": prompt }, "argument": argument }),
            false,
        ),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/resource", "uri": uri }, "argument": argument }),
            false,
        ),
        ("logging/setLevel", json!({ "level": "debug" }), true),
    ]
}

/// What of an answer an agent can tell something by.
fn told(mut answer: Value) -> Value {
    answer.as_object_mut().unwrap().remove("id");
    answer
}

async fn started(scripted: &ScriptedServer, policy: &str) -> Gate {
    let setup = Setup::new()
        .server_with("docs", &format!("url: \"{}\"", scripted.url()))
        .policy(policy)
        .callers(CALLERS);
    setup.start().await
}

/// threat-model §13 F7, §5: an agent that may call no tool reads no resource and no prompt either,
/// on any wire; what it asks for looks as if it were not there, and the server is not even asked.
#[tokio::test]
async fn f7_who_may_do_nothing_reads_nothing() {
    let scripted = docs().await;
    let gate = started(&scripted, CLOSED).await;
    let carol = gate.agent().token(CAROL);
    let mut asked = 0;
    for agent in [
        carol.clone().at("/mcp"),
        carol.clone().at("/mcp/docs"),
        carol.clone().at("/mcp").initialized().await,
        carol.clone().at("/mcp/docs").initialized().await,
    ] {
        let there = requests("file:///etc/secret", "greet");
        let nowhere = requests("file:///etc/nothing", "nothing");
        for ((method, params, legacy), (_, other, _)) in there.into_iter().zip(nowhere) {
            if legacy && !agent.is_legacy() {
                continue;
            }
            let (mine, theirs) = (
                told(agent.ask(method, params).await),
                told(agent.ask(method, other).await),
            );
            assert!(!mine.to_string().contains("TOP"), "{method}: {mine}");
            assert_eq!(mine, theirs, "{method}: there or not, it reads the same");
            asked += 2;
        }
        assert_eq!(scripted.seen().len(), 0, "{:#?}", scripted.seen());
    }
    let mut launched = StdioGate::start_with(
        &gate.setup,
        &[
            "--config",
            "toolgate.yaml",
            "--agent",
            "carol",
            "--data",
            "launched",
        ],
    );
    for (index, (method, params, legacy)) in requests("file:///etc/secret", "greet")
        .into_iter()
        .enumerate()
    {
        if legacy {
            continue;
        }
        let mut message = crate::harness::agent::modern(method, params);
        message["id"] = json!(index);
        let answer = launched.ask(message.to_string().as_bytes()).await.message();
        assert!(
            answer["id"] == json!(index) && !answer.to_string().contains("TOP"),
            "{answer}"
        );
        asked += 1;
    }
    assert_eq!(scripted.seen().len(), 0, "{:#?}", scripted.seen());
    assert_eq!(asked, 4 * 7 * 2 + 2 * 3 * 2 + 7);
}

/// Who may read some of it reads that, and of lists it reads that; each message is recorded and
/// counted.
#[tokio::test]
async fn what_a_layer_allows_passes_and_all_of_it_is_recorded() {
    let scripted = docs().await;
    let gate = started(&scripted, OPEN_TO_ALICE).await;
    let alice = gate.agent().token(ALICE).at("/mcp/docs");
    for agent in [alice.clone(), alice.clone().initialized().await] {
        for (method, params, legacy) in requests("file:///srv/docs/a.md", "greet") {
            if legacy && !agent.is_legacy() {
                continue;
            }
            let answer = agent.ask(method, params).await;
            assert!(answer["result"].is_object(), "{method}: {answer}");
        }
        let listed = agent.ask("resources/list", json!({})).await["result"].clone();
        assert_eq!(
            listed["resources"],
            json!([{ "uri": "file:///srv/docs/a.md", "name": "a" }]),
            "{listed}"
        );
        assert_eq!(listed["cacheScope"], "private", "{listed}");
        let listed = agent.ask("resources/templates/list", json!({})).await["result"].clone();
        assert_eq!(
            listed["resourceTemplates"].as_array().map(Vec::len),
            Some(1),
            "{listed}"
        );
        assert_eq!(
            agent.ask("prompts/list", json!({})).await["result"]["prompts"],
            json!([{ "name": "greet" }])
        );
        for uri in [
            "file:///srv/docs/private/b.md",
            "file:///etc/secret",
            "file:///srv/docs/../../etc/secret",
        ] {
            let answer = agent.ask("resources/read", json!({ "uri": uri })).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
    }
    let ledger = gate.entries(2 * 7 + 3 + 6 + 6).await;
    let id = judge_entries(&ledger);
    let counted = gate
        .metric("toolgate_side_messages_total{door=\"resources\",outcome=\"refused\"}")
        .await;
    assert!((counted - 6.0).abs() < 0.5, "{counted}");
    verbs_tell(&gate.setup, id).await;
}

/// What the ledger has of messages that pass and that do not; the id of one that did not.
fn judge_entries(ledger: &[Value]) -> &str {
    let find = |method: &str, outcome: &str| {
        ledger
            .iter()
            .find(|entry| entry["method"] == method && entry["outcome"] == outcome)
            .unwrap()
    };
    let read = find("resources/read", "answered");
    assert_eq!(
        (&read["tool"], &read["user_id"]),
        (&json!("docs__file:///srv/docs/a.md"), &json!("alice")),
        "{read}"
    );
    assert_eq!(
        read["decided_by"], "agent alice: allowed by `docs__file:///srv/docs/*`",
        "{read}"
    );
    assert_eq!(read["attempts"], 1, "{read}");
    let refused = find("resources/read", "refused");
    assert_eq!(
        refused["aborted_reason"], "message_not_allowlisted",
        "{refused}"
    );
    assert_eq!(
        refused["decided_by"], "agent alice: denied by `docs__file:///srv/docs/private/*`",
        "{refused}"
    );
    assert_eq!(refused["attempts"], 0, "{refused}");
    refused["action_id"].as_str().unwrap()
}

/// What `ledger` says of it.
async fn verbs_tell(setup: &Setup, id: &str) {
    let said = async |line: &str| runs(setup, &format!("ledger {line} --data data")).await.1;
    let listed = said("list --method resources/read").await;
    assert!(
        listed.contains("resources/read docs__file:///etc/secret"),
        "{listed}"
    );
    let calls = said("list --method tools/call").await;
    assert!(!calls.contains("docs"), "{calls}");
    let shown = said(&format!("show {id}")).await;
    assert!(shown.contains("message_not_allowlisted"), "{shown}");
    let exported = said("export").await;
    let completion = "\"method\":\"completion/complete\"";
    assert!(exported.contains(completion), "{exported}");
}

/// threat-model §3C C12: each side is told of the other only what it may use.
#[tokio::test]
async fn capabilities_are_offered_as_far_as_they_can_be_used() {
    let scripted = docs().await;
    let gate = started(&scripted, OPEN_TO_ALICE).await;
    for (token, offered) in [
        (CAROL, vec!["tasks", "tools"]),
        (
            ALICE,
            vec![
                "completions",
                "logging",
                "prompts",
                "resources",
                "tasks",
                "tools",
            ],
        ),
    ] {
        let agent = gate.agent().token(token);
        for path in ["/mcp", "/mcp/docs"] {
            let agent = agent.clone().at(path);
            let said =
                agent.ask("server/discover", json!({})).await["result"]["capabilities"].clone();
            let mut names: Vec<&str> = said
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            names.sort_unstable();
            assert_eq!(names, offered, "{token} {path}");
            let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
            let message =
                json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            let said = agent.answered(&message).await["result"]["capabilities"].clone();
            let mut names: Vec<&str> = said
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            names.sort_unstable();
            assert_eq!(names, offered, "{token} {path}");
        }
    }
}

/// threat-model §5: a subscription holds what its agent may hear, and no more is heard.
#[tokio::test]
async fn subscriptions_hold_what_may_be_heard() {
    let scripted = docs().await;
    let gate = started(&scripted, OPEN_TO_ALICE).await;
    let agent = gate.agent().token(ALICE).at("/mcp/docs");
    let wanted = json!({ "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///etc/secret", "file:///srv/docs/a.md", "file:///srv/docs/%2e%2e/x"] });
    let mut stream = agent
        .post(&agent.request("subscriptions/listen", json!({ "notifications": wanted })))
        .await;
    let acknowledged = stream.message().await["params"]["notifications"].clone();
    assert_eq!(
        acknowledged["resourceSubscriptions"],
        json!(["file:///srv/docs/a.md"]),
        "{acknowledged}"
    );
    let updated = |uri: &str| json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } });
    scripted.tells(updated("file:///etc/secret")).await;
    scripted.tells(updated("file:///srv/docs/a.md")).await;
    let heard = stream.message().await;
    assert_eq!(heard["params"]["uri"], "file:///srv/docs/a.md", "{heard}");
    let carol = gate.agent().token(CAROL).at("/mcp/docs");
    let mut stream = carol
        .post(&carol.request("subscriptions/listen", json!({ "notifications": wanted })))
        .await;
    let acknowledged = stream.message().await["params"]["notifications"].clone();
    assert_eq!(acknowledged, json!({}), "nothing of it is open to carol");
    let legacy = gate
        .agent()
        .token(CAROL)
        .at("/mcp/docs")
        .initialized()
        .await;
    let mut standalone = legacy.get(None).await;
    until("the session listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    for method in ["resources/list_changed", "prompts/list_changed", "message"] {
        scripted.tells(json!({ "jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": { "level": "info", "data": "TOP" } })).await;
    }
    scripted.tells(updated("file:///etc/secret")).await;
    scripted
        .changes_tools(vec![tool("read"), tool("other")])
        .await;
    let heard = standalone.message().await;
    assert_eq!(
        heard["method"], "notifications/tools/list_changed",
        "{heard}"
    );
}
