//! `/api/status`.

use super::{ANN_TOKEN, ask, get, request};
use crate::admin::overview::StatusReport;
use axum::http::StatusCode;
use serde_json::{Value, json};

/// All at a glance is for operators with a token, whatever their roles.
#[tokio::test]
async fn the_status_is_for_operators() {
    let (status, _, text) = ask(true, get("/api/status")).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{text}");
    assert!(!text.contains("search"), "{text}");
    let bearer = format!("Bearer {ANN_TOKEN}");
    let headers = [("host", "127.0.0.1:7778"), ("authorization", &*bearer)];
    let (status, _, text) = ask(true, request("GET", "/api/status", &headers)).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let report: Value = text.parse().unwrap();
    for (place, expected) in [
        ("/ready", json!(true)),
        ("/policy/stale", json!(true)),
        ("/servers/0/name", json!("search")),
        ("/children/search", json!(2)),
        ("/sessions", json!(3)),
        ("/held", json!(0)),
        ("/unknown", json!(0)),
        ("/disabled", json!({})),
        ("/withheld/0/profile", json!("openai")),
        ("/listen", json!("127.0.0.1:7777")),
        ("/work", json!([])),
        ("/problems", json!([])),
    ] {
        assert_eq!(report.pointer(place), Some(&expected), "{place} of {text}");
    }
    text.parse::<Value>()
        .map(serde_json::from_value::<StatusReport>)
        .unwrap()
        .unwrap();
}
