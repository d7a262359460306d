//! Spans leave in batches for a collector.

use crate::telemetry::otlp::endpoint::{OtlpEndpoint, OtlpSignal};
use crate::telemetry::otlp::post::{OnRuntime, resource};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;

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
    endpoint: &OtlpEndpoint,
    runtime: Handle,
) -> Result<SdkTracerProvider, NotStarted> {
    let client = OnRuntime::new(OtlpSignal::Traces, endpoint, runtime)?;
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
