//! An agent has its head at once, whatever the tool server does: one that says nothing for long
//! is waited for on an event stream, and a legacy call on it can be taken up again.

use crate::harness::agent::Agent;
use crate::harness::answer::Block;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use serde_json::{Value, json};

/// Counts each call, and answers when the other end of a pipe is opened.
const CHILD: &str = r#"
import json, os, sys
if not os.path.exists("go"): os.mkfifo("go")
modern = sys.argv[1] == "modern"
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, result = message["method"], None
    if method == "server/discover" and modern:
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    elif method == "initialize" and not modern:
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "silent", "version": "1"}}
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "undo")]
        result = {"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
    elif method == "tools/call":
        with open("came", "a") as file: file.write("x")
        if message["params"].get("arguments", {}).get("wait"):
            with open("go") as pipe: pipe.read()
        result = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None: answer["error"] = {"code": -32601, "message": "no such method"}
    else: answer["result"] = result
    print(json.dumps(answer), flush=True)
"#;

async fn stage(wire: &str) -> (Gate, Agent) {
    let members = format!(
        "command: python3, args: [silent.py, {wire}], cwd: ., env: {{ PATH: \"${{PATH}}\" }}"
    );
    let setup = Setup::new()
        .server_with("silent", &members)
        .contracts(&[("silent__pay", "write")])
        .environment("PATH", &std::env::var("PATH").unwrap());
    std::fs::write(setup.directory().join("silent.py"), CHILD).unwrap();
    let gate = setup.start().await;
    let agent = match wire {
        "legacy" => gate.agent().initialized().await,
        _ => gate.agent(),
    };
    (gate, agent)
}

fn call(agent: &Agent, arguments: &Value) -> Value {
    agent.request(
        "tools/call",
        json!({ "name": "silent__pay", "arguments": arguments }),
    )
}

/// Lets the tool server answer.
async fn go(gate: &Gate) {
    let pipe = gate.path("go");
    tokio::task::spawn_blocking(move || std::fs::write(pipe, "go"))
        .await
        .unwrap()
        .unwrap();
}

fn came(gate: &Gate) -> usize {
    std::fs::read_to_string(gate.path("came")).unwrap().len()
}

#[tokio::test]
async fn a_silent_server_keeps_no_agent_from_its_head() {
    for wire in ["modern", "legacy"] {
        let (gate, agent) = stage(wire).await;
        // Its head is read here, before the tool server says a word.
        let mut waiting = agent.post(&call(&agent, &json!({ "wait": true }))).await;
        assert_eq!(waiting.head.status, 200, "{wire}");
        assert!(waiting.is_stream(), "{wire}: {:?}", waiting.head);
        go(&gate).await;
        let answer = waiting.whole().await;
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{wire}");
        assert_eq!(came(&gate), 1, "{wire}");
    }
}

/// The agent loses its connection while the tool server is silent, and reads the answer on another
/// one; nothing runs twice.
#[tokio::test]
async fn a_silent_legacy_call_is_taken_up_again() {
    let (gate, agent) = stage("legacy").await;
    let mut waiting = agent.post(&call(&agent, &json!({ "wait": true }))).await;
    let Some(Block::Event {
        id: Some(id),
        message: None,
    }) = waiting.next().await
    else {
        panic!("no event to come back to");
    };
    drop(waiting);
    let mut again = agent.get(Some(&id)).await;
    assert!(again.is_stream(), "{:?}", again.head);
    go(&gate).await;
    let answer = again.whole().await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert_eq!(came(&gate), 1);
}
