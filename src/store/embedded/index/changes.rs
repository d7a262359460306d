//! What the index lacks of what is in memory.

use crate::model::digest::Digest;
use crate::store::state::budget::TaskUsage;
use crate::store::state::claim::Claim;
use crate::store::state::fence::SessionFence;
use crate::store::state::grant::Grant;
use crate::store::state::hold::Hold;
use crate::store::state::undo::OpenUndo;
use crate::store::table::{StateTable, Versioned};
use std::collections::HashMap;

/// What changed since the index was last written, each thing in its newest form.
#[derive(Debug, Default)]
pub(in crate::store::embedded) struct IndexChanges {
    pub(in crate::store::embedded) claims: Vec<(Digest, Claim)>,
    pub(in crate::store::embedded) tasks: Vec<(Digest, TaskUsage)>,
    pub(in crate::store::embedded) sessions: Vec<(Digest, SessionFence)>,
    pub(in crate::store::embedded) holds: Vec<(Digest, Hold)>,
    pub(in crate::store::embedded) grants: Vec<(Digest, Grant)>,
    pub(in crate::store::embedded) undos: Vec<(Digest, OpenUndo)>,
}

impl IndexChanges {
    /// What of `table` is not in the index.
    pub(in crate::store::embedded) fn of(table: &StateTable) -> Self {
        let upto = table.indexed;
        let claims = table.claims.iter().filter(|(_, kept)| kept.change > upto);
        let tasks = table.tasks.iter().filter(|(_, kept)| kept.change > upto);
        let sessions = table.sessions.iter().filter(|(_, kept)| kept.change > upto);
        let holds = table.holds.iter().filter(|(_, kept)| kept.change > upto);
        let grants = table.grants.iter().filter(|(_, kept)| kept.change > upto);
        let undos = table.undos.iter().filter(|(_, kept)| kept.change > upto);
        Self {
            claims: claims
                .map(|(key, kept)| (*key, kept.value.clone()))
                .collect(),
            tasks: tasks
                .map(|(key, kept)| (*key, kept.value.clone()))
                .collect(),
            sessions: sessions.map(|(key, kept)| (*key, kept.value)).collect(),
            holds: holds
                .map(|(key, kept)| (*key, kept.value.clone()))
                .collect(),
            grants: grants
                .map(|(key, kept)| (*key, kept.value.clone()))
                .collect(),
            undos: undos
                .map(|(key, kept)| (*key, kept.value.clone()))
                .collect(),
        }
    }

    /// All of `table`, none of which is in the index.
    pub(in crate::store::embedded) fn all_of(table: StateTable) -> Self {
        Self {
            claims: values(table.claims),
            tasks: values(table.tasks),
            sessions: values(table.sessions),
            holds: values(table.holds),
            grants: values(table.grants),
            undos: values(table.undos),
        }
    }

    pub(in crate::store::embedded) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        let calls = self.claims.len() + self.tasks.len() + self.sessions.len();
        calls + self.holds.len() + self.grants.len() + self.undos.len()
    }
}

fn values<T>(known: HashMap<Digest, Versioned<T>>) -> Vec<(Digest, T)> {
    let known = known.into_iter();
    known.map(|(key, kept)| (key, kept.value)).collect()
}
