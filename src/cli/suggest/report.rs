//! What `toolgate suggest` says of the calls that it read, and of what it wrote.

use super::definitions::Definitions;
use super::observed::LearnedCalls;
use super::written::{PACKS_DIRECTORY, ServerDraft, paths};
use crate::cli::ledger::text::plain;
use crate::model::counted::counted;
use std::io::Write;
use std::path::Path;

/// From what was learned, and from what was not.
pub(super) fn calls(
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
    drafts: &[ServerDraft],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    for draft in drafts {
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
    let place = place.display();
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
