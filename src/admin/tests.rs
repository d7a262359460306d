//! The door as a probe, a scraper, and a hostile page find it.

use super::operators::{OperatorIdentity, Operators};
use super::status::{
    LedgerStatus, PolicyStatus, ProcessReport, ProcessStatus, Quarantined, Readiness, ServerStatus,
};
use super::tools::Switches;
use super::{DoorReach, health, hosts, router};
use crate::model::clock::Clock;
use crate::model::secret::Secret;
use crate::model::verbs::OperatorVerbs;
use crate::store::disabling::Disabling;
use crate::store::incidents::Incidents;
use crate::store::journal::{Journal, JournalOptions};
use crate::store::memory::MemoryStore;
use crate::telemetry::metrics::{Metrics, MetricsFormat};
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt;

mod approvals;
mod calls;
mod described;
mod grants;
mod incident_evidence;
mod incidents;
mod live;
mod overview;
mod pages;
mod tools;

const ANN_TOKEN: &str = "0123456789abcdef-ann";

struct FixedStatus {
    ready: bool,
}

impl ProcessStatus for FixedStatus {
    fn ready(&self) -> Readiness {
        Readiness {
            ready: self.ready,
            reasons: if self.ready {
                vec![]
            } else {
                vec!["search was not probed yet".into()]
            },
            policy: PolicyStatus {
                version: "7f3a".into(),
                stale: true,
                problems: vec!["billing.yaml:3:5: …".into()],
            },
            servers: vec![ServerStatus {
                withheld: Vec::new(),
                name: "search".into(),
                state: "starting".into(),
                era: None,
                tools: 0,
                last_fault: Some("connection refused".into()),
            }],
            ledger: LedgerStatus {
                writable: true,
                entries: 12,
                dropped: 0,
                last_fault: None,
            },
        }
    }

    fn quarantined(&self) -> Vec<Quarantined> {
        let (server, profile) = ("search".to_owned(), Some("openai".to_owned()));
        vec![Quarantined {
            server,
            profile,
            reason: "profile_root".to_owned(),
            why: "`search__find`: …".to_owned(),
        }]
    }

    fn metrics(&self, format: MetricsFormat) -> String {
        Metrics::new().render(format)
    }

    fn instance(&self) -> &'static str {
        "5e884898"
    }

    fn process(&self) -> ProcessReport {
        ProcessReport {
            version: "0.0.0".into(),
            pid: 4711,
            started: "2026-11-28T10:00:00Z".into(),
            listen: Some("127.0.0.1:7777".into()),
            mode: "enforce".into(),
            policy_since: "2026-11-28T10:00:00Z".into(),
            children: [("search".to_owned(), 2)].into(),
            sessions: 3,
            ledger_bytes: Some(4096),
            ledger_max_bytes: None,
            work: Vec::new(),
            disk: None,
            problems: Vec::new(),
        }
    }
}

fn switches(data: &std::path::Path) -> Switches {
    let journal = Journal::open(data, JournalOptions::default()).unwrap();
    let incidents = Incidents::open(data, journal.clone(), Arc::new(|_| ())).unwrap();
    let disabling = Arc::new(Disabling::open(data, journal, Arc::new(|_| ())).unwrap());
    let (store, metrics) = (Arc::new(MemoryStore::new(Clock)), Arc::new(Metrics::new()));
    Switches {
        disabling,
        incidents: Arc::new(incidents),
        scope_of: Arc::new(|pattern| pattern.starts_with("fs__").then(Vec::new)),
        packs: Arc::new(|_| Ok("1 sample is as expected".to_owned())),
        evidence: Some(Arc::new(incident_evidence::FixedEvidence)),
        store,
        metrics,
        recount: Arc::default(),
        is_known: Arc::new(|tool| tool.as_str() == "fs__wipe"),
        grants: Arc::new(grants::FixedRules),
        edits: Arc::new(grants::FixedRules),
        looks: Arc::default(),
        asker: Arc::new(calls::FixedAsker),
        undo: Arc::new(grants::FixedRules),
        void: Arc::new(|_| None),
        // Its sender stays: streams end with it.
        policies: Box::leak(Box::new(tokio::sync::watch::channel(0)))
            .1
            .clone(),
    }
}

