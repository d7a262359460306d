//! What takes calls back, in the index.

use super::names::{KEY_BYTES, MADE_PREFIX, UNDO_PREFIX, WANTED_PREFIX, expiring, named, named_by};
use super::rows::IndexRows;
use super::values::{read, text};
use super::{Index, calmly};
use crate::model::digest::Digest;
use crate::store::claims::{StoreError, UndoSearch};
use crate::store::state::undo::OpenUndo;

impl Index {
    /// The undo of that key.
    pub(in crate::store::embedded) fn undo(
        &self,
        key: &Digest,
    ) -> Result<Option<OpenUndo>, StoreError> {
        self.get(&named(UNDO_PREFIX, key))?
            .map(|value| read(&value))
            .transpose()
    }

    /// Up to `most` undos that `search` is for, but for those whose newest form `is_elsewhere`; of those
    /// that one call makes the newest.
    pub(in crate::store::embedded) fn undos_of(
        &self,
        search: UndoSearch,
        most: usize,
        is_elsewhere: impl Fn(&Digest) -> bool,
    ) -> Result<Vec<(Digest, OpenUndo)>, StoreError> {
        let prefix = match search {
            UndoSearch::Wanted => vec![WANTED_PREFIX],
            UndoSearch::MadeBy(call) => named(MADE_PREFIX, &call),
        };
        let (mut names, mut found) = (self.db.scan_prefix(prefix), Vec::new());
        while let Some((name, _)) = calmly(|| names.next().transpose())? {
            let key = match search {
                UndoSearch::Wanted => named_by(&name),
                UndoSearch::MadeBy(_) => made_key(&name),
            };
            let Some(key) = key.filter(|key| !is_elsewhere(key)) else {
                continue;
            };
            let undo = self.undo(&key)?.filter(|undo| search.fits(undo));
            found.extend(undo.map(|undo| (key, undo)));
            if found.len() >= most {
                break;
            }
        }
        Ok(found)
    }

    /// Forgets `undo`.
    pub(super) fn forget_undo(rows: &mut IndexRows, key: &Digest, undo: &OpenUndo) {
        rows.remove(named(UNDO_PREFIX, key));
        rows.remove(named(WANTED_PREFIX, key));
        if let Some(call) = undo.found_by() {
            rows.remove(made(&call, key, undo));
        }
    }
}

/// Notes undos in their newest form.
pub(super) fn put(rows: &mut IndexRows, undos: &[(Digest, OpenUndo)]) -> Result<(), StoreError> {
    for (key, undo) in undos {
        rows.insert(named(UNDO_PREFIX, key), text(undo)?);
        rows.mark(expiring(undo.outlived(), UNDO_PREFIX, key));
        if undo.is_wanted() {
            rows.mark(named(WANTED_PREFIX, key));
        } else if !undo.is_untouched() {
            rows.remove(named(WANTED_PREFIX, key));
        }
        let Some(call) = undo.found_by() else {
            continue;
        };
        if UndoSearch::MadeBy(call).fits(undo) {
            rows.mark(made(&call, key, undo));
        } else {
            rows.remove(made(&call, key, undo));
        }
    }
    Ok(())
}

/// That the call which is known so makes `undo`, the newest before the others.
fn made(call: &Digest, key: &Digest, undo: &OpenUndo) -> Vec<u8> {
    let before = (u64::MAX - undo.offered).to_be_bytes();
    [&[MADE_PREFIX][..], call.as_bytes(), &before, key.as_bytes()].concat()
}

/// The key of the undo in such a name.
fn made_key(name: &[u8]) -> Option<Digest> {
    let key = name.get(1 + KEY_BYTES + size_of::<u64>()..)?;
    Some(Digest::new(key.try_into().ok()?))
}
