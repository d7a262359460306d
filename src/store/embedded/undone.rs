//! What takes calls back: what is in memory is newer than what is indexed.

use super::inner::EmbeddedInner;
use crate::model::digest::Digest;
use crate::store::claims::{StoreError, UndoSearch};
use crate::store::state::undo::OpenUndo;
use crate::store::table::undos::newest_undos;

impl EmbeddedInner {
    /// Up to `most` undos that `search` is for, those first that were offered last.
    pub(super) fn undos(
        &self,
        search: UndoSearch,
        most: usize,
    ) -> Result<Vec<OpenUndo>, StoreError> {
        let table = self.table.lock();
        let mut found = table.found_undos(search, most);
        let indexed = self.lookup.ask(|index| {
            let is_elsewhere = |key: &Digest| table.undos.contains_key(key);
            index.undos_of(search, most, is_elsewhere)
        })?;
        found.extend(indexed);
        Ok(newest_undos(found, most))
    }
}
