//! What takes calls back: what is in memory is newer than what is indexed.

use super::inner::EmbeddedInner;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::store::claims::{StoreError, UndoSearch};
use crate::store::state::claim::Claim;
use crate::store::state::undo::OpenUndo;
use crate::store::table::own_calls::newest_calls;
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

    /// Up to `most` claims of calls that may take another one back and are known by `made`, the newest first.
    pub(super) fn own_calls(
        &self,
        made: Digest,
        most: usize,
    ) -> Result<Vec<(Digest, Claim)>, StoreError> {
        let table = self.table.lock();
        let mut found = table.own_calls(made, most);
        found.extend(self.lookup.ask(|index| {
            let is_elsewhere = |key: &Digest| table.claims.contains_key(key);
            index.own_calls(&made, most, is_elsewhere)
        })?);
        Ok(newest_calls(found, most))
    }

    /// Whether `tool` takes any call back, or may.
    pub(super) fn takes_back(&self, tool: &ToolName) -> bool {
        let is_here = self.table.lock().takes_back(tool);
        let indexed = || self.lookup.ask(|index| Ok(index.takes_back(tool)));
        is_here || indexed().unwrap_or(true)
    }
}
