//! `toolgate policy`: the policies that were in force, as the data directory keeps them; what differs
//! between two, and the way back to one (003-42). What only reads asks no server, needs no secret, and
//! works while the policy of now has errors.

use super::configured::DataArgs;
use super::operator;

mod changes;
mod diff;
mod list;
mod matched;
mod merged;
pub(super) mod named;
mod plan;
mod present;
mod rollback;
mod show;
mod staged;

/// What to do with policies that were in force.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: PolicyVerb,
    #[command(flatten)]
    place: DataArgs,
    /// One JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum PolicyVerb {
    /// List the policies that are kept, the one that came in force last at the end
    List,
    /// Show what a policy was made of, or one file of it
    Show(show::Show),
    /// Compare a policy with the files as they are now, or with another. 0: the same, 1: not
    Diff(diff::Diff),
    /// Write the files of a policy back, pins and test packs included; a running toolgate reloads them
    ///
    /// What is there is kept as a bundle before. Of the configuration only what a reload applies is written: servers,
    /// doors and operators stay as they are. Nothing is written if the policy cannot be used or its packs fail. 0: done, or
    /// nothing to do, 1: refused.
    Rollback(rollback::PolicyRollback),
}

/// Lists, shows, compares or rolls back.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut out = String::new();
    let code = match &args.verb {
        PolicyVerb::List => list::run(&args.place, args.json, &mut out)?,
        PolicyVerb::Show(show) => show.run(&args.place, args.json, &mut out)?,
        PolicyVerb::Diff(diff) => diff.run(&args.place, args.json, &mut out)?,
        PolicyVerb::Rollback(rollback) => rollback.run(&args.place, args.json, &mut out)?,
    };
    operator::print(&out)?;
    Ok(code)
}
