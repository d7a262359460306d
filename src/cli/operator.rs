//! What an operator does with the calls and tools of a toolgate: through the operators' door of one
//! that runs, or on its data directory when none does (the lock tells).

use super::configured;
use super::ledger::text::plain;
use super::serve::runtime;
use crate::config::Config;
use crate::mcp::json::Text;
use crate::store::journal::Journal;
use crate::telemetry::tasks;
use anyhow::{Context as _, bail};
use door::{DoorRefusal, DoorRequest};
use serde::de::DeserializeOwned;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use tokio::sync::mpsc;

pub(super) mod direct;
pub(super) mod door;

/// The exit code where a command line cannot be used, as clap has it.
const MISUSE_EXIT_CODE: u8 = 2;

/// Where a running toolgate is, and who asks.
#[derive(Debug, clap::Args)]
pub(super) struct DoorArgs {
    /// The operators' address of the running toolgate, if it is not the configuration's
    #[arg(long, value_name = "IP:PORT", global = true)]
    admin: Option<SocketAddr>,
    /// Which of `admin.tokens` you are, by name; needed when there are several
    #[arg(long = "as", value_name = "NAME", global = true)]
    operator: Option<String>,
}

impl DoorArgs {
    /// The address of the door.
    pub(super) fn address(&self, config: &Config) -> SocketAddr {
        self.admin.unwrap_or(config.admin.listen)
    }

    /// The token to show at the door; none when the configuration has none, so that the door says
    /// what to do.
    fn token<'a>(&self, config: &'a Config) -> anyhow::Result<Option<&'a str>> {
        let tokens = &config.admin.tokens;
        let known = match self.operator.as_deref() {
            Some(named) => {
                let found = tokens.iter().find(|operator| operator.name == named);
                Some(found.with_context(|| {
                    format!(
                        "`admin.tokens` names no operator `{}`",
                        named.escape_debug()
                    )
                })?)
            }
            None if tokens.len() > 1 => {
                bail!("`admin.tokens` names several operators: say with --as who you are")
            }
            None => tokens.first(),
        };
        Ok(known.map(|operator| operator.token.expose()))
    }

    /// What the door answers, or in words why it refuses; `nobody` says what it means when nothing
    /// answers there.
    pub(super) fn ask(
        &self,
        config: &Config,
        request: DoorRequest,
        nobody: &str,
    ) -> anyhow::Result<Result<Text, String>> {
        let (token, address) = (self.token(config)?, self.address(config));
        let answered = runtime()?.block_on(door::ask(address, token, request, nobody))?;
        Ok(answered.map_err(|refused| refused.to_string()))
    }

    /// As [`Self::ask`], within a runtime.
    pub(super) async fn asks(
        &self,
        config: &Config,
        request: DoorRequest,
        nobody: &str,
    ) -> anyhow::Result<Result<Text, DoorRefusal>> {
        let (token, address) = (self.token(config)?, self.address(config));
        door::ask(address, token, request, nobody).await
    }

    /// Something comes for each event of the stream at `path`, until it ends.
    pub(super) fn listen(&self, config: &Config, path: &'static str) -> mpsc::Receiver<()> {
        let (heard, events) = mpsc::channel(1);
        let token = self.token(config).ok().flatten().map(str::to_owned);
        tasks::spawn(
            "events",
            door::listen(self.address(config), token, path, heard),
        );
        events
    }

    /// As [`Self::ask`], of a toolgate that holds the data directory.
    pub(super) fn ask_holder<T: DeserializeOwned>(
        &self,
        config: &Config,
        request: DoorRequest,
    ) -> anyhow::Result<Result<T, String>> {
        let address = self.address(config);
        let nobody = format!(
            "the data directory is a running toolgate's or another user's, and no operators' door answers at {address}; name \
             its address with --admin, or stop it and do this as the directory's owner"
        );
        match self.ask(config, request, &nobody)? {
            Ok(text) => Ok(Ok(text.parse()?)),
            Err(why) => Ok(Err(why)),
        }
    }

    /// What `on_disk` makes of the data directory, or what the toolgate answers that holds it.
    pub(super) fn ask_anyone<T: DeserializeOwned>(
        &self,
        config: &Config,
        request: DoorRequest,
        on_disk: impl AsyncFnOnce(Journal) -> anyhow::Result<Result<T, String>>,
    ) -> anyhow::Result<Result<T, String>> {
        match direct::open(config)? {
            Some(journal) => runtime()?.block_on(on_disk(journal)),
            None => self.ask_holder(config, request),
        }
    }
}

/// Prints what `words` make of an answer, or why there is none; 0 when it was done, 1 when it was
/// refused.
pub(super) fn show<T>(
    answer: Result<T, String>,
    words: impl FnOnce(T) -> anyhow::Result<String>,
) -> anyhow::Result<u8> {
    match answer {
        Ok(answer) => print(&words(answer)?).map(|()| 0),
        Err(why) => {
            configured::say(&format!("toolgate: {}", plain(&why)));
            Ok(1)
        }
    }
}

/// Says why what was typed cannot be used; the exit code for that.
pub(super) fn misused(why: &str) -> u8 {
    configured::say(&format!("toolgate: {}", plain(why)));
    MISUSE_EXIT_CODE
}

/// Prints `text`. The process that reads may have seen enough before its end, as `head` does.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
