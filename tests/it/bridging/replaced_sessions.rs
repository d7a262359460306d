//! A legacy session at a server ends, and a new one takes its place (protocol §3.6): the agent is told
//! that what the server kept is gone, and what it had asked the session for is asked again.

use super::{Bridge, answers};
use crate::harness::agent::Agent;
use crate::harness::answer::{Reading, code};
use crate::harness::scripted_server::Reply;
use crate::harness::setup::Setup;
use crate::harness::sse_server::SseServer;
use crate::harness::until;
use serde_json::{Value, json};

const REPLACED: &str = "dev.toolgate/sessionReplaced";

/// The servers that the answer names.
fn named(answer: &Value) -> &Value {
    assert!(answer["result"].is_object(), "{answer}");
    &answer["result"]["_meta"][REPLACED]
}

/// What is heard until a resource was updated or, without one, until three lists have changed.
async fn heard(stream: &mut Reading, resources: bool) -> Vec<Value> {
    let mut heard: Vec<Value> = Vec::new();
    let methods = |heard: &[Value], end: &str| {
        let is_it = |said: &&Value| said["method"].as_str().unwrap().ends_with(end);
        heard.iter().filter(is_it).count()
    };
    while methods(&heard, "list_changed") < 3
        || (resources && methods(&heard, "resources/updated") == 0)
    {
        heard.push(stream.message().await);
    }
    heard
}

fn is_warning(said: &Value) -> bool {
    said["method"] == "notifications/message"
        && said["params"]["level"] == "warning"
        && said["params"]["logger"] == "toolgate"
        && said["params"]["data"].as_str().unwrap().contains("`s`")
}

