//! `toolgate ledger`: what was called, by whom, and what became of it; and whether the record is as it was written.

use crate::model::clock::Clock;
use crate::store::journal::Head;
use jiff::{SignedDuration, Timestamp};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

mod list;
mod show;
pub(super) mod text;
mod verify;

/// Reads the ledger. toolgate may be running.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// The data directory, as in the configuration
    #[arg(long, value_name = "DIR", global = true)]
    pub data: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List calls, the newest last
    List(List),
    /// Show everything about one call
    Show(Show),
    /// Check that the ledger is as it was written, and print its head
    Verify(Verify),
}

#[derive(Debug, clap::Args)]
struct List {
    /// Only calls by this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only calls of this tool: `server__tool`
    #[arg(long)]
    tool: Option<String>,
    /// Only calls refused with this code, or that enforce mode would have refused with it
    #[arg(long)]
    code: Option<String>,
    /// Only calls with this outcome
    #[arg(long, value_parser = ["answered", "refused", "failed", "unknown"])]
    outcome: Option<String>,
    /// Only calls since then: a time such as 2026-07-28T09:00:00Z, or how long ago, such as 90s, 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Only the newest N calls that fit; 0 for all [default: 50 in a table, 0 with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    limit: Option<u32>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The call's action id, or as much of its beginning as no other call has
    action_id: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Verify {
    /// A head this ledger had before, as `verify` printed it: finds out whether anything up to it was removed or rewritten
    #[arg(long, value_name = "SEQ:HASH")]
    expect_head: Option<Head>,
}

/// Runs `args` on the data directory `data`, to standard output and standard error. Gives the exit code: 0, or 1 when
/// something was not found or not right. An error is for the caller to print, with exit code 1.
pub fn run(args: &Args, data: &Path) -> anyhow::Result<u8> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut err = io::stderr().lock();
    let done = run_on(args, data, &mut out, &mut err);
    let flushed = out.flush().map_err(anyhow::Error::from);
    match done.and_then(|code| flushed.map(|()| code)) {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => Ok(0),
        done => done,
    }
}

fn run_on(args: &Args, data: &Path, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
    match &args.verb {
        Verb::List(list) => list.run(data, out, err),
        Verb::Show(show) => show.run(data, out, err),
        Verb::Verify(verify) => verify.run(data, out),
    }
}

fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let wrong = || "give a time such as 2026-07-28T09:00:00Z, or how long ago, such as 90s, 15m, 2h, 7d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u32 = text.strip_suffix(unit).and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
    let ago = SignedDuration::from_secs(i64::from(count) * seconds);
    Clock.wall().checked_sub(ago).map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
