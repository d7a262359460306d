//! When each bundle came in force, and under which version the ledger names it: a line of a file for
//! each time, written before the policy is in force, so that no call is judged by one of which nothing
//! is known.

use super::BundleError;
use super::shelf::{PolicyShelf, read, replace};
use crate::model::digest::Digest;
use crate::owners::private::PRIVATE_FILE_MODE;
use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// Lines that are kept when there are more than twice as many.
const KEPT_LIVES: usize = 1_000;
/// Bytes of the file that are read: far more than twice as many lines have.
const MAX_LIVES_BYTES: u64 = 32 << 20;

/// One time that a policy came in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PolicyLife {
    /// When.
    pub(crate) at: Timestamp,
    /// Its files.
    pub(crate) bundle: Digest,
    /// Its version, as the ledger has it.
    pub(crate) policy: String,
    /// What brought it in force.
    pub(crate) from: LifeOrigin,
    /// Why, where an operator has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// The configuration.
    pub(crate) config: String,
}

/// What brings a policy in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LifeOrigin {
    /// toolgate was started.
    Start,
    /// The files were changed.
    Reload,
    /// The files were rolled back.
    Rollback,
    /// Operators disabled a tool, or enabled it again.
    Switch,
}

impl LifeOrigin {
    /// For people and programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Reload => "reload",
            Self::Rollback => "rollback",
            Self::Switch => "switch",
        }
    }
}

/// All of them, the oldest first. A line that was not written to its end is left out.
pub(crate) fn all(shelf: &PolicyShelf) -> Result<Vec<PolicyLife>, BundleError> {
    let path = file(shelf);
    let text = match read(&path, MAX_LIVES_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(BundleError::Disk(path, error)),
    };
    let lives = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    Ok(lives.collect())
}

/// Adds one: durable when this returns well. Only the toolgate that has the data directory may.
pub(crate) fn add(shelf: &PolicyShelf, life: &PolicyLife) -> Result<(), BundleError> {
    let path = file(shelf);
    let disk = |error: io::Error| BundleError::Disk(path.clone(), error);
    let mut lives = all(shelf)?;
    if lives.len() >= 2 * KEPT_LIVES {
        lives.drain(..lives.len() - KEPT_LIVES);
        let mut text = String::new();
        for life in &lives {
            let _ = writeln!(text, "{}", line(life).map_err(disk)?);
        }
        replace(&path, text.as_bytes()).map_err(disk)?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(PRIVATE_FILE_MODE)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(disk)?;
    // The line before may have no end.
    let text = format!("\n{}\n", line(life).map_err(disk)?);
    file.write_all(text.as_bytes()).map_err(disk)?;
    file.sync_all().map_err(disk)
}

fn line(life: &PolicyLife) -> io::Result<String> {
    serde_json::to_string(life).map_err(io::Error::other)
}

fn file(shelf: &PolicyShelf) -> PathBuf {
    shelf.directory().join("lives.jsonl")
}
