//! What there is about an incident, at the operators' door.

use super::incidents::{IncidentsDoor, door};
use super::*;
use crate::model::entry::Entry;
use crate::store::incidents::{BundleCount, BundleSpan, Incident, IncidentEvidence};
use axum::body::Bytes;
use std::io::Write;

/// More than waits to be read at once.
const ROWS: usize = 20_000;
/// The bundle of this incident breaks off.
const BROKEN: u64 = 2;

/// Evidence of two calls, and of any incident.
pub(super) struct FixedEvidence;

impl IncidentEvidence for FixedEvidence {
    fn bundle(
        &self,
        incident: &Incident,
        span: BundleSpan,
        out: &mut dyn Write,
    ) -> Result<BundleCount, String> {
        let mut say = |line: Value| writeln!(out, "{line}").map_err(|error| error.to_string());
        let since = span.since.map(|since| since.to_string());
        say(json!({ "bundle": "a test", "since": since }))?;
        for number in 0..ROWS {
            say(json!({ "row": number, "tool": incident.scope }))?;
        }
        if incident.id == BROKEN {
            return Err("the ledger is damaged".to_owned());
        }
        say(json!({ "journal": {}, "rows": ROWS }))?;
        Ok(BundleCount::default())
    }

    fn call(&self, id: &str) -> Result<Entry, String> {
        let tool = match id {
            "a-1" => "fs__wipe",
            "a-2" => "bank__pay",
            _ => return Err("no call has that id".to_owned()),
        };
        Ok(Entry {
            action_id: id.to_owned(),
            tool: tool.to_owned(),
            ..Entry::default()
        })
    }
}

impl IncidentsDoor {
    /// The answer to who asks for what is at `path`, of which nothing is read yet.
    async fn begin(&self, who: &str, path: &str) -> Response<Body> {
        let bearer = format!("Bearer 0123456789abcdef-{who}");
        let headers = [("host", "127.0.0.1:7778"), ("authorization", &*bearer)];
        let asked = request("GET", path, &headers).map(|_| Body::empty());
        self.router.clone().oneshot(asked).await.unwrap()
    }

    /// One on whose tools an incident is open, and what is left of it.
    async fn open(&self, tools: &str) {
        let body = json!({ "tool": tools, "why": "odd" }).to_string();
        let (status, told) = self.ask("ann", "/api/incidents", Some(&body)).await;
        assert_eq!(status, 200, "{told}");
    }
}

async fn whole(answer: Response<Body>) -> Result<Bytes, axum::Error> {
    Ok(answer.into_body().collect().await?.to_bytes())
}

/// The bundle is for who may read what others are not shown, comes whole, and within the times that are asked
/// for.
#[tokio::test]
async fn a_bundle_is_for_auditors_and_comes_whole() {
    let door = door();
    door.open("fs__*").await;
    let path = "/api/incidents/1/bundle";
    for (who, status) in [("eve", 401), ("ann", 403), ("bob", 403)] {
        assert_eq!(door.begin(who, path).await.status(), status, "{who}");
    }
    for (query, status) in [
        ("?since=x", 400),
        ("?from=2020-01-01T00:00:00Z", 400),
        ("?until=2020-01-01T00:00:00Z", 400),
    ] {
        let answer = door.begin("aud", &format!("{path}{query}")).await;
        assert_eq!(answer.status(), status, "{query}");
    }
    assert_eq!(
        door.begin("aud", "/api/incidents/7/bundle").await.status(),
        404
    );
    let since = "2020-01-01T00:00:00Z";
    let answer = door.begin("aud", &format!("{path}?since={since}")).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    let text = String::from_utf8(whole(answer).await.unwrap().to_vec()).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), ROWS + 2);
    assert_eq!(lines[0]["since"], since);
    assert_eq!(lines[ROWS]["row"], ROWS - 1);
    assert_eq!(lines[ROWS + 1]["rows"], ROWS);
}

/// One at a time, no faster than it is read; who goes away makes room for the next.
#[tokio::test]
async fn one_bundle_is_written_at_a_time() {
    let door = door();
    door.open("fs__*").await;
    let path = "/api/incidents/1/bundle";
    let first = door.begin("aud", path).await;
    assert_eq!(first.status(), 200);
    assert_eq!(door.begin("aud", path).await.status(), 429);
    whole(first).await.unwrap();
    let second = door.begin("aud", path).await;
    assert_eq!(second.status(), 200, "the first is read to its end");
    drop(second);
    loop {
        let third = door.begin("aud", path).await;
        if third.status() == 200 {
            break;
        }
        assert_eq!(third.status(), 429);
        tokio::task::yield_now().await;
    }
}

/// What cannot be written to its end does not look as if it were.
#[tokio::test]
async fn a_bundle_that_breaks_off_does_not_end_well() {
    let door = door();
    door.open("fs__*").await;
    door.open("fs__wipe").await;
    let path = format!("/api/incidents/{BROKEN}/bundle");
    let answer = door.begin("aud", &path).await;
    assert_eq!(answer.status(), 200);
    assert!(whole(answer).await.is_err());
}

/// A call is told of to auditors, and only while an incident freezes its tool.
#[tokio::test]
async fn a_recorded_call_is_told_of_while_its_tool_is_frozen() {
    let door = door();
    let path = "/api/incidents/calls/a-1";
    assert_eq!(door.ask("aud", path, None).await.0, 404);
    door.open("fs__*").await;
    for who in ["ann", "bob"] {
        assert_eq!(door.ask(who, path, None).await.0, 403);
    }
    let (status, told) = door.ask("aud", path, None).await;
    assert_eq!(
        (status, &told["action_id"], &told["tool"]),
        (200, &json!("a-1"), &json!("fs__wipe"))
    );
    for other in ["a-2", "a-3"] {
        let path = format!("/api/incidents/calls/{other}");
        assert_eq!(door.ask("aud", &path, None).await.0, 404, "{other}");
    }
    let long = format!("/api/incidents/calls/{}", "a".repeat(65));
    assert_eq!(door.ask("aud", &long, None).await.0, 400);
}
