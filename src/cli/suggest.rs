//! `toolgate suggest`: from recorded calls to drafts of contracts, with bounds of arguments, and of a
//! test pack.
//!
//! Nothing is written before the drafts were judged, and nothing that is there is replaced unasked. What
//! may be a secret stands in none of them.

mod arguments;
mod bounds;
mod definitions;
mod hidden;
mod learned;
mod observed;
mod paths;
mod written;

use super::ledger::call_filter::CallFilter;
use super::ledger::calls::LedgerCalls;
use super::{configured, files, test};
use crate::model::counted::counted;
use crate::model::ids::unguessable;
use crate::owners::private::{PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE};
use crate::store::journal::JournalError;
use anyhow::{Context as _, bail};
use definitions::Definitions;
use observed::{LearnedCalls, LeftOut};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use written::ServerDraft;

/// Where packs stand below the drafts.
const PACKS_DIRECTORY: &str = "tests";

/// What to learn from.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration that says where the ledger is, and which tools there are
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory with the ledger, as in the configuration
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where the drafts are written
    #[arg(long, value_name = "DIR", default_value = "suggested")]
    out: PathBuf,
    /// Replace drafts that are there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wanted: CallFilter,
}

/// Drafts what recorded calls have in common.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut out = std::io::stdout().lock();
    let definitions = definitions(args)?;
    let observed = observed(args, &definitions)?;
    report_calls(&observed, &definitions, &mut out)?;
    if observed.tools.is_empty() {
        bail!("nothing was written: {}", why_nothing(&observed));
    }
    let drafts = written::drafts(&observed, &definitions);
    let texts = texts(&drafts);
    occupied(args, &texts)?;
    let _judged = JudgedDrafts::of(&args.out, &texts)?;
    write(&args.out, &texts)?;
    report(args, &drafts, &mut out)?;
    Ok(0)
}

/// What is known of the tools. Without any configuration a data directory alone will do.
fn definitions(args: &Args) -> anyhow::Result<Definitions> {
    let is_alone = args.config.is_none() && args.data.is_some() && configured::path(None).is_err();
    if is_alone {
        return Ok(Definitions::default());
    }
    let (path, loaded) = configured::load(args.config.as_deref())?;
    Definitions::of(&path, loaded)
}

/// The calls of the ledger, read through once.
fn observed(args: &Args, definitions: &Definitions) -> anyhow::Result<LearnedCalls> {
    let data = configured::data_dir(args.data.as_deref(), args.config.as_deref())?;
    let (_, kept) = configured::ledger(args.config.as_deref())?;
    let mut observed = LearnedCalls::default();
    for call in LedgerCalls::open(&data)?.with_keys(&kept)? {
        match call {
            Ok(call) if args.wanted.fits(&call.entry) => observed.take(&call.entry, definitions),
            Ok(_) | Err(JournalError::Unreadable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(observed)
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
fn texts(drafts: &[ServerDraft]) -> Vec<(PathBuf, &str)> {
    let mut texts = Vec::new();
    for draft in drafts {
        let name = format!("{}.yaml", draft.server);
        let pack = Path::new(PACKS_DIRECTORY).join(&name);
        texts.push((PathBuf::from(name), draft.contracts.as_str()));
        texts.push((pack, draft.pack.as_str()));
    }
    texts
}

/// Refuses to replace what is there, unless it is asked to.
fn occupied(args: &Args, texts: &[(PathBuf, &str)]) -> anyhow::Result<()> {
    let paths = texts.iter().map(|(name, _)| args.out.join(name));
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

/// The drafts in a directory of their own, where they were found to be good.
struct JudgedDrafts(PathBuf);

impl JudgedDrafts {
    fn of(place: &Path, texts: &[(PathBuf, &str)]) -> anyhow::Result<Self> {
        let drafts = Self(place.join(format!(".toolgate-suggest-{}", unguessable())));
        write(&drafts.0, texts)?;
        let packs = texts.iter().map(|(name, _)| name);
        let packs = packs.filter(|name| name.starts_with(PACKS_DIRECTORY));
        let packs: Vec<PathBuf> = packs.map(|name| drafts.0.join(name)).collect();
        if let Some(flaws) = test::flaws(&packs)? {
            let shown = flaws.replace(&format!("{}/", drafts.0.display()), "");
            bail!(
                "nothing was written: the draft is not good, which is a defect of toolgate\n{shown}"
            );
        }
        Ok(drafts)
    }
}

impl Drop for JudgedDrafts {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
        // It goes only where nothing was written to it.
        drop(self.0.parent().map(fs::remove_dir));
    }
}

/// Writes the drafts below `place`, for their owner only.
fn write(place: &Path, texts: &[(PathBuf, &str)]) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let packs = place.join(PACKS_DIRECTORY);
    let mut making = fs::DirBuilder::new();
    let made = making
        .recursive(true)
        .mode(PRIVATE_DIRECTORY_MODE)
        .create(&packs);
    made.with_context(|| format!("{} cannot be made", packs.display()))?;
    for (name, text) in texts {
        files::replace(&place.join(name), text.as_bytes(), PRIVATE_FILE_MODE)?;
    }
    Ok(())
}

/// From what was learned, and from what was not.
fn report_calls(
    observed: &LearnedCalls,
    definitions: &Definitions,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    for note in &definitions.notes {
        writeln!(out, "note     {note}")?;
    }
    for (name, tool) in &observed.tools {
        let (calls, agents) = (
            counted(tool.calls, "call"),
            counted(tool.agents.len(), "agent"),
        );
        writeln!(
            out,
            "learned  {}: {calls} by {agents}",
            super::ledger::text::plain(name)
        )?;
    }
    for (why, calls) in &observed.left_out {
        writeln!(out, "left out {}: {}", counted(*calls, "call"), why.words())?;
    }
    Ok(())
}

/// What there is now, and what to do next.
fn report(args: &Args, drafts: &[ServerDraft], out: &mut impl Write) -> anyhow::Result<()> {
    for ServerDraft {
        server,
        counts: (contracts, samples),
        ..
    } in drafts
    {
        let (file, pack) = (
            args.out.join(format!("{server}.yaml")),
            args.out.join(PACKS_DIRECTORY),
        );
        writeln!(
            out,
            "wrote    {}: {}",
            file.display(),
            counted(*contracts, "contract")
        )?;
        let pack = pack.join(format!("{server}.yaml"));
        writeln!(
            out,
            "wrote    {}: {}",
            pack.display(),
            counted(*samples, "sample")
        )?;
    }
    let place = args.out.display();
    writeln!(
        out,
        "next     read what was drafted, and mend it; toolgate test {place}/{PACKS_DIRECTORY}"
    )?;
    writeln!(
        out,
        "next     put the files in place of the contracts that `policies` of the configuration names; toolgate check; toolgate test"
    )?;
    writeln!(
        out,
        "next     mode: enforce, and `ledger.content.observed` away"
    )?;
    Ok(())
}
