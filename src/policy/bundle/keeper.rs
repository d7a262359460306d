//! Keeps each policy that comes in force as a bundle, and notes when that was.

use super::lives::{self, LifeOrigin, PolicyLife};
use super::notes;
use super::shelf::PolicyShelf;
use super::{Bundle, BundleError, whole};
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::policy::live::keeping::PolicyKeeper;
use crate::policy::sources::PolicySources;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// Keeps them in a data directory.
#[derive(Debug)]
pub(crate) struct ShelfKeeper {
    shelf: PolicyShelf,
    config: PathBuf,
    in_force: Mutex<BundleInForce>,
}

/// The bundle in force.
#[derive(Debug, Clone, Copy)]
enum BundleInForce {
    /// Nothing was yet.
    None,
    /// This.
    Kept(Digest),
    /// One that could not be kept.
    Unkept,
}

impl ShelfKeeper {
    /// In the data directory `data`, for the configuration at `config`.
    pub(crate) fn new(data: &Path, config: &Path) -> Self {
        Self {
            shelf: PolicyShelf::of(data),
            config: whole(config),
            in_force: Mutex::new(BundleInForce::None),
        }
    }

    fn keep(
        &self,
        sources: &PolicySources,
        version: &str,
        is_first: bool,
    ) -> Result<Digest, BundleError> {
        let name = self.shelf.put(&Bundle::of(sources)?)?;
        self.note(name, version, is_first)?;
        // What went before may be what is wanted back; lines of what is gone do no harm.
        let before = lives::all(&self.shelf)?;
        let before = before.iter().rev().map(|life| life.bundle);
        let kept: Vec<Digest> = [name]
            .into_iter()
            .chain(before.filter(|one| *one != name).take(1))
            .collect();
        self.shelf.prune(&kept)?;
        Ok(name)
    }

    fn note(&self, name: Digest, version: &str, is_first: bool) -> Result<(), BundleError> {
        let last = lives::all(&self.shelf)?.pop();
        let rollback = notes::last(&self.shelf)?.filter(|note| {
            // One that came in force since was not that rollback's doing.
            note.to == name && last.as_ref().is_none_or(|last| last.at < note.at)
        });
        let from = match (&rollback, is_first) {
            (Some(_), _) => LifeOrigin::Rollback,
            (None, true) => LifeOrigin::Start,
            (None, false) => LifeOrigin::Reload,
        };
        let why = rollback.and_then(|note| note.why);
        self.add(name, version, from, why)
    }

    fn add(
        &self,
        bundle: Digest,
        version: &str,
        from: LifeOrigin,
        why: Option<String>,
    ) -> Result<(), BundleError> {
        let life = PolicyLife {
            at: Clock.wall(),
            bundle,
            policy: version.to_owned(),
            from,
            why,
            config: self.config.display().to_string(),
        };
        lives::add(&self.shelf, &life)
    }
}

impl PolicyKeeper for ShelfKeeper {
    fn comes(&self, sources: &PolicySources, version: &str) {
        let mut in_force = self.in_force.lock();
        let is_first = matches!(*in_force, BundleInForce::None);
        *in_force = match self.keep(sources, version, is_first) {
            Ok(name) => {
                tracing::info!(%name, version, "the policy's files are kept as a bundle");
                BundleInForce::Kept(name)
            }
            Err(error) => {
                tracing::error!(%error, version, "the policy comes in force, and its files are not kept: nothing can go back to it");
                BundleInForce::Unkept
            }
        };
    }

    fn renamed(&self, version: &str) {
        let BundleInForce::Kept(name) = *self.in_force.lock() else {
            return;
        };
        if let Err(error) = self.add(name, version, LifeOrigin::Switch, None) {
            tracing::error!(%error, version, "of which files this version of the policy is made is not noted");
        }
    }
}
