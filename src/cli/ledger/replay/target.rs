//! Which server a call is run against once more, as the operator names it.

use super::elsewhere::{self, OwnPlace};
use super::hosts::HostDirectory;
use crate::cli::{configured, timeouts};
use crate::config::{Config, ServerConfig, ServerCredentials, TransportConfig};
use crate::model::ids::ServerName;
use crate::model::secret::Secret;
use crate::upstream::child::sandbox::Sandbox;
use anyhow::{Context as _, bail};
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Times that a call is sent at most.
const MAX_TIMES: u8 = 10;
/// Variables of toolgate's own environment that a command gets; there may be secrets among others.
const PASSED_VARIABLES: [&str; 9] = [
    "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER",
];

/// The sandbox.
#[derive(Debug, clap::Args)]
pub(super) struct SandboxArgs {
    /// Run the call once more against this server, and compare what comes back: an http(s) URL, a
    /// server of --sandbox-config, or with nothing behind it the COMMAND after `--`. 0: stable, 1: it
    /// differs, 2: it could not be replayed
    #[arg(long, value_name = "TARGET", num_args = 0..=1, default_missing_value = "")]
    sandbox: Option<String>,
    /// Another configuration, whose server TARGET is meant
    #[arg(long, value_name = "FILE", requires = "sandbox")]
    sandbox_config: Option<PathBuf>,
    /// Let the sandbox be a server of the configuration itself; only for a call that its contract
    /// calls `actions: [read]`
    #[arg(long, requires = "sandbox")]
    pub(super) same_server: bool,
    /// How long the sandbox may take to start, and then to answer [default: 30s, at most 10m]
    #[arg(long, value_name = "TIME", requires = "sandbox", value_parser = timeouts::timeout)]
    pub(super) timeout: Option<Duration>,
    /// Send it so often, one after the other, and say whether the sandbox itself answers alike; at
    /// most 10
    #[arg(long, value_name = "N", requires = "sandbox", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_TIMES)))]
    pub(super) times: u8,
    /// The command of a stdio server, after --sandbox; of toolgate's environment it gets PATH, HOME and
    /// the like alone: `-- env NAME=VALUE some-server` gives it more
    #[arg(last = true, value_name = "COMMAND", requires = "sandbox")]
    command: Vec<String>,
}

impl SandboxArgs {
    /// Whether there is one.
    pub(super) fn is_named(&self) -> bool {
        self.sandbox.is_some()
    }

    /// The server that is named, to stand in for `name` of the configuration; refused where it is one
    /// of these itself, unless it may be.
    pub(super) fn server(
        &self,
        name: &ServerName,
        config: &Config,
        may_be_own: bool,
    ) -> anyhow::Result<ServerConfig> {
        let server = self.named(name, config)?;
        match elsewhere::own(&server.transport, config, &HostDirectory::OF_MACHINE) {
            None => Ok(server),
            Some(OwnPlace::Server(_)) if self.same_server && may_be_own => Ok(server),
            Some(OwnPlace::Door) => bail!(
                "the sandbox is toolgate itself, with the servers of the configuration behind it: name another server"
            ),
            Some(OwnPlace::Server(own)) if self.same_server => bail!(
                "the sandbox is the server `{own}` of the configuration, and the call does not only read: it is not sent \
                 there again, --same-server or not"
            ),
            Some(OwnPlace::Server(own)) => bail!(
                "the sandbox is the server `{own}` of the configuration: name another one (another name or query of its \
                 address is none); only a call whose contract says `actions: [read]` may be sent there again, with --same-server"
            ),
        }
    }

    fn named(&self, name: &ServerName, config: &Config) -> anyhow::Result<ServerConfig> {
        let target = self.sandbox.as_deref().filter(|target| !target.is_empty());
        let transport = match (target, self.command.split_first(), &self.sandbox_config) {
            (Some(_), Some(_), _) | (None, Some(_), Some(_)) => {
                bail!("name one sandbox: a TARGET behind --sandbox, or a command after `--`")
            }
            (None, None, _) => bail!(
                "name the sandbox: --sandbox URL, --sandbox SERVER --sandbox-config FILE, or --sandbox -- COMMAND"
            ),
            (Some(target), None, Some(file)) => {
                let other = configured::process(file)?;
                let server = other.servers.get(target).with_context(|| {
                    let known: Vec<&str> = other.servers.keys().map(ServerName::as_str).collect();
                    format!(
                        "{} has no server `{}`, only: {}",
                        file.display(),
                        target.escape_debug(),
                        known.join(", ")
                    )
                })?;
                return Ok(ServerConfig {
                    name: name.clone(),
                    disabled: false,
                    ..server.clone()
                });
            }
            (Some(target), None, None) => TransportConfig::Http {
                url: address(target)?,
                headers: std::collections::BTreeMap::new(),
                credentials: ServerCredentials::default(),
            },
            (None, Some((program, rest)), None) => command(program, rest),
        };
        // It is taken to be the same software, with answers of the same size.
        Ok(match config.servers.get(name) {
            Some(known) => ServerConfig {
                transport,
                disabled: false,
                ..known.clone()
            },
            None => ServerConfig::new(name.clone(), transport),
        })
    }
}

fn address(target: &str) -> anyhow::Result<Url> {
    let url = Url::parse(target).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.with_context(|| {
        format!(
            "`{}` is no http or https URL; for a server of another configuration add --sandbox-config FILE, for a \
             command write --sandbox -- COMMAND",
            target.escape_debug()
        )
    })
}

fn command(program: &str, rest: &[String]) -> TransportConfig {
    let passed = PASSED_VARIABLES.into_iter();
    let env = passed.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    TransportConfig::Child {
        command: program.to_owned(),
        args: rest.to_vec(),
        env: env
            .map(|(name, value)| (name, Secret::new(value)))
            .collect(),
        cwd: None,
        sandbox: Sandbox::default(),
    }
}
