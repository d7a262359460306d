//! Calls that may take back another one of their agent though nothing says so (003-64): found by what they are known by
//! once that is asked for.

use super::StateTable;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::store::state::Millis;
use crate::store::state::claim::Claim;
use crate::store::state::undo::OpenUndo;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};

/// By what a call is known that may take another one back, when it began, newest first, and its key.
pub(in crate::store) type OwnCallName = (Digest, Reverse<Millis>, Digest);

/// What of it is known.
#[derive(Debug, Default)]
pub(in crate::store) struct OwnCalls {
    calls: BTreeSet<OwnCallName>,
    /// The tools that take calls back, as the contracts of those said when they began.
    tools: HashSet<ToolName>,
}

/// The tools that take back what `claim` has done, or `undo` is of.
pub(in crate::store) fn undoing_tools<'a>(
    claim: Option<&'a Claim>,
    undo: Option<&'a OpenUndo>,
) -> impl Iterator<Item = &'a ToolName> {
    let of_claim = claim.and_then(|claim| claim.undo.as_deref());
    let of_undo = undo.map(|undo| &undo.terms);
    of_claim.into_iter().chain(of_undo).map(|terms| &terms.tool)
}

/// Under which name `claim` is found, where it may take another call back.
pub(in crate::store) fn own_name(key: &Digest, claim: &Claim) -> Option<OwnCallName> {
    let made = claim.may_undo.filter(|undo| !undo.is_over)?;
    Some((made.call, Reverse(claim.began), *key))
}

impl OwnCalls {
    /// The claim of `key` is `after` what it was `before`.
    pub(super) fn note(&mut self, key: &Digest, before: Option<&Claim>, after: &Claim) {
        let now = own_name(key, after);
        let gone = before.and_then(|before| own_name(key, before));
        if let Some(gone) = gone.filter(|gone| Some(*gone) != now) {
            self.calls.remove(&gone);
        }
        self.calls.extend(now);
    }

    /// The claim of `key` is not here any more.
    pub(super) fn forget(&mut self, key: &Digest, claim: &Claim) {
        if let Some(gone) = own_name(key, claim) {
            self.calls.remove(&gone);
        }
    }

    /// `tool` takes calls back.
    pub(super) fn note_tool(&mut self, tool: &ToolName) {
        if !self.tools.contains(tool) {
            self.tools.insert(tool.clone());
        }
    }
}

impl StateTable {
    /// Whether `tool` takes a call back that has begun since this table is there.
    pub(in crate::store) fn takes_back(&self, tool: &ToolName) -> bool {
        self.own.tools.contains(tool)
    }

    /// Up to `most` claims here of calls that are known by `made`, the newest first, with their keys.
    pub(in crate::store) fn own_calls(&self, made: Digest, most: usize) -> Vec<(Digest, Claim)> {
        let first = (made, Reverse(Millis::MAX), Digest::new([0; 32]));
        let found = self.own.calls.range(first..);
        let found = found.take_while(|(known, ..)| *known == made);
        let claims =
            found.filter_map(|(.., key)| Some((*key, self.claims.get(key)?.value.clone())));
        claims.take(most).collect()
    }
}

/// The newest first, up to `most`.
pub(in crate::store) fn newest_calls(
    mut found: Vec<(Digest, Claim)>,
    most: usize,
) -> Vec<(Digest, Claim)> {
    found.sort_by_key(|(_, claim)| Reverse((claim.began, claim.action)));
    found.truncate(most);
    found
}
