//! Claims that hold the calls which equal them, by what those have in common.

use super::names::{KEY_BYTES, KIN_PREFIX, holding, kept_in};
use super::rows::IndexRows;
use super::{Index, calmly};
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::state::claim::Claim;
use std::sync::atomic::Ordering;

impl Index {
    /// A claim that holds the calls of `kin`, with its key, else one that has held them; but for those whose newest form
    /// `is_elsewhere`.
    pub(in crate::store::embedded) fn held(
        &self,
        kin: &Digest,
        is_elsewhere: impl Fn(&Digest) -> bool,
    ) -> Result<Option<(Digest, Claim)>, StoreError> {
        if !self.holds.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut past = None;
        let mut names = self
            .db
            .scan_prefix([&[KIN_PREFIX][..], kin.as_bytes()].concat());
        while let Some((name, _)) = calmly(|| names.next().transpose())? {
            let key = name
                .get(1 + KEY_BYTES..)
                .and_then(|key| key.try_into().ok());
            let Some(key) = key.map(Digest::new).filter(|key| !is_elsewhere(key)) else {
                continue;
            };
            // The key may have been taken again since, by a call of another kin.
            let is_kin = |claim: &Claim| claim.kinship.kin == Some(*kin);
            match self.claim(&key)?.filter(is_kin) {
                Some(claim) if claim.holds_kin() => return Ok(Some((key, claim))),
                Some(claim) if claim.has_held_kin() => past = Some((key, claim)),
                Some(_) | None => {}
            }
        }
        Ok(past)
    }

    /// Forgets the name of the file of the call that held `key` before `claim`, and is over.
    pub(super) fn drop_past(
        &self,
        rows: &mut IndexRows,
        key: &Digest,
        claim: &Claim,
    ) -> Result<(), StoreError> {
        let Some(action) = claim.kinship.past else {
            return Ok(());
        };
        let past = self.claim(key)?.filter(|past| past.action == action);
        let stored = past.as_ref().and_then(|past| past.phase.stored());
        if let Some(stored) = stored.filter(|stored| stored.in_file) {
            rows.remove(kept_in(stored.kept_digest(), key));
        }
        Ok(())
    }

    /// Forgets that `claim` concerns the calls that equal it.
    pub(super) fn drop_kin(rows: &mut IndexRows, key: &Digest, claim: &Claim) {
        if let Some(kin) = claim.kinship.kin.filter(|_| claim.was_unknown) {
            rows.remove(holding(&kin, key));
        }
    }

    /// Notes whether `claim` holds the calls that equal it, or has held them.
    pub(super) fn put_kin(&self, rows: &mut IndexRows, key: &Digest, claim: &Claim) {
        let Some(kin) = &claim.kinship.kin else {
            return;
        };
        if claim.concerns_kin() {
            self.holds.store(true, Ordering::Release);
            rows.mark(holding(kin, key));
        } else if self.holds.load(Ordering::Acquire) {
            rows.remove(holding(kin, key));
        }
    }
}
