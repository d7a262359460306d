//! Where `toolgate stdio` keeps ledgers without a configuration: one directory for each server, and
//! another for a second toolgate that wraps a server of the same name meanwhile.

use crate::config::Ledger;
use crate::store::journal::{Journal, JournalError, JournalOptions};
use anyhow::{Context as _, bail};
use std::path::PathBuf;

/// Ledgers of one server that are written at once.
const MAX_PLACES: u32 = 100;
/// Below the state directory.
const PLACES: &str = "toolgate/stdio";

/// The state directory of who runs this.
fn base() -> anyhow::Result<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state
        .or_else(home)
        .context("neither XDG_STATE_HOME nor HOME is set; say where the ledger is with --data")
}

/// The ledger of the server of that name, opened for writing, and where it is.
///
/// # Errors
///
/// When it cannot be opened, or all its places are in use.
pub(super) fn free_place(server: &str) -> anyhow::Result<(Journal, PathBuf)> {
    let places = base()?.join(PLACES);
    std::fs::create_dir_all(&places)
        .with_context(|| format!("{} cannot be made", places.display()))?;
    // As large as any that has a configuration.
    let options = JournalOptions {
        sizes: Ledger::default().sizes(),
        ..JournalOptions::default()
    };
    for number in 1..MAX_PLACES {
        let name = match number {
            1 => server.to_owned(),
            number => format!("{server}-{number}"),
        };
        let place = places.join(name);
        match Journal::open(&place, options) {
            Err(JournalError::Locked { .. }) => {}
            opened => return Ok((opened?, place)),
        }
    }
    bail!(
        "all places of `{server}` under {} are in use; say where the ledger is with --data",
        places.display()
    )
}

/// All ledgers that `toolgate stdio` has kept here, in the order of their names, with those that
/// earlier versions kept beside them.
///
/// # Errors
///
/// When the state directory is not known, or cannot be read.
pub(in crate::cli) fn all() -> anyhow::Result<Vec<(String, PathBuf)>> {
    let base = base()?;
    let mut found = Vec::new();
    for (below, prefix) in [(PLACES, ""), ("toolgate", "stdio-")] {
        let directory = base.join(below);
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(error).with_context(|| format!("{}", directory.display()));
            }
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let place = entry.path();
            if name.starts_with(prefix) && place.join("journal").is_dir() {
                found.push((name, place));
            }
        }
    }
    found.sort();
    Ok(found)
}
