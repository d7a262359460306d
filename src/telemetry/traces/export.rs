//! The way to the collector. Spans are exported in batches by a thread of the OpenTelemetry
//! library, which has no tokio; the HTTP requests therefore run as tasks of toolgate's own runtime.

#[cfg(test)]
mod tests;

use super::endpoint::TracesEndpoint;
use crate::telemetry::tasks;
use async_trait::async_trait;
use bytes::Bytes;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// One request to the collector, from connecting to the end of its answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why no traces can be exported.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// The machine's certificates cannot be read.
    #[error("traces need the machine's root certificates: {0}")]
    Certificates(#[from] std::io::Error),
    /// A variable of OpenTelemetry asks for what toolgate has not.
    #[error("traces cannot be exported as the OTEL_ variables say: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// Starts to export to `endpoint`, with requests on `runtime`.
pub(crate) fn provider(
    endpoint: &TracesEndpoint,
    runtime: Handle,
) -> Result<SdkTracerProvider, NotStarted> {
    let client = OnRuntime {
        client: http_client(endpoint)?,
        runtime,
        reachable: AtomicBool::new(true),
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(endpoint.url())
        .with_protocol(Protocol::HttpBinary)
        .build()?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource())
        .build())
}

fn http_client(endpoint: &TracesEndpoint) -> std::io::Result<Arc<dyn HttpClient>> {
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

/// What the spans say of the process: what `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` say,
/// else `toolgate`.
fn resource() -> Resource {
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

/// An HTTP client that can be used from a thread without tokio.
#[derive(Debug)]
struct OnRuntime {
    client: Arc<dyn HttpClient>,
    runtime: Handle,
    reachable: AtomicBool,
}

impl OnRuntime {
    /// The library keeps failed exports to itself, so they are said here: once when they begin,
    /// once when they end.
    fn note(&self, failure: Option<String>) {
        let before = self.reachable.swap(failure.is_none(), Ordering::Relaxed);
        match failure {
            Some(reason) if before => {
                tracing::warn!(
                    reason,
                    "traces cannot be sent to the collector and are lost until it answers"
                );
            }
            None if !before => tracing::info!("the collector takes traces again"),
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
            tasks::spawn(
                "send traces",
                async move { client.send_bytes(request).await },
            )
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

/// An error with its causes; a connection error's own words alone don't say why.
fn reasons(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
