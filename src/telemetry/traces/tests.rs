//! Trace context as agents send it, and spans as a collector receives them.

use super::{CallStart, Trace, call_span, failed};
use crate::telemetry::otlp::endpoint::{OtlpEndpoint, OtlpSignal};
use crate::telemetry::{TelemetrySettings, assemble, logs, tasks};
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry::trace::TraceContextExt as _;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::Span;
use tracing::dispatcher::with_default;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT_SPAN_ID: &str = "00f067aa0ba902b7";
const CALL_START: CallStart<'static> = CallStart {
    tool: Some("billing__create_invoice"),
    revision: "2025-11-25",
    request_id: "7",
};

/// 003-80: the agent's trace id is kept.
#[test]
fn a_well_formed_traceparent_is_kept() {
    for flags in ["00", "01", "03", "ff"] {
        let context = Trace::of(
            Some(&format!("00-{TRACE_ID}-{PARENT_SPAN_ID}-{flags}")),
            None,
        );
        assert_eq!(context.trace_id(), TRACE_ID);
    }
    for later in [
        format!("01-{TRACE_ID}-{PARENT_SPAN_ID}-01"),
        format!("cc-{TRACE_ID}-{PARENT_SPAN_ID}-01-what-the-future-brings"),
    ] {
        assert_eq!(Trace::of(Some(&later), None).trace_id(), TRACE_ID);
    }
}

/// 003-80: else there is a new one; a malformed one is never half-kept.
#[test]
fn a_malformed_traceparent_starts_a_new_trace() {
    let zeros = "0".repeat(32);
    for bad in [
        String::new(),
        format!("00-{TRACE_ID}-{PARENT_SPAN_ID}"),
        format!("00-{TRACE_ID}-{PARENT_SPAN_ID}-1"),
        format!("00-{TRACE_ID}-{PARENT_SPAN_ID}-001"),
        format!("00-{TRACE_ID}-{PARENT_SPAN_ID}-01-"),
        format!("00-{TRACE_ID}-{PARENT_SPAN_ID}-01 "),
        format!(" 00-{TRACE_ID}-{PARENT_SPAN_ID}-01"),
        format!("ff-{TRACE_ID}-{PARENT_SPAN_ID}-01"),
        format!("01-{TRACE_ID}-{PARENT_SPAN_ID}-01x"),
        format!("0g-{TRACE_ID}-{PARENT_SPAN_ID}-01"),
        format!("00-{zeros}-{PARENT_SPAN_ID}-01"),
        format!("00-{TRACE_ID}-{}-01", &zeros[..16]),
        format!("00-{}-{PARENT_SPAN_ID}-01", TRACE_ID.to_uppercase()),
        format!("00_{TRACE_ID}_{PARENT_SPAN_ID}_01"),
        format!("00-{}é-{PARENT_SPAN_ID}-01", &TRACE_ID[..30]),
    ] {
        assert_eq!(Trace::parse(&bad), None, "{bad:?}");
        let (one, two) = (Trace::of(Some(&bad), None), Trace::of(None, None));
        assert_ne!(one.trace_id(), two.trace_id());
        assert!(
            one.trace_id().len() == 32 && one.trace_id() != TRACE_ID && one.trace_id() != zeros
        );
    }
}

#[test]
fn a_bad_tracestate_is_left_out_and_the_trace_kept() {
    let parent = format!("00-{TRACE_ID}-{PARENT_SPAN_ID}-01");
    let long = format!("a={}", "x".repeat(600));
    for (state, kept) in [
        ("vendor=1,other=2", "vendor=1,other=2"),
        ("no equals sign", ""),
        (long.as_str(), ""),
    ] {
        let context = Trace::of(Some(&parent), Some(state));
        assert_eq!(context.trace_id(), TRACE_ID);
        assert_eq!(context.state.header(), kept);
    }
}

