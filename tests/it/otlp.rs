//! Metrics and log records of the built program, as a collector receives them; and a collector that hangs,
//! which no call notices.

use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use crate::traces::Collector;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Told;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, number_data_point};
use prost::Message as _;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// What stands in arguments and answers, and nowhere else.
const CANARY: &str = "canary-of-an-argument-5b2e";

async fn stage(collector: &str, more: &[(&str, &str)]) -> (ToolServer, Gate) {
    let server = Script::new()
        .tool("read", Behaviour::Answers)
        .tool("pay", Behaviour::Answers)
        .tool("lose", Behaviour::HangsUp)
        .start()
        .await;
    let tools = [
        ("bank__read", "read"),
        ("bank__pay", "write"),
        ("bank__lose", "write"),
    ];
    let setup = Setup::new()
        .server("bank", &server)
        .contracts(&tools)
        .unwatched();
    let mut setup = setup
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        .environment("OTEL_METRIC_EXPORT_INTERVAL", "50")
        .environment("OTEL_BLRP_SCHEDULE_DELAY", "10")
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50");
    for (name, value) in more {
        setup = setup.environment(name, value);
    }
    (server, setup.start().await)
}

/// The metrics of the last export.
fn metrics(collector: &Collector) -> Vec<Metric> {
    let bodies = collector.bodies("/v1/metrics");
    let Some(last) = bodies.last() else {
        return Vec::new();
    };
    let request = ExportMetricsServiceRequest::decode(&last[..]).unwrap();
    let scopes = request
        .resource_metrics
        .into_iter()
        .flat_map(|one| one.scope_metrics);
    scopes.flat_map(|scope| scope.metrics).collect()
}

/// The sum of all points of a counter or gauge whose labels include these.
fn value(metrics: &[Metric], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let metric = metrics.iter().find(|metric| metric.name == name)?;
    let points = match metric.data.as_ref()? {
        Data::Sum(sum) => &sum.data_points,
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Histogram(_) | Data::ExponentialHistogram(_) | Data::Summary(_) => {
            panic!("{name} is no number")
        }
    };
    let has = |pairs: &[opentelemetry_proto::tonic::common::v1::KeyValue], label: &(&str, &str)| {
        pairs.iter().any(|pair| {
            let told = pair.value.as_ref().and_then(|value| value.value.as_ref());
            pair.key == label.0 && told == Some(&Told::StringValue(label.1.to_owned()))
        })
    };
    let of = points
        .iter()
        .filter(|point| labels.iter().all(|label| has(&point.attributes, label)));
    let amounts = of.map(|point| match point.value {
        Some(number_data_point::Value::AsInt(whole)) => f64::from(i32::try_from(whole).unwrap()),
        Some(number_data_point::Value::AsDouble(number)) => number,
        None => panic!("{name} has a point without a value"),
    });
    Some(amounts.sum())
}

/// All records so far.
fn records(collector: &Collector) -> Vec<LogRecord> {
    let bodies = collector.bodies("/v1/logs");
    let requests = bodies
        .iter()
        .map(|body| ExportLogsServiceRequest::decode(&body[..]).unwrap());
    let scopes = requests.flat_map(|request| request.resource_logs);
    let scopes = scopes.flat_map(|one| one.scope_logs);
    scopes.flat_map(|scope| scope.log_records).collect()
}

/// Issue 20, seeing it: what a scrape shows reaches a collector under the same names, with the same labels and values.
#[tokio::test]
async fn a_collector_has_the_metrics_of_a_scrape() {
    let (collector, url) = Collector::start().await;
    let (_server, gate) = stage(&url, &[]).await;
    for n in 0..3 {
        let answer = gate
            .agent()
            .modern_call("bank__pay", json!({ "n": n }))
            .await;
        assert!(answer.is_done());
    }
    gate.agent().modern_call("bank__none", json!({})).await;
    let paid = [("tool", "bank__pay"), ("outcome", "answered"), ("code", "")];
    // Agents can name anything.
    let refused = [
        ("server", "unknown"),
        ("outcome", "refused"),
        ("code", "tool_not_allowlisted"),
    ];
    let told = until("metrics of these calls", || async {
        let told = metrics(&collector);
        let counted = value(&told, "toolgate_calls_total", &paid) == Some(3.0);
        let both = value(&told, "toolgate_calls_total", &refused) == Some(1.0);
        (counted && both).then_some(told)
    })
    .await;
    assert_eq!(value(&told, "toolgate_side_effects_total", &[]), Some(3.0));
    assert_eq!(
        value(&told, "toolgate_upstream_up", &[("server", "bank")]),
        Some(1.0)
    );
    let latency = told
        .iter()
        .find(|metric| metric.name == "toolgate_latency_seconds");
    let Some(Data::Histogram(latency)) = latency.and_then(|metric| metric.data.as_ref()) else {
        panic!("{latency:?}");
    };
    let point = &latency.data_points[0];
    assert_eq!((point.count, point.bucket_counts.iter().sum()), (4, 4_u64));
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    // Both ways say the same names.
    let text = gate.operators("/metrics").await;
    for metric in &told {
        let sample = format!("\n{}", metric.name);
        assert!(text.contains(&sample), "{}", metric.name);
    }
}

