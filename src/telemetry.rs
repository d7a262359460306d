//! Floor 1: what operators see of a running toolgate.

#[cfg(test)]
mod captured_log;
pub(crate) mod logs;
pub mod metrics;
pub(crate) mod otlp;
pub(crate) mod paced_log;
pub(crate) mod recent_problems;
pub mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod traces;

use logs::LogFormat;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use otlp::endpoint::{BadOtlpEndpoint, OtlpEndpoint, OtlpSignal, milliseconds};
use otlp::post::OnRuntime;
use otlp::records::{self, RecordExport, RecordLayer};
use otlp::scrapes::{self, ScrapeExport};
use recent_problems::{ProblemKeeper, RECENT_PROBLEMS};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Dispatch;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

/// How long the last of what is exported may take to reach the collector when toolgate stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How often metrics leave where the environment does not say.
const METRICS_INTERVAL: Duration = Duration::from_mins(1);
/// How long log records gather where the environment does not say.
const RECORDS_GATHER: Duration = Duration::from_secs(1);

/// A layer among others, each with a filter of its own.
type AnyLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// What an operator can choose.
#[derive(Debug)]
pub struct TelemetrySettings {
    /// Which log lines are written; see [`logs::level`].
    pub log: String,
    /// How they look.
    pub shape: LogFormat,
    /// The collector for traces; none means no spans are made at all.
    pub traces: Option<OtlpEndpoint>,
    /// The collector for metrics, which a scrape shows in any case.
    pub metrics: Option<ScrapeExport>,
    /// The collector for log records, which standard error has as lines in any case.
    pub records: Option<RecordExport>,
}

impl TelemetrySettings {
    /// What the command line (`--log`) says, then the environment (`RUST_LOG`, `OTEL_…`,
    /// `TOOLGATE_OTLP_LOG`), then: `info`, nothing for a collector, and for one that is named
    /// warnings and errors.
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
        let interval = milliseconds("OTEL_METRIC_EXPORT_INTERVAL", METRICS_INTERVAL, &variables)?;
        let gather = milliseconds("OTEL_BLRP_SCHEDULE_DELAY", RECORDS_GATHER, &variables)?;
        let chosen = variables("TOOLGATE_OTLP_LOG").filter(|level| !level.trim().is_empty());
        let level = chosen.unwrap_or_else(|| "warn".to_owned());
        let to = |signal| OtlpEndpoint::read(signal, &variables);
        Ok(Self {
            log: log.unwrap_or_else(|| "info".to_owned()),
            shape: LogFormat::of_stderr(),
            traces: to(OtlpSignal::Traces)?,
            metrics: to(OtlpSignal::Metrics)?.map(|endpoint| ScrapeExport { endpoint, interval }),
            records: to(OtlpSignal::Logs)?.map(|endpoint| RecordExport {
                endpoint,
                level,
                gather,
            }),
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
    Endpoint(#[from] BadOtlpEndpoint),
    /// Traces cannot be exported.
    #[error(transparent)]
    Traces(#[from] traces::NotStarted),
    /// Metrics or log records cannot be exported.
    #[error("metrics and logs need the machine's root certificates: {0}")]
    Certificates(#[from] std::io::Error),
    /// It was started before in this process.
    #[error("logging was already started in this process")]
    Twice(#[from] tracing::dispatcher::SetGlobalDefaultError),
}

/// Running telemetry. Stop it last, or the last of what is exported is lost.
#[derive(Debug)]
#[must_use = "what is exported is flushed by `stop`"]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
    scrapes: Option<(OnRuntime, Duration)>,
    exports: Vec<JoinHandle<()>>,
    stop: CancellationToken,
}

/// Starts logs, and what is exported if a collector is set, for the whole process. `runtime`
/// carries the requests to the collector.
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
    let mut telemetry = Telemetry {
        provider: None,
        scrapes: None,
        exports: Vec::new(),
        stop: CancellationToken::new(),
    };
    if let Some(export) = &settings.metrics {
        let collector = OnRuntime::new(OtlpSignal::Metrics, &export.endpoint, runtime.clone())?;
        telemetry.scrapes = Some((collector, export.interval));
    }
    let mut exported = Vec::new();
    if let Some(endpoint) = &settings.traces {
        let provider = traces::provider(endpoint, runtime.clone())?;
        exported.push(spans(provider.tracer("toolgate")));
        telemetry.provider = Some(provider);
    }
    let mut whole = Arc::default();
    if let Some(export) = &settings.records {
        let layer = telemetry.records(export, runtime)?;
        whole = Arc::clone(&layer.dispatch);
        let level = logs::exported_level(&export.level)?;
        exported.push(layer.with_filter(level).boxed());
    }
    let problems = ProblemKeeper(&RECENT_PROBLEMS);
    let dispatch = if exported.is_empty() {
        let lines = logs::layer(settings.shape, writer);
        Dispatch::new(Registry::default().with(level).with(lines).with(problems))
    } else {
        // Log lines, spans and records choose separately, so that none turns up in another.
        let lines = logs::layer(settings.shape, writer).and_then(problems);
        exported.push(lines.with_filter(level).boxed());
        Dispatch::new(Registry::default().with(exported))
    };
    // Set once: it was made here.
    let _ = whole.set(dispatch.downgrade());
    Ok((dispatch, telemetry))
}

fn spans(tracer: SdkTracer) -> AnyLayer {
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_filter(filter_fn(|metadata| {
            metadata.is_span() && metadata.target() == traces::SPAN_TARGET
        }))
        .boxed()
}

impl Telemetry {
    /// Begins to send log records; the layer that makes them.
    fn records(
        &mut self,
        export: &RecordExport,
        runtime: &Handle,
    ) -> Result<RecordLayer, StartError> {
        let collector = OnRuntime::new(OtlpSignal::Logs, &export.endpoint, runtime.clone())?;
        let (layer, made) = records::layer();
        let sending = records::export(made, collector, export.gather, self.stop.clone());
        let _entered = runtime.enter();
        self.exports.push(tasks::spawn("log records", sending));
        Ok(layer)
    }

    /// From now on the collector for metrics, if one is set, is sent what `scrape` gives in
    /// `OpenMetrics`.
    pub fn export_metrics(&mut self, scrape: impl Fn() -> String + Send + Sync + 'static) {
        if let Some((collector, interval)) = self.scrapes.take() {
            let sending = scrapes::export(scrape, collector, interval, self.stop.clone());
            self.exports.push(tasks::spawn("metrics", sending));
        }
    }

    /// Sends the last of all that is exported; takes five seconds at most.
    pub async fn stop(self) {
        self.stop.cancel();
        let exports = self.exports;
        let sent = tokio::time::timeout(FLUSH_TIMEOUT, async move {
            for export in exports {
                // One that panicked has said so.
                let _ = export.await;
            }
        });
        let (sent, flushed) = tokio::join!(sent, flush(self.provider));
        if !flushed {
            tracing::warn!("the last traces did not reach the collector");
        }
        if sent.is_err() {
            tracing::warn!("the last metrics or log records did not reach the collector");
        }
    }
}

/// Sends the last spans; whether the collector took them.
async fn flush(provider: Option<SdkTracerProvider>) -> bool {
    let Some(provider) = provider else {
        return true;
    };
    // The library blocks while it flushes, and the requests need this runtime meanwhile.
    let flushed =
        tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT)).await;
    matches!(flushed, Ok(Ok(())))
}
