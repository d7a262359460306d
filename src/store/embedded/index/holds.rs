//! Held calls in the index: each under its key, and by when it changed last, so that the newest are found
//! without the others.

use super::names::{HOLD_PREFIX, PAST_PREFIX, changed_at, expiring, forgotten, named, named_by};
use super::rows::IndexRows;
use super::values::{hold_text, read_hold};
use super::{Index, calmly};
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::state::Millis;
use crate::store::state::hold::Hold;
use std::collections::HashSet;

impl Index {
    /// The call held under `key`.
    pub(in crate::store::embedded) fn hold(
        &self,
        key: &Digest,
    ) -> Result<Option<Hold>, StoreError> {
        self.get(&named(HOLD_PREFIX, key))?
            .map(|value| read_hold(&value))
            .transpose()
    }

    /// The held calls that are so. Looks through all of them.
    pub(in crate::store::embedded) fn holds(
        &self,
        is_so: impl Fn(&Hold) -> bool,
    ) -> Result<Vec<(Digest, Hold)>, StoreError> {
        let (mut holds, mut found) = (self.db.scan_prefix([HOLD_PREFIX]), Vec::new());
        while let Some((name, value)) = calmly(|| holds.next().transpose())? {
            let hold = read_hold(&value)?;
            if let (true, Some(key)) = (is_so(&hold), named_by(&name)) {
                found.push((key, hold));
            }
        }
        Ok(found)
    }

    /// Up to `most` held calls of that kind, or of any, that are not open at `now` and not `known`
    /// elsewhere; the newest first. Of others only names are read.
    pub(in crate::store::embedded) fn past_holds(
        &self,
        kind: Option<Digest>,
        known: &HashSet<Digest>,
        now: Millis,
        most: usize,
    ) -> Result<Vec<(Digest, Hold)>, StoreError> {
        let (mut names, mut found) = (self.db.scan_prefix([PAST_PREFIX]).rev(), Vec::new());
        while found.len() < most {
            let Some((name, kept)) = calmly(|| names.next().transpose())? else {
                break;
            };
            let key = |key: &[u8]| Some(Digest::new(key.try_into().ok()?));
            let Some(key) = name.get(9..).and_then(key) else {
                continue;
            };
            let is_other = kind.is_some_and(|kind| *kept != kind.as_bytes()[..]);
            if is_other || known.contains(&key) {
                continue;
            }
            if let Some(hold) = self.hold(&key)?.filter(|hold| !hold.is_open(now)) {
                found.push((key, hold));
            }
        }
        Ok(found)
    }

    /// Notes held calls in their newest form.
    pub(super) fn put_holds(
        &self,
        rows: &mut IndexRows,
        holds: &[(Digest, Hold)],
    ) -> Result<(), StoreError> {
        for (key, hold) in holds {
            if let Some(before) = self.hold(key)? {
                rows.remove(changed_at(&before, key));
            }
            rows.insert(named(HOLD_PREFIX, key), hold_text(hold)?);
            rows.insert(
                changed_at(hold, key),
                hold.question.kind().as_bytes().to_vec(),
            );
            rows.mark(expiring(forgotten(hold), HOLD_PREFIX, key));
        }
        Ok(())
    }

    /// Forgets one if its time is up at `now`.
    pub(super) fn forget_hold(
        &self,
        rows: &mut IndexRows,
        key: &Digest,
        now: Millis,
    ) -> Result<(), StoreError> {
        let over = self.hold(key)?.filter(|hold| forgotten(hold) <= now);
        if let Some(hold) = over {
            rows.remove(named(HOLD_PREFIX, key));
            rows.remove(changed_at(&hold, key));
        }
        Ok(())
    }

    /// Names what an index from before holds by when it changed.
    pub(super) fn name_holds(&self) -> Result<(), StoreError> {
        let first = calmly(|| self.db.scan_prefix([PAST_PREFIX]).next().transpose())?;
        if first.is_some() {
            return Ok(());
        }
        let mut holds = self.db.scan_prefix([HOLD_PREFIX]);
        while let Some((name, value)) = calmly(|| holds.next().transpose())? {
            if let Some(key) = named_by(&name) {
                let hold = read_hold(&value)?;
                let kind = hold.question.kind();
                calmly(|| self.db.insert(changed_at(&hold, &key), kind.as_bytes()))?;
            }
        }
        Ok(())
    }
}
