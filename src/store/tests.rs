//! What every store promises, whatever it is built on.

use super::claims::Store;
use super::embedded::EmbeddedStore;
use super::journal::{Journal, JournalOptions};
use super::memory::MemoryStore;
use super::read_counts::ReadCounts;
use crate::model::clock::Clock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

mod accounts;
mod clocks;
mod durable;
mod grants;
mod hold_pages;
mod holds;
mod promises;
mod read_counts;
mod restarts;
pub(crate) mod same;
pub(crate) mod simulated_store;
pub(crate) mod troubled_store;
pub(crate) mod undos;
mod unsettled;
pub(crate) mod waited;

/// A kind of store, and where scenarios put it.
#[derive(Debug)]
pub(crate) enum TestStore {
    Memory(Clock),
    Embedded(TempDir, Clock),
}

impl TestStore {
    fn memory(clock: Clock) -> Self {
        Self::Memory(clock)
    }

    pub(crate) fn embedded(clock: Clock) -> Self {
        Self::Embedded(tempfile::tempdir().unwrap(), clock)
    }

    /// The store, as it was left. The one before has to be dropped.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(clock) => Arc::new(ReadCounts::new(Arc::new(MemoryStore::new(*clock)))),
            Self::Embedded(data, clock) => embedded(data.path(), *clock),
        }
    }

    /// Whether a store of this kind is there again when it is opened again.
    fn lasts(&self) -> bool {
        matches!(self, Self::Embedded(..))
    }

    /// A machine's disk as a process leaves it that is killed right now: the bytes that the kernel
    /// has.
    pub(crate) fn killed(&self) -> Self {
        let Self::Embedded(data, clock) = self else {
            panic!("nothing lies on a disk")
        };
        let copy = tempfile::tempdir().unwrap();
        copy_all(data.path(), copy.path());
        Self::Embedded(copy, *clock)
    }
}

fn embedded(data: &Path, clock: Clock) -> Arc<dyn Store> {
    let options = JournalOptions {
        gather: Duration::ZERO,
        reserve_bytes: 0,
        ..JournalOptions::default()
    };
    let journal = Journal::open(data, options).unwrap();
    Arc::new(EmbeddedStore::open(data, journal, clock).unwrap())
}

pub(in crate::store) fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let files: Vec<PathBuf> = std::fs::read_dir(from)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    for file in files {
        let copy = to.join(file.file_name().unwrap());
        if file.is_dir() {
            copy_all(&file, &copy);
        } else {
            std::fs::copy(&file, &copy).unwrap();
        }
    }
}
