//! Probes that hang, break, say too much or say something else each time: none of it ends a call, and none of it
//! keeps other calls from being looked at (guarantees §4).

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than is read of an answer.
const TOO_LONG: usize = 5 << 20;
/// What keeps a call open, by the name of its order.
const ODD: [&str; 5] = ["hangs", "breaks", "refuses", "huge", "flaps"];

fn orders(orders: &Value) -> Reply {
    Reply::Result(
        json!({ "content": [], "structuredContent": { "orders": orders }, "resultType": "complete" }),
    )
}

/// A server that never answers `pay`, and answers looks as their orders are called.
async fn odd() -> ScriptedServer {
    let server = ScriptedServer::with(vec![tool("pay"), tool("look")]).await;
    let flaps = AtomicUsize::new(0);
    let long = "x".repeat(TOO_LONG);
    server.answers(move |seen| {
        if name(seen) == "pay" {
            return Reply::Status(503);
        }
        let order = seen.body["params"]["arguments"]["order"].as_str();
        match order.unwrap_or_default() {
            "hangs" => Reply::Silence,
            "breaks" => Reply::Said(200, "application/json", "{\"jsonrpc\":\"2.0\",".to_owned()),
            "refuses" => Reply::Message(json!({ "error": { "code": -32000, "message": "no" } })),
            "huge" => orders(&json!([{ "note": long }])),
            "flaps" if flaps.fetch_add(1, Ordering::SeqCst) % 2 == 1 => Reply::Status(500),
            _ => orders(&json!([])),
        }
    });
    server
}

#[tokio::test]
async fn odd_probes_end_nothing_and_hold_up_nobody() {
    let server = odd().await;
    let setup = setup(&server, PROBE, QUICK).server_member("timeout: 1s");
    let gate = setup.start().await;
    let mut open = Vec::new();
    for order in ODD {
        open.push((order, lost(&gate, order).await));
    }
    let gone = lost(&gate, "gone").await;
    let enough = "probe: absent, found often enough, asked by the timer";
    finds(&gate, &gone, enough).await;
    for (order, action) in &open {
        let looks = until(&format!("{order} is looked at three times"), || async {
            let looks = found(&gate, action).await;
            (looks.len() >= 3).then_some(looks)
        })
        .await;
        let is_proof = |look: &String| look.contains("enough") || look.contains("found,");
        assert!(!looks.iter().any(is_proof), "{order}: {looks:?}");
    }
    let (code, listed, error) = calls(&gate, &["list", "--json"]).await;
    assert_eq!(code, 0, "{error}");
    let still = |line: &str| serde_json::from_str::<Value>(line).unwrap()["action_id"].clone();
    let mut still: Vec<Value> = listed.lines().map(still).collect();
    let mut expected: Vec<Value> = open.iter().map(|(_, action)| json!(action)).collect();
    still.sort_by_key(ToString::to_string);
    expected.sort_by_key(ToString::to_string);
    assert_eq!(still, expected);
    assert_eq!(times(&server, "pay"), 6, "nothing is sent again");
}
