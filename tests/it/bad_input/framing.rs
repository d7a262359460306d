//! Requests whose beginning and end two readers could see differently, and requests without end
//! (threat-model §3B B1, B7, B9).

use super::{CANARY, Gate, ToolServer, governed, json, refused, untouched};
use crate::harness::agent::modern;
use crate::harness::answer::{Answer, get, open};
use std::time::Duration;

const REQUEST: i64 = -32600;

/// A good modern call, taken apart: its head without a length, and its body.
fn good(gate: &Gate) -> (String, String) {
    let agent = gate.agent();
    let call = modern(
        "tools/call",
        json!({ "name": "oracle__write", "arguments": { "a": CANARY } }),
    );
    let lines: Vec<String> = agent
        .mirrored(&call)
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    (
        format!("POST /mcp HTTP/1.1\r\n{}", lines.concat()),
        call.to_string(),
    )
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

async fn sent(gate: &Gate, text: String) -> Option<Answer> {
    gate.agent().bytes(text.into_bytes()).await
}

#[tokio::test]
async fn b1_b7_requests_with_two_readings_are_refused_with_words() {
    let (oracle, gate) = governed().await;
    let (head, body) = good(&gate);
    let (length, chunks) = (body.len(), chunked(&body));
    let absolute = head.replacen("/mcp", &format!("http://{}/mcp", gate.agents), 1);
    let evil = head.replacen("/mcp", "http://evil.example/mcp", 1);
    let cases = [
        (
            "B1 length and chunks",
            format!("{head}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
            411,
            "Content-Length",
        ),
        (
            "B1 chunks",
            format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}"),
            411,
            "Content-Length",
        ),
        ("no length", format!("{head}\r\n"), 411, "Content-Length"),
        (
            "B7 absolute form",
            format!("{absolute}Content-Length: {length}\r\n\r\n{body}"),
            400,
            "path only",
        ),
        (
            "B7 absolute form of another host",
            format!("{evil}Content-Length: {length}\r\n\r\n{body}"),
            400,
            "path only",
        ),
        (
            "declared too long",
            format!("{head}Content-Length: 4194305\r\n\r\n{body}"),
            413,
            "at most 4194304 bytes",
        ),
        (
            "no body",
            format!("{head}Content-Length: 0\r\n\r\n"),
            400,
            "unexpected end",
        ),
    ];
    for (what, text, status, says) in cases {
        let answer = sent(&gate, text)
            .await
            .unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        refused(
            what,
            &answer,
            if what == "no body" { -32700 } else { REQUEST },
            says,
        );
    }
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn b1_b9_requests_that_are_no_http_end_their_connection() {
    let (oracle, gate) = governed().await;
    let (head, body) = good(&gate);
    let length = body.len();
    let field = |line: &str| format!("{head}{line}\r\nContent-Length: {length}\r\n\r\n{body}");
    let many: Vec<String> = (0..100).map(|number| format!("X-{number}: 1")).collect();
    let cases = [
        (
            "B9 a header of 500 KB",
            field(&format!("X-Long: {}", "x".repeat(500_000))),
        ),
        ("B9 a hundred headers", field(&many.join("\r\n"))),
        (
            "B1 two lengths",
            field(&format!("Content-Length: {}", length + 1)),
        ),
        (
            "B1 a length with a sign",
            format!("{head}Content-Length: +{length}\r\n\r\n{body}"),
        ),
        (
            "B1 a coding nobody knows",
            format!(
                "{head}Transfer-Encoding: xchunked\r\n\r\n{}",
                chunked(&body)
            ),
        ),
        ("B1 a space before the colon", field("X-Odd : 1")),
        ("B1 a folded header", field("X-Odd: 1\r\n 2")),
        ("NUL in a header", field("X-Odd: \0")),
    ];
    for (what, text) in cases {
        let answer = sent(&gate, text).await;
        let status = answer.as_ref().map_or(400, |answer| answer.status);
        assert!(matches!(status, 400 | 411 | 431), "{what}: {answer:?}");
        assert!(
            answer.is_none_or(|answer| !answer.text().contains(CANARY)),
            "{what}"
        );
    }
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn b1_a_second_request_behind_a_refused_one_gains_nothing() {
    let (oracle, gate) = governed().await;
    let (head, body) = good(&gate);
    let second = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    // Who reads the length sees one body; who reads the chunks sees an empty one, and a second
    // request.
    let smuggled = format!("0\r\n\r\n{second}");
    let text = format!(
        "{head}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{smuggled}",
        smuggled.len()
    );
    let answer = sent(&gate, text).await.expect("an answer");
    assert_eq!(answer.status, 411, "{answer:?}");
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn paths_that_nobody_serves_are_not_found() {
    let (oracle, gate) = governed().await;
    let (head, body) = good(&gate);
    for path in [
        "/",
        "/mcp/",
        "//mcp",
        "/MCP",
        "/%6dcp",
        "/./mcp",
        "/mcp;x",
        "/mcp/unknown",
        "/mcp/oracle/x",
        "/metrics",
    ] {
        let text = head.replacen("/mcp", path, 1);
        let answer = sent(
            &gate,
            format!("{text}Content-Length: {}\r\n\r\n{body}", body.len()),
        )
        .await
        .unwrap();
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        refused(path, &answer, REQUEST, "/mcp/{server}");
    }
    let answer = get(gate.operators, "/mcp").await.unwrap();
    assert_eq!(
        answer.status, 404,
        "B7: the operators' door serves no agents"
    );
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn b9_a_body_that_breaks_off_runs_nothing() {
    let (oracle, gate): (ToolServer, Gate) = governed().await;
    let (head, body) = good(&gate);
    let half = &body[..body.len() / 2];
    let address = gate.agents;
    let text = format!("{head}Content-Length: {}\r\n\r\n{half}", body.len());
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, text.as_bytes())
        .await
        .unwrap();
    drop(stream);
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn b9_a_body_that_pauses_and_a_head_that_never_ends_are_given_up() {
    let (oracle, gate) = governed().await;
    let (head, body) = good(&gate);
    let half = &body[..body.len() / 2];
    let pausing = open(
        gate.agents,
        format!("{head}Content-Length: {}\r\n\r\n{half}", body.len()).into_bytes(),
    );
    let endless = open(gate.agents, head.clone().into_bytes());
    // toolgate's own bounds are 10 s and 5 s.
    let both = async { tokio::join!(pausing, endless) };
    let (pausing, endless) = tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("an end");
    assert_eq!(pausing.expect("an answer").head.status, 408);
    assert!(endless.is_none_or(|answer| answer.head.status == 408));
    untouched(&oracle, &gate).await;
}
