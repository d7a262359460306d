//! Headers that lie, are missing, or come twice (threat-model §3B B2, B5–B8), each on an otherwise
//! good call.

mod both_wires;

use super::{CANARY, Door, governed, json, refused, untouched};
use crate::harness::agent::{Agent, modern};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use both_wires::BOTH;

const REQUEST: i64 = -32600;

const MISMATCH: i64 = -32020;

/// `Name` replaces or adds, `-Name` takes away, `+Name` adds one more.
type Edits = &'static [(&'static str, &'static str)];

type HeaderCase = (&'static str, Edits, u16, i64, &'static str);

/// What the modern wire refuses besides.
const MODERN_ONLY: &[HeaderCase] = &[
    (
        "B2 no revision",
        &[("-MCP-Protocol-Version", "")],
        400,
        MISMATCH,
        "mcp-protocol-version",
    ),
    (
        "B2 another revision",
        &[("MCP-Protocol-Version", "2025-11-25")],
        400,
        MISMATCH,
        "mcp-protocol-version",
    ),
    (
        "A8 a revision nobody serves",
        &[("MCP-Protocol-Version", "2024-11-05")],
        400,
        MISMATCH,
        "mcp-protocol-version",
    ),
    (
        "B2 no Mcp-Method",
        &[("-Mcp-Method", "")],
        400,
        MISMATCH,
        "mcp-method",
    ),
    (
        "B2 another Mcp-Method",
        &[("Mcp-Method", "tools/list")],
        400,
        MISMATCH,
        "mcp-method",
    ),
    (
        "B2 Mcp-Method in capitals",
        &[("Mcp-Method", "TOOLS/CALL")],
        400,
        MISMATCH,
        "mcp-method",
    ),
    (
        "B2 two Mcp-Methods",
        &[("+Mcp-Method", "tools/call")],
        400,
        REQUEST,
        "more than once",
    ),
    (
        "B2 no Mcp-Name",
        &[("-Mcp-Name", "")],
        400,
        MISMATCH,
        "mcp-name",
    ),
    (
        "B2 another Mcp-Name",
        &[("Mcp-Name", "oracle__read")],
        400,
        MISMATCH,
        "mcp-name",
    ),
    (
        "B2 Mcp-Name in a broken sentinel",
        &[("Mcp-Name", "=?base64?%%%?=")],
        400,
        MISMATCH,
        "mcp-name",
    ),
    (
        "B2 another Mcp-Name in a sentinel",
        &[("Mcp-Name", "=?base64?b3RoZXI=?=")],
        400,
        MISMATCH,
        "mcp-name",
    ),
    (
        "B2 a sentinel in a sentinel",
        &[(
            "Mcp-Name",
            "=?base64?PT9iYXNlNjQ/YjNKaFkyeGxYMTkzY21sMFpRPT0/PQ==?=",
        )],
        400,
        MISMATCH,
        "mcp-name",
    ),
    (
        "B2 two Mcp-Names",
        &[("+Mcp-Name", "oracle__write")],
        400,
        REQUEST,
        "more than once",
    ),
];

/// What a session refuses besides.
const LEGACY_ONLY: &[HeaderCase] = &[
    (
        "B5 no session",
        &[("-Mcp-Session-Id", "")],
        400,
        REQUEST,
        "initialize",
    ),
    (
        "B5 unknown session",
        &[("Mcp-Session-Id", "c4n4ry-v4lue")],
        404,
        -32001,
        "initialize",
    ),
    (
        "B5 two sessions in one header",
        &[("Mcp-Session-Id", "a, b")],
        404,
        -32001,
        "initialize",
    ),
    (
        "A8 a revision nobody serves",
        &[("MCP-Protocol-Version", "2024-11-05")],
        400,
        REQUEST,
        "MCP-Protocol-Version",
    ),
    (
        "C14 a modern header without its envelope",
        &[("MCP-Protocol-Version", "2026-07-28")],
        400,
        -32602,
        "_meta",
    ),
];

