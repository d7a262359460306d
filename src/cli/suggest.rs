//! `toolgate suggest`: from recorded calls to drafts of contracts, with bounds of arguments, and of a
//! test pack.
//!
//! Nothing is written before the drafts were judged, and nothing that is there is replaced unasked. What
//! looks like a secret stands in none of them.

mod arguments;
mod bounds;
mod cut;
mod definitions;
mod drafted;
mod hidden;
mod judged;
mod learned;
mod observed;
mod paths;
mod report;
mod samples;
mod searched;
mod stale;
mod tried;
mod written;

use super::configured::{self, DataArgs};
use super::ledger::call_filter::CallFilter;
use super::ledger::calls::{LedgerCall, LedgerCalls};
use super::ledger::reading;
use super::ledger::recorded::audited;
use super::ledger::recorded_as::RecordedAs;
use super::ledger::text::json;
use super::printed::LastingOutput;
use crate::config::DataPlace;
use crate::mcp::pretty::plain;
use crate::policy::Policy;
use crate::store::journal::JournalError;
use anyhow::{Context as _, bail};
use definitions::Definitions;
use drafted::DraftedTool;
use judged::{DraftTrials, write};
use observed::{LearnedCalls, LeftOut};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use written::ServerDraft;

/// What to learn from.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: DataArgs,
    /// Where the drafts are written
    #[arg(long, value_name = "DIR", default_value = "suggested")]
    out: PathBuf,
    /// Replace drafts that are there; those of the same servers that are not drafted any more are removed
    #[arg(long)]
    force: bool,
    /// One JSON object at the end, in place of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wanted: CallFilter,
    #[command(flatten)]
    judged_as: RecordedAs,
}

/// What was drafted, and what is to be said of it.
struct JudgedDrafts {
    drafts: Vec<ServerDraft>,
    notes: Vec<String>,
    /// Earlier drafts that are gone.
    removed: Vec<PathBuf>,
}

/// Drafts what recorded calls have in common.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut out = LastingOutput(std::io::stdout().lock());
    if !args.json {
        return draft(args, &mut out, &mut Map::new());
    }
    let mut said = Map::new();
    let done = draft(args, &mut std::io::sink(), &mut said);
    let error = done.as_ref().err().map(|error| format!("{error:#}"));
    said.insert("error".to_owned(), error.into());
    writeln!(out, "{}", json(&Value::from(said).to_string()))?;
    done
}

/// The same, with lines for people in `out`, and in `said` what programs read.
fn draft(args: &Args, out: &mut dyn Write, said: &mut Map<String, Value>) -> anyhow::Result<u8> {
    let (definitions, place) = sources(args)?;
    let observed = observed(args, &place, &definitions)?;
    report::calls(&observed, &definitions, out)?;
    said.append(&mut report::calls_said(&observed, &definitions));
    if observed.tools.is_empty() {
        bail!("nothing was written: {}", why_nothing(&observed));
    }
    let mut tools = drafted::drafted(&observed, &definitions);
    try_recorded(args, &place, &observed, &mut tools)?;
    let judged = judged(args, tools, &definitions)?;
    report::drafts(&args.out, &judged, out)?;
    said.append(&mut report::drafts_said(&args.out, &judged));
    Ok(0)
}

/// What is known of the tools, and the ledger. Without any configuration a data directory alone will
/// do.
fn sources(args: &Args) -> anyhow::Result<(Definitions, DataPlace)> {
    let named = args.place.config.as_deref();
    let is_alone = named.is_none() && args.place.data.is_some() && configured::path(None).is_err();
    if is_alone {
        return Ok((Definitions::default(), args.place.place()?));
    }
    let path = configured::path(named)?;
    let place = args.place.place_of(&path)?;
    let (_, loaded) = configured::supposed(Some(&path))?;
    Ok((Definitions::of(&path, loaded)?, place))
}

