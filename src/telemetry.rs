//! Floor 1: what operators see of a running toolgate.

#[cfg(test)]
mod captured_log;
pub(crate) mod logs;
pub mod metrics;
pub(crate) mod paced_log;
pub(crate) mod recent_problems;
pub mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod traces;

use logs::LogFormat;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use recent_problems::{ProblemKeeper, RECENT_PROBLEMS};
use std::time::Duration;
use tokio::runtime::Handle;
use traces::endpoint::{BadTracesEndpoint, TracesEndpoint};
use tracing::Dispatch;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// How long the last spans may take to reach the collector when toolgate stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// What an operator can choose.
#[derive(Debug)]
pub struct TelemetrySettings {
    /// Which log lines are written; see [`logs::level`].
    pub log: String,
    /// How they look.
    pub shape: LogFormat,
    /// The collector for traces; none means no spans are made at all.
    pub traces: Option<TracesEndpoint>,
}

impl TelemetrySettings {
    /// What the command line (`--log`) says, then the environment (`RUST_LOG`, `OTEL_…`), then:
    /// `info`, no traces.
    ///
    /// # Errors
    /// When a variable has a value that cannot be kept.
    pub fn read(
        log: Option<String>,
        variables: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, StartError> {
        let log = log
            .or_else(|| variables("RUST_LOG"))
            .filter(|log| !log.trim().is_empty());
        Ok(Self {
            log: log.unwrap_or_else(|| "info".to_owned()),
            shape: LogFormat::of_stderr(),
            traces: TracesEndpoint::read(variables)?,
        })
    }
}

/// Why telemetry did not start. Each says what to change.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `--log` or `RUST_LOG` is wrong.
    #[error(transparent)]
    Level(#[from] logs::BadLevel),
    /// The collector's address is wrong.
    #[error(transparent)]
    Endpoint(#[from] BadTracesEndpoint),
    /// Traces cannot be exported.
    #[error(transparent)]
    Traces(#[from] traces::NotStarted),
    /// It was started before in this process.
    #[error("logging was already started in this process")]
    Twice(#[from] tracing::dispatcher::SetGlobalDefaultError),
}

/// Running telemetry. Stop it last, or the last spans are lost.
#[derive(Debug)]
#[must_use = "spans are flushed by `stop`"]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

/// Starts logs, and traces if a collector is set, for the whole process. `runtime` carries the
/// requests to the collector.
///
/// # Errors
/// See [`StartError`].
pub fn start(settings: &TelemetrySettings, runtime: &Handle) -> Result<Telemetry, StartError> {
    let (dispatch, telemetry) = assemble(settings, runtime, std::io::stderr)?;
    tracing::dispatcher::set_global_default(dispatch)?;
    Ok(telemetry)
}

fn assemble<W>(
    settings: &TelemetrySettings,
    runtime: &Handle,
    writer: W,
) -> Result<(Dispatch, Telemetry), StartError>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let level = logs::level(&settings.log)?;
    let provider = match &settings.traces {
        Some(endpoint) => Some(traces::provider(endpoint, runtime.clone())?),
        None => None,
    };
    let dispatch = match &provider {
        None => Dispatch::new(
            Registry::default()
                .with(level)
                .with(logs::layer(settings.shape, writer))
                .with(ProblemKeeper(&RECENT_PROBLEMS)),
        ),
        Some(provider) => with_traces(
            level,
            logs::layer(settings.shape, writer).and_then(ProblemKeeper(&RECENT_PROBLEMS)),
            provider.tracer("toolgate"),
        ),
    };
    Ok((dispatch, Telemetry { provider }))
}

/// Log lines and spans choose separately, so neither turns up in the other.
fn with_traces<L>(level: EnvFilter, lines: L, tracer: SdkTracer) -> Dispatch
where
    L: Layer<Registry> + Send + Sync,
{
    let spans = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_filter(filter_fn(|metadata| {
            metadata.is_span() && metadata.target() == traces::SPAN_TARGET
        }));
    Dispatch::new(
        Registry::default()
            .with(lines.with_filter(level))
            .with(spans),
    )
}

impl Telemetry {
    /// Sends the last spans; takes five seconds at most.
    pub async fn stop(self) {
        let Some(provider) = self.provider else {
            return;
        };
        // The library blocks while it flushes, and the requests need this runtime meanwhile.
        let flushed =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT))
                .await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::warn!("the last traces did not reach the collector");
        }
    }
}