fn known(name: &str, roles: &[&str]) -> OperatorIdentity {
    OperatorIdentity {
        name: name.to_owned(),
        roles: roles.iter().map(ToString::to_string).collect(),
        stands_in: Vec::new(),
    }
}

async fn ask(ready: bool, request: Request<Body>) -> (StatusCode, Response<()>, String) {
    let names = hosts(
        "127.0.0.1:7778".parse().unwrap(),
        &["toolgate.internal".into()],
    );
    let data = tempfile::tempdir().unwrap();
    let token = Secret::new(ANN_TOKEN.to_owned());
    let operators = Operators::of(
        [(known("ann", &["switch"]), &token)],
        OperatorVerbs::default(),
    );
    let router = router(
        Arc::new(FixedStatus { ready }),
        switches(data.path()),
        operators,
        DoorReach {
            hosts: names,
            public_url: None,
            places: 8,
        },
    );
    let answer = router.oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(parts.headers[name], value);
    }
    assert!(!parts.headers.contains_key("access-control-allow-origin"));
    (parts.status, Response::from_parts(parts, ()), text)
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path);
    headers
        .iter()
        .fold(builder, |builder, (name, value)| {
            builder.header(*name, *value)
        })
        .body(Body::empty())
        .unwrap()
}

fn get(path: &str) -> Request<Body> {
    request("GET", path, &[("host", "127.0.0.1:7778")])
}

#[tokio::test]
async fn alive_as_long_as_it_runs() {
    let (status, _, text) = ask(false, get("/healthz")).await;
    assert_eq!((status, text.as_str()), (StatusCode::OK, "ok"));
}

