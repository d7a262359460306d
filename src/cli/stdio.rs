//! `toolgate stdio -- command…`: one stdio tool server behind toolgate's own standard input and
//! output.

use super::configured::{self, DataArgs};
use super::serve::{runtime, without_file};
use crate::app::{App, ledger};
use crate::config::{self, Ledger, Loaded, ServerConfig, TransportConfig};
use crate::downstream::stdio::serve;
use crate::guards::identity;
use crate::model::ids::{AgentId, ServerName};
use crate::model::scope::Scope;
use crate::model::secret::Secret;
use crate::owners::keep_private;
use crate::policy::live::LivePolicy;
use crate::store::journal::{Journal, JournalError, JournalOptions};
use crate::telemetry;
use crate::upstream::child::sandbox::Sandbox;
use anyhow::{Context as _, bail};
use std::path::PathBuf;
use std::sync::Arc;

/// Places for ledgers without a configuration.
const MAX_LEDGER_DIRECTORIES: u32 = 100;

/// What to wrap.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// With a configuration: the server of it to wrap, if it has several; a COMMAND stands in for
    /// that server's own.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// With a configuration: the agent that calls, as `callers` names it
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    #[command(flatten)]
    place: DataArgs,
    /// The tool server's command; its environment is toolgate's own.
    #[arg(
        last = true,
        value_name = "COMMAND",
        required_unless_present = "config"
    )]
    command: Vec<String>,
}

/// Serves one agent until it closes its end.
pub(super) fn run(args: &Args, log: Option<String>) -> anyhow::Result<u8> {
    keep_private();
    let (mut config, policy) = prepare(args)?;
    let runtime = runtime()?;
    // Operators have no door here, so none of them can be asked.
    config.admin.tokens.clear();
    config = args.place.apply(config)?;
    let ledger = if args.place.data.is_none() && args.place.config.is_none() {
        let (journal, place) = free_place()?;
        config.data = place;
        ledger::OpenLedger::in_the_open(journal)
    } else {
        runtime.block_on(ledger::open(&config))?
    };
    let name = chosen(args, &config)?;
    config.servers.retain(|known, _| *known == name);
    if let (Some(server), Some(transport)) = (config.servers.get_mut(&name), wrapped(args)) {
        server.transport = transport;
    }
    let agent = args.agent.as_deref().unwrap_or(identity::ANONYMOUS_AGENT);
    let known = policy.current().identity.of_agent(agent);
    known.with_context(|| {
        format!("the configuration has no agent `{agent}`; name one with --agent")
    })?;
    runtime.block_on(async {
        let settings = telemetry::TelemetrySettings::read(log, |name| std::env::var(name).ok())?;
        let telemetry = telemetry::start(&settings, &tokio::runtime::Handle::current())?;
        let app = App::start(&config, &policy, ledger)?;
        app.follow_policy();
        app.door.gate.tools.settled(&name).await;
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        tokio::select! {
            () = serve(app.door.clone(), AgentId::new(agent), Scope::One(name), input, output) => {}
            () = app.failed() => {}
        }
        let stopped = app.stop().await;
        telemetry.stop().await;
        stopped.map(|()| 0)
    })
}

/// An agent may launch several servers, each with a toolgate of its own, and no two share a ledger.
fn free_place() -> anyhow::Result<(Journal, PathBuf)> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = state
        .or_else(home)
        .context("neither XDG_STATE_HOME nor HOME is set; say where the ledger is with --data")?;
    let places =
        (1..MAX_LEDGER_DIRECTORIES).map(|number| base.join(format!("toolgate/stdio-{number}")));
    // As large as any that has a configuration.
    let options = JournalOptions {
        sizes: Ledger::default().sizes(),
        ..JournalOptions::default()
    };
    for place in places {
        std::fs::create_dir_all(base.join("toolgate"))
            .with_context(|| format!("{} cannot be made", base.display()))?;
        match Journal::open(&place, options) {
            Err(JournalError::Locked { .. }) => {}
            opened => return Ok((opened?, place)),
        }
    }
    bail!(
        "all places under {} are in use; say where the ledger is with --data",
        base.display()
    )
}

fn prepare(args: &Args) -> anyhow::Result<(config::Config, Arc<LivePolicy>)> {
    if let Some(path) = &args.place.config {
        let (path, loaded) = configured::load(Some(path))?;
        let Loaded {
            config, reading, ..
        } = loaded;
        let config = config.context("the configuration cannot be used")?;
        let read = config::reader(path, &config);
        return Ok((
            config,
            LivePolicy::start(reading, read).context("the policy cannot be used")?,
        ));
    }
    let Some(transport) = wrapped(args) else {
        bail!(
            "name the tool server's command after `--`, such as: toolgate stdio -- npx -y some-server"
        );
    };
    without_file(ServerConfig::new(ServerName::new("server"), transport))
}

/// The command after `--`; with a configuration it stands in for the chosen server's own.
fn wrapped(args: &Args) -> Option<TransportConfig> {
    let (command, rest) = args.command.split_first()?;
    let env = std::env::vars()
        .map(|(name, value)| (name, Secret::new(value)))
        .collect();
    Some(TransportConfig::Child {
        command: command.clone(),
        args: rest.to_vec(),
        env,
        cwd: None,
        sandbox: Sandbox::default(),
    })
}

fn chosen(args: &Args, config: &config::Config) -> anyhow::Result<ServerName> {
    let servers: Vec<&ServerName> = config.servers.keys().collect();
    match (&args.server, servers.as_slice()) {
        (Some(wanted), servers) => match servers.iter().find(|name| name.as_str() == wanted) {
            Some(name) if config.servers[*name].disabled => {
                bail!("the configuration disables the server `{wanted}`")
            }
            Some(name) => Ok((*name).clone()),
            None => bail!("the configuration has no server `{wanted}`"),
        },
        (None, [only]) => Ok((*only).clone()),
        (None, _) => bail!("the configuration has several servers; choose one with --server"),
    }
}
