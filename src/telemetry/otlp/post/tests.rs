//! The way to a collector that is down, wrong, or back.

use super::OnRuntime;
use crate::telemetry::captured_log::CapturedLog;
use crate::telemetry::logs::{LogFormat, layer, level};
use crate::telemetry::otlp::endpoint::{OtlpEndpoint, OtlpSignal};
use crate::telemetry::tasks;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, post};
use bytes::Bytes;
use opentelemetry_http::{HttpClient, Request};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

fn to(url: &str) -> OnRuntime {
    let signal = OtlpSignal::Traces;
    let endpoint = OtlpEndpoint::read(signal, |name| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| url.to_owned())
    });
    OnRuntime::new(signal, &endpoint.unwrap().unwrap(), Handle::current()).unwrap()
}

async fn send(client: &OnRuntime, url: &str) -> bool {
    let request = Request::post(format!("{url}/v1/traces"))
        .body(Bytes::from_static(b"spans"))
        .unwrap();
    client
        .send_bytes(request)
        .await
        .is_ok_and(|response| response.status().is_success())
}

/// Serves a collector of traces, in the clear; its address.
async fn collector(take: MethodRouter) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    tasks::spawn("collector", async move {
        axum::serve(listener, Router::new().route("/v1/traces", take)).await
    });
    address
}

/// Keeps what is logged from now on, until the guard is dropped.
fn captured() -> (CapturedLog, DefaultGuard) {
    let paper = CapturedLog::default();
    let lines = registry()
        .with(level("info").unwrap())
        .with(layer(LogFormat::Json, paper.writer()));
    (paper, tracing::subscriber::set_default(lines))
}

#[tokio::test]
async fn an_outage_is_said_once_and_its_end_too() {
    let down = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&down);
    let take = post(async move || {
        if seen.load(Ordering::Relaxed) {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::OK
        }
    });
    let url = format!("http://{}", collector(take).await);
    let (paper, _heard) = captured();
    let client = to(&url);
    assert!(!send(&client, &url).await && !send(&client, &url).await);
    down.store(false, Ordering::Relaxed);
    assert!(send(&client, &url).await && send(&client, &url).await);
    let text = paper.text();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        text.contains("it answered 503") && text.contains("the collector takes traces again"),
        "{text}"
    );
}

/// A collector that speaks no TLS gets no spans in the clear, and the log says why.
#[tokio::test]
async fn https_is_never_plain() {
    let take = post(async || StatusCode::OK);
    let url = format!("https://{}", collector(take).await);
    let (paper, _heard) = captured();
    assert!(!send(&to(&url), &url).await);
    let text = paper.text();
    assert!(
        text.contains("traces cannot be sent") && text.contains("InvalidContentType"),
        "{text}"
    );
}