/// Over HTTP the server says 404. The agent reads it on its stream and with the answer, once; its
/// subscription and its level of logs stand in the new session.
#[tokio::test]
async fn a_legacy_agent_hears_that_its_session_was_replaced() {
    let bridge = Bridge::legacy().await;
    answers(&bridge.server, json!({ "content": [] }));
    let agent = bridge.legacy_agent().await;
    let mut stream = agent.get(None).await;
    let uri = json!({ "uri": "x:1" });
    assert!(agent.ask("resources/subscribe", uri.clone()).await["error"].is_null());
    agent
        .ask("resources/subscribe", json!({ "uri": "x:2" }))
        .await;
    agent
        .ask("resources/unsubscribe", json!({ "uri": "x:2" }))
        .await;
    agent
        .ask("logging/setLevel", json!({ "level": "info" }))
        .await;
    let before = agent.call("read", json!({ "n": 1 })).await;
    assert!(named(&before).is_null(), "{before}");
    bridge.server.forgets_sessions();
    bridge.server.forget();
    let after = agent.call("read", json!({ "n": 2 })).await;
    assert_eq!(*named(&after), json!(["s"]), "{after}");
    let heard = heard(&mut stream, true).await;
    assert!(heard.iter().any(is_warning), "{heard:#?}");
    let updated = heard
        .iter()
        .find(|said| said["method"] == "notifications/resources/updated");
    assert_eq!(updated.unwrap()["params"], uri);
    let again = |method: &str| {
        let seen = bridge.server.seen();
        let all = seen.iter().filter(|seen| seen.method() == method);
        all.map(|seen| seen.body["params"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(again("resources/subscribe"), [uri]);
    assert_eq!(again("logging/setLevel"), [json!({ "level": "info" })]);
    let third = agent.call("read", json!({ "n": 3 })).await;
    assert!(named(&third).is_null(), "said once: {third}");
}

/// An agent that wants to read errors only is not told of it by a warning.
#[tokio::test]
async fn a_level_holds_for_what_toolgate_says() {
    let bridge = Bridge::legacy().await;
    answers(&bridge.server, json!({ "content": [] }));
    let agent = bridge.legacy_agent().await;
    let mut stream = agent.get(None).await;
    agent
        .ask("logging/setLevel", json!({ "level": "error" }))
        .await;
    bridge.server.forgets_sessions();
    agent.call("read", json!({})).await;
    let heard = heard(&mut stream, false).await;
    assert!(!heard.iter().any(is_warning), "{heard:#?}");
}

/// A write that finds the session gone is unknown and not sent again; the next answer says why the
/// server may have forgotten what it knew.
#[tokio::test]
async fn a_modern_agent_reads_it_with_its_next_answer() {
    let bridge = Bridge::legacy().await;
    answers(&bridge.server, json!({ "content": [] }));
    let agent = bridge.modern_agent();
    assert!(named(&agent.call("write", json!({ "n": 1 })).await).is_null());
    bridge.server.forgets_sessions();
    let lost = agent.call("write", json!({ "n": 2 })).await;
    assert_eq!(code(&lost).as_deref(), Some("outcome_unknown"), "{lost}");
    assert!(named(&lost).is_null(), "{lost}");
    let other = json!({ "dev.toolgate/session": "other" });
    let next = json!({ "name": "write", "arguments": { "n": 3 }, "_meta": other });
    let next = agent.ask("tools/call", next).await;
    assert_eq!(*named(&next), json!(["s"]), "{next}");
    assert!(named(&agent.call("read", json!({ "n": 4 })).await).is_null());
    // The write that found the session gone came to no session.
    assert_eq!(bridge.server.executions(), 3);
}

/// An error has no place for it: the first answer of a modern agent that is none has it.
#[tokio::test]
async fn a_modern_agent_reads_it_after_an_error() {
    let bridge = Bridge::legacy().await;
    answers(&bridge.server, json!({ "content": [] }));
    let agent = bridge.modern_agent();
    assert!(named(&agent.call("read", json!({ "n": 1 })).await).is_null());
    bridge.server.forgets_sessions();
    bridge.server.answers(|_| {
        let error = json!({ "code": -32602, "message": "no" });
        Reply::Message(json!({ "jsonrpc": "2.0", "error": error }))
    });
    for n in 2..4 {
        let refused = agent.call("read", json!({ "n": n })).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    answers(&bridge.server, json!({ "content": [] }));
    let next = agent.call("read", json!({ "n": 4 })).await;
    assert_eq!(*named(&next), json!(["s"]), "{next}");
    let third = agent.call("read", json!({ "n": 5 })).await;
    assert!(named(&third).is_null(), "said once: {third}");
}

/// What a session is subscribed to is kept, so it has a bound in bytes, too, at servers of both eras:
/// the agent reads which, and the server hears nothing of what is beyond it.
#[tokio::test]
async fn subscriptions_of_a_session_have_a_bound_of_bytes() {
    for is_modern in [false, true] {
        // In enforce mode a longer URI is of no resource.
        let bridge = Bridge::to(is_modern, "observe").await;
        answers(&bridge.server, json!({ "resultType": "complete" }));
        let agent = bridge.legacy_agent().await;
        let subscribes = async |uri: String, method: &str| {
            let answer = agent.ask(method, json!({ "uri": uri })).await;
            answer["error"]["message"].as_str().map(str::to_owned)
        };
        let long = |n: u32, bytes: usize| format!("x:{n:0>width$}", width = bytes - 2);
        let refused = subscribes(long(0, (8 << 10) + 1), "resources/subscribe").await;
        let words = refused.unwrap_or_default();
        assert!(words.contains("8192 bytes"), "{words}");
        for n in 0..128 {
            assert_eq!(
                subscribes(long(n, 8 << 10), "resources/subscribe").await,
                None
            );
        }
        let more = "x:more".to_owned();
        let refused = subscribes(more.clone(), "resources/subscribe").await;
        let words = refused.unwrap_or_default();
        assert!(words.contains("1048576 bytes"), "{words}");
        let seen = bridge.server.seen().into_iter();
        let heard = seen.filter(|seen| seen.body["params"]["uri"] == more.as_str());
        assert_eq!(heard.count(), 0);
        assert_eq!(
            subscribes(long(0, 8 << 10), "resources/unsubscribe").await,
            None
        );
        assert_eq!(subscribes(more, "resources/subscribe").await, None);
    }
}

/// A subscription of an agent of 2026-07-28 stands in the new session, and the agent looks again.
#[tokio::test]
async fn a_modern_subscription_is_made_again() {
    let bridge = Bridge::legacy().await;
    answers(&bridge.server, json!({ "content": [] }));
    let agent = bridge.modern_agent();
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["x:1"] } });
    let mut listening = agent
        .post(&agent.request("subscriptions/listen", wanted))
        .await;
    let acknowledged = listening.message().await;
    assert_eq!(
        acknowledged["params"]["notifications"]["resourceSubscriptions"],
        json!(["x:1"])
    );
    bridge.server.forgets_sessions();
    bridge.server.forget();
    agent.call("read", json!({})).await;
    let updated = listening.message().await;
    assert_eq!(
        updated["method"], "notifications/resources/updated",
        "{updated}"
    );
    let is_again = |seen: &crate::harness::scripted_server::Seen| {
        seen.method() == "resources/subscribe" && seen.body["params"]["uri"] == "x:1"
    };
    bridge.server.sees("the subscription again", is_again).await;
}

/// The stream of a server of 2024-11-05 ends, or its process: state is gone all the same.
#[tokio::test]
async fn ended_streams_and_processes_are_told_of() {
    let server = SseServer::start().await;
    let setup = Setup::new()
        .server_with("s", &format!("url: \"{}\"", server.url()))
        .contracts(&[("s__read", "read"), ("s__write", "write")])
        .open_sides();
    let gate = setup.start().await;
    let agents = [gate.agent().at("s"), gate.legacy("/mcp/s").await];
    for agent in &agents {
        assert!(named(&agent.call("read", json!({ "n": 1 })).await).is_null());
    }
    server.ends_streams();
    for agent in &agents {
        assert_eq!(*named(&answered(agent, 2).await), json!(["s"]));
    }

    let members = "command: python3, args: [child.py], cwd: ., env: { PATH: \"${PATH}\" }";
    let setup = Setup::new()
        .server_with("s", members)
        .contracts(&[("s__read", "read")])
        .environment("PATH", &std::env::var("PATH").unwrap());
    std::fs::write(setup.directory().join("child.py"), CHILD).unwrap();
    let gate = setup.start().await;
    for agent in [gate.agent().at("s"), gate.legacy("/mcp/s").await] {
        assert!(named(&agent.call("read", json!({ "n": 1 })).await).is_null());
        agent.call("read", json!({ "die": true })).await;
        assert_eq!(*named(&answered(&agent, 2).await), json!(["s"]));
    }
}

/// The first call that is answered by the tool.
async fn answered(agent: &Agent, n: u64) -> Value {
    until("the server answers again", || async {
        let answer = agent.call("read", json!({ "n": n })).await;
        answer["result"]["content"].is_array().then_some(())?;
        (answer["result"]["isError"] != true).then_some(answer)
    })
    .await
}

/// Ends when it is told to.
const CHILD: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method = message["method"]
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "child", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        if message["params"]["arguments"].get("die"): sys.exit(1)
        answer["result"] = {"content": [{"type": "text", "text": "done"}]}
    else: answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;
