//! What takes calls back, in the index.

use super::Index;
use super::names::{UNDO_PREFIX, expiring, named};
use super::rows::IndexRows;
use super::values::{read, text};
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
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
}

/// Notes undos in their newest form.
pub(super) fn put(rows: &mut IndexRows, undos: &[(Digest, OpenUndo)]) -> Result<(), StoreError> {
    for (key, undo) in undos {
        rows.insert(named(UNDO_PREFIX, key), text(undo)?);
        rows.mark(expiring(undo.outlived(), UNDO_PREFIX, key));
    }
    Ok(())
}
