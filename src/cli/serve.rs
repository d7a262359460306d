//! `toolgate serve`: agents on one listener, operators on the other, until a signal.

use super::configured::{self, DataArgs};
use super::released::{self, Released};
use crate::app::{App, bind, ledger};
use crate::config::{self, Config, ServerConfig, TransportConfig};
use crate::guards::Mode;
use crate::model::ids::ServerName;
use crate::owners::keep_private;
use crate::policy::live::{LivePolicy, LoadResult};
use crate::store::incidents::RunPacks;
use crate::telemetry;
use anyhow::Context as _;
use futures_util::future::select_all;
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

/// Serves until a signal. `packs` runs the test packs beside the policies of a configuration, for incidents
/// that are to be closed.
pub(super) fn run(
    args: &Args,
    log: Option<String>,
    packs: fn(PathBuf) -> Arc<RunPacks>,
) -> anyhow::Result<u8> {
    keep_private();
    let (config, released) = prepare(args)?;
    let named = args.place.config.as_deref();
    let path = configured::path(named).ok();
    let packs = path.filter(|_| args.upstream.is_none()).map(packs);
    runtime()?.block_on(async {
        let settings = telemetry::TelemetrySettings::read(log, |name| std::env::var(name).ok())?;
        let telemetry = telemetry::start(&settings, &tokio::runtime::Handle::current())?;
        let served = Box::pin(serve(config, released, packs)).await;
        telemetry.stop().await;
        served.map(|()| 0)
    })
}

/// The runtime of all verbs that serve. A sidecar shares its machine with the agent and the tool
/// servers: half of the cores are enough, and a call that stays on one thread costs less than one
/// that wakes others on its way. `TOKIO_WORKER_THREADS` says otherwise.
pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        runtime.worker_threads(cores.div_ceil(2));
    }
    let runtime = runtime
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    outlive_small_files(&runtime).context("signals cannot be caught")?;
    Ok(runtime)
}

/// A process of toolgate's account can lower how large its files may get, which would end it at its
/// next write. Caught, the write fails as on a full disk. Not ignored: programs inherit ignored
/// signals, caught ones go back to what they do by default.
fn outlive_small_files(runtime: &tokio::runtime::Runtime) -> std::io::Result<()> {
    let _inside = runtime.enter();
    let signal_of_size = rustix::process::Signal::XFSZ.as_raw();
    signal(SignalKind::from_raw(signal_of_size)).map(drop)
}

/// Done once the process is told to end.
pub(super) async fn told_to_end() {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::quit(),
        SignalKind::hangup(),
    ];
    let told = kinds.map(|kind| {
        Box::pin(async move {
            match signal(kind) {
                Ok(mut told) => {
                    told.recv().await;
                }
                Err(_) => std::future::pending().await,
            }
        })
    });
    select_all(told).await;
}

fn prepare(args: &Args) -> anyhow::Result<(Config, Released)> {
    if let Some(url) = &args.upstream {
        let transport = TransportConfig::Http {
            url: url.clone(),
            headers: std::collections::BTreeMap::new(),
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
    packs: Option<Arc<RunPacks>>,
) -> anyhow::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let agents = bind(config.listen, "agents").await?;
    let operators = bind(config.admin.listen, "operators").await?;
    // Port 0 is a port of the system's choice; agents name the one it became.
    config.listen = agents.local_addr()?;
    let ledger = ledger::open(&config).await?;
    let policy = released.keep(&config.data);
    let mut app = App::start(&config, &policy, ledger)?;
    if let Some(packs) = packs {
        app = app.with_packs(packs);
    }
    announce(&agents, &operators)?;
    app.follow_policy();
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
    app.serve(agents, operators, until).await;
    app.stop().await
}

fn announce(
    agents: &tokio::net::TcpListener,
    operators: &tokio::net::TcpListener,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    // Nobody need read this; a closed standard output is no reason not to serve.
    let _ = writeln!(out, "agents:    http://{}/mcp", agents.local_addr()?);
    let _ = writeln!(out, "operators: http://{}", operators.local_addr()?);
    let _ = out.flush();
    Ok(())
}
