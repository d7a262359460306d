//! What `toolgate suggest` says of the calls that it read, and of what it wrote.

use super::JudgedDrafts;
use super::definitions::Definitions;
use super::observed::LearnedCalls;
use super::written::{PACKS_DIRECTORY, paths};
use crate::cli::ledger::text::plain;
use crate::model::counted::counted;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// From what was learned, and from what was not.
pub(super) fn calls(
    observed: &LearnedCalls,
    definitions: &Definitions,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for note in &definitions.notes {
        writeln!(out, "note     {note}")?;
    }
    for (name, tool) in &observed.tools {
        let (calls, agents) = (
            counted(tool.calls, "call"),
            counted(tool.agents.len(), "agent"),
        );
        writeln!(out, "learned  {}: {calls} by {agents}", plain(name))?;
    }
    for (why, calls) in &observed.left_out {
        writeln!(out, "left out {}: {}", counted(*calls, "call"), why.words())?;
    }
    Ok(())
}

/// What there is now, and what to do next.
pub(super) fn drafts(
    place: &Path,
    judged: &JudgedDrafts,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for note in &judged.notes {
        writeln!(out, "note     {note}")?;
    }
    for path in &judged.removed {
        writeln!(out, "removed  {}: not drafted any more", path.display())?;
    }
    for draft in &judged.drafts {
        let (contracts, samples) = draft.counts;
        let [file, pack] = paths(&draft.name).map(|path| place.join(path));
        let file = file.display();
        writeln!(out, "wrote    {file}: {}", counted(contracts, "contract"))?;
        match draft.pack {
            Some(_) => {
                let pack = pack.display();
                writeln!(out, "wrote    {pack}: {}", counted(samples, "sample"))?;
            }
            None => writeln!(
                out,
                "note     no pack tries {file}: there is no recorded call to show that passes, or none to show that is refused"
            )?,
        }
    }
    for step in next(place) {
        writeln!(out, "next     {step}")?;
    }
    Ok(())
}

/// What to do with drafts in `place`.
fn next(place: &Path) -> [String; 3] {
    let packs = place.join(PACKS_DIRECTORY);
    [
        format!("read what was drafted, and mend it; toolgate test {}", packs.display()),
        "put the files in place of the contracts that `policies` of the configuration names; toolgate check; toolgate test".to_owned(),
        "mode: enforce, and `ledger.content.observed` away".to_owned(),
    ]
}

/// What [`calls`] says, for programs.
pub(super) fn calls_said(observed: &LearnedCalls, definitions: &Definitions) -> Map<String, Value> {
    let learned = observed.tools.iter().map(
        |(name, tool)| json!({ "tool": name, "calls": tool.calls, "agents": tool.agents.len() }),
    );
    let left_out = observed.left_out.iter();
    let left_out = left_out.map(|(why, calls)| json!({ "calls": calls, "why": why.words() }));
    [
        ("learned", learned.collect()),
        ("left_out", left_out.collect()),
        ("notes", json!(definitions.notes)),
    ]
    .map(|(name, said): (&str, Value)| (name.to_owned(), said))
    .into_iter()
    .collect()
}

/// What [`drafts`] says, for programs.
pub(super) fn drafts_said(place: &Path, judged: &JudgedDrafts) -> Map<String, Value> {
    let files = judged.drafts.iter().flat_map(|draft| {
        let (contracts, samples) = draft.counts;
        let [file, pack] = paths(&draft.name).map(|path| place.join(path));
        let pack = draft
            .pack
            .as_ref()
            .map(|_| json!({ "path": pack, "samples": samples }));
        [Some(json!({ "path": file, "contracts": contracts })), pack]
    });
    [
        ("draft_notes", json!(judged.notes)),
        ("removed", json!(judged.removed)),
        ("files", files.flatten().collect()),
        ("next", json!(next(place))),
    ]
    .map(|(name, said): (&str, Value)| (name.to_owned(), said))
    .into_iter()
    .collect()
}