#[test]
fn the_environment_names_the_collector() {
    let read = |set: &[(&str, &str)]| {
        let set: Vec<(String, String)> = set
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        let found = OtlpEndpoint::read(OtlpSignal::Traces, |name| {
            set.iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.clone())
        });
        found
            .map(|endpoint| endpoint.map(|endpoint| endpoint.url()))
            .map_err(|error| error.to_string())
    };
    let shared = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let protocol = "OTEL_EXPORTER_OTLP_PROTOCOL";
    let url = "http://127.0.0.1:4318";
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[(shared, "")]), Ok(None));
    assert_eq!(read(&[(shared, url)]), Ok(Some(format!("{url}/v1/traces"))));
    assert_eq!(
        read(&[(shared, "https://c.example/otlp/")]),
        Ok(Some("https://c.example/otlp/v1/traces".into()))
    );
    assert_eq!(
        read(&[(shared, "nonsense://"), (own, "http://c/x")]),
        Ok(Some("http://c/x".into()))
    );
    assert_eq!(
        read(&[(shared, url), ("OTEL_SDK_DISABLED", "true")]),
        Ok(None)
    );
    assert_eq!(
        read(&[(shared, url), ("OTEL_TRACES_EXPORTER", "none")]),
        Ok(None)
    );
    assert_eq!(
        read(&[(shared, url), (protocol, "http/protobuf")]),
        Ok(Some(format!("{url}/v1/traces")))
    );
    assert!(
        read(&[(shared, url), (protocol, "grpc")])
            .unwrap_err()
            .contains("http/protobuf only")
    );
    let zipped = "OTEL_EXPORTER_OTLP_COMPRESSION";
    assert!(
        read(&[(shared, url), (zipped, "gzip")])
            .unwrap_err()
            .contains("toolgate compresses nothing")
    );
    for bad in ["127.0.0.1:4318", "collector", "ftp://c", "http://"] {
        assert!(
            read(&[(shared, bad)])
                .unwrap_err()
                .contains("write for example http://127.0.0.1:4318"),
            "{bad}"
        );
    }
}

/// A collector that keeps what it is sent.
async fn collector() -> (OtlpEndpoint, mpsc::UnboundedReceiver<Bytes>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (keep, kept) = mpsc::unbounded_channel();
    let take = post(async move |body: Bytes| keep.send(body).unwrap());
    let router = Router::new().route("/v1/traces", take);
    tasks::spawn(
        "collector",
        async move { axum::serve(listener, router).await },
    );
    let endpoint = OtlpEndpoint::read(OtlpSignal::Traces, |name| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| url.clone())
    });
    (endpoint.unwrap().unwrap(), kept)
}

fn settings(traces: Option<OtlpEndpoint>) -> TelemetrySettings {
    TelemetrySettings {
        log: "info".into(),
        shape: logs::LogFormat::Json,
        traces,
        metrics: None,
        records: None,
    }
}

