//! The ledgers that `toolgate stdio` has kept, each of a server, read by one command.

use super::merged::NamedLedger;
use super::output::LedgerOutput;
use super::text::plain;
use super::{Args, LedgerLocation, LedgerVerb, run_on};
use crate::cli::configured::DataArgs;
use crate::cli::operator;
use crate::cli::printed::is_closed_pipe;
use crate::cli::stdio::places;
use crate::cli::terminal::Terminal;
use crate::config::DataPlace;
use std::io::Write;
use std::path::PathBuf;

/// A ledger that `toolgate stdio` has kept.
pub(super) struct StdioLedger {
    /// The server that was wrapped.
    server: String,
    named: DataArgs,
    found: DataPlace,
}

impl StdioLedger {
    /// That of a server's name and directory.
    pub(super) fn of(server: String, data: PathBuf) -> Self {
        Self {
            server,
            // No configuration is of it, whichever there is where this runs.
            named: DataArgs {
                data: Some(data.clone()),
                config: None,
            },
            found: DataPlace {
                data,
                ..DataPlace::default()
            },
        }
    }

    fn named(&self) -> NamedLedger<'_> {
        NamedLedger {
            server: Some(&self.server),
            place: LedgerLocation {
                data: &self.found.data,
                archive: None,
                named: &self.named,
                place: &self.found,
                terminal: Terminal::stdout(),
            },
        }
    }
}

/// Runs `args` on all that there are here; verbs that are about one ledger are refused.
pub(super) fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
    if let Some(why) = about_one(&args.verb) {
        return Ok(operator::misused(why));
    }
    let places = places::all()?.into_iter();
    let kept: Vec<_> = places
        .map(|(server, data)| StdioLedger::of(server, data))
        .collect();
    if kept.is_empty() {
        anyhow::bail!("`toolgate stdio` has kept no ledger here");
    }
    run_on_all(args, &kept, out, err)
}

/// Why a verb takes one ledger only.
pub(super) fn about_one(verb: &LedgerVerb) -> Option<&'static str> {
    match verb {
        LedgerVerb::Tail(tail) if tail.goes_on() => {
            Some("`ledger tail -f` follows one ledger; name its directory with --data")
        }
        LedgerVerb::Replay(_) => {
            Some("`ledger replay` takes a call of one ledger; name its directory with --data")
        }
        LedgerVerb::List(_)
        | LedgerVerb::Tail(_)
        | LedgerVerb::Events(_)
        | LedgerVerb::Show(_)
        | LedgerVerb::Export(_)
        | LedgerVerb::Verify(_) => None,
    }
}

/// `list` and `show` look at all of `kept` together, other verbs at one after the other. The code is the
/// worst of all; one that cannot be read hides no other.
pub(super) fn run_on_all(
    args: &Args,
    kept: &[StdioLedger],
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let all: Vec<_> = kept.iter().map(StdioLedger::named).collect();
    match &args.verb {
        LedgerVerb::List(list) => {
            let mut output = LedgerOutput::new(out, err);
            let done = list.run(&all, &mut output);
            return output.code_of(done);
        }
        LedgerVerb::Show(show) => return show.run(&all, &mut LedgerOutput::new(out, err)),
        LedgerVerb::Tail(_)
        | LedgerVerb::Events(_)
        | LedgerVerb::Export(_)
        | LedgerVerb::Replay(_)
        | LedgerVerb::Verify(_) => {}
    }
    let mut worst = 0;
    for (ledger, NamedLedger { place, .. }) in kept.iter().zip(&all) {
        let data = place.data.display().to_string();
        writeln!(err, "{}: {}", plain(&ledger.server), plain(&data))?;
        let code = match run_on(args, place, out, err) {
            Ok(code) => code,
            Err(error) if is_closed_pipe(&error) => return Err(error),
            Err(error) => {
                writeln!(err, "toolgate: {}", plain(&format!("{error:#}")))?;
                1
            }
        };
        worst = worst.max(code);
        out.flush()?;
    }
    Ok(worst)
}
