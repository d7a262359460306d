//! Which of the kept policies is meant: by the beginning of its hash, or of a version as the ledger and
//! `toolgate report` name it.

use crate::cli::configured;
use crate::cli::ledger::text::plain;
use crate::model::digest::Digest;
use crate::policy::bundle::lives::{self, PolicyLife};
use crate::policy::bundle::shelf::{PolicyShelf, ShelvedBundle};
use anyhow::{Context as _, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// Of a hash, as much as people are shown.
const SHOWN_DIGITS: usize = 12;
/// Hashes that are named where several are meant.
const MAX_MEANT_NAMED: usize = 8;

/// The policies that a data directory keeps.
pub(in crate::cli) struct KeptPolicies {
    pub(in crate::cli) shelf: PolicyShelf,
    /// The oldest first.
    pub(in crate::cli) bundles: Vec<ShelvedBundle>,
    /// When they came in force, the oldest first.
    pub(in crate::cli) lives: Vec<PolicyLife>,
}

impl KeptPolicies {
    /// Those of the data directory `data`.
    ///
    /// # Errors
    /// None is kept there, and no toolgate has run there: another directory is meant.
    pub(in crate::cli) fn read(data: &Path) -> anyhow::Result<Self> {
        let shelf = PolicyShelf::of(data);
        let (bundles, lives) = (shelf.all()?, lives::all(&shelf)?);
        if bundles.is_empty() {
            configured::has_run(data)?;
        }
        Ok(Self {
            shelf,
            bundles,
            lives,
        })
    }

    /// The one that `beginning` means.
    pub(in crate::cli) fn named(&self, beginning: &str) -> anyhow::Result<Digest> {
        let begins =
            |name: &Digest| !beginning.is_empty() && name.to_string().starts_with(beginning);
        let by_name = self.bundles.iter().map(|one| one.name).filter(begins);
        let mut meant: BTreeSet<Digest> = by_name.collect();
        if meant.is_empty() {
            meant = self.by_version(beginning);
        }
        let wanted = plain(beginning);
        let mut meant_names = meant.iter();
        let found = *meant_names.next().with_context(|| {
            format!(
                "no policy is kept whose hash or version begins with {wanted}; `toolgate policy list` has them"
            )
        })?;
        if meant_names.next().is_some() {
            let names: Vec<String> = meant.iter().take(MAX_MEANT_NAMED).map(short).collect();
            bail!(
                "several policies begin with {wanted}: {}; give more of the one",
                names.join(", ")
            );
        }
        if !self.bundles.iter().any(|one| one.name == found) {
            bail!(
                "the policy {wanted} was in force, and its bundle {} is not kept any more",
                short(&found)
            );
        }
        Ok(found)
    }

    /// A version that is given whole is the last policy that came in force as that: they differ in
    /// comments only.
    fn by_version(&self, beginning: &str) -> BTreeSet<Digest> {
        let whole = self
            .lives
            .iter()
            .rev()
            .find(|life| life.policy == beginning);
        if let Some(whole) = whole {
            return BTreeSet::from([whole.bundle]);
        }
        let begins =
            |life: &&PolicyLife| !beginning.is_empty() && life.policy.starts_with(beginning);
        let found = self.lives.iter().filter(begins);
        found.map(|life| life.bundle).collect()
    }

    /// When the policy `name` came in force, the oldest first.
    pub(in crate::cli) fn lives_of(&self, name: Digest) -> impl Iterator<Item = &PolicyLife> {
        self.lives.iter().filter(move |life| life.bundle == name)
    }
}

/// The beginning of a hash, for people.
pub(in crate::cli) fn short(name: &Digest) -> String {
    let mut text = name.to_string();
    text.truncate(SHOWN_DIGITS);
    text
}
