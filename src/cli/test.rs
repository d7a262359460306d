//! `toolgate test`: test packs, calls that nobody makes, and whether the policies say of them what
//! is expected. Nothing is executed, connected to or started, but for `--drill`.

pub(super) mod add;
mod coverage;
mod drill;
pub(super) mod find;
pub(super) mod incident_proof;
mod machine;
mod replay_ledger;
pub(super) mod required;
mod rollbacks;
mod suite;
mod violations;
mod words;

use super::configured::DataArgs;
use super::ledger::call_filter::CallFilter;
use super::ledger::recorded_as::RecordedAs;
use super::operator;
use super::printed::print;
use anyhow::bail;
use find::FoundPacks;
use std::fmt::Write as _;
use std::path::PathBuf;
use suite::{SampleVerdict, Suites};

/// What to test.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<TestVerb>,
    #[command(flatten)]
    place: DataArgs,
    /// Test packs, or directories with packs in a directory `tests` [default: `tests` beside the
    /// configured policies]
    paths: Vec<PathBuf>,
    /// Only what is not as expected
    #[arg(long, short)]
    quiet: bool,
    /// Also which answers of which contracts no sample reaches, and which rollbacks none tries
    #[arg(long)]
    coverage: bool,
    /// The report as JSON
    #[arg(long)]
    json: bool,
    /// Also write the report to this file as XML, as `JUnit` does
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Judge recorded calls again instead, and say what would change under the policy as it is
    /// now. 1: something would
    #[arg(long, value_name = "SOURCE", value_parser = ["ledger"], conflicts_with_all = ["junit", "coverage", "quiet"])]
    replay: Option<String>,
    /// Arguments of recorded calls, an object a line: the ledger keeps their hash, and finds whose
    /// they are
    #[arg(long, value_name = "FILE", requires = "replay")]
    arguments: Option<PathBuf>,
    #[command(flatten)]
    drill: drill::DrillArgs,
    #[command(flatten)]
    forbidden: violations::ViolationArgs,
    #[command(flatten)]
    judged_as: RecordedAs,
    #[command(flatten)]
    wanted: CallFilter,
}

#[derive(Debug, clap::Subcommand)]
enum TestVerb {
    /// Make a sample of a recorded call
    Add(add::Add),
}

/// Runs the packs. 0: all is as expected; 1: something is not, or a pack lacks what it has to hold; 2:
/// the configuration cannot say where they are.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut text = String::new();
    let code = run_into(args, &mut text)?;
    print(&text)?;
    Ok(code)
}

fn run_into(args: &Args, out: &mut String) -> anyhow::Result<u8> {
    if args.drill.drill {
        return drill::run(args, out);
    }
    match (&args.verb, &args.replay) {
        (Some(TestVerb::Add(add)), _) => add.run(&args.place, out),
        (None, Some(_)) if args.forbidden.violations => violations::run(args, out),
        (None, Some(_)) => replay_ledger::run(args, out),
        (None, None) if args.judged_as.is_said() => {
            bail!("--as says whose recorded calls are judged as whose: give --replay ledger, too")
        }
        (None, None) if args.place.data.is_some() => {
            bail!("--data says where recorded calls are: give --replay ledger, too")
        }
        (None, None) => judge(args, out),
    }
}

fn judge(args: &Args, out: &mut String) -> anyhow::Result<u8> {
    let named = args.place.config.as_deref();
    let found = if args.paths.is_empty() {
        find::configured_packs(named)?
    } else {
        FoundPacks::Packs(find::packs(&args.paths)?)
    };
    let (suites, is_known) = match found {
        FoundPacks::Packs(packs) => (Suites::run(&packs, named)?, true),
        FoundPacks::Unknown(diagnostics) => (Suites::of_none(diagnostics), false),
    };
    if let Some(path) = &args.junit {
        let mut text = String::new();
        machine::junit(&suites, &mut text)?;
        std::fs::write(path, text)?;
    }
    if args.json {
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&machine::json(&suites))?
        )?;
    } else {
        words::write(&suites, args.quiet, args.coverage, out)?;
    }
    if !is_known {
        return Ok(operator::misused(
            "no test packs were looked for: only a configuration that can be read says where they are",
        ));
    }
    Ok(u8::from(!is_fine(&suites)))
}

/// Whether these packs can be run, and all is as expected.
pub(super) fn is_as_expected(packs: &[PathBuf]) -> anyhow::Result<bool> {
    Ok(is_right(&Suites::run(packs, None)?))
}

fn is_fine(suites: &Suites) -> bool {
    is_right(suites)
        && suites
            .all
            .iter()
            .all(|suite| coverage::missing(suite).is_empty())
}

fn is_right(suites: &Suites) -> bool {
    let wrong: usize = SampleVerdict::ALL
        .into_iter()
        .skip(1)
        .map(|verdict| suites.count(verdict))
        .sum();
    wrong == 0 && suites.errors() == 0
}

#[cfg(test)]
mod tests;