/// What the collector gets when `speak` runs and toolgate then stops.
async fn exported(speak: impl FnOnce()) -> Bytes {
    let (endpoint, mut kept) = collector().await;
    let (dispatch, telemetry) =
        assemble(&settings(Some(endpoint)), &Handle::current(), std::io::sink).unwrap();
    with_default(&dispatch, speak);
    telemetry.stop().await;
    tokio::time::timeout(Duration::from_secs(10), kept.recv())
        .await
        .unwrap()
        .unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// Whether a protobuf message holds this length-delimited field; one byte each for the tag and the
/// length.
fn holds(message: &[u8], field: u8, value: &[u8]) -> bool {
    let mut wanted = vec![field << 3 | 2, u8::try_from(value.len()).unwrap()];
    wanted.extend_from_slice(value);
    message.windows(wanted.len()).any(|window| window == wanted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_reaches_the_collector_under_the_agents_span() {
    let mut sent_on = None;
    let body = exported(|| {
        let mut trace = Trace::of(
            Some(&format!("00-{TRACE_ID}-{PARENT_SPAN_ID}-01")),
            Some("vendor=1"),
        );
        let span = call_span(&CALL_START, &mut trace);
        failed(&span, "tenant_mismatch");
        sent_on = traceparent(&span);
        tracing::info!(secret = "in a log line", "not for the collector");
        drop(tracing::info_span!("a span of another target"));
        assert_eq!(trace.trace_id(), TRACE_ID);
    })
    .await;
    // Span: trace_id = 1, trace_state = 3, parent_span_id = 4, name = 5, kind = 6 (server = 2);
    // Status: code = 3 (error = 2).
    assert!(holds(&body, 1, &bytes(TRACE_ID)), "trace id");
    assert!(holds(&body, 3, b"vendor=1"), "trace state");
    assert!(holds(&body, 4, &bytes(PARENT_SPAN_ID)), "parent");
    assert!(
        holds(&body, 5, b"tools/call billing__create_invoice"),
        "name"
    );
    assert!(body.windows(2).any(|pair| pair == [0x30, 2]), "kind");
    assert!(body.windows(2).any(|pair| pair == [0x18, 2]), "status");
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2025-11-25"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "billing__create_invoice"),
        ("jsonrpc.request.id", "7"),
        ("error.type", "tenant_mismatch"),
        ("service.name", "toolgate"),
    ] {
        assert!(
            holds(&body, 1, key.as_bytes()) && holds(&body, 1, value.as_bytes()),
            "{key}={value}"
        );
    }
    let text = String::from_utf8_lossy(&body);
    assert!(
        !text.contains("not for the collector") && !text.contains("another target"),
        "{text}"
    );
    let sent_on = sent_on.unwrap();
    let (own_id, start) = (&sent_on[36..52], &sent_on[..36]);
    assert_eq!(start, format!("00-{TRACE_ID}-"));
    assert!(
        holds(&body, 2, &bytes(own_id)),
        "what a tool server does hangs under our span"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_parent_ledger_and_collector_name_the_same_trace() {
    let mut in_ledger = String::new();
    let body = exported(|| {
        let mut trace = Trace::new();
        drop(call_span(
            &CallStart {
                tool: None,
                ..CALL_START
            },
            &mut trace,
        ));
        in_ledger = trace.trace_id();
    })
    .await;
    assert!(holds(&body, 1, &bytes(&in_ledger)));
    assert!(
        holds(&body, 5, b"tools/call"),
        "a tool that does not exist names no span"
    );
}

#[tokio::test]
async fn without_a_collector_there_are_no_spans() {
    let (dispatch, telemetry) =
        assemble(&settings(None), &Handle::current(), std::io::sink).unwrap();
    with_default(&dispatch, || {
        let mut trace = Trace::of(Some(&format!("00-{TRACE_ID}-{PARENT_SPAN_ID}-01")), None);
        let span = call_span(&CALL_START, &mut trace);
        assert!(span.is_disabled() && traceparent(&span).is_none());
        assert_eq!(trace.trace_id(), TRACE_ID);
    });
    telemetry.stop().await;
}

/// What is shown of that: a span ends, and toolgate stops in time, though no collector answers. No
/// call is made here.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_collector_that_is_down_loses_traces_not_calls() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let endpoint = OtlpEndpoint::read(OtlpSignal::Traces, |name| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| url.clone())
    })
    .unwrap();
    let (dispatch, telemetry) =
        assemble(&settings(endpoint), &Handle::current(), std::io::sink).unwrap();
    with_default(&dispatch, || {
        drop(call_span(&CALL_START, &mut Trace::new()));
    });
    tokio::time::timeout(Duration::from_secs(8), telemetry.stop())
        .await
        .unwrap();
}

/// The `traceparent` of what is done under `span`; none while no collector is set.
fn traceparent(span: &Span) -> Option<String> {
    let context = span.context();
    let span = context.span();
    let at = span.span_context();
    at.is_valid().then(|| {
        format!(
            "00-{}-{}-{:02x}",
            at.trace_id(),
            at.span_id(),
            at.trace_flags().to_u8() & 1
        )
    })
}
