//! Where `toolgate stdio` keeps ledgers without a configuration: one directory for each server, and
//! another for a second toolgate that wraps a server of the same name meanwhile.

use crate::cli::files::state_directory;
use crate::config::Ledger;
use crate::store::journal::{Journal, JournalError, JournalOptions};
use anyhow::{Context as _, bail};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Ledgers of one server that are written at once.
const MAX_PLACES: u32 = 100;
/// Below the state directory.
const PLACES: &str = "stdio";
/// Between a server's name and the number of its place; no name has it, so that no server has the place of
/// another.
const NUMBER_SEPARATOR: char = '.';

/// The name of the place of that number, from 1.
fn place_name(server: &str, number: u32) -> String {
    match number {
        1 => server.to_owned(),
        number => format!("{server}{NUMBER_SEPARATOR}{number}"),
    }
}

/// The ledger of the server of that name, opened for writing, and where it is.
///
/// # Errors
///
/// When it cannot be opened, or all its places are in use.
pub(super) fn free_place(server: &str) -> anyhow::Result<(Journal, PathBuf)> {
    let state = state_directory().context("say where the ledger is with --data")?;
    let places = state.join(PLACES);
    std::fs::create_dir_all(&places)
        .with_context(|| format!("{} cannot be made", places.display()))?;
    // As any that has a configuration without a word on its ledger.
    let usual = Ledger::default();
    let options = JournalOptions {
        sizes: usual.sizes(),
        compress: usual.compress,
        ..JournalOptions::default()
    };
    for number in 1..=MAX_PLACES {
        let place = places.join(place_name(server, number));
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
    let state = state_directory()?;
    let mut found = Vec::new();
    for (directory, prefix) in [(state.join(PLACES), ""), (state, "stdio-")] {
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(error).with_context(|| format!("{}", directory.display()));
            }
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let place = entry.path();
            if name.starts_with(prefix) && has_journal(&place) {
                found.push((name, place));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a ledger is at `place`: also where nobody may look, so that who reads it hears why it cannot
/// be read.
fn has_journal(place: &Path) -> bool {
    match std::fs::metadata(place.join("journal")) {
        Ok(found) => found.is_dir(),
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::why_no_server_name;

    /// 017: a ledger is of one server, however many toolgates wrap it at once.
    #[test]
    fn no_server_has_the_place_of_another() {
        assert_eq!(place_name("fs", 1), "fs");
        for number in 2..=MAX_PLACES {
            let place = place_name("fs", number);
            assert!(
                place.starts_with("fs") && why_no_server_name(&place).is_some(),
                "{place}"
            );
        }
    }

    /// A ledger that cannot be looked at is one, and not nothing.
    #[test]
    fn a_place_is_one_unless_it_holds_no_ledger() {
        let temp = tempfile::tempdir().unwrap();
        let place = |name: &str| temp.path().join(name);
        for name in ["kept", "empty"] {
            std::fs::create_dir(place(name)).unwrap();
        }
        std::fs::create_dir(place("kept/journal")).unwrap();
        std::fs::write(place("file"), "").unwrap();
        // What leads to itself can be looked at by nobody, not even by root.
        std::os::unix::fs::symlink(place("circle"), place("circle")).unwrap();
        for (name, expected) in [
            ("kept", true),
            ("empty", false),
            ("file", false),
            ("absent", false),
            ("circle", true),
        ] {
            assert_eq!(has_journal(&place(name)), expected, "{name}");
        }
    }
}
