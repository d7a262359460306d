//! Batches of 2025-03-26 (protocol §3.7): each message of one goes its own way through the gate, and
//! no other revision has them.

use super::{Bridge, answers};
use crate::harness::agent::Agent;
use crate::harness::answer::{Answer, code};
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, tool};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::stdio::StdioGate;
use serde_json::{Value, json};

/// The agent in a session of this revision.
async fn of(agent: &Agent, revision: &str) -> Agent {
    let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
    let answer = agent.legacy("initialize", params).await;
    assert_eq!(answer.message()["result"]["protocolVersion"], revision);
    let session = answer.header("mcp-session-id").map(str::to_owned);
    assert!(session.is_some());
    Agent {
        session,
        ..agent.clone()
    }
}

async fn batch(agent: &Agent, messages: &Value) -> Answer {
    agent
        .send(&agent.headers(), messages.to_string().as_bytes())
        .await
}

fn call(id: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    let id: Value = id.into();
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// The answers, by the ids of their requests.
fn by_id(answers: &Value, id: &Value) -> Value {
    let all = answers.as_array().unwrap_or_else(|| panic!("{answers}"));
    let own: Vec<_> = all.iter().filter(|answer| answer["id"] == *id).collect();
    assert_eq!(own.len(), 1, "{id}: {answers}");
    own[0].clone()
}

/// All answers: an array, or on a machine where the first takes long a stream of them.
fn array(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = std::str::from_utf8(&answer.body).unwrap();
    serde_json::from_str(text).unwrap_or_else(|_| {
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let said = events.map(str::trim).filter(|said| !said.is_empty());
        said.map(|said| serde_json::from_str::<Value>(said).unwrap())
            .collect()
    })
}

/// Allowed, denied, malformed, unknown and forbidden messages in one batch: each is judged as if it
/// were alone, and notifications want no answer.
#[tokio::test]
async fn each_message_goes_its_own_way() {
    let bridge = Bridge::legacy().await;
    answers(&bridge.server, json!({ "content": [] }));
    let agent = of(&bridge.modern_agent(), "2025-03-26").await;
    let messages = json!([
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        call(1, "write", &json!({ "n": 1 })),
        call("two", "no_such_tool", &json!({})),
        { "jsonrpc": "2.0", "id": 3, "method": "initialize", "params": { "protocolVersion": "2025-03-26" } },
        { "jsonrpc": "1.0", "id": 4, "method": "ping" },
        call(5, "read", &json!({})),
        call(1, "write", &json!({ "n": 2 })),
        { "jsonrpc": "2.0", "method": "tools/call", "params": { "name": "write", "arguments": { "n": 3 } } },
        [],
    ]);
    let answer = batch(&agent, &messages).await;
    let said = array(&answer);
    let ones: Vec<_> = said
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["id"] == 1)
        .collect();
    // The same id twice: the second is refused, whichever is answered first.
    assert_eq!(ones.len(), 2, "{said}");
    assert_eq!(
        ones.iter()
            .filter(|one| one["result"]["content"].is_array())
            .count(),
        1,
        "{said}"
    );
    assert_eq!(
        ones.iter()
            .filter(|one| one["error"]["code"] == -32600)
            .count(),
        1,
        "{said}"
    );
    assert!(by_id(&said, &json!("two"))["error"].is_object(), "{said}");
    assert_eq!(by_id(&said, &json!(3))["error"]["code"], -32600, "{said}");
    assert_eq!(by_id(&said, &json!(4))["error"]["code"], -32600, "{said}");
    assert!(
        by_id(&said, &json!(5))["result"]["content"].is_array(),
        "{said}"
    );
    assert_eq!(said.as_array().unwrap().len(), 8, "{said}");
    let ran = bridge.server.seen();
    let ran: Vec<_> = ran
        .iter()
        .filter(|seen| seen.method() == "tools/call")
        .collect();
    assert_eq!(ran.len(), 2, "{ran:#?}");
    assert!(
        ran.iter()
            .all(|seen| seen.body["params"]["arguments"]["n"] != 3)
    );
}

/// The same write twice in one batch runs once, as if it had come twice.
#[tokio::test]
async fn a_write_that_stands_twice_runs_once() {
    let bridge = Bridge::legacy().await;
    answers(&bridge.server, json!({ "content": [] }));
    let agent = of(&bridge.modern_agent(), "2025-03-26").await;
    let write = |id: u64| {
        let mut write = call(id, "write", &json!({ "n": 1 }));
        write["params"]["_meta"] = json!({ "dev.toolgate/idempotencyKey": "one" });
        write
    };
    let said = array(&batch(&agent, &json!([write(1), write(2)])).await);
    for id in [1, 2] {
        assert!(
            by_id(&said, &json!(id))["result"]["content"].is_array(),
            "{said}"
        );
    }
    assert_eq!(bridge.server.executions(), 1);
}