/// threat-model §13 L7: why it is not ready is for operators; whether it is, for every caller.
#[tokio::test]
async fn not_ready_says_why() {
    let (status, _, text) = ask(false, get("/readyz")).await;
    let word = json!({ "status": "not_ready", "ready": false, "policy_stale": true });
    assert_eq!(
        (status, text.parse::<Value>().unwrap()),
        (StatusCode::SERVICE_UNAVAILABLE, word)
    );
    let bearer = format!("Bearer {ANN_TOKEN}");
    let headers = |bearer| [("host", "127.0.0.1:7778"), ("authorization", bearer)];
    let (status, _, text) = ask(
        false,
        request("GET", "/readyz", &headers("Bearer of nothing")),
    )
    .await;
    assert!(
        status == StatusCode::UNAUTHORIZED && !text.contains("search"),
        "{text}"
    );
    let (status, answer, text) = ask(false, request("GET", "/readyz", &headers(&bearer))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert_eq!(
        text.parse::<Value>().unwrap(),
        json!({
            "ready": false,
            "reasons": ["search was not probed yet"],
            "policy": { "version": "7f3a", "stale": true, "problems": ["billing.yaml:3:5: …"] },
            "servers": [
                { "name": "search", "state": "starting", "era": null, "tools": 0, "withheld": [],
                    "last_fault": "connection refused" }
            ],
            "ledger": { "writable": true, "entries": 12, "dropped": 0, "last_fault": null },
        })
    );
    let (status, answer, text) = ask(true, get("/readyz")).await;
    assert_eq!(answer.headers()[health::INSTANCE_HEADER], "5e884898");
    let word = json!({ "status": "ready", "ready": true, "policy_stale": true });
    assert_eq!(
        (status, text.parse::<Value>().unwrap()),
        (StatusCode::OK, word)
    );
}

#[tokio::test]
async fn metrics_are_scraped_in_the_format_that_is_asked_for() {
    let host = ("host", "127.0.0.1:7778");
    for (accept, format, is_open) in [
        ("*/*", MetricsFormat::Text, false),
        (
            "application/openmetrics-text; version=1.0.0, text/plain;q=0.5",
            MetricsFormat::OpenMetrics,
            true,
        ),
    ] {
        let request = request("GET", "/metrics", &[host, ("accept", accept)]);
        let (status, answer, text) = ask(false, request).await;
        assert_eq!(
            (status, answer.headers()["content-type"].to_str().unwrap()),
            (StatusCode::OK, format.content_type())
        );
        assert!(text.contains("toolgate_policy_stale 0\n"), "{text}");
        assert_eq!(text.ends_with("# EOF\n"), is_open, "{text}");
    }
    let (status, _, text) = ask(
        false,
        request("HEAD", "/metrics", &[("host", "localhost:7778")]),
    )
    .await;
    assert_eq!((status, text.as_str()), (StatusCode::OK, ""));
}

#[tokio::test]
async fn only_its_own_names_are_served() {
    for host in [
        "127.0.0.1:7778",
        "LocalHost:7778",
        "[::1]:7778",
        "toolgate.internal",
        "toolgate.internal:7778",
    ] {
        let (status, ..) = ask(true, request("GET", "/healthz", &[("host", host)])).await;
        assert_eq!(status, StatusCode::OK, "{host}");
    }
    for host in [
        "127.0.0.1",
        "localhost",
        "127.0.0.1:7777",
        "127.0.0.1:07778",
        "0.0.0.0:7778",
        "evil.example:7778",
        "localhost.evil.example:7778",
        "localhost:7778.evil.example",
        "localhost:7778/?x=",
        "x@localhost:7778",
        "toolgate.internal:9",
        "",
    ] {
        let (status, _, text) = ask(true, request("GET", "/healthz", &[("host", host)])).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{host}");
        assert!(text.contains("hint"), "{text}");
    }
}

#[tokio::test]
async fn exactly_one_host() {
    let own = ("host", "127.0.0.1:7778");
    for wrong in [
        request("GET", "/readyz", &[]),
        request("GET", "/readyz", &[own, own]),
        request("GET", "/readyz", &[own, ("host", "evil.example")]),
        request("GET", "http://evil.example/readyz", &[own]),
        request("GET", "http://127.0.0.1:7778/readyz", &[own]),
    ] {
        let (status, _, text) = ask(true, wrong).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert!(!text.contains("ledger"));
    }
}

#[tokio::test]
async fn web_pages_are_refused() {
    for origin in ["https://evil.example", "null", "http://127.0.0.1:7778", ""] {
        let (status, _, text) = ask(
            true,
            request(
                "GET",
                "/metrics",
                &[("host", "127.0.0.1:7778"), ("origin", origin)],
            ),
        )
        .await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{origin}");
        assert!(!text.contains("toolgate_"));
    }
}

#[tokio::test]
async fn nothing_can_be_changed() {
    for method in [
        "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW",
    ] {
        for path in ["/healthz", "/nothing"] {
            let (status, answer, text) =
                ask(true, request(method, path, &[("host", "127.0.0.1:7778")])).await;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
            assert_eq!(answer.headers()["allow"], "GET, HEAD");
            assert!(text.parse::<Value>().unwrap()["hint"].is_string());
        }
    }
}

#[tokio::test]
async fn other_paths_are_nothing() {
    for path in [
        "/healthz/",
        "/metrics/..",
        "/mcp",
        "/approvals/1/2",
        "//readyz",
        "/%72eadyz",
    ] {
        let (status, answer, text) = ask(true, get(path)).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert!(text.parse::<Value>().unwrap()["error"].is_string());
    }
}

#[test]
fn the_names_of_a_listener() {
    let configured = [
        "gate.example".into(),
        "gate.example:9000".into(),
        "[fd00::1]".into(),
    ];
    assert_eq!(
        hosts("[::1]:80".parse().unwrap(), &configured),
        [
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost",
            "localhost:80",
            "[::1]",
            "[::1]:80",
            "gate.example",
            "gate.example:80",
            "gate.example:9000",
            "[fd00::1]",
            "[fd00::1]:80",
        ]
    );
}
