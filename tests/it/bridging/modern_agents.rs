//! An agent of 2026-07-28 at a legacy server only.

use super::{Bridge, answers, last};
use crate::harness::agent::Agent;
use crate::harness::answer::Reading;
use crate::harness::scripted_server::{Reply, event};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};

/// A call with more in `_meta`.
fn call(agent: &Agent, arguments: &Value, meta: &Value) -> Value {
    let params = json!({ "name": "read", "arguments": arguments, "_meta": meta });
    agent.request("tools/call", params)
}

/// `server/discover`: made of what the server said to `initialize`; never public.
#[tokio::test]
async fn discover_is_made_of_initialize() {
    let bridge = Bridge::legacy().await;
    let answer = bridge
        .modern_agent()
        .ask("server/discover", json!({}))
        .await;
    let result = &answer["result"];
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "scripted"
    );
    assert_eq!(result["cacheScope"], "private");
    assert!(result["capabilities"]["prompts"].is_object(), "{result}");
    assert!(result["capabilities"].get("tasks").is_none(), "{result}");
    assert!(result.get("protocolVersion").is_none() && result.get("serverInfo").is_none());
}

/// `tools/call`, `prompts/get`, `resources/read`, `completion/complete` and the lists: without the
/// envelope, in one session of the agent's; answers with what modern agents need.
#[tokio::test]
async fn every_request_is_plain_and_every_answer_is_complete() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    answers(
        &bridge.server,
        json!({
            "acme": [1.0, 1e2], "content": [], "prompts": [], "resources": [], "resourceTemplates": [],
            "messages": [], "contents": [], "completion": { "values": [] },
        }),
    );
    let prompt = json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } });
    let requests = [
        (
            "tools/call",
            json!({ "name": "read", "arguments": { "region": "eu" } }),
            false,
        ),
        (
            "prompts/get",
            json!({ "name": "p", "arguments": {} }),
            false,
        ),
        ("resources/read", json!({ "uri": "x:1" }), true),
        ("prompts/list", json!({}), true),
        ("resources/list", json!({}), true),
        ("resources/templates/list", json!({}), true),
        ("completion/complete", prompt, false),
    ];
    let mut sessions = Vec::new();
    for (method, params, ages) in requests {
        let answer = agent.ask(method, params).await;
        assert_eq!(
            answer["result"]["resultType"], "complete",
            "{method}: {answer}"
        );
        let age = &answer["result"];
        assert_eq!(
            age["ttlMs"] == 0 && age["cacheScope"] == "private",
            ages,
            "{method}: {answer}"
        );
        let seen = last(&bridge.server, method);
        let meta = &seen.body["params"]["_meta"];
        let is_new = |(key, _): (&String, &Value)| key.starts_with("io.modelcontextprotocol/");
        assert!(
            !meta.as_object().is_some_and(|meta| meta.iter().any(is_new)),
            "{method}: {meta}"
        );
        assert_eq!(seen.header("mcp-method"), None, "{method}");
        assert_eq!(seen.header("mcp-param-region"), None);
        sessions.push(seen.header("mcp-session-id").unwrap().to_owned());
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 1, "one session for one agent");
    let asked = bridge.server.initialized();
    assert_eq!(asked.last().unwrap()["capabilities"], json!({}));
    // `execution` is no member of a modern tool.
    let listed = agent.ask("tools/list", json!({})).await;
    assert!(!listed.to_string().contains("taskSupport"), "{listed}");
}

/// One session for each agent and each set of capabilities; a session that the server has forgotten
/// is made anew, and what it was asked for comes through.
#[tokio::test]
async fn a_session_is_one_agents_and_made_anew() {
    const CALLERS: &str = "
  - { agent: alice, token: token-of-alice-the-agent }
  - { agent: bob, token: token-of-bob-the-agent }
";
    let server = super::ScriptedServer::start(super::Offers {
        modern: false,
        tools: vec![super::tool("read")],
        ..super::Offers::default()
    })
    .await;
    answers(&server, json!({ "content": [] }));
    let gate = Setup::new()
        .server_with("s", &format!("url: \"{}\"", server.url()))
        .contracts(&[("s__read", "read")])
        .callers(CALLERS)
        .start()
        .await;
    let alice = gate.agent().at("s").token("token-of-alice-the-agent");
    let bob = gate.agent().at("s").token("token-of-bob-the-agent");
    let own = server.sessions();
    for agent in [&alice, &bob, &alice, &bob] {
        agent.call("read", json!({})).await;
    }
    assert_eq!(server.sessions(), own + 2, "one for each of two agents");
    server.forgets_sessions();
    let answer = alice.call("read", json!({ "again": 1 })).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(server.sessions(), 1);
}

