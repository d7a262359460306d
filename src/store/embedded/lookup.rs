//! The index as decisions ask it: whole; frozen, when it could not be written, which still says
//! rightly what was so up to then; or away, when it could not be read. What is not known is never
//! guessed.

use super::super::claims::StoreError;
use super::index::Index;
use crate::store::opening::StoreOpening;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The index, where there is one.
pub(super) struct Lookup {
    index: RwLock<Option<Index>>,
    /// It can be written.
    whole: AtomicBool,
    /// It can be read.
    readable: AtomicBool,
    /// Why there is none yet.
    opening: Arc<StoreOpening>,
}

impl Lookup {
    /// Of none yet, as `opening` says.
    pub(super) fn new(opening: Arc<StoreOpening>) -> Self {
        Self {
            index: RwLock::new(None),
            whole: AtomicBool::new(false),
            readable: AtomicBool::new(false),
            opening,
        }
    }

    /// Whether nothing went wrong with it.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Asks it. [`StoreError::Away`] when it cannot say; one wrong answer, and it is not asked again.
    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&Index) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let index = self.index.read();
        let is_readable = self.readable.load(Ordering::Acquire);
        let asked = index.as_ref().filter(|_| is_readable);
        let asked = asked.ok_or_else(|| self.away())?;
        question(asked).map_err(|error| {
            self.doubt(&error);
            self.away()
        })
    }

    /// It gave a wrong answer, and is not asked again.
    pub(super) fn doubt(&self, error: &StoreError) {
        self.readable.store(false, Ordering::Release);
        self.freeze(error);
    }

    /// Changes it; for the indexer alone. When that fails it is changed no more: what it took of
    /// the change, if anything, is still in memory, and counts there.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&Index) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let index = self.index.read();
        let changed = index
            .as_ref()
            .filter(|_| self.is_whole())
            .ok_or_else(|| self.away())?;
        change(changed).map_err(|error| {
            self.freeze(&error);
            self.away()
        })
    }

    /// Nothing is written to it any more.
    fn freeze(&self, error: &StoreError) {
        if self.whole.swap(false, Ordering::AcqRel) {
            tracing::error!(%error, "the index broke: no side effect is begun until it is made anew from the journal");
        }
    }

    /// Puts `index` in its place, which is whole.
    pub(super) fn put(&self, index: Index) {
        let old = self.index.write().replace(index);
        self.readable.store(true, Ordering::Release);
        self.whole.store(true, Ordering::Release);
        old.into_iter().for_each(Index::close);
    }

    /// Ends it, in whatever state it is; nobody asks any more.
    pub(super) fn close(&self) {
        let index = self.index.write().take();
        index.into_iter().for_each(Index::close);
    }

    /// Why nothing is begun meanwhile, and why what only the index knows cannot be said.
    pub(super) fn away(&self) -> StoreError {
        let away = || StoreError::Away("the index is made anew".to_owned());
        StoreError::of(&self.opening).unwrap_or_else(away)
    }
}
