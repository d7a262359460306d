//! `toolgate serve`: agents on one listener, operators on the other, until a signal.

use super::configured::{self, DataArgs};
use super::released::{self, Released};
use super::runtime::runtime;
use crate::app::doors::OpenDoors;
use crate::app::{App, ledger};
use crate::config::{self, Config, ServerConfig, ServerCredentials, TransportConfig};
use crate::guards::Mode;
use crate::model::ids::ServerName;
use crate::owners::keep_private;
use crate::policy::live::{LivePolicy, LoadResult};
use crate::store::incidents::{IncidentEvidence, RunPacks};
use crate::telemetry;
use anyhow::Context as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// What to serve.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: DataArgs,
    /// Without a configuration: observe the tool server at this address; every call is recorded,
    /// none refused
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    upstream: Option<url::Url>,
}

/// What operators need for incidents, beside a toolgate that serves.
pub(super) struct IncidentWork {
    /// Runs the test packs beside the policies of a configuration, for incidents that are to be closed.
    pub(super) packs: fn(PathBuf) -> Arc<RunPacks>,
    /// What there is about incidents, with the file that the configuration is from.
    pub(super) evidence: fn(Option<PathBuf>, &Config) -> Arc<dyn IncidentEvidence>,
}

/// The same, of one configuration.
struct ServedIncidents {
    packs: Option<Arc<RunPacks>>,
    evidence: Arc<dyn IncidentEvidence>,
}

/// Serves until a signal.
pub(super) fn run(
    args: &Args,
    log: Option<String>,
    incidents: &IncidentWork,
) -> anyhow::Result<u8> {
    keep_private();
    let (config, released) = prepare(args)?;
    let named = args.place.config.as_deref();
    let path = configured::path(named).ok();
    let path = path.filter(|_| args.upstream.is_none());
    let incidents = ServedIncidents {
        evidence: (incidents.evidence)(path.clone(), &config),
        packs: path.map(incidents.packs),
    };
    runtime()?.block_on(async {
        let settings = telemetry::TelemetrySettings::read(log, |name| std::env::var(name).ok())?;
        let mut telemetry = telemetry::start(&settings, &tokio::runtime::Handle::current())?;
        let served = Box::pin(serve(config, released, incidents, &mut telemetry)).await;
        telemetry.stop().await;
        served.map(|()| 0)
    })
}

fn prepare(args: &Args) -> anyhow::Result<(Config, Released)> {
    if let Some(url) = &args.upstream {
        let transport = TransportConfig::Http {
            url: url.clone(),
            headers: std::collections::BTreeMap::new(),
            credentials: ServerCredentials::default(),
        };
        let (config, released) =
            without_file(ServerConfig::new(ServerName::new("upstream"), transport))?;
        return Ok((args.place.apply(config)?, released));
    }
    released::load(&args.place)
}

/// One server, observed, without a file.
pub(super) fn without_file(server: ServerConfig) -> anyhow::Result<(Config, Released)> {
    let (config, reading) = config::without_file(server.clone(), Mode::Observe);
    let again = move || -> LoadResult { config::without_file(server.clone(), Mode::Observe).1 };
    let policy = LivePolicy::start(reading, again).context("the policy cannot be used")?;
    Ok((config, Released::unkept(policy)))
}

async fn serve(
    mut config: Config,
    released: Released,
    incidents: ServedIncidents,
    telemetry: &mut telemetry::Telemetry,
) -> anyhow::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let doors = OpenDoors::open(&config)?;
    // Port 0 is a port of the system's choice; agents name the one it became.
    config.listen = doors.agents.address()?;
    let ledger = ledger::open(&config).await?;
    let policy = released.keep(&config.data);
    let ServedIncidents { packs, evidence } = incidents;
    let mut app = App::start(&config, &policy, ledger)?.with_evidence(evidence);
    if let Some(packs) = packs {
        app = app.with_packs(packs);
    }
    announce(&doors)?;
    app.follow_policy();
    telemetry.export_metrics(app.scrapes());
    telemetry::tasks::spawn("hangup", async move {
        while hangup.recv().await.is_some() {
            policy.ask();
        }
    });
    let until = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = app.failed() => return,
        }
        tracing::info!("stopping: calls in flight end first");
    };
    app.serve(doors, until).await;
    app.stop().await
}

fn announce(doors: &OpenDoors) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    // Nobody need read this; a closed standard output is no reason not to serve.
    let _ = out.write_all(doors.announced()?.as_bytes());
    let _ = out.flush();
    Ok(())
}