fn edited(mut headers: Vec<(String, String)>, edits: Edits) -> Vec<(String, String)> {
    for (name, value) in edits {
        let added = name.strip_prefix('+');
        let bare = name.trim_start_matches(['+', '-']);
        if added.is_none() {
            headers.retain(|(given, _)| !given.eq_ignore_ascii_case(bare));
        }
        if !name.starts_with('-') {
            headers.push((bare.to_owned(), (*value).to_owned()));
        }
    }
    headers
}

#[tokio::test]
async fn b2_b5_to_b8_headers_that_lie_are_refused_on_the_modern_wire() {
    let (oracle, gate) = governed().await;
    let agent = gate.agent();
    let call = modern(
        "tools/call",
        json!({ "name": "oracle__write", "arguments": { "a": CANARY } }),
    );
    for (what, edits, status, code, says) in BOTH.iter().chain(MODERN_ONLY) {
        let answer = agent
            .send(
                &edited(agent.mirrored(&call), edits),
                call.to_string().as_bytes(),
            )
            .await;
        assert_eq!(answer.status, *status, "{what}: {answer:?}");
        refused(what, &answer, *code, says);
        assert!(
            answer.header("access-control-allow-origin").is_none(),
            "{what}"
        );
    }
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn b5_to_b8_headers_that_lie_are_refused_on_the_legacy_wire() {
    let (oracle, gate) = governed().await;
    let agent = gate.agent().declaring(json!({})).await;
    let door = Door::Legacy(agent.clone());
    let body = door.body(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"@TOOL","arguments":{"a":"@CANARY"}}}"#,
    );
    for (what, edits, status, code, says) in BOTH.iter().chain(LEGACY_ONLY) {
        let answer = agent.send(&edited(agent.headers(), edits), &body).await;
        assert_eq!(answer.status, *status, "{what}: {answer:?}");
        refused(what, &answer, *code, says);
    }
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn b3_mcp_param_headers_must_mirror_the_arguments_and_are_made_anew() {
    let schema = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    let oracle = Script::new()
        .tool_with("write", &schema, Behaviour::Answers)
        .start()
        .await;
    let gate = Setup::new()
        .server("oracle", &oracle)
        .contracts(&[("oracle__write", "write")])
        .start()
        .await;
    let agent: Agent = gate.agent();
    let call = modern(
        "tools/call",
        json!({ "name": "oracle__write", "arguments": { "region": CANARY } }),
    );
    let cases: [Edits; 5] = [
        &[],
        &[("Mcp-Param-Region", "eu")],
        &[("Mcp-Param-Region", "=?base64?%?=")],
        &[
            ("Mcp-Param-Region", "c4n4ry-v4lue"),
            ("+Mcp-Param-Region", "c4n4ry-v4lue"),
        ],
        &[("Mcp-Param-Region", "")],
    ];
    for edits in cases {
        let answer = agent
            .send(
                &edited(agent.mirrored(&call), edits),
                call.to_string().as_bytes(),
            )
            .await;
        assert_eq!(answer.status, 400, "{edits:?}: {answer:?}");
        refused(&format!("{edits:?}"), &answer, MISMATCH, "Mcp-Param-region");
    }
    assert_eq!(oracle.executions().len(), 0);
    let right: Edits = &[
        ("Mcp-Param-Region", "c4n4ry-v4lue"),
        ("Mcp-Param-Other", "x"),
        ("Mcp-Session-Id", "x"),
    ];
    let answer = agent
        .send(
            &edited(agent.mirrored(&call), right),
            call.to_string().as_bytes(),
        )
        .await;
    assert!(answer.is_done(), "{answer:?}");
    let headers = oracle.executions()[0].headers.clone();
    assert_eq!(
        (&headers["mcp-param-region"], &headers["mcp-name"]),
        (&json!(CANARY), &json!("write"))
    );
    // One that nobody here knows may be known upstream (protocol §1.2).
    assert_eq!(headers["mcp-param-other"], "x");
    assert!(headers.get("mcp-session-id").is_none(), "{headers}");
}
