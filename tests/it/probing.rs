//! Which eras a server speaks, whatever it answers to a question of the other (protocol §4.1): what
//! works directly works through toolgate.

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::json;

const JSON: &str = "application/json";

/// What it is, and how a question is answered.
type ProbeCase = (&'static str, fn() -> Reply);

/// Ways to answer a question that a server does not understand.
const SHAPES: [ProbeCase; 10] = [
    (
        "an error under the id of Python's SDK 1.x, with 400",
        || Reply::Said(400, JSON, foreign()),
    ),
    ("the same, with 200", || Reply::Said(200, JSON, foreign())),
    ("an error under no id", || {
        let error = json!({ "code": -32600, "message": "no" });
        let message = json!({ "jsonrpc": "2.0", "id": null, "error": error });
        Reply::Said(200, JSON, message.to_string())
    }),
    ("a page for people", || {
        Reply::Said(200, "text/html", "<h1>Hello</h1>".to_owned())
    }),
    ("a page that was not found", || {
        Reply::Said(404, "text/html", "<h1>Not found</h1>".to_owned())
    }),
    ("a stack trace", || {
        Reply::Said(500, "text/plain", "Traceback".to_owned())
    }),
    ("JSON that is no message", || {
        Reply::Said(200, JSON, "{\"detail\":\"no\"}".to_owned())
    }),
    ("nothing", || Reply::Said(200, "", String::new())),
    ("that it was taken", || Reply::Status(202)),
    ("no room", || Reply::Status(503)),
];

fn foreign() -> String {
    let error = json!({ "code": -32600, "message": "Bad Request: unsupported version" });
    json!({ "jsonrpc": "2.0", "id": "server-error", "error": error }).to_string()
}

async fn behind(server: &ScriptedServer, more: &str) -> Gate {
    Setup::new()
        .server_with("s", &format!("url: \"{}\"{more}", server.url()))
        .contracts(&[("s__read", "read")])
        .begin()
        .await
}

async fn legacy_only() -> ScriptedServer {
    ScriptedServer::start(Offers {
        modern: false,
        tools: vec![tool("read")],
        ..Offers::default()
    })
    .await
}

/// A legacy server is found whatever it says to `server/discover`.
#[tokio::test]
async fn a_server_is_asked_by_initialize_whatever_it_says_to_discover() {
    for (shape, reply) in SHAPES {
        let server = legacy_only().await;
        server.answers_probes(Some(reply));
        let gate = behind(&server, "").await;
        until(shape, || async {
            (gate.readiness().await["ready"] == true).then_some(())
        })
        .await;
        let agent = gate.legacy("/mcp/s").await;
        assert_eq!(agent.tools().await, ["read"], "{shape}");
        let answer = agent.call("read", json!({})).await;
        assert_eq!(code(&answer), None, "{shape}: {answer}");
    }
}

/// One that is asked while it is away, behind a gateway that says so, is no legacy server for good.
#[tokio::test]
async fn an_outage_is_no_verdict() {
    let server = ScriptedServer::with(vec![tool("read")]).await;
    server.answers_probes(Some(|| Reply::Status(503)));
    let gate = behind(&server, "").await;
    until("it is reached by initialize", || async {
        let agent = gate.legacy("/mcp/s").await;
        (agent.tools().await == ["read"]).then_some(())
    })
    .await;
    server.answers_probes(None);
    until("it is known to speak 2026-07-28", || async {
        let answer = gate.agent().at("s").call("read", json!({})).await;
        answer["result"].is_object().then_some(())
    })
    .await;
}

/// What is down is so for reasons that are told: those of both ways.
#[tokio::test]
async fn a_server_that_neither_way_reaches_is_down_for_both_reasons() {
    let server = ScriptedServer::start(Offers {
        modern: false,
        legacy: false,
        ..Offers::default()
    })
    .await;
    server.answers_probes(Some(|| Reply::Said(500, "text/plain", "broken".to_owned())));
    let gate = behind(&server, "").await;
    until("its reasons are logged", || async {
        let log = gate.log();
        let told = log.contains("to `server/discover`: the tool server answered with HTTP 500")
            && log.contains("to `initialize`: the tool server answered with HTTP 400");
        told.then_some(())
    })
    .await;
}

/// `era` of a server says what it speaks: it is asked nothing else.
#[tokio::test]
async fn an_era_that_is_configured_is_not_asked_for() {
    for (era, modern) in [("legacy", false), ("2026-07-28", true)] {
        let server = ScriptedServer::with(vec![tool("read")]).await;
        server.answers_probes(if modern {
            None
        } else {
            Some(|| panic!("it is asked"))
        });
        let gate = behind(&server, &format!(", era: {era}")).await;
        let agent = if modern {
            gate.agent().at("s")
        } else {
            gate.legacy("/mcp/s").await
        };
        until("it is called", || async {
            let answer = agent.call("read", json!({})).await;
            answer["result"].is_object().then_some(())
        })
        .await;
        assert_eq!(server.initialized().is_empty(), modern, "{era}");
        // An agent of the other era is served, too, in the configured one.
        let other = if modern {
            gate.legacy("/mcp/s").await
        } else {
            gate.agent().at("s")
        };
        let answer = other.call_anew("read", json!({})).await;
        assert!(answer["result"].is_object(), "{era}: {answer}");
        let seen = server.seen();
        let last = seen.last().unwrap();
        assert_eq!(last.header("mcp-session-id").is_none(), modern, "{era}");
        assert_eq!(server.initialized().is_empty(), modern, "{era}");
    }
}

/// Notes when it starts, and speaks the era of its first request: both, or `modern` alone.
const CHILD: &str = r#"
import json, os, sys
eras, era = sys.argv[1], None
with open("starts", "a") as out: out.write(str(os.getpid()) + "\n")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, params, result = message["method"], message.get("params", {}), None
    error = {"code": -32601, "message": "no such method"}
    if method == "server/discover" and era != "legacy":
        era = "modern"
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    elif method == "initialize" and era == "modern":
        error = {"code": -32022, "message": "connection is serving the 2026-07-28 protocol"}
    elif method == "initialize" and eras == "both":
        era = "legacy"
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "child", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}], "resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": str(era) + " " + str(os.getpid())}], "resultType": "complete"}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None: answer["error"] = error
    else: answer["result"] = result
    print(json.dumps(answer), flush=True)
