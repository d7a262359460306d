//! The way to the collector. Spans are exported in batches by a thread of the OpenTelemetry
//! library, which has no tokio; the HTTP requests therefore run as tasks of toolgate's own runtime.

#[cfg(test)]
mod tests;

use super::endpoint::{OtlpEndpoint, OtlpSignal};
use super::tallies::OTLP_TALLIES;
use crate::telemetry::tasks;
use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_sdk::Resource;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// One request to the collector, from connecting to the end of its answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP client that can be used from a thread without tokio.
#[derive(Debug)]
pub(crate) struct OnRuntime {
    client: Arc<dyn HttpClient>,
    endpoint: OtlpEndpoint,
    runtime: Handle,
    signal: OtlpSignal,
    reachable: AtomicBool,
}

impl OnRuntime {
    /// Sends `signal` to `endpoint`, with requests on `runtime`.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub(crate) fn new(
        signal: OtlpSignal,
        endpoint: &OtlpEndpoint,
        runtime: Handle,
    ) -> std::io::Result<Self> {
        Ok(Self {
            client: http_client(endpoint)?,
            endpoint: endpoint.clone(),
            runtime,
            signal,
            reachable: AtomicBool::new(true),
        })
    }

    /// Sends one message of protobuf; whether the collector took it. Takes ten seconds at most.
    pub(super) async fn post(&self, message: Vec<u8>) -> bool {
        let Ok(mut request) = Request::post(self.endpoint.url()).body(Bytes::from(message)) else {
            return false;
        };
        let headers = request.headers_mut();
        headers.extend(self.endpoint.headers().clone());
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-protobuf"),
        );
        let answer = self.send_bytes(request).await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Failed exports are kept to itself by the library, so they are said here: once when they
    /// begin, once when they end.
    fn note(&self, failure: Option<String>) {
        OTLP_TALLIES.count(self.signal, failure.is_none());
        let before = self.reachable.swap(failure.is_none(), Ordering::Relaxed);
        let signal = self.signal.word();
        match failure {
            Some(reason) if before => {
                tracing::warn!(
                    reason,
                    "{signal} cannot be sent to the collector and are lost until it answers"
                );
            }
            None if !before => tracing::info!("the collector takes {signal} again"),
            Some(_) | None => {}
        }
    }
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        let task = {
            let _entered = self.runtime.enter();
            tasks::spawn("send to the collector", async move {
                client.send_bytes(request).await
            })
        };
        let result = match task.await {
            Ok(result) => result,
            Err(stopped) => Err(stopped.into()),
        };
        match &result {
            Ok(response) if response.status().is_success() => self.note(None),
            Ok(response) => self.note(Some(format!("it answered {}", response.status()))),
            Err(error) => self.note(Some(reasons(error.as_ref()))),
        }
        result
    }
}

fn http_client(endpoint: &OtlpEndpoint) -> std::io::Result<Arc<dyn HttpClient>> {
    if !endpoint.is_encrypted() {
        return Ok(Arc::new(HyperClient::new(
            HttpConnector::new(),
            EXPORT_TIMEOUT,
            None,
        )));
    }
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_platform_verifier(provider)
        .map_err(std::io::Error::other)?
        .https_only()
        .enable_all_versions()
        .build();
    Ok(Arc::new(HyperClient::new(connector, EXPORT_TIMEOUT, None)))
}

/// What is said of the process: what `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` say, else
/// `toolgate`.
pub(crate) fn resource() -> Resource {
    const SERVICE_NAME_KEY: Key = Key::from_static_str("service.name");
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let said = Resource::builder().with_attribute(version).build();
    match said.get(&SERVICE_NAME_KEY) {
        Some(name) if !name.as_str().starts_with("unknown_service") => said,
        _ => Resource::builder_empty()
            .with_attributes(
                said.iter()
                    .map(|(key, value)| KeyValue::new(key.clone(), value.clone())),
            )
            .with_service_name("toolgate")
            .build(),
    }
}

/// An error with its causes; a connection error's own words alone don't say why.
fn reasons(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