/// What takes long is answered on a stream, every answer as it comes.
#[tokio::test]
async fn a_slow_batch_is_a_stream() {
    let bridge = Bridge::legacy().await;
    let (go, wait) = tokio::sync::oneshot::channel();
    let wait = std::sync::Mutex::new(Some(wait));
    bridge.server.answers(move |seen| {
        if seen.body["params"]["name"] == "write" {
            Reply::Later(wait.lock().unwrap().take().unwrap())
        } else {
            Reply::Result(json!({ "content": [] }))
        }
    });
    let agent = of(&bridge.modern_agent(), "2025-03-26").await;
    let messages = json!([call(1, "write", &json!({})), call(2, "read", &json!({}))]);
    let text = messages.to_string();
    let mut stream = agent.stream(&agent.headers(), text.as_bytes()).await;
    assert!(stream.is_stream(), "{:?}", stream.head);
    assert_eq!(stream.message().await["id"], 2);
    assert!(go.send(Reply::Result(json!({ "content": [] }))).is_ok());
    let last = stream.message().await;
    assert_eq!(last["id"], 1, "{last}");
    assert!(last["result"]["content"].is_array(), "{last}");
    while let Some(block) = stream.next().await {
        assert!(!format!("{block:?}").contains("result"), "{block:?}");
    }
}

/// Nothing to answer, nothing at all, too much: and in other revisions, or without a session, no
/// message of an array is carried out.
#[tokio::test]
async fn batches_have_their_bounds() {
    let bridge = Bridge::legacy().await;
    answers(&bridge.server, json!({ "content": [] }));
    let agent = of(&bridge.modern_agent(), "2025-03-26").await;
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(batch(&agent, &json!([note, note])).await.status, 202);
    let empty = batch(&agent, &json!([])).await;
    assert_eq!((empty.status, empty.error()), (400, -32600));
    let many: Vec<_> = (0..101)
        .map(|id| call(id, "write", &json!({ "n": id })))
        .collect();
    let many = batch(&agent, &json!(many)).await;
    assert_eq!((many.status, many.error()), (400, -32600));
    assert!(many.words().contains("at most 100"), "{many:?}");
    let one = json!([call(1, "write", &json!({}))]);
    let newer = of(&bridge.modern_agent(), "2025-06-18").await;
    for agent in [&newer, &bridge.modern_agent()] {
        let refused = batch(agent, &one).await;
        assert_eq!((refused.status, refused.error()), (400, -32600));
        assert!(refused.words().contains("2025-03-26"), "{refused:?}");
    }
    assert_eq!(bridge.server.executions(), 0);
}

/// Over stdio the answers are one line.
#[tokio::test]
async fn a_batch_over_stdio_is_answered_by_one_line() {
    let server = ScriptedServer::start(Offers {
        modern: false,
        tools: vec![tool("read")],
        ..Offers::default()
    })
    .await;
    let setup = Setup::new()
        .server_with("s", &format!("url: \"{}\"", server.url()))
        .contracts(&[("s__read", "read")]);
    let mut agent = StdioGate::start(&setup);
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    agent.write(initialize.to_string().as_bytes()).await;
    let hello = agent.read().await.unwrap().message();
    assert_eq!(hello["result"]["protocolVersion"], "2025-03-26", "{hello}");
    let messages = json!([
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        { "jsonrpc": "2.0", "id": 1, "method": "ping" },
        call(2, "no_such_tool", &json!({})),
    ]);
    agent.write(messages.to_string().as_bytes()).await;
    let said = agent.read().await.unwrap();
    let said: Value = serde_json::from_slice(&said.body).unwrap();
    assert!(by_id(&said, &json!(1))["result"].is_object(), "{said}");
    let refused = by_id(&said, &json!(2));
    assert_eq!(
        code(&refused).as_deref(),
        Some("tool_not_allowlisted"),
        "{refused}"
    );
}

/// 004-08: an agent of batches goes on as others do: what it meant again runs, and what it sent again does
/// not.
#[tokio::test]
async fn an_agent_of_batches_goes_on() {
    let server = writer().await;
    let gate = retried(&server).start().await;
    let agent = of(&gate.agent().at("s"), "2025-03-26").await;
    for (number, runs) in [(1, 1), (2, 2), (1, 3), (1, 3)] {
        let write = call(number, "write", &json!({ "n": number }));
        let ping = json!({ "jsonrpc": "2.0", "id": "ping", "method": "ping" });
        let messages = json!([write, ping]);
        array(&batch(&agent, &messages).await);
        assert_eq!(server.executions(), runs, "{number}");
    }
}

/// The same on a pipe.
#[tokio::test]
async fn an_agent_of_batches_on_a_pipe_goes_on() {
    let server = writer().await;
    let setup = retried(&server);
    let mut agent = StdioGate::start(&setup);
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    agent.write(initialize.to_string().as_bytes()).await;
    agent.read().await.unwrap();
    for (number, runs) in [(1, 1), (2, 2), (1, 3), (1, 3)] {
        let messages = json!([call(number, "write", &json!({ "n": number }))]);
        agent.write(messages.to_string().as_bytes()).await;
        let said = agent.read().await.unwrap();
        assert!(said.body.starts_with(b"["), "{said:?}");
        assert_eq!(server.executions(), runs, "{number}");
    }
}

/// A legacy server that writes.
async fn writer() -> ScriptedServer {
    let server = ScriptedServer::start(Offers {
        modern: false,
        tools: ["write", "undo"].map(tool).to_vec(),
        ..Offers::default()
    })
    .await;
    answers(&server, json!({ "content": [] }));
    server
}

/// Where only what is sent again is the same call.
fn retried(server: &ScriptedServer) -> Setup {
    let write = contract("s__write", "write", ", idempotency: { derive: retry }");
    let contracts = format!("contracts:\n  s__write: {write}\n{}\n", undo("s__write"));
    Setup::new()
        .server_with("s", &format!("url: \"{}\"", server.url()))
        .policy(&contracts)
}
