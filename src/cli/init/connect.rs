//! Asking the tool servers what they list: side by side, until a time that the operator sets, and
//! until a signal.

use super::source::{FoundServer, FoundServers, FoundTransport};
use super::telling::{InitTelling, ServerSaid};
use crate::cli::listed_tools::{ListedTools, ListingWait, listed_until};
use crate::cli::runtime::runtime;
use crate::cli::terminal::progress::{ProgressUnit, WorkProgress};
use crate::config::Config;
use crate::mcp::pretty::plain;
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::ids::ServerName;
use crate::policy::live::LivePolicy;
use anyhow::{Context as _, bail};
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal as _, stdout};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long all of it may take, unless the operator says otherwise.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// After so long it is said of whom nothing was heard yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the servers may take to end after that: one that does not end by itself is killed before.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// A runtime that SIGINT and SIGTERM end, and not the process: what was begun is cleared away first.
/// Once files are being written, they are all written.
pub(super) struct InterruptibleRuntime {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl InterruptibleRuntime {
    /// From now on.
    pub(super) fn new() -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let caught = |kind| {
            let _inside = runtime.enter();
            signal(kind).context("signals cannot be caught")
        };
        let (interrupt, terminate) = (
            caught(SignalKind::interrupt())?,
            caught(SignalKind::terminate())?,
        );
        Ok(Self {
            runtime,
            interrupt,
            terminate,
        })
    }

    /// An error where a signal has come since the servers were asked.
    pub(super) fn not_interrupted(&mut self) -> anyhow::Result<()> {
        let came = self.runtime.block_on(async {
            tokio::select! {
                biased;
                _ = self.interrupt.recv() => true,
                _ = self.terminate.recv() => true,
                // What came is told at once, and nothing else is waited for.
                () = tokio::task::yield_now() => false,
            }
        });
        if came {
            bail!("interrupted: nothing was written");
        }
        Ok(())
    }
}

/// Why no more is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    Late,
    Interrupted,
}

/// What the servers of `config` list within `bound`; an error where a signal comes.
pub(super) fn connect(
    runtime: &mut InterruptibleRuntime,
    config: &Config,
    policy: &Arc<LivePolicy>,
    bound: Duration,
    telling: &mut InitTelling<'_>,
) -> anyhow::Result<ListedTools> {
    let names: Vec<&ServerName> = config.servers.keys().collect();
    let shown: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let time = seconds(bound);
    telling.line(&format!("connect  {} (up to {time})", shown.join(", ")));
    // Where lines say it already, one that changes would stand among them.
    let says_lines = !telling.is_json && stdout().is_terminal();
    let all = u64::try_from(names.len()).ok();
    let bar = WorkProgress::of("asking the tool servers", all, ProgressUnit::Steps);
    let progress = RefCell::new(ConnectProgress {
        bar: bar.unless(says_lines),
        telling,
        began: Clock.steady(),
        open: names.into_iter().cloned().collect(),
    });
    let ended = Cell::new(None);
    let InterruptibleRuntime {
        runtime,
        interrupt,
        terminate,
    } = runtime;
    let listed = runtime.block_on(async {
        let end = async {
            let late = waited(bound, || progress.borrow_mut().waits());
            let why = tokio::select! {
                () = late => WaitEnd::Late,
                _ = interrupt.recv() => WaitEnd::Interrupted,
                _ = terminate.recv() => WaitEnd::Interrupted,
            };
            ended.set(Some(why));
        };
        let mut heard = |name: &ServerName, said: Result<usize, &str>| {
            progress.borrow_mut().heard(name, said);
        };
        let shutdown = SHUTDOWN_TIMEOUT;
        let wait = ListingWait { end, shutdown };
        listed_until(config, policy, wait, &mut heard).await
    })?;
    if ended.get() == Some(WaitEnd::Interrupted) {
        bail!("interrupted: nothing was written");
    }
    for (server, why) in &listed.quarantined {
        let why = plain(why);
        let words = format!("{server}: a tool is quarantined, and gets no contract: {why}");
        progress.borrow_mut().quarantines(&words);
    }
    Ok(listed)
}

/// Over after `bound`; `patience_ends` is told when half of what operators take for granted is over.
async fn waited(bound: Duration, patience_ends: impl FnOnce()) {
    tokio::time::sleep(PATIENCE.min(bound)).await;
    if bound > PATIENCE {
        patience_ends();
        tokio::time::sleep(bound.saturating_sub(PATIENCE)).await;
    }
}

/// Names the servers that have not answered within `bound`, and says what to do; an error where none
/// has.
pub(super) fn judge(
    listed: &ListedTools,
    found: &FoundServers,
    bound: Duration,
    telling: &mut InitTelling<'_>,
) -> anyhow::Result<()> {
    problems(listed, found, bound, telling);
    if listed.offers.is_empty() {
        bail!("nothing was written: no server answers");
    }
    Ok(())
}

/// Names what does not answer, and says what to do.
fn problems(
    listed: &ListedTools,
    found: &FoundServers,
    bound: Duration,
    telling: &mut InitTelling<'_>,
) {
    for (server, why) in &listed.down {
        let why = plain(why);
        telling.problem(&format!("{server} does not answer: {why}"));
    }
    for server in &listed.silent {
        let own = found
            .servers
            .iter()
            .find(|known| known.name == server.as_str());
        let reached = own.map(reached).unwrap_or_default();
        let words = format!(
            "{server} has not answered in {}: {reached}; `--timeout 2m` waits longer, `--skip {server}` leaves it out",
            seconds(bound)
        );
        telling.problem(&words);
        telling.stays_silent(server.as_str(), bound);
    }
}

/// What is started or asked, in words.
fn reached(server: &FoundServer) -> String {
    match &server.reached {
        FoundTransport::Child { command, args, .. } => {
            let words: Vec<String> = std::iter::once(command)
                .chain(args)
                .map(|word| plain(word))
                .collect();
            words.join(" ")
        }
        FoundTransport::Http { url, .. } => plain(url),
    }
}

struct ConnectProgress<'t, 'o> {
    bar: WorkProgress,
    telling: &'t mut InitTelling<'o>,
    began: Duration,
    open: Vec<ServerName>,
}

impl ConnectProgress<'_, '_> {
    /// One server was tried.
    fn heard(&mut self, name: &ServerName, said: Result<usize, &str>) {
        self.bar.step();
        self.open.retain(|open| open != name);
        let took = Clock.steady().saturating_sub(self.began);
        let what = said.map_or_else(|_| "no answer".to_owned(), |tools| counted(tools, "tool"));
        let server = ServerSaid {
            name: name.to_string(),
            state: if said.is_ok() { "listed" } else { "down" },
            tools: said.unwrap_or_default(),
            millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            why: said.err().map(plain),
        };
        let line = format!("  {name}: {what} ({})", seconds(took));
        self.telling.server(&line, server);
    }

    /// A tool that gets no contract, and why.
    fn quarantines(&mut self, words: &str) {
        self.telling.quarantines(words);
    }

    fn waits(&mut self) {
        let time = seconds(PATIENCE);
        for name in &self.open {
            let line = format!("  {name}: no answer yet ({time})");
            self.telling.line(&line);
        }
    }
}

/// `1.2 s`, `20 s`.
fn seconds(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    if tenths.is_multiple_of(10) {
        format!("{} s", tenths / 10)
    } else {
        format!("{}.{} s", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests;
