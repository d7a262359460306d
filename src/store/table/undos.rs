//! What takes calls back, as a store holds it in memory.

use super::StateTable;
use crate::model::digest::Digest;
use crate::store::claims::UndoSearch;
use crate::store::state::Millis;
use crate::store::state::undo::{OpenUndo, UndoPhase};
use std::cmp::Reverse;

/// By what an undo is found when its call is made, when it was offered, newest first, and its key.
pub(in crate::store) type MadeUndo = (Digest, Reverse<Millis>, Digest);

impl UndoSearch {
    /// Whether `undo` is one of them.
    pub(in crate::store) fn fits(&self, undo: &OpenUndo) -> bool {
        match self {
            Self::Wanted => undo.is_wanted(),
            Self::MadeBy(call) => {
                let is_done = matches!(undo.phase, UndoPhase::Done { .. });
                undo.found_by() == Some(*call) && !is_done
            }
        }
    }
}

impl StateTable {
    /// The undos here that `search` is for; of those that one call makes up to `most`, the newest.
    pub(in crate::store) fn found_undos(
        &self,
        search: UndoSearch,
        most: usize,
    ) -> Vec<(Digest, OpenUndo)> {
        let taken = |key: &Digest| {
            let kept = self.undos.get(key)?;
            let undo = &kept.value;
            search.fits(undo).then(|| (*key, undo.clone()))
        };
        match search {
            UndoSearch::Wanted => self.undos.keys().filter_map(taken).collect(),
            UndoSearch::MadeBy(call) => {
                let first = (call, Reverse(Millis::MAX), Digest::new([0; 32]));
                let made = self.made.range(first..);
                let made = made.take_while(|(found, ..)| *found == call);
                made.filter_map(|(.., key)| taken(key)).take(most).collect()
            }
        }
    }

    /// Notes by what `undo` is found when the call is made that takes it back.
    pub(super) fn note_made(&mut self, key: Option<Digest>, undo: Option<&OpenUndo>) {
        if let (Some(key), Some(undo)) = (key, undo)
            && let Some(call) = undo.found_by()
        {
            let made = (call, Reverse(undo.offered), key);
            if UndoSearch::MadeBy(call).fits(undo) {
                self.made.insert(made);
            } else {
                self.made.remove(&made);
            }
        }
    }

    /// Forgets those that are not `kept`.
    pub(super) fn forget_undos(&mut self, is_kept: impl Fn(&Digest, u64) -> bool) {
        let made = &mut self.made;
        self.undos.retain(|key, kept| {
            let stays = is_kept(key, kept.change);
            if let Some(call) = kept.value.found_by().filter(|_| !stays) {
                made.remove(&(call, Reverse(kept.value.offered), *key));
            }
            stays
        });
    }
}

/// The newest first, up to `most`, each once.
pub(in crate::store) fn newest_undos(
    mut found: Vec<(Digest, OpenUndo)>,
    most: usize,
) -> Vec<OpenUndo> {
    found.sort_by_key(|(_, undo)| (Reverse(undo.offered), undo.of));
    let found = found.into_iter().take(most);
    found.map(|(_, undo)| undo).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{ActionId, ToolName};
    use crate::store::state::tests::undone_by;
    use crate::store::table::Versioned;

    fn undo(call: Option<Digest>, offered: Millis, phase: UndoPhase) -> OpenUndo {
        OpenUndo {
            of: ActionId::generate(),
            tool: ToolName::new("bank__draft"),
            key: Digest::of(b"key"),
            terms: undone_by("bank__bin"),
            values: None,
            call,
            is_whole: true,
            lacks: None,
            began: None,
            offered,
            until: offered + 1000,
            phase,
            changed: offered,
            asked: None,
            askers: Vec::new(),
            asked_since: None,
            before: None,
        }
    }

    fn put(table: &mut StateTable, undo: &OpenUndo, change: u64) {
        let key = OpenUndo::key_of(undo.of);
        table.note_made(Some(key), Some(undo));
        let value = undo.clone();
        table.undos.insert(key, Versioned { value, change });
    }

    /// 003-64: by what a call is known, the newest undo is found that it makes; what is done, and what is
    /// forgotten here, is not found here, and no other call's is.
    #[test]
    fn undos_are_found_by_the_call_that_makes_them() {
        let (call, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let by = ActionId::generate();
        let mut table = StateTable::default();
        let old = undo(Some(call), 1, UndoPhase::Failed { by });
        let new = undo(Some(call), 2, UndoPhase::Offered);
        let done = undo(Some(call), 3, UndoPhase::Offered);
        let strange = undo(Some(other), 4, UndoPhase::Requested);
        let bare = undo(None, 5, UndoPhase::Offered);
        for (change, undo) in [&old, &new, &done, &strange, &bare].into_iter().enumerate() {
            put(&mut table, undo, change as u64);
        }
        let ended = OpenUndo {
            phase: UndoPhase::Done { by },
            ..done.clone()
        };
        put(&mut table, &ended, 7);
        let found = |table: &StateTable, search, most| {
            let found = table.found_undos(search, most);
            let ids = newest_undos(found, most).into_iter().map(|undo| undo.of);
            ids.collect::<Vec<_>>()
        };
        assert_eq!(found(&table, UndoSearch::MadeBy(call), 9), [new.of, old.of]);
        assert_eq!(found(&table, UndoSearch::MadeBy(call), 1), [new.of]);
        assert_eq!(found(&table, UndoSearch::Wanted, 9), [strange.of, old.of]);
        let unread = UndoSearch::MadeBy(OpenUndo::unread(
            &bare.terms.tool,
            "billing-agent",
            None,
            None,
        ));
        assert_eq!(
            found(&table, unread, 9),
            [bare.of],
            "nobody read its answer"
        );
        table.forget_undos(|_, change| change != 1);
        assert_eq!(found(&table, UndoSearch::MadeBy(call), 9), [old.of]);
        table.forget_undos(|_, _| false);
        assert!(table.made.is_empty(), "nothing of it is left");
    }
}