/// Issue 20, seeing it: warnings reach a collector as records, no argument or answer does, and a level can be chosen.
#[tokio::test]
async fn a_collector_has_the_warnings_of_the_log() {
    let (collector, url) = Collector::start().await;
    let (_server, gate) = stage(&url, &[]).await;
    let arguments = json!({ "note": CANARY });
    assert!(
        gate.agent()
            .modern_call("bank__pay", arguments.clone())
            .await
            .is_done()
    );
    let lost = gate.agent().modern_call("bank__lose", arguments).await;
    assert_eq!(lost.refusal(), "outcome_unknown");
    std::fs::write(gate.path("policy.yaml"), "contractz: {}\n").unwrap();
    gate.hang_up();
    let found = until("a record of the reload", || async {
        let all = records(&collector);
        let stale = "the last good policy stays in force";
        let told = all
            .iter()
            .any(|record| format!("{:?}", record.body).contains(stale));
        told.then_some(all)
    })
    .await;
    assert!(
        found.iter().all(|record| record.severity_number >= 13),
        "{found:?}"
    );
    assert!(found.iter().all(|record| record.time_unix_nano > 0));
    let setup = gate.stop().await;
    let all = format!("{:?}", records(&collector));
    assert!(
        !all.contains(CANARY) && !all.contains("stopping: calls in flight"),
        "{all}"
    );
    let chosen = setup.environment("TOOLGATE_OTLP_LOG", "info").start().await;
    chosen.stop().await;
    let all = format!("{:?}", records(&collector));
    // The last lines leave before the end.
    assert!(all.contains("stopping: calls in flight"), "{all}");
}

/// Signals that are not wanted are not sent.
#[tokio::test]
async fn a_signal_can_be_left_out() {
    let (collector, url) = Collector::start().await;
    let off = [
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ];
    let (_server, gate) = stage(&url, &off).await;
    gate.agent().modern_call("bank__lose", json!({})).await;
    until("a span", || async {
        (!collector.bodies("/v1/traces").is_empty()).then_some(())
    })
    .await;
    gate.stop().await;
    assert_eq!(collector.bodies("/v1/metrics").len(), 0);
    assert_eq!(collector.bodies("/v1/logs").len(), 0);
}

/// How long a request may take before it is given up (`src/telemetry/otlp/post.rs`).
const GIVES_UP: Duration = Duration::from_secs(10);

/// A collector that takes connections and never answers costs no call anything; what it does not take is counted, and an
/// end comes all the same.
#[tokio::test]
async fn a_collector_that_hangs_holds_up_no_call() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let (_server, gate) = stage(&url, &[("TOOLGATE_OTLP_LOG", "trace")]).await;
    let failed = async || {
        let mut failed = 0.0;
        for signal in ["traces", "metrics", "logs"] {
            let series =
                format!("toolgate_otlp_exports_total{{signal=\"{signal}\",outcome=\"failed\"}}");
            failed += gate.metric(&series).await.min(1.0);
        }
        failed
    };
    // Until each of the three has given up a request, calls go on.
    let longest = std::cell::Cell::new(Duration::ZERO);
    let calls = std::cell::Cell::new(0);
    until("requests that the collector did not take", || async {
        let asked = Instant::now();
        let answer = gate.agent().modern_call("bank__read", json!({})).await;
        assert!(answer.is_done());
        longest.set(longest.get().max(asked.elapsed()));
        calls.set(calls.get() + 1);
        (failed().await > 2.5).then_some(())
    })
    .await;
    assert!(longest.get() < GIVES_UP / 4, "{longest:?}");
    assert!(calls.get() > 20, "{calls:?}");
    let lost = gate.metric("toolgate_otlp_lost_log_records_total").await;
    assert!(lost > 0.0);
    assert_eq!(
        gate.log()
            .matches("logs cannot be sent to the collector")
            .count(),
        1
    );
    gate.stop().await;
    drop(silent);
}
