//! What could not leave before its deadline never leaves (guarantees §4): its agent reads that
//! nothing was sent, and the same call again is the first that runs. Each server here keeps a call
//! waiting somewhere before its first byte.

use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{self, Offers, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

fn done(_: &scripted_server::Seen) -> scripted_server::Reply {
    scripted_server::Reply::Result(
        json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" }),
    )
}

async fn gate(scripted: &ScriptedServer, more: &str) -> Gate {
    let members = format!("url: \"{}\", timeout: 1s{more}", scripted.url());
    Setup::new()
        .server_with("oracle", &members)
        .contracts(&[("oracle__pay", "write")])
        .start()
        .await
}

/// A `ping` that is not answered: the call behind it does not leave when the ping is given up.
#[tokio::test]
async fn a_call_behind_a_ping_stays_here() {
    let scripted = ScriptedServer::with(vec![tool("pay")]).await;
    let gate = gate(&scripted, ", ping_after: 1ms").await;
    let agent = gate.agent().declaring(json!({})).await;
    scripted.answers(done);
    assert!(
        agent
            .legacy_call("oracle__pay", json!({ "key": "first" }))
            .await
            .is_done()
    );
    scripted.forget();
    scripted.answers(|seen| {
        if seen.method() == "ping" {
            scripted_server::Reply::Silence
        } else {
            done(seen)
        }
    });
    let arguments = json!({ "key": "k" });
    let told = agent.legacy_call("oracle__pay", arguments.clone()).await;
    assert_eq!(
        (told.refusal().as_str(), scripted.executions()),
        ("upstream_unavailable", 0),
        "{told:?}"
    );
    assert!(
        told.words().contains("nothing was sent"),
        "{}",
        told.words()
    );
    let ping = scripted
        .sees("a ping", |seen| seen.method() == "ping")
        .await;
    scripted.closed(&ping.body["id"]).await;
    assert_eq!(scripted.executions(), 0, "it left behind its ping");
    scripted.answers(done);
    assert!(agent.legacy_call("oracle__pay", arguments).await.is_done());
    assert_eq!(scripted.executions(), 1);
}

/// A listener at the scripted's address that takes no connection any more, until the scripted accepts.
async fn full(scripted: &ScriptedServer) -> (TcpListener, Vec<TcpStream>) {
    let listener = until("the address is free again", || async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(scripted.address).ok()?;
        socket.listen(1).ok()
    })
    .await;
    let (mut waiting, mut missed) = (Vec::new(), 0);
    // On a busy machine one that is not taken in time says little.
    while missed < 5 {
        match tokio::time::timeout(
            Duration::from_millis(200),
            TcpStream::connect(scripted.address),
        )
        .await
        {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_) => missed += 1,
        }
    }
    (listener, waiting)
}

/// A connection that is not taken in time: when it is, nobody sends anything on it, though a probe
/// has said meanwhile that the call did not run.
#[tokio::test]
async fn a_call_behind_its_connection_stays_here() {
    let (modern, legacy, capabilities) = (true, false, json!({ "tools": {} }));
    let scripted = ScriptedServer::start(Offers {
        modern,
        legacy,
        capabilities,
        tools: vec![tool("pay")],
        ..Offers::default()
    });
    let scripted = scripted.await;
    scripted.answers(done);
    let gate = gate(&scripted, "").await;
    scripted.down();
    let (listener, waiting) = full(&scripted).await;
    let arguments = json!({ "key": "k" });
    let told = gate
        .agent()
        .modern_call("oracle__pay", arguments.clone())
        .await;
    drop(waiting);
    scripted.serve(listener);
    assert_eq!(
        (told.refusal().as_str(), scripted.executions()),
        ("upstream_unavailable", 0),
        "{told:?}"
    );
    let again = until("the server takes connections", || async {
        let told = gate
            .agent()
            .modern_call("oracle__pay", arguments.clone())
            .await;
        (told.refusal() != "upstream_unavailable").then_some(told)
    })
    .await;
    assert!(again.is_done(), "{again:?}");
    assert_eq!(scripted.executions(), 1);
}

/// Notes what it runs. One that is to stop does so, and reads nothing, until there is a file `go`.
const CHILD: &str = r#"
import json, os, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    method, params = message["method"], message.get("params", {})
    if method == "server/discover":
        answer["result"] = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "undo")]
        answer["result"] = {"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
    elif method == "tools/call":
        key = params["arguments"]["key"]
        with open("came", "a") as file: file.write(key + "\n")
        while key == "stops" and not os.path.exists("go"): time.sleep(0.01)
        answer["result"] = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;

fn came(gate: &Gate) -> BTreeMap<String, usize> {
    let mut came = BTreeMap::new();
    for key in std::fs::read_to_string(gate.setup.directory().join("came"))
        .unwrap()
        .lines()
    {
        *came.entry(key.to_owned()).or_default() += 1;
    }
    came
}

/// A child that stops reading: what has left in part is unknown and leaves in whole, so that what
/// comes after it can be read; what waits behind it never leaves.
#[tokio::test]
async fn a_line_behind_another_stays_here() {
    let members =
        "command: python3, args: [slow.py], cwd: ., env: { PATH: \"${PATH}\" }, timeout: 1s";
    let setup = Setup::new()
        .server_with("odd", members)
        .contracts(&[("odd__pay", "write")]);
    std::fs::write(setup.directory().join("slow.py"), CHILD).unwrap();
    let gate = setup
        .environment("PATH", &std::env::var("PATH").unwrap())
        .start()
        .await;
    let call = async |arguments: &Value| -> Answer {
        gate.agent()
            .modern_call("odd__pay", arguments.clone())
            .await
    };
    // More than a pipe holds.
    let long = json!({ "key": "long", "more": "x".repeat(200_000) });
    let (stops, waits) = (json!({ "key": "stops" }), json!({ "key": "waits" }));
    for (arguments, expected) in [
        (&stops, "outcome_unknown"),
        (&long, "outcome_unknown"),
        (&waits, "upstream_unavailable"),
    ] {
        let told = call(arguments).await;
        assert_eq!(
            told.refusal(),
            expected,
            "{}: {}",
            arguments["key"],
            told.words()
        );
    }
    assert_eq!(came(&gate), BTreeMap::from([("stops".to_owned(), 1)]));
    std::fs::write(gate.setup.directory().join("go"), "").unwrap();
    for arguments in [&stops, &long] {
        until("a late answer ends what was unknown", || async {
            call(arguments).await.refusal().is_empty().then_some(())
        })
        .await;
    }
    assert!(call(&waits).await.is_done());
    // The child answers in order: by now it has read all that left before.
    assert!(call(&json!({ "key": "last" })).await.is_done());
    let once = ["last", "long", "stops", "waits"].map(|key| (key.to_owned(), 1));
    assert_eq!(came(&gate), BTreeMap::from(once));
}