/// `_meta.logLevel`: the session logs from the most verbose level that was asked for; each request
/// reads what it asked for.
#[tokio::test]
async fn a_request_reads_the_log_that_it_asked_for() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let key = "io.modelcontextprotocol/logLevel";
    let log = |level: &str, data: &str| {
        let params = json!({ "level": level, "data": data });
        event(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }))
    };
    let mut heard = Vec::new();
    for (index, meta) in [
        json!({}),
        json!({ key: "warning" }),
        json!({ key: "debug" }),
    ]
    .into_iter()
    .enumerate()
    {
        let says = bridge.server.holds("tools/call");
        for (level, data) in [("debug", "d"), ("error", "e")] {
            says.send(log(level, data)).await.unwrap();
        }
        let message = call(&agent, &json!({ "n": index }), &meta);
        let answering = async {
            let fits = |seen: &super::Seen| seen.body["params"]["arguments"]["n"] == index;
            let seen = bridge.server.sees("the call", fits).await;
            let result =
                json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": { "content": [] } });
            says.send(event(&result)).await.unwrap();
        };
        let (mut answer, ()) = tokio::join!(agent.post(&message), answering);
        let mut logs = Vec::new();
        while answer.is_stream() {
            let message = answer.message().await;
            if message.get("method").is_none() {
                break;
            }
            logs.push(message["params"]["data"].as_str().unwrap().to_owned());
        }
        heard.push(logs.join(""));
    }
    assert_eq!(heard, ["", "e", "de"]);
    let levels: Vec<_> = bridge
        .server
        .seen()
        .into_iter()
        .filter(|seen| seen.method() == "logging/setLevel")
        .map(|seen| seen.body["params"]["level"].clone())
        .collect();
    assert_eq!(levels, ["warning", "debug"]);
}

/// HTTP disconnect: cancels, and the legacy server is told so; progress has the agent's token.
#[tokio::test]
async fn progress_and_disconnects_cross() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let message = call(&agent, &json!({}), &json!({ "progressToken": "mine" }));
    let progress = json!({ "progressToken": "mine", "progress": 1 });
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress });
    says.send(event(&note)).await.unwrap();
    let mut answer: Reading = agent.post(&message).await;
    assert_eq!(answer.message().await["params"]["progressToken"], "mine");
    let seen = last(&bridge.server, "tools/call");
    drop(answer);
    let is_told = |told: &super::Seen| {
        told.method() == "notifications/cancelled"
            && told.body["params"]["requestId"] == seen.body["id"]
    };
    bridge.server.sees("the cancellation", is_told).await;
}

/// `subscriptions/listen`: reference-counted subscriptions in the agent's own session; each listener
/// reads its own id.
#[tokio::test]
async fn listeners_share_one_session() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    answers(&bridge.server, json!({}));
    let wanted = json!({ "notifications": { "promptsListChanged": true, "resourceSubscriptions": ["x:1"] } });
    let mut listeners = Vec::new();
    for _ in 0..2 {
        let request = agent.request("subscriptions/listen", wanted.clone());
        let mut stream = agent.post(&request).await;
        let ack = stream.message().await;
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(
            ack["params"]["notifications"], wanted["notifications"],
            "{ack}"
        );
        listeners.push((stream, request["id"].clone()));
    }
    let subscribed = || {
        let seen = bridge.server.seen().into_iter();
        seen.filter(|seen| seen.method() == "resources/subscribe")
            .count()
    };
    assert_eq!(subscribed(), 1, "one subscription for two listeners");
    // The base session and the agent's own read the standalone stream.
    until("both sessions listen", || async {
        (bridge.server.listeners() >= 2).then_some(())
    })
    .await;
    for note in [
        json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "x:2" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "x:1" } }),
    ] {
        bridge.server.tells(note).await;
    }
    for (stream, id) in &mut listeners {
        let heard = stream.message().await;
        assert_eq!(heard["params"]["uri"], "x:1", "{heard}");
        assert_eq!(
            &heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            id
        );
    }
    let unsubscribed = |seen: &super::Seen| seen.method() == "resources/unsubscribe";
    listeners.pop();
    assert!(!bridge.server.seen().iter().any(unsubscribed));
    listeners.clear();
    bridge
        .server
        .sees("the last listener going", unsubscribed)
        .await;
}

/// Errors: −32002 of a resource is −32602; what was removed is gone.
#[tokio::test]
async fn errors_are_those_of_the_era() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    bridge.server.answers(|_| {
        let error = json!({ "code": -32002, "message": "not found" });
        Reply::Message(json!({ "jsonrpc": "2.0", "error": error }))
    });
    let gone = agent.ask("resources/read", json!({ "uri": "x:1" })).await;
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    for method in [
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "tasks/list",
        "tasks/result",
    ] {
        let removed = agent.ask(method, json!({})).await;
        assert_eq!(removed["error"]["code"], -32601, "{method}: {removed}");
    }
}
