//! Asking the tool servers what they list: side by side, until a time that the operator sets, and
//! until a signal.

use super::source::{FoundServer, FoundServers, FoundTransport};
use crate::cli::configured;
use crate::cli::listed_tools::{ListedTools, listed_until};
use crate::config::Config;
use crate::mcp::pretty::plain;
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::ids::ServerName;
use crate::policy::live::LivePolicy;
use anyhow::{Context as _, bail};
use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long all of it may take, unless the operator says otherwise.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// After so long it is said of whom nothing was heard yet.
const PATIENCE: Duration = Duration::from_secs(10);

/// SIGINT and SIGTERM, caught: what was begun is cleared away before the process ends. Once files are
/// being written, they are all written.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// From now on.
    pub(super) fn caught(runtime: &Runtime) -> anyhow::Result<Self> {
        let _inside = runtime.enter();
        let caught = |kind| signal(kind).context("signals cannot be caught");
        Ok(Self {
            interrupt: caught(SignalKind::interrupt())?,
            terminate: caught(SignalKind::terminate())?,
        })
    }

    async fn came(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Why no more is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    Late,
    Interrupted,
}

/// What the servers of `config` list. Those that do not answer within `bound` are named, with what to
/// do; an error where none answers, and where a signal comes.
pub(super) fn connect(
    (runtime, interrupts): (&Runtime, &mut Interrupts),
    (config, policy): (&Config, &Arc<LivePolicy>),
    bound: Duration,
    found: &FoundServers,
    out: &mut impl Write,
) -> anyhow::Result<ListedTools> {
    let names: Vec<&ServerName> = config.servers.keys().collect();
    let shown: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let time = seconds(bound);
    writeln!(out, "connect  {} (up to {time})", shown.join(", "))?;
    out.flush()?;
    let progress = RefCell::new(ConnectProgress {
        out,
        began: Clock.steady(),
        open: names.into_iter().cloned().collect(),
    });
    let ended = std::cell::Cell::new(None);
    let listed = runtime.block_on(async {
        let end = async {
            let late = async {
                tokio::time::sleep(PATIENCE.min(bound)).await;
                if bound > PATIENCE {
                    progress.borrow_mut().waits();
                    tokio::time::sleep(bound.saturating_sub(PATIENCE)).await;
                }
            };
            let why = tokio::select! {
                () = late => WaitEnd::Late,
                () = interrupts.came() => WaitEnd::Interrupted,
            };
            ended.set(Some(why));
        };
        let mut heard = |name: &ServerName, said: Result<usize, &str>| {
            progress.borrow_mut().heard(name, said);
        };
        listed_until(config, policy, end, &mut heard).await
    })?;
    if ended.get() == Some(WaitEnd::Interrupted) {
        bail!("interrupted: nothing was written");
    }
    for (server, why) in &listed.quarantined {
        let why = plain(why);
        writeln!(
            progress.borrow_mut().out,
            "  {server}: a tool is quarantined, and gets no contract: {why}"
        )?;
    }
    problems(&listed, found, &time);
    if listed.offers.is_empty() {
        bail!("nothing was written: no server answers");
    }
    Ok(listed)
}

/// Names what does not answer, and says what to do.
fn problems(listed: &ListedTools, found: &FoundServers, time: &str) {
    for (server, why) in &listed.down {
        let why = plain(why);
        configured::say(&format!("problem  {server} does not answer: {why}"));
    }
    for server in &listed.silent {
        let own = found
            .servers
            .iter()
            .find(|known| known.name == server.as_str());
        let reached = own.map(reached).unwrap_or_default();
        configured::say(&format!(
            "problem  {server} has not answered in {time}: {reached}; `--timeout 2m` waits longer, `--skip {server}` leaves it out"
        ));
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

struct ConnectProgress<'o, W> {
    out: &'o mut W,
    began: Duration,
    open: Vec<ServerName>,
}

impl<W: Write> ConnectProgress<'_, W> {
    /// One server was tried. That nobody reads what is said is no reason to stop.
    fn heard(&mut self, name: &ServerName, said: Result<usize, &str>) {
        self.open.retain(|open| open != name);
        let time = seconds(Clock.steady().saturating_sub(self.began));
        let what = said.map_or_else(|_| "no answer".to_owned(), |tools| counted(tools, "tool"));
        drop(writeln!(self.out, "  {name}: {what} ({time})"));
        drop(self.out.flush());
    }

    fn waits(&mut self) {
        let time = seconds(PATIENCE);
        for name in &self.open {
            drop(writeln!(self.out, "  {name}: no answer yet ({time})"));
        }
        drop(self.out.flush());
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
