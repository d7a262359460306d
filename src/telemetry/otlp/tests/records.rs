//! Lines of the log as records: what they say, how much of it, and a collector that does not answer.

use super::read;
use crate::model::scrub::KNOWN_SECRETS;
use crate::model::secret::Secret;
use crate::telemetry::otlp::endpoint::OtlpSignal;
use crate::telemetry::otlp::post::OnRuntime;
use crate::telemetry::otlp::records::{self, MAX_WAITING, RecordExport};
use crate::telemetry::otlp::tallies::OTLP_TALLIES;
use crate::telemetry::traces::{CallStart, Trace, call_span};
use crate::telemetry::{TelemetrySettings, assemble, logs, tasks};
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::with_default;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, registry};

/// What `speak` logs at info and above, as records.
fn recorded(speak: impl FnOnce()) -> Vec<LogRecord> {
    recorded_at("info", speak)
}

fn recorded_at(level: &str, speak: impl FnOnce()) -> Vec<LogRecord> {
    let (layer, mut records) = records::layer();
    let level = logs::exported_level(level).unwrap();
    let subscriber = registry().with(layer.with_filter(level));
    with_default(subscriber, speak);
    let mut all = Vec::new();
    while let Ok(record) = records.try_recv() {
        all.push(record);
    }
    all
}

fn body(record: &LogRecord) -> &str {
    match &record.body {
        Some(AnyValue {
            value: Some(Value::StringValue(text)),
        }) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_becomes_a_record_without_secrets() {
    let secret = Arc::new(Secret::new("sk-of-a-log-record".to_owned()));
    KNOWN_SECRETS.add("record", &secret).unwrap();
    let records = recorded(|| {
        tracing::warn!(server = "billing", tries = 3, odd = true, "it left");
        tracing::error!(why = ?"told sk-of-a-log-record twice", "sk-of-a-log-record");
        tracing::debug!("not asked for");
        tracing::info!(target: "toolgate::child", "what a tool server writes");
    });
    let [left, told] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(body(left), "it left");
    assert_eq!((left.severity_number, &*left.severity_text), (13, "WARN"));
    assert_eq!((told.severity_number, &*told.severity_text), (17, "ERROR"));
    let names: Vec<&str> = left
        .attributes
        .iter()
        .map(|pair| pair.key.as_str())
        .collect();
    assert_eq!(names, ["server", "tries", "odd", "target"]);
    assert!(left.time_unix_nano > 0 && left.trace_id.is_empty());
    let said = format!("{told:?}");
    assert!(said.contains("told ") && !said.contains("sk-of"), "{said}");
}

/// What is said of tool servers' standard error leaves as a warning where warnings do, and what they write where a list
/// names it.
#[test]
fn what_tool_servers_write_leaves_where_it_is_named() {
    let speak = || {
        tracing::warn!(target: "toolgate::child", "lines were dropped");
        tracing::info!(target: "toolgate::child", "what a tool server writes");
    };
    for (level, expected) in [
        ("off", 0),
        ("error", 0),
        ("warn", 1),
        ("trace", 1),
        ("warn,toolgate=off", 0),
        ("info", 1),
        ("warn,toolgate::child=info", 2),
    ] {
        let records = recorded_at(level, speak);
        assert_eq!(records.len(), expected, "{level}: {records:?}");
    }
}

/// A field of any length takes a bounded place, and a secret that stands where it is cut is not half kept.
#[test]
fn a_record_is_bounded() {
    let secret = Arc::new(Secret::new("sk-of-a-long-log-record".to_owned()));
    KNOWN_SECRETS.add("long record", &secret).unwrap();
    let long = format!(
        "{}sk-of-a-long-log-record{}",
        "ü".repeat(1020),
        "x".repeat(1 << 20)
    );
    let records = recorded(|| {
        tracing::warn!(
            one = long,
            two = long,
            three = long,
            four = long,
            five = long,
            "{long}"
        );
    });
    let said = format!("{:?}", records[0]);
    assert!(
        said.len() < 20 << 10 && said.contains('ü'),
        "{}",
        said.len()
    );
    assert!(!said.contains("sk-of"), "{said}");
}

/// A thread that logs does not wait for a collector: what finds no room is counted.
#[test]
fn what_finds_no_room_is_counted() {
    let before = OTLP_TALLIES.lost_records();
    let records = recorded(|| {
        for number in 0..MAX_WAITING + 7 {
            tracing::warn!(number, "again");
        }
    });
    assert_eq!(records.len(), MAX_WAITING);
    assert!(OTLP_TALLIES.lost_records() - before >= 7);
}

/// Lines of a call are in its trace, where spans are exported, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_record_stands_in_the_trace_of_its_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*url)];
    let to = |signal| read(signal, &variables).unwrap();
    let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let take = axum::routing::post(async move |body: bytes::Bytes| keep.send(body).unwrap());
    let router = axum::Router::new()
        .route("/v1/logs", take)
        .fallback(async || ());
    tasks::spawn(
        "collector",
        async move { axum::serve(listener, router).await },
    );
    let settings = TelemetrySettings {
        log: "info".into(),
        shape: logs::LogFormat::Json,
        traces: to(OtlpSignal::Traces),
        metrics: None,
        records: to(OtlpSignal::Logs).map(|endpoint| RecordExport {
            endpoint,
            level: "warn".into(),
            gather: Duration::from_millis(10),
        }),
    };
    let (dispatch, telemetry) = assemble(&settings, &Handle::current(), std::io::sink).unwrap();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    tracing::dispatcher::with_default(&dispatch, || {
        let context = format!("00-{trace}-b7ad6b7169203331-01");
        let start = CallStart {
            tool: None,
            revision: "2025-11-25",
            request_id: "7",
        };
        let span = call_span(&start, &mut Trace::of(Some(&context), None));
        span.in_scope(|| tracing::warn!("in a call"));
        tracing::info!("not for the collector");
    });
    telemetry.stop().await;
    let sent = tokio::time::timeout(Duration::from_secs(10), kept.recv());
    let sent = sent.await.unwrap().unwrap();
    let holds = |part: &[u8]| sent.windows(part.len()).any(|window| window == part);
    // Of a record: trace_id = 9, in 16 bytes.
    let id = u128::from_str_radix(trace, 16).unwrap().to_be_bytes();
    assert!(holds(&[&[9 << 3 | 2, 16], &id[..]].concat()));
    assert!(holds(b"in a call") && !holds(b"not for the collector"));
}

/// A collector that takes connections and never answers: an end comes in time, and what was lost is
/// counted.
#[tokio::test(start_paused = true)]
async fn a_collector_that_hangs_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let endpoint = read(OtlpSignal::Logs, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &*url)]);
    let endpoint = endpoint.unwrap().unwrap();
    let collector = OnRuntime::new(OtlpSignal::Logs, &endpoint, Handle::current()).unwrap();
    let (layer, records) = records::layer();
    let before = OTLP_TALLIES.lost_records();
    with_default(registry().with(layer), || {
        tracing::warn!("nobody takes this");
    });
    let stop = CancellationToken::new();
    stop.cancel();
    let sending = records::export(records, collector, Duration::from_secs(1), stop);
    let ended = tokio::time::timeout(Duration::from_secs(15), sending).await;
    assert!(ended.is_ok() && OTLP_TALLIES.lost_records() > before);
    drop(silent);
}
