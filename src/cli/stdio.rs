//! `toolgate stdio -- command…`: one stdio tool server behind toolgate's own standard input and
//! output.

use super::configured::{self, DataArgs};
use super::ledger::text::plain;
use super::operator::TOKEN_VARIABLE;
use super::released::{self, Released};
use super::runtime::runtime;
use super::serve::without_file;
use crate::app::{App, ledger};
use crate::config::{self, ServerConfig, TransportConfig};
use crate::downstream::stdio::serve;
use crate::guards::identity;
use crate::model::ids::{AgentId, ServerName};
use crate::model::scope::Scope;
use crate::model::secret::Secret;
use crate::owners::keep_private;
use crate::telemetry;
use crate::upstream::child::sandbox::Sandbox;
use anyhow::{Context as _, bail};
use std::collections::BTreeMap;

mod naming;
pub(super) mod places;

/// What to wrap.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// With a configuration: the server of it to wrap, if it has several; a COMMAND stands in for
    /// that server's own. Without one: the server's name, in place of its program's
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// With a configuration: the agent that calls, as `callers` names it
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    #[command(flatten)]
    place: DataArgs,
    /// The tool server's command; its environment is toolgate's own, without `OPERATOR_TOKEN`.
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
    let (mut config, released) = prepare(args)?;
    let runtime = runtime()?;
    // Operators have no door here, so none of them can be asked.
    config.admin.have_no_door();
    let name = chosen(args, &config)?;
    let ledger = if args.place.data.is_none() && args.place.config.is_none() {
        let (journal, place) = places::free_place(name.as_str())?;
        config.data = place;
        ledger::OpenLedger::in_the_open(journal)
    } else {
        runtime.block_on(ledger::open(&config))?
    };
    let policy = released.keep(&config.data);
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
        let mut telemetry = telemetry::start(&settings, &tokio::runtime::Handle::current())?;
        let app = App::start(&config, &policy, ledger)?;
        app.follow_policy();
        telemetry.export_metrics(app.scrapes());
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

fn prepare(args: &Args) -> anyhow::Result<(config::Config, Released)> {
    if args.place.config.is_some() {
        return released::load(&args.place);
    }
    let Some(transport) = wrapped(args) else {
        bail!(
            "name the tool server's command after `--`, such as: toolgate stdio -- npx -y some-server"
        );
    };
    let name = match &args.server {
        Some(name) => checked_name(name)?.to_owned(),
        None => naming::name_of(&args.command),
    };
    let (config, released) = without_file(ServerConfig::new(ServerName::new(&name), transport))?;
    Ok((args.place.apply(config)?, released))
}

fn checked_name(name: &str) -> anyhow::Result<&str> {
    match config::why_no_server_name(name) {
        None => Ok(name),
        Some(hint) => bail!("`{name}` is no name for a server: {hint}"),
    }
}

/// The command after `--`; with a configuration it stands in for the chosen server's own.
fn wrapped(args: &Args) -> Option<TransportConfig> {
    let (command, rest) = args.command.split_first()?;
    let mut env = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        // It would let the tool server decide as the operator does.
        if name == TOKEN_VARIABLE {
            continue;
        }
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            env.insert(name.to_owned(), Secret::new(value.to_owned()));
        } else {
            let name = plain(&name.to_string_lossy());
            configured::say(&format!(
                "toolgate: the tool server is not given the variable {name}, which is not UTF-8"
            ));
        }
    }
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
