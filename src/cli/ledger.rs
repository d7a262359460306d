//! `toolgate ledger`: what was called, by whom, and what became of it; and whether the record is as
//! it was written.

use super::configured::{self, DataArgs};
use super::printed::{LastingOutput, is_closed_pipe};
use super::terminal::Terminal;
use super::terminal::progress::{ProgressUnit, WorkProgress};
use crate::config::{DataPlace, Ledger};
use crate::store::journal::Head;
use call_filter::CallFilter;
use merged::NamedLedger;
use output::LedgerOutput;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

pub(super) mod call_filter;
pub(super) mod calls;
mod contents;
pub(super) mod ended;
mod events;
mod export;
mod history;
mod known_names;
mod list;
mod merged;
mod met_names;
mod noted;
mod output;
pub(super) mod recorded;
pub(super) mod recorded_as;
pub(super) mod remaining;
mod replay;
mod resolved;
pub(super) mod scoped;
mod several;
mod show;
mod tail;
pub(super) mod text;
mod undone;
mod verify;

/// Reads the ledger. toolgate may be running.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: LedgerVerb,
    #[command(flatten)]
    place: DataArgs,
    /// Every ledger that `toolgate stdio` has kept without a configuration: `list` in one table with a
    /// column for the server, `show` from whichever has the call, others one after the other; not for
    /// `tail -f` and `replay`
    #[arg(long, global = true, conflicts_with_all = ["data", "config", "archive"])]
    stdio: bool,
    /// Where segments are that the ledger does not need any more; they are read, too [for verify:
    /// as in the configuration]
    #[arg(long, value_name = "DIR", global = true)]
    archive: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum LedgerVerb {
    /// List calls, the newest last
    List(LedgerListArgs),
    /// Show the last calls and events, and with -f each one as it is written
    ///
    /// Reads only: toolgate may be running, and goes on undisturbed.
    Tail(Box<tail::LedgerTailArgs>),
    /// List what happened beside calls: starts and stops, reloads, tools taken away and given back,
    /// definitions that changed
    Events(events::LedgerEventsArgs),
    /// Show everything about one call: how it was judged, what became of it, and who asked again
    Show(LedgerShowArgs),
    /// Write every record as a line of JSON, with its number
    Export(ExportArgs),
    /// Judge a call again under the policy as it is now, or run it once more against a sandbox and
    /// compare what comes back
    ///
    /// Without a sandbox nothing is executed. With one the call goes to the server that is named, and
    /// to no other. A server of the configuration is refused, as far as its address or its command
    /// tells, unless --same-server says so of a call that only reads. Claims, budgets and the ledger
    /// hear nothing of it. No idempotency key goes with it, no fence and no secret.
    Replay(Box<replay::ReplayArgs>),
    /// Check that the ledger is as it was written, and print its head. 0: it is, 1: it is damaged
    /// or forged
    ///
    /// Without a key this proves that nothing was changed by an attacker who did not write
    /// everything after it anew. With the key that seals the ledger, it proves that nobody
    /// without it has changed anything. That the end was not cut off, or all of it exchanged
    /// for an older copy, is proved only by heads that were kept elsewhere.
    Verify(VerifyArgs),
}