"#;

/// A child that speaks `eras`, behind toolgate.
async fn child(eras: &str) -> Gate {
    let members = format!(
        "command: python3, args: [child.py, {eras}], cwd: ., env: {{ PATH: \"${{PATH}}\" }}"
    );
    let setup = Setup::new()
        .server_with("s", &members)
        .contracts(&[("s__read", "read")])
        .environment("PATH", &std::env::var("PATH").unwrap());
    std::fs::write(setup.directory().join("child.py"), CHILD).unwrap();
    setup.start().await
}

/// The processes that were started, in order.
fn starts(gate: &Gate) -> Vec<String> {
    let text = std::fs::read_to_string(gate.path("starts")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// In which era which process carries out a call of this agent.
async fn read_by(agent: &Agent) -> String {
    let answer = agent.call_anew("read", json!({})).await;
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Issue 17 "each is started once at start, not twice": the process that has said that it is modern is gone on
/// with, and whether it speaks `initialize`, too, is asked when the first agent comes that does.
#[tokio::test]
async fn a_child_of_both_eras_is_started_once_until_a_legacy_agent_comes() {
    let gate = child("both").await;
    let modern = gate.agent().at("s");
    let by_first = format!("modern {}", starts(&gate)[0]);
    assert_eq!(read_by(&modern).await, by_first);
    assert_eq!(starts(&gate).len(), 1, "{:?}", starts(&gate));
    // The process that has answered `initialize` is the agent's, and there is no third one.
    let plain = async || gate.agent().at("/mcp/s").declaring(json!({})).await;
    let legacy = plain().await;
    let by_second = format!("legacy {}", starts(&gate)[1]);
    assert_eq!(read_by(&legacy).await, by_second);
    assert_eq!(read_by(&modern).await, by_first);
    assert_eq!(read_by(&plain().await).await, by_second);
    assert_eq!(starts(&gate).len(), 2, "{:?}", starts(&gate));
}

/// One that refuses `initialize` is asked once, and then all agents use its one process.
#[tokio::test]
async fn a_child_of_one_era_is_asked_for_the_other_once() {
    let gate = child("modern").await;
    let by_first = format!("modern {}", starts(&gate)[0]);
    assert_eq!(starts(&gate).len(), 1, "{:?}", starts(&gate));
    for _ in 0..2 {
        let legacy = gate.legacy("/mcp/s").await;
        assert_eq!(read_by(&legacy).await, by_first);
        assert_eq!(starts(&gate).len(), 2, "{:?}", starts(&gate));
    }
    assert_eq!(read_by(&gate.agent().at("s")).await, by_first);
}
