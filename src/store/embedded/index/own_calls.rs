//! Calls that may take back another one of their agent though nothing says so, in the index; and the tools that take
//! calls back.

use super::names::{
    CLAIM_PREFIX, KEY_BYTES, OPEN_PREFIX, OWN_PREFIX, TOOL_PREFIX, UNDO_PREFIX, named_by,
};
use super::rows::IndexRows;
use super::values::{read, read_claim};
use super::{Index, IndexChanges, calmly};
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::store::claims::StoreError;
use crate::store::state::claim::Claim;
use crate::store::state::undo::OpenUndo;
use crate::store::table::own_calls::{OwnCallName, own_name, undoing_tools};
use std::collections::HashSet;

/// The tools that take calls back which are in the index.
#[derive(Debug, Default)]
pub(super) struct UndoingTools {
    names: HashSet<ToolName>,
    /// The index does not name them: a release before has written it.
    is_unwritten: bool,
}

impl Index {
    /// Up to `most` claims of calls that are known by `made`, the newest first, with their keys; but for those whose
    /// newest form `is_elsewhere`.
    pub(in crate::store::embedded) fn own_calls(
        &self,
        made: &Digest,
        most: usize,
        is_elsewhere: impl Fn(&Digest) -> bool,
    ) -> Result<Vec<(Digest, Claim)>, StoreError> {
        let prefix = [&[OWN_PREFIX][..], made.as_bytes()].concat();
        let (mut names, mut found) = (self.db.scan_prefix(prefix), Vec::new());
        while let Some((name, _)) = calmly(|| names.next().transpose())? {
            let key = name.get(1 + KEY_BYTES + size_of::<u64>()..);
            let key = key.and_then(|key| Some(Digest::new(key.try_into().ok()?)));
            let Some(key) = key.filter(|key| !is_elsewhere(key)) else {
                continue;
            };
            // Another call may have taken the key since.
            let is_named =
                |claim: &Claim| own_name(&key, claim).is_some_and(|own| *row(&own) == *name);
            found.extend(self.claim(&key)?.filter(is_named).map(|claim| (key, claim)));
            if found.len() >= most {
                break;
            }
        }
        Ok(found)
    }

    /// Whether `tool` takes any call back that is in the index.
    pub(in crate::store::embedded) fn takes_back(&self, tool: &ToolName) -> bool {
        self.undoing.lock().names.contains(tool)
    }

    /// Notes whether `claim` may take another call back, in whose place it comes where its key `is_new` to the index.
    pub(super) fn put_own(
        &self,
        rows: &mut IndexRows,
        key: &Digest,
        claim: &Claim,
        is_new: bool,
    ) -> Result<(), StoreError> {
        let is_of_undoing = self.undoing.lock().names.contains(&claim.tool);
        if !is_new && is_of_undoing {
            let before = self.claim(key)?;
            let before = before.and_then(|before| own_name(key, &before));
            if let Some(before) = &before {
                rows.remove(row(before));
            }
        }
        if let Some(own) = &own_name(key, claim) {
            rows.mark(row(own));
        }
        Ok(())
    }

    /// Forgets that `claim` may take another call back.
    pub(super) fn drop_own(rows: &mut IndexRows, key: &Digest, claim: &Claim) {
        if let Some(own) = &own_name(key, claim) {
            rows.remove(row(own));
        }
    }

    /// Notes the tools that take back what `changes` are of.
    pub(super) fn put_undoing(&self, rows: &mut IndexRows, changes: &IndexChanges) {
        let of_claims = changes
            .claims
            .iter()
            .flat_map(|(_, claim)| undoing_tools(Some(claim), None));
        let of_undos = changes
            .undos
            .iter()
            .flat_map(|(_, undo)| undoing_tools(None, Some(undo)));
        let mut known = self.undoing.lock();
        for tool in of_claims.chain(of_undos) {
            if !known.names.contains(tool) {
                rows.mark(tool_row(tool));
                known.names.insert(tool.clone());
            }
        }
        if std::mem::take(&mut known.is_unwritten) {
            let names = known.names.iter();
            names.for_each(|tool| rows.mark(tool_row(tool)));
        }
    }

    /// Learns which tools take back what is in the index.
    pub(super) fn learn_undoing(&self) -> Result<(), StoreError> {
        let mut known = UndoingTools::default();
        let mut rows = self.db.scan_prefix([TOOL_PREFIX]);
        while let Some((name, _)) = calmly(|| rows.next().transpose())? {
            let tool = name.get(1..).map(std::str::from_utf8);
            known
                .names
                .extend(tool.and_then(Result::ok).map(ToolName::new));
        }
        if known.names.is_empty() {
            self.find_undoing(&mut known.names)?;
            known.is_unwritten = true;
        }
        *self.undoing.lock() = known;
        Ok(())
    }

    /// The same of an index that a release before has written.
    fn find_undoing(&self, tools: &mut HashSet<ToolName>) -> Result<(), StoreError> {
        let mut undos = self.db.scan_prefix([UNDO_PREFIX]);
        while let Some((_, value)) = calmly(|| undos.next().transpose())? {
            let undo = read::<OpenUndo>(&value)?;
            tools.extend(undoing_tools(None, Some(&undo)).cloned());
        }
        let mut open = self.db.scan_prefix([OPEN_PREFIX]);
        while let Some((name, _)) = calmly(|| open.next().transpose())? {
            let claim = named_by(&name).map(|key| super::named(CLAIM_PREFIX, &key));
            let claim = claim.map(|name| self.get(&name)).transpose()?.flatten();
            let claim = claim.map(|value| read_claim(&value)).transpose()?;
            tools.extend(undoing_tools(claim.as_ref(), None).cloned());
        }
        Ok(())
    }
}

/// That the call which is known so may take another one back, the newest before the others.
fn row(own: &OwnCallName) -> Vec<u8> {
    let (made, began, key) = own;
    let before = (u64::MAX - began.0).to_be_bytes();
    [&[OWN_PREFIX][..], made.as_bytes(), &before, key.as_bytes()].concat()
}

/// That `tool` takes calls back.
fn tool_row(tool: &ToolName) -> Vec<u8> {
    [&[TOOL_PREFIX][..], tool.as_str().as_bytes()].concat()
}
