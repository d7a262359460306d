//! `toolgate report`: how calls went under each version of the policy, and whether one is worse
//! than another (003-117).
//!
//! What is compared is what the ledger has: nothing is judged again. `toolgate test --replay
//! ledger` does that, before a policy ships.

use super::configured::DataArgs;
use super::ledger::call_filter::CallFilter;
use super::policy::named::KeptPolicies;
use super::printed::{LastingOutput, print};
use compare::{Comparison, ReportThreshold};
use versions::Versions;

mod bundled;
mod compare;
mod measure;
mod spread;
mod versions;
mod words;

/// What to report, and which versions to compare.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: DataArgs,
    /// Compare two versions of the policy, or beginnings of their names, or of the hashes of their bundles as
    /// `toolgate policy list` has them [default: the last version with the one before]. 1: the new one is worse
    #[arg(long, value_names = ["OLD", "NEW"], num_args = 0..=2)]
    compare: Option<Vec<String>>,
    /// Worse is what went wrong by so many percent more, and by more than chance; latencies also
    /// by a millisecond
    #[arg(long, value_name = "PERCENT", default_value_t = 5, requires = "compare", value_parser = clap::value_parser!(u32).range(..=1000))]
    threshold: u32,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wanted: CallFilter,
}

/// Prints the report. 0: fine, or too few calls to say; 1: the new version is worse.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut text = String::new();
    let code = run_into(args, &mut text)?;
    print(&text)?;
    Ok(code)
}

fn run_into(args: &Args, out: &mut String) -> anyhow::Result<u8> {
    let versions = Versions::read(&args.place.place()?.data, &args.wanted)?;
    let err = &mut LastingOutput(std::io::stderr());
    let unmet = args.wanted.say_unmet(&args.place, err)?;
    let Some(named) = &args.compare else {
        words::list(&versions, args.json, out)?;
        return Ok(unmet);
    };
    let kept = KeptPolicies::read(&args.place.place()?.data)?;
    let (old, new) = versions.pair(&bundled::versions(&versions, &kept, named)?)?;
    let comparison = Comparison::of(
        old,
        new,
        ReportThreshold {
            percent: args.threshold,
        },
    );
    words::comparison(&comparison, versions.unreadable, args.json, out)?;
    Ok(u8::from(comparison.is_worse()).max(unmet))
}

#[cfg(test)]
mod tests;