/// Reads the ledger through.
fn each_call(
    args: &Args,
    place: &DataPlace,
    mut take: impl FnMut(&LedgerCall),
) -> anyhow::Result<()> {
    let progress = reading();
    for call in LedgerCalls::open(&place.data)?.with_keys(configured::kept(place)?) {
        progress.step();
        match call {
            Ok(call) if args.wanted.fits(&call.entry) => take(&call),
            Ok(_) | Err(JournalError::Unreadable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn observed(
    args: &Args,
    place: &DataPlace,
    definitions: &Definitions,
) -> anyhow::Result<LearnedCalls> {
    let (mut observed, mut met) = (LearnedCalls::default(), HashSet::new());
    let policy = agents(args)?;
    each_call(args, place, |call| match &policy {
        Some(policy) => {
            met.insert(call.entry.user_id.clone());
            let entry = args.judged_as.renamed(policy, call.entry.clone());
            observed.take(call.seq, &entry, definitions);
        }
        None => observed.take(call.seq, &call.entry, definitions),
    })?;
    args.judged_as.met(|recorded| met.contains(recorded))?;
    args.wanted
        .say_unmet(&args.place, &mut LastingOutput(std::io::stderr()))?;
    Ok(observed)
}

/// The policy that says what the agents are as whose calls recorded ones count; none if all count as
/// they were recorded.
fn agents(args: &Args) -> anyhow::Result<Option<Policy>> {
    if !args.judged_as.is_said() {
        return Ok(None);
    }
    let (_, loaded) = configured::supposed(args.place.config.as_deref())?;
    let policy = loaded.reading.policy.context("the policy cannot be used")?;
    args.judged_as.check(&policy)?;
    Ok(Some(policy))
}

/// Tries every call that was learned from on what was drafted. What has been recorded since is not.
fn try_recorded(
    args: &Args,
    place: &DataPlace,
    observed: &LearnedCalls,
    tools: &mut BTreeMap<&str, DraftedTool<'_>>,
) -> anyhow::Result<()> {
    each_call(args, place, |call| {
        if let (true, Some(tool), Some(Value::Object(arguments))) = (
            observed.has_learned(call.seq),
            tools.get_mut(call.entry.tool.as_str()),
            audited(&call.entry),
        ) {
            tool.try_recorded(&arguments);
        }
    })
}

/// Judges the drafts, and writes those that are good.
fn judged(
    args: &Args,
    tools: BTreeMap<&str, DraftedTool<'_>>,
    definitions: &Definitions,
) -> anyhow::Result<JudgedDrafts> {
    let mut files = written::files(tools, definitions);
    let names = files.iter().flat_map(|file| written::paths(&file.name));
    occupied(args, names)?;
    let trials = DraftTrials::begin(&args.out)?;
    let (mut drafts, mut notes) = (Vec::new(), Vec::new());
    for file in &mut files {
        drafts.extend(trials.mended(file, &mut notes)?);
        let flaws = file
            .tools
            .iter()
            .filter_map(|tool| Some((tool.name, tool.flaw?)));
        notes.extend(flaws.map(|(name, flaw)| format!("{}: {flaw}", plain(name))));
    }
    let texts: Vec<(PathBuf, &str)> = drafts.iter().flat_map(texts).collect();
    if texts.is_empty() {
        bail!("nothing was written");
    }
    write(&args.out, &texts)?;
    let mut removed = Vec::new();
    if args.force {
        let written: Vec<&Path> = texts.iter().map(|(name, _)| name.as_path()).collect();
        let servers = files.iter().map(|file| file.server.as_str()).collect();
        removed = stale::remove(&args.out, &servers, &written)?;
    }
    Ok(JudgedDrafts {
        drafts,
        notes,
        removed,
    })
}

/// Why there is nothing to draft, and what to do about it.
fn why_nothing(observed: &LearnedCalls) -> &'static str {
    if observed.left_out.contains_key(&LeftOut::Unknown) {
        "no call that passed has all of its arguments in the ledger. Say `ledger: { content: { observed: full } }` in the configuration, observe for \
         a while, and try again (what is encrypted needs the key that the configuration names)"
    } else {
        "no recorded call that is asked for has passed"
    }
}

/// Each file below the directory of the drafts, and what it says.
fn texts(draft: &ServerDraft) -> impl Iterator<Item = (PathBuf, &str)> {
    let [contracts, pack] = written::paths(&draft.name);
    let pack = draft.pack.as_deref().map(|text| (pack, text));
    std::iter::once((contracts, draft.contracts.as_str())).chain(pack)
}

/// Refuses to replace what is there, unless it is asked to.
fn occupied(args: &Args, paths: impl Iterator<Item = PathBuf>) -> anyhow::Result<()> {
    let paths = paths.map(|path| args.out.join(path));
    let there: Vec<PathBuf> = paths
        .filter(|path| path.symlink_metadata().is_ok())
        .collect();
    if args.force || there.is_empty() {
        return Ok(());
    }
    for path in &there {
        configured::say(&format!("problem  {} is there already", path.display()));
    }
    bail!("nothing was written; --force replaces what is there, --out writes elsewhere");
}

#[cfg(test)]
mod tests;
