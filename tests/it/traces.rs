//! Traces of the built program: a span for a call reaches a collector in the agent's trace, which
//! the ledger names too, and the tool server gets the agent's trace context as it was (003-80).

mod verdicts;

use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::tool_server::script::{LEGACY, MODERN};
use crate::harness::{DEADLINE, until};

use axum::body::Bytes;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Path and body of a request.
type Export = (String, Vec<u8>);

/// Where spans arrive.
#[derive(Clone, Default)]
pub struct Collector(Arc<Mutex<Vec<Export>>>);

impl Collector {
    pub async fn start() -> (Self, String) {
        let collector = Self::default();
        let kept = collector.clone();
        let app =
            axum::Router::new().fallback(move |uri: axum::http::Uri, body: Bytes| async move {
                kept.0
                    .lock()
                    .unwrap()
                    .push((uri.path().to_owned(), body.to_vec()));
            });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(std::future::IntoFuture::into_future(axum::serve(
            listener, app,
        )));
        (collector, format!("http://{address}"))
    }

    /// Everything that arrived.
    pub fn arrived(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .flat_map(|(_, body)| body.clone())
            .collect()
    }

    /// The bodies that arrived at `path`, in their order.
    pub fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let seen = self.0.lock().unwrap();
        let of = seen.iter().filter(|(at, _)| at == path);
        of.map(|(_, body)| body.clone()).collect()
    }

    /// The first request that has all these bytes.
    fn with(&self, parts: &[Vec<u8>]) -> Option<String> {
        let seen = self.0.lock().unwrap();
        let has = |body: &[u8], part: &[u8]| body.windows(part.len()).any(|window| window == part);
        seen.iter()
            .find(|(_, body)| parts.iter().all(|part| has(body, part)))
            .map(|(path, _)| path.clone())
    }
}

/// A protobuf field of bytes: its number, its length, the value.
fn field(number: u8, hex: &str) -> Vec<u8> {
    let bytes =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap());
    [number << 3 | 2, u8::try_from(hex.len() / 2).unwrap()]
        .into_iter()
        .chain(bytes)
        .collect()
}

/// 003-80, 004-06: one trace id leads from the agent by way of the ledger to the tool server.
#[tokio::test]
async fn a_call_is_a_span_in_the_agents_trace_and_the_ledger_and_the_tool_server_know_it() {
    let (collector, url) = Collector::start().await;
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", scripted.url()))
        .contracts(&[("oracle__read", "read")])
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50");
    let gate = setup.start().await;
    let context = format!("00-{TRACE}-{PARENT}-01");
    for (count, agent) in [gate.agent(), gate.legacy("/mcp").await]
        .into_iter()
        .enumerate()
    {
        let meta = json!({ "traceparent": context, "tracestate": "vendor=1" });
        let answer = agent
            .ask(
                "tools/call",
                json!({ "name": "oracle__read", "arguments": {}, "_meta": meta }),
            )
            .await;
        assert!(answer["result"].is_object(), "{answer}");
        let entries = gate.entries(count + 1).await;
        assert!(
            entries.iter().all(|entry| entry["trace_id"] == TRACE),
            "{entries:#?}"
        );
        let seen = scripted
            .seen()
            .into_iter()
            .rfind(|seen| seen.method() == "tools/call")
            .unwrap();
        let meta = &seen.body["params"]["_meta"];
        assert_eq!(
            (&meta["traceparent"], &meta["tracestate"]),
            (&json!(context), &json!("vendor=1")),
            "{meta}"
        );
        // Of the Span message: trace_id = 1, parent_span_id = 4.
        let revision = if agent.is_legacy() { LEGACY } else { MODERN };
        let parts = [
            field(1, TRACE),
            field(4, PARENT),
            b"tools/call oracle__read".to_vec(),
            revision.as_bytes().to_vec(),
        ];
        let path = until("a span", || async { collector.with(&parts) }).await;
        assert_eq!(path, "/v1/traces");
    }
    assert_eq!(scripted.executions(), 2);
}

#[tokio::test]
async fn a_call_without_a_trace_gets_one_that_ledger_and_collector_share() {
    let (collector, url) = Collector::start().await;
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", scripted.url()))
        .contracts(&[("oracle__read", "read")])
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50");
    let gate = setup.start().await;
    assert!(gate.agent().call("oracle__read", json!({})).await["result"].is_object());
    let entries = gate.entries(1).await;
    let trace = entries[0]["trace_id"].as_str().unwrap();
    assert_eq!(trace.len(), 32);
    until("a span", || async { collector.with(&[field(1, trace)]) }).await;
}

#[tokio::test]
async fn a_refused_call_says_so_on_its_span() {
    let (collector, url) = Collector::start().await;
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let policy = "contracts:\n  oracle__read: { purpose: a test, actions: [read], secrets: [], permission: { roles: [nobody] } }\n";
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", scripted.url()))
        .policy(policy)
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50");
    let gate = setup.start().await;
    gate.agent().call("oracle__read", json!({})).await;
    let marks = [b"error.type".to_vec(), b"rbac_denied".to_vec()];
    until("a span that says the code", || async {
        collector.with(&marks)
    })
    .await;
    assert_eq!(scripted.executions(), 0);
}

const COSTS: &str = "
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__pay: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [], budget: { cost: 2.5 } }
  oracle__read: { purpose: test, actions: [read], secrets: [], budget: { cost: 1 }, permission: { roles: [reader] } }
  oracle__ask: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [], budget: { cost: 1, cost_from: /tokens } }
budgets: { global: { max_steps: 100, max_cost: 100 } }
";

const CALLERS: &str = "
  - { agent: ann, token: token-of-agent-ann, roles: [reader] }
  - { agent: bob, token: token-of-agent-bob }
