//! `toolgate policy diff`.

use super::changes::{between, colored};
use super::named::{KeptPolicies, short};
use super::present::PresentPolicy;
use crate::cli::configured::{self, DataArgs};
use crate::cli::ledger::text::json_lines;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Which policies to compare.
#[derive(Debug, clap::Args)]
pub(super) struct Diff {
    /// The hash of a bundle, or a version as the ledger has it; the beginning will do
    hash: String,
    /// The one to compare it with [default: the files as they are now]
    other: Option<String>,
}

impl Diff {
    /// Shows what differs. 0: nothing, 1: something.
    pub(super) fn run(
        &self,
        place: &DataArgs,
        as_json: bool,
        out: &mut String,
    ) -> anyhow::Result<u8> {
        let kept = KeptPolicies::read(&place.place()?.data)?;
        let old = kept.named(&self.hash)?;
        let (new, words) = if let Some(other) = &self.other {
            let name = kept.named(other)?;
            (kept.shelf.get(name)?, short(&name))
        } else {
            let present = PresentPolicy::read(&config_of(place, &kept)?)?;
            (present.bundle()?, "the files as they are now".to_owned())
        };
        let files = between(&kept.shelf.get(old)?, &new);
        if as_json {
            let shown: Vec<Value> = files
                .iter()
                .map(super::changes::ChangedFile::json)
                .collect();
            let shown = json!({ "from": old, "to": self.other.as_ref().map(|_| new.name()), "files": shown });
            writeln!(out, "{}", json_lines(&shown))?;
        } else if files.is_empty() {
            writeln!(out, "nothing differs between {} and {words}", short(&old))?;
        }
        for file in files.iter().filter(|_| !as_json) {
            out.push_str(&colored(&file.diff()));
        }
        Ok(u8::from(!files.is_empty()))
    }
}

/// The configuration that is meant: the one that is named, the one that was last in force on a data
/// directory that is named alone, or the usual one.
pub(super) fn config_of(place: &DataArgs, kept: &KeptPolicies) -> anyhow::Result<PathBuf> {
    let last = kept.lives.last().map(|life| PathBuf::from(&life.config));
    match (&place.config, &place.data, last) {
        (None, Some(_), Some(last)) if last.is_absolute() => Ok(last),
        (named, ..) => configured::path(named.as_deref()),
    }
}
