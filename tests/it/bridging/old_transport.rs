//! Tool servers of HTTP+SSE of 2024-11-05 (protocol §3.5): found, used by agents of both eras, and
//! never asked twice for what changes something.

use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::replay::stored;
use crate::harness::setup::Setup;
use crate::harness::sse_server::SseServer;
use crate::harness::until;
use serde_json::{Value, json};

fn before(server: &SseServer, more: &str) -> Setup {
    Setup::new()
        .server_with(
            "s",
            &format!(
                "url: \"{}\", headers: {{ X-Team: tools }}{more}",
                server.url()
            ),
        )
        .contracts(&[("s__read", "read"), ("s__write", "write")])
        .open_sides()
}

async fn starts(server: &SseServer) -> Gate {
    before(server, "").start().await
}

fn text(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}

/// Why the server is down, as operators read it, once it is known.
async fn fault(gate: &Gate) -> String {
    until("the server's fault", || async {
        let page = gate.operators("/readyz").await;
        page.contains("last_fault\":\"").then_some(page)
    })
    .await
}

/// Both eras of agents, with or without the operator's word for the era; the configured headers are
/// on the stream and on every message, and what belongs to a request finds it.
#[tokio::test]
async fn a_server_of_the_old_transport_is_found_and_used() {
    for more in ["", ", era: legacy"] {
        let server = SseServer::start().await;
        let gate = before(&server, more).start().await;
        for agent in [
            gate.agent().at("s"),
            gate.legacy("/mcp/s").await,
            gate.agent(),
        ] {
            let prefix = if agent.path == "/mcp" { "s__" } else { "" };
            assert_eq!(agent.tools().await.len(), 2);
            let name = format!("{prefix}write");
            let request = agent.request(
                "tools/call",
                json!({ "name": name, "arguments": { "n": agent.path, "legacy": agent.is_legacy() }, "_meta": { "progressToken": "mine" } }),
            );
            let mut reading = agent.post(&request).await;
            let progress = reading.message().await;
            assert_eq!(progress["params"]["progressToken"], "mine", "{progress}");
            let answer = reading.whole().await;
            assert!(text(&answer).starts_with("ran in"), "{answer}");
        }
        assert_eq!(server.ran("write"), 3);
        for headers in server.opened() {
            assert_eq!(headers["x-team"], "tools");
            assert_eq!(headers["accept"], "text/event-stream");
        }
        assert!(
            server
                .seen()
                .iter()
                .all(|seen| seen.header("x-team") == Some("tools"))
        );
        // A session has heard that its client is ready before anything else is asked in it.
        let methods: Vec<_> = server
            .seen()
            .iter()
            .map(|seen| seen.method().to_owned())
            .collect();
        assert_eq!(
            methods[..3],
            ["initialize", "notifications/initialized", "tools/list"]
        );
    }
}

/// `check --connect` and `doctor` say which transport it is.
#[tokio::test]
async fn operators_read_which_transport_was_found() {
    let server = SseServer::start().await;
    let setup = before(&server, "");
    setup.write();
    for arguments in [&["check", "--connect", "."][..], &["doctor"]] {
        let output = setup.run(arguments).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains("legacy, over HTTP+SSE of 2024-11-05, 2 tools"),
            "{arguments:?}: {said}"
        );
    }
}

/// The stream ends under a call that may have changed something: nobody knows what became of it, it
/// is not sent again, and what follows runs in a new session.
#[tokio::test]
async fn a_stream_that_ends_leaves_its_calls_unknown() {
    let server = SseServer::start().await;
    let gate = starts(&server).await;
    for agent in [gate.agent().at("s"), gate.legacy("/mcp/s").await] {
        let ran = server.ran("write");
        server.holds(true);
        let arguments = json!({ "legacy": agent.is_legacy() });
        let calls = agent.call("write", arguments.clone());
        let breaks = async {
            server.runs("write", ran + 1).await;
            server.ends_streams();
        };
        let (answer, ()) = tokio::join!(calls, breaks);
        assert_eq!(
            code(&answer).as_deref(),
            Some("outcome_unknown"),
            "{answer}"
        );
        server.holds(false);
        let again = until("the server is up again", || async {
            let again = agent.call("write", arguments.clone()).await;
            (code(&again).as_deref() != Some("upstream_unavailable")).then_some(again)
        })
        .await;
        assert_eq!(code(&again).as_deref(), Some("outcome_unknown"), "{again}");
        assert_eq!(server.ran("write"), ran + 1, "it was sent twice");
        let other = until("another call runs", || async {
            let other = agent
                .call("write", json!({ "other": agent.is_legacy() }))
                .await;
            other["result"]["content"][0]["text"]
                .as_str()
                .is_some_and(|text| text.starts_with("ran in"))
                .then_some(())
        })
        .await;
        assert_eq!(other, ());
        assert_eq!(server.ran("write"), ran + 2);
    }
}

