//! Forgetting: what is over goes in its time.

use super::names::{
    CLAIM_PREFIX, EXPIRY_PREFIX, GRANT_PREFIX, GROUP_PREFIX, HOLD_PREFIX, IDLE_RETENTION_MS,
    KEY_BYTES, SESSION_PREFIX, TASK_PREFIX, UNDO_PREFIX, acting, expiring, kept_in, named,
};
use super::rows::IndexRows;
use super::values::claim_text;
use super::{Index, calmly};
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::state::Millis;
use crate::store::state::claim::{Age, Claim};
use bytes::Bytes;

/// Things looked at in one sweep, or a few more.
pub(super) const SWEEP_ITEMS: usize = 1024;
impl Index {
    /// Forgets what is over at `now`, but for what `is_busy`; true when there may be more.
    pub(in crate::store::embedded) fn sweep(
        &self,
        now: Millis,
        is_busy: impl Fn(&Digest) -> bool,
    ) -> Result<bool, StoreError> {
        let until = [&[EXPIRY_PREFIX][..], &now.to_be_bytes()].concat();
        let (mut rows, mut left) = (IndexRows::default(), SWEEP_ITEMS);
        let mut due = self.db.range(vec![EXPIRY_PREFIX]..until);
        while let Some((name, group)) = calmly(|| due.next().transpose())? {
            rows.remove(name.to_vec());
            let (kind, keys) = match (name.get(9), name.get(10..)) {
                (Some(&GROUP_PREFIX), _) => (CLAIM_PREFIX, &*group),
                (Some(kind), Some(key)) => (*kind, key),
                _ => continue,
            };
            let keys = keys.chunks_exact(KEY_BYTES);
            for key in keys.filter_map(|key| Some(Digest::new(key.try_into().ok()?))) {
                if is_busy(&key) {
                    rows.mark(expiring(now + 60_000, kind, &key));
                } else {
                    self.forget(&mut rows, kind, &key, now)?;
                }
                left = left.saturating_sub(1);
            }
            if left == 0 {
                break;
            }
        }
        calmly(|| self.db.apply_batch(rows.into_batch()))?;
        Ok(left == 0)
    }

    /// Forgets one thing of `kind` if it is over at `now`.
    fn forget(
        &self,
        rows: &mut IndexRows,
        kind: u8,
        key: &Digest,
        now: Millis,
    ) -> Result<(), StoreError> {
        match kind {
            CLAIM_PREFIX => self.forget_claim(rows, key, now)?,
            TASK_PREFIX
                if self.task(key)?.is_some_and(|task| {
                    // A stop holds until a reset.
                    task.stopped.is_none() && task.last + IDLE_RETENTION_MS <= now
                }) =>
            {
                rows.remove(named(TASK_PREFIX, key));
            }
            SESSION_PREFIX
                if self
                    .session(key)?
                    .is_some_and(|session| session.at + IDLE_RETENTION_MS <= now) =>
            {
                rows.remove(named(SESSION_PREFIX, key));
            }
            HOLD_PREFIX => self.forget_hold(rows, key, now)?,
            GRANT_PREFIX
                if self
                    .grant(key)?
                    .is_some_and(|grant| grant.outlived() <= now) =>
            {
                rows.remove(named(GRANT_PREFIX, key));
            }
            UNDO_PREFIX => {
                if let Some(undo) = self.undo(key)?.filter(|undo| undo.outlived() <= now) {
                    Self::forget_undo(rows, key, &undo);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A claim that is over loses its answer, then, when it is no longer remembered, everything.
    fn forget_claim(
        &self,
        rows: &mut IndexRows,
        key: &Digest,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(mut claim) = self.claim(key)? else {
            return Ok(());
        };
        match claim.age(now) {
            Age::Fresh => {}
            Age::Remembered => {
                Self::forget_answer(rows, key, &mut claim)?;
            }
            Age::Forgotten if now < claim.known_until() => {
                Self::forget_answer(rows, key, &mut claim)?;
            }
            Age::Forgotten => {
                Self::drop_kin(rows, key, &claim);
                Self::drop_own(rows, key, &claim);
                rows.remove(named(CLAIM_PREFIX, key));
                if self.key_of(claim.action)?.is_some() {
                    rows.remove(acting(claim.action));
                }
                claim
                    .phase
                    .stored()
                    .into_iter()
                    .for_each(|stored| rows.remove(kept_in(stored.kept_digest(), key)));
            }
        }
        Ok(())
    }

    /// What is over loses its answer, and is looked at again when it is not known any more.
    fn forget_answer(
        rows: &mut IndexRows,
        key: &Digest,
        claim: &mut Claim,
    ) -> Result<(), StoreError> {
        Self::drop_kin(rows, key, claim);
        if let Some(stored) = claim.phase.stored_mut() {
            stored.body = Bytes::new();
            rows.remove(kept_in(stored.kept_digest(), key));
        }
        rows.insert(named(CLAIM_PREFIX, key), claim_text(claim)?);
        rows.mark(expiring(claim.known_until(), CLAIM_PREFIX, key));
        Ok(())
    }
}