#[derive(Debug, clap::Args)]
struct LedgerListArgs {
    #[command(flatten)]
    wanted: CallFilter,
    /// Only calls of which it is not known what became: in flight, or unknown and not resolved since
    #[arg(long)]
    open: bool,
    /// Only the newest N calls that fit; 0 for all [default: 50 in a table, 0 with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    limit: Option<u32>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct LedgerShowArgs {
    /// The call's action id, or as much of its beginning or its end as no other call has
    action_id: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// Also what was sent and what came back, where the contract's `audit` has it kept
    #[arg(long)]
    contents: bool,
    /// A file with the key for contents, with --contents; again for those that encrypted before
    /// [default: as in the configuration]
    #[arg(long, value_name = "FILE", requires = "contents")]
    key: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    #[command(flatten)]
    wanted: CallFilter,
    /// Only records after this number: where the last export ended
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// Only the entries of calls, not the events behind them
    #[arg(long)]
    entries: bool,
    /// Also what was sent and what came back of calls, where their contract's `audit` has it kept
    #[arg(long)]
    contents: bool,
    /// A file with the key for contents, with --contents; again for those that encrypted before
    /// [default: as in the configuration]
    #[arg(long, value_name = "FILE", requires = "contents")]
    key: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// A head this ledger had before, as `verify` printed it: finds out whether anything up to it
    /// was removed or rewritten
    #[arg(long, value_name = "SEQ:HASH")]
    expect_head: Option<Head>,
    /// A file of heads that `ledger.heads` has written: the ledger has to have each of them still
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// A file with the key that seals the ledger; again for those that sealed before [default: as
    /// in the configuration]
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Which ledger is meant.
#[derive(Clone, Copy)]
struct LedgerLocation<'a> {
    data: &'a Path,
    archive: Option<&'a Path>,
    /// What was named.
    named: &'a DataArgs,
    /// What is known of it.
    place: &'a DataPlace,
    /// What reads standard output.
    terminal: Terminal,
}

/// How far the ledger is read, for verbs that read all of it; `step` counts records or calls.
pub(super) fn reading() -> WorkProgress {
    WorkProgress::of("reading the ledger", None, ProgressUnit::Steps)
}

impl LedgerLocation<'_> {
    /// How it is kept; an error where that is not known.
    fn kept(&self) -> anyhow::Result<&Ledger> {
        configured::kept(self.place)
    }
}

impl LedgerVerb {
    /// Whether the exit code answers what was asked, so that it has to be found out though nobody reads the lines.
    fn is_verdict(&self) -> bool {
        match self {
            Self::Show(_) | Self::Replay(_) | Self::Verify(_) => true,
            Self::List(_) | Self::Tail(_) | Self::Events(_) | Self::Export(_) => false,
        }
    }
}

/// Runs `args` on the ledger that is named, to standard
/// output and standard error. Gives the exit code: 0, or 1 when something was not found or not
/// right. An error is for the caller to print, with exit code 1.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut out = BufWriter::new(io::stdout().lock());
    // That nobody reads why something was not found does not change that it was not.
    let mut err = LastingOutput(io::stderr().lock());
    if args.verb.is_verdict() {
        run_to(args, &mut LastingOutput(out), &mut err)
    } else {
        run_to(args, &mut out, &mut err)
    }
}

fn run_to(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
    if args.stdio {
        let done = several::run(args, out, err);
        return flushed(done, out);
    }
    let found = args.place.place()?;
    let place = LedgerLocation {
        data: &found.data,
        archive: args.archive.as_deref(),
        named: &args.place,
        place: &found,
        terminal: Terminal::stdout(),
    };
    let done = run_on(args, &place, out, err);
    flushed(done, out)
}

/// What was done, once all of it is written; what was found before nobody read any more counts.
fn flushed(done: anyhow::Result<u8>, out: &mut dyn Write) -> anyhow::Result<u8> {
    let flushed = out.flush().map_err(anyhow::Error::from);
    match (done, flushed) {
        (Ok(code), Err(error)) if is_closed_pipe(&error) => Ok(code),
        (Err(error), _) if is_closed_pipe(&error) => Ok(0),
        (done, flushed) => done.and_then(|code| flushed.map(|()| code)),
    }
}

fn run_on(
    args: &Args,
    place: &LedgerLocation<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let mut output = LedgerOutput::new(out, err);
    let (server, one) = (None, *place);
    let one = [NamedLedger { server, place: one }];
    let done = match &args.verb {
        LedgerVerb::List(list) => list.run(&one, &mut output),
        LedgerVerb::Tail(tail) => tail.run(place, &mut output),
        LedgerVerb::Events(events) => events.run(place, &mut output),
        LedgerVerb::Show(show) => show.run(&one, &mut output),
        LedgerVerb::Export(export) => export.run(place, &mut output),
        LedgerVerb::Replay(replay) => replay.run(place, &mut output),
        LedgerVerb::Verify(verify) => verify.run(place, output.out),
    };
    output.code_of(done)
}

#[cfg(test)]
mod tests;