/// A message to a session that is gone is answered 404, which proves nothing: the write is unknown,
/// and the next one runs in a new session.
#[tokio::test]
async fn a_session_that_is_gone_is_opened_anew() {
    let server = SseServer::start().await;
    let gate = starts(&server).await;
    let agent = gate.agent().at("s");
    let first = agent.call("write", json!({ "n": 1 })).await;
    server.forgets_sessions();
    let lost = agent.call("write", json!({ "n": 2 })).await;
    assert_eq!(code(&lost).as_deref(), Some("outcome_unknown"), "{lost}");
    let third = until("the next call runs", || async {
        let third = agent.call("write", json!({ "n": 3 })).await;
        third["result"]["content"][0]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("ran in"))
            .then_some(third)
    })
    .await;
    assert_ne!(text(&first), text(&third));
    assert_eq!(server.ran("write"), 2);
}

/// A server that refuses the message of a call and answers it on the stream all the same: its answer
/// counts, and the call ran once. Where none comes, the write is unknown.
#[tokio::test]
async fn an_answer_after_a_refused_message_counts() {
    let server = SseServer::start().await;
    let gate = starts(&server).await;
    server.is_reluctant();
    for agent in [gate.agent().at("s"), gate.legacy("/mcp/s").await] {
        let ran = server.ran("write");
        let arguments = json!({ "legacy": agent.is_legacy() });
        let answer = agent.call("write", arguments.clone()).await;
        assert!(text(&answer).starts_with("ran in"), "{answer}");
        let again = agent.call("write", arguments).await;
        assert_eq!(text(&stored(&again)), text(&answer));
        assert_eq!(server.ran("write"), ran + 1, "it was sent twice");
    }
    server.holds(true);
    let agent = gate.agent().at("s");
    let lost = agent.call("write", json!({ "n": 2 })).await;
    assert_eq!(code(&lost).as_deref(), Some("outcome_unknown"), "{lost}");
}

/// What the server names as the address of messages is on its own host and port, or nothing is sent
/// (threat-model §3B): neither there nor anywhere else.
#[tokio::test]
async fn messages_go_to_no_other_server() {
    let stranger = SseServer::start().await;
    let other = format!("http://{}/messages", stranger.address);
    for said in [&other, "//169.254.169.254/latest", "file:///etc/passwd"] {
        let server = SseServer::naming(Some(said)).await;
        let gate = before(&server, "").start_at_once().await;
        let why = fault(&gate).await;
        assert!(why.contains("is not on the same server"), "{said}: {why}");
        assert_eq!((server.seen().len(), stranger.seen().len()), (0, 0));
        assert!(stranger.opened().is_empty());
    }
}

/// A stream that never says where messages go is given up.
#[tokio::test]
async fn a_stream_without_an_address_is_given_up() {
    let server = SseServer::naming(None).await;
    let gate = before(&server, "").start_at_once().await;
    let why = fault(&gate).await;
    assert!(why.contains("no `endpoint` event came in time"), "{why}");
    until("the stream is closed", || async {
        (server.sessions() == 0).then_some(())
    })
    .await;
}

/// A session ends with the agent's: its stream is closed.
#[tokio::test]
async fn a_session_ends_with_its_agents() {
    let server = SseServer::start().await;
    let gate = starts(&server).await;
    let agent = gate.legacy("/mcp/s").await;
    agent.call("write", json!({})).await;
    assert_eq!(server.sessions(), 2);
    agent.delete().await;
    until("only toolgate's own session is left", || async {
        (server.sessions() == 1).then_some(())
    })
    .await;
}
