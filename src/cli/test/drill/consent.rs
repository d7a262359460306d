//! A drill has real effects: who runs it is told which, at which tool servers, and asked.

use super::plan::{PlannedRow, PlannedWork};
use crate::cli::configured;
use crate::model::ids::ServerName;
use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _, stderr, stdin};

/// Bytes of an answer at the terminal.
const MAX_REPLY_BYTES: u64 = 64;
const UNASKED: &str =
    "it has effects at real tool servers, and nobody can be asked here: say --yes if that is meant";

/// The servers that drills reach.
pub(super) fn servers_of(rows: &[PlannedRow]) -> BTreeSet<ServerName> {
    let drills = rows.iter().filter_map(|row| match &row.work {
        PlannedWork::Drill(planned) => Some(planned),
        PlannedWork::NotDrilled(_) | PlannedWork::NoWayBack(_) | PlannedWork::NeedsNone(_) => None,
    });
    drills.flat_map(|planned| planned.servers()).collect()
}

/// Whether who runs this means it; or why not.
pub(super) fn agreed(
    is_meant: bool,
    rows: &[PlannedRow],
    servers: &BTreeSet<ServerName>,
) -> anyhow::Result<Result<(), String>> {
    let names: Vec<String> = servers.iter().map(ToString::to_string).collect();
    configured::say("this calls for real, and takes back:");
    for row in rows {
        if let PlannedWork::Drill(planned) = &row.work {
            let (tool, agent, undo) = (&planned.tool, &planned.agent, &planned.undo);
            configured::say(&format!("  {tool} by {agent}, taken back by {undo}"));
        }
    }
    let names = names.join(", ");
    configured::say(&format!(
        "at {names}; what was seen or sent on meanwhile stays so"
    ));
    if is_meant {
        return Ok(Ok(()));
    }
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Ok(Err(UNASKED.to_owned()));
    }
    let mut asked = stderr();
    write!(asked, "go on? [y/N] ")?;
    asked.flush()?;
    let mut reply = String::new();
    stdin().lock().take(MAX_REPLY_BYTES).read_line(&mut reply)?;
    if matches!(reply.trim(), "y" | "Y" | "yes") {
        return Ok(Ok(()));
    }
    Ok(Err("nothing was called".to_owned()))
}