";

const SCRAPED: [&str; 5] = [
    "steps_used_count",
    "steps_used_sum",
    "token_cost_sum",
    "tool_calls_total",
    "latency_ms_count",
];

/// 003-108, 003-109, 003-110, 003-111, 004-49: what tasks have used is scraped under the documents'
/// names: steps and cost after each call, as the contract says it or the result reports it; calls;
/// milliseconds. A refused call uses nothing.
#[tokio::test]
async fn what_tasks_use_is_scraped_under_the_documents_names() {
    let scripted = ScriptedServer::with(["pay", "read", "ask"].map(tool).to_vec()).await;
    scripted.answers(|_| {
        Reply::Result(json!({ "content": [], "structuredContent": { "tokens": 4 }, "resultType": "complete" }))
    });
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: COSTS.to_owned(),
        observe: false,
    };
    let gate = Gate::start(settings).await;
    let scraped = async || {
        let mut values = Vec::new();
        for name in SCRAPED {
            values.push(gate.metric(&format!("toolgate_{name}")).await);
        }
        values
    };
    is_there_from_the_start(&gate).await;
    for (n, (who, tool, task, refused, expected)) in [
        ("ann", "pay", "one", None, [1.0, 1.0, 2.5, 1.0, 1.0]),
        ("ann", "pay", "one", None, [2.0, 3.0, 7.5, 2.0, 2.0]),
        ("ann", "read", "one", None, [3.0, 6.0, 13.5, 3.0, 3.0]),
        ("ann", "pay", "two", None, [4.0, 7.0, 16.0, 4.0, 4.0]),
        ("ann", "ask", "one", None, [5.0, 11.0, 26.0, 5.0, 5.0]),
        (
            "bob",
            "read",
            "one",
            Some("rbac_denied"),
            [5.0, 11.0, 26.0, 5.0, 6.0],
        ),
        ("ann", "read", "one", None, [6.0, 16.0, 37.0, 6.0, 7.0]),
    ]
    .into_iter()
    .enumerate()
    {
        let meta = json!({ "dev.toolgate/task": task });
        let params =
            json!({ "name": format!("oracle__{tool}"), "arguments": { "n": n }, "_meta": meta });
        let answer = gate
            .agent()
            .token(&format!("token-of-agent-{who}"))
            .ask("tools/call", params)
            .await;
        assert_eq!(
            crate::harness::answer::code(&answer).as_deref(),
            refused,
            "{answer}"
        );
        assert_eq!(scraped().await, expected, "call {n}");
    }
    judge_latency(&gate).await;
    let entries = gate.entries(7).await;
    let costs: Vec<&Value> = entries.iter().map(|entry| &entry["cost"]).collect();
    let expected = json!([2.5, 2.5, 1.0, 2.5, 4.0, null, 1.0]);
    assert_eq!(json!(costs), expected, "the ledger has what each has cost");
}

async fn judge_latency(gate: &Gate) {
    let latency = gate.metric("toolgate_latency_ms_sum").await;
    assert!(
        latency > 0.0 && latency < 1000.0 * DEADLINE.as_secs_f64(),
        "{latency}"
    );
    let all = gate.metric("toolgate_latency_ms_bucket{le=\"+Inf\"}").await;
    assert!((all - 7.0).abs() < 0.1, "{all}");
}

async fn is_there_from_the_start(gate: &Gate) {
    let text = gate.operators("/metrics").await;
    for name in [
        "steps_used_sum 0",
        "token_cost_sum 0",
        "tool_calls_total 0",
        "latency_ms_sum 0",
    ] {
        assert!(
            text.contains(&format!("\ntoolgate_{name}")),
            "{name} is there from the start: {text}"
        );
    }
}

/// 004-36: the span of a call that changes something has its tool, fencing token, time and the hash of
/// its key, and so has a line of the log that is asked for; the key itself stands in neither.
#[tokio::test]
async fn a_call_that_was_sent_says_how_it_ran() {
    const KEY: &str = "the-key-of-an-agent-7c1e";
    let (collector, url) = Collector::start().await;
    let scripted = ScriptedServer::with(vec![tool("pay")]).await;
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", scripted.url()))
        .contracts(&[("oracle__pay", "write")])
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50");
    let gate = setup.log("debug").start().await;
    let meta = json!({ "dev.toolgate/idempotencyKey": KEY });
    let params = json!({ "name": "oracle__pay", "arguments": {}, "_meta": meta });
    let answer = gate.agent().ask("tools/call", params).await;
    let decision = &answer["result"]["_meta"]["dev.toolgate/decision"];
    let hash = decision["key_hash"].as_str().unwrap();
    let marks = [
        "tools/call oracle__pay",
        "toolgate.fence",
        "toolgate.latency_ms",
        "toolgate.key_hash",
        hash,
    ];
    let marks = marks.map(|mark| mark.as_bytes().to_vec());
    until("a span", || async { collector.with(&marks) }).await;
    let line = until("a line of the log", || async {
        let log = gate.log();
        let line = log.lines().find(|line| line.contains("a call was sent"))?;
        serde_json::from_str::<Value>(line).ok()
    })
    .await;
    assert_eq!(
        (&line["tool"], &line["key"], &line["fence"]),
        (&json!("oracle__pay"), &json!(hash), &decision["fence"])
    );
    assert_eq!(line["outcome"], "answered");
    assert!(line["latency_ms"].as_f64().unwrap() > 0.0, "{line}");
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(entry["fence"], decision["fence"]);
    assert!(!gate.log().contains(KEY), "{}", gate.log());
    let spans = collector.arrived();
    assert!(!spans.windows(KEY.len()).any(|part| part == KEY.as_bytes()));
}
