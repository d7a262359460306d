//! Forgetting: what is over goes in its time.

use super::names::{
    CLAIM_PREFIX, EXPIRY_PREFIX, GRANT_PREFIX, GROUP_PREFIX, HOLD_PREFIX, IDLE_RETENTION_MS,
    KEY_BYTES, SESSION_PREFIX, TASK_PREFIX, acting, expiring, kept_in, named,
};
use super::values::claim_text;
use super::{Index, calmly};
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::state::Millis;
use crate::store::state::claim::Age;
use bytes::Bytes;
use sled::Batch;

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
        let (mut batch, mut left) = (Batch::default(), SWEEP_ITEMS);
        let mut due = self.db.range(vec![EXPIRY_PREFIX]..until);
        while let Some((name, group)) = calmly(|| due.next().transpose())? {
            batch.remove(&name);
            let (kind, keys) = match (name.get(9), name.get(10..)) {
                (Some(&GROUP_PREFIX), _) => (CLAIM_PREFIX, &*group),
                (Some(kind), Some(key)) => (*kind, key),
                _ => continue,
            };
            let keys = keys.chunks_exact(KEY_BYTES);
            for key in keys.filter_map(|key| Some(Digest::new(key.try_into().ok()?))) {
                if is_busy(&key) {
                    batch.insert(expiring(now + 60_000, kind, &key), &[]);
                } else {
                    self.forget(&mut batch, kind, &key, now)?;
                }
                left = left.saturating_sub(1);
            }
            if left == 0 {
                break;
            }
        }
        calmly(|| self.db.apply_batch(batch))?;
        Ok(left == 0)
    }

    /// Forgets one thing of `kind` if it is over at `now`.
    fn forget(
        &self,
        batch: &mut Batch,
        kind: u8,
        key: &Digest,
        now: Millis,
    ) -> Result<(), StoreError> {
        match kind {
            CLAIM_PREFIX => self.forget_claim(batch, key, now)?,
            TASK_PREFIX
                if self.task(key)?.is_some_and(|task| {
                    // A stop holds until a reset.
                    task.stopped.is_none() && task.last + IDLE_RETENTION_MS <= now
                }) =>
            {
                batch.remove(named(TASK_PREFIX, key));
            }
            SESSION_PREFIX
                if self
                    .session(key)?
                    .is_some_and(|session| session.at + IDLE_RETENTION_MS <= now) =>
            {
                batch.remove(named(SESSION_PREFIX, key));
            }
            HOLD_PREFIX => self.forget_hold(batch, key, now)?,
            GRANT_PREFIX
                if self
                    .grant(key)?
                    .is_some_and(|grant| grant.outlived() <= now) =>
            {
                batch.remove(named(GRANT_PREFIX, key));
            }
            _ => {}
        }
        Ok(())
    }

    /// A claim that is over loses its answer, then, when it is no longer remembered, everything.
    fn forget_claim(&self, batch: &mut Batch, key: &Digest, now: Millis) -> Result<(), StoreError> {
        let Some(mut claim) = self.claim(key)? else {
            return Ok(());
        };
        match claim.age(now) {
            Age::Fresh => {}
            Age::Remembered => {
                Self::drop_kin(batch, key, &claim);
                if let Some(stored) = claim.phase.stored_mut() {
                    stored.body = Bytes::new();
                    batch.remove(kept_in(stored.kept_digest(), key));
                }
                batch.insert(named(CLAIM_PREFIX, key), claim_text(&claim)?);
                batch.insert(
                    expiring(claim.changed + claim.ttl + claim.keep, CLAIM_PREFIX, key),
                    &[],
                );
            }
            Age::Forgotten => {
                Self::drop_kin(batch, key, &claim);
                batch.remove(named(CLAIM_PREFIX, key));
                if self.key_of(claim.action)?.is_some() {
                    batch.remove(acting(claim.action));
                }
                claim
                    .phase
                    .stored()
                    .into_iter()
                    .for_each(|stored| batch.remove(kept_in(stored.kept_digest(), key)));
            }
        }
        Ok(())
    }
}
