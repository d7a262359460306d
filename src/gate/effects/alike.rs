//! The last calls that were begun, by what makes others much like them: of such another one a person
//! is asked (004-09). It is kept in memory: of calls before a restart nobody is asked.

use crate::gate::call::Call;
use crate::gate::case::KeyedCall;
use crate::gate::effects::{Beginning, Effects};
use crate::gate::steps::cleared::Claimed;
use crate::guards::idempotency::{Keyed, Likeness};
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Likenesses that are known at most. Of more, the one of the oldest call is forgotten.
const MAX_LIKENESSES: usize = 4096;
/// Calls of one likeness at most, the last ones.
const MAX_CALLS_ALIKE: usize = 4;

/// The calls that were begun, by their likeness.
#[derive(Debug, Default)]
pub(in crate::gate) struct AlikeCalls(Mutex<HashMap<Digest, Vec<BegunAlike>>>);

#[derive(Debug, Clone, Copy)]
struct BegunAlike {
    call: Digest,
    action: ActionId,
    at: Duration,
}

/// A call that is about to begin, beside what its key says.
#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct AlikeBeginning {
    action: ActionId,
    /// The ended call of the same key that it is not.
    past: Option<ActionId>,
    now: Duration,
    /// Whether others that are much like it change nothing any more: a person was asked whether both are
    /// meant, or an earlier round of it has begun.
    is_settled: bool,
}

impl AlikeBeginning {
    /// Of a call that begins at `now`.
    pub(in crate::gate) fn of(case: &KeyedCall<'_>, past: Option<ActionId>, now: Duration) -> Self {
        Self {
            action: case.subject.call.judged.action,
            past,
            now,
            is_settled: case.bill.is_alike || case.is_paid,
        }
    }
}

/// A call that is known to begin; unless that is `kept`, it is forgotten again.
#[must_use]
#[derive(Debug)]
pub(in crate::gate) struct NotedCall<'a> {
    calls: &'a AlikeCalls,
    noted: Option<(Digest, ActionId)>,
}

impl NotedCall<'_> {
    /// The call has begun.
    pub(in crate::gate) fn keep(mut self) {
        if let Some((likeness, _)) = self.noted.take() {
            self.calls.forget_oldest(likeness);
        }
    }
}

impl Drop for NotedCall<'_> {
    fn drop(&mut self) {
        if let Some((likeness, action)) = self.noted.take() {
            self.calls.take_back(likeness, action);
        }
    }
}

impl AlikeCalls {
    /// Whether another call than the one of `keyed`, which is as much like others as its contract says, was
    /// begun lately.
    pub(in crate::gate) fn knows_another(
        &self,
        keyed: &Keyed,
        past: Option<ActionId>,
        now: Duration,
    ) -> bool {
        let likeness = keyed.likeness();
        likeness.is_some_and(|likeness| {
            let known = self.0.lock();
            has_another(&known, likeness, keyed.call_key(), past, now)
        })
    }

    /// Notes that the call begins, in one go with the look at the others: of those that come at once only the
    /// first does so unasked. None: another one was before it, and no person was asked about that.
    pub(in crate::gate) fn begins(
        &self,
        keyed: &Keyed,
        beginning: AlikeBeginning,
    ) -> Option<NotedCall<'_>> {
        let Some(likeness) = keyed.likeness() else {
            return Some(NotedCall {
                calls: self,
                noted: None,
            });
        };
        self.begins_alike(likeness, keyed.call_key(), beginning)
    }

    fn begins_alike(
        &self,
        likeness: Likeness,
        call: Digest,
        beginning: AlikeBeginning,
    ) -> Option<NotedCall<'_>> {
        let AlikeBeginning {
            action,
            past,
            now,
            is_settled,
        } = beginning;
        let mut known = self.0.lock();
        if !is_settled && has_another(&known, likeness, call, past, now) {
            return None;
        }
        let Likeness { key, .. } = likeness;
        if known.len() >= MAX_LIKENESSES && !known.contains_key(&key) {
            let last = |calls: &Vec<BegunAlike>| calls.last().map(|call| call.at);
            let oldest = known.iter().min_by_key(|(_, calls)| last(calls));
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                known.remove(&oldest);
            }
        }
        known.entry(key).or_default().push(BegunAlike {
            call,
            action,
            at: now,
        });
        Some(NotedCall {
            calls: self,
            noted: Some((key, action)),
        })
    }

    /// Only what has begun makes others forgotten: what is taken back leaves them.
    fn forget_oldest(&self, likeness: Digest) {
        let mut known = self.0.lock();
        if let Some(calls) = known.get_mut(&likeness) {
            let more = calls.len().saturating_sub(MAX_CALLS_ALIKE);
            calls.drain(..more);
        }
    }

    fn take_back(&self, likeness: Digest, action: ActionId) {
        let mut known = self.0.lock();
        if let Some(calls) = known.get_mut(&likeness) {
            calls.retain(|call| call.action != action);
            if calls.is_empty() {
                known.remove(&likeness);
            }
        }
    }
}

/// Whether another call than `call`, which is as much like others, was begun lately; `past` is the
/// ended call of the same key that it is not.
fn has_another(
    known: &HashMap<Digest, Vec<BegunAlike>>,
    likeness: Likeness,
    call: Digest,
    past: Option<ActionId>,
    now: Duration,
) -> bool {
    let Likeness { key, within } = likeness;
    let mut calls = known.get(&key).into_iter().flatten();
    calls.any(|other| {
        let is_another = other.call != call || past == Some(other.action);
        is_another && now.saturating_sub(other.at) < within
    })
}

impl Effects {
    /// Step 12, unless another call came first that is much like this one and of which nobody was asked.
    /// None, too: the same call was quicker.
    pub(in crate::gate) async fn begin_of_alike(
        &self,
        call: &Call,
        beginning: AlikeBeginning,
        next: Beginning<'_>,
    ) -> Result<Option<Claimed>, Refusal> {
        let Some(noted) = self.alike.begins(next.keyed, beginning) else {
            return Ok(None);
        };
        let begun = Box::pin(self.begin(call, next)).await?;
        if begun.is_some() {
            noted.keep();
        }
        Ok(begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_mins(1);

    fn alike(name: &str) -> Likeness {
        Likeness {
            key: Digest::of(name.as_bytes()),
            within: WITHIN,
        }
    }

    fn beginning(now: Duration) -> AlikeBeginning {
        AlikeBeginning {
            action: ActionId::generate(),
            past: None,
            now,
            is_settled: false,
        }
    }

    /// The call begins, whatever others there are.
    fn note(calls: &AlikeCalls, likeness: Likeness, call: Digest, beginning: AlikeBeginning) {
        let settled = AlikeBeginning {
            is_settled: true,
            ..beginning
        };
        let noted = calls.begins_alike(likeness, call, settled);
        noted.expect("it asks about no other").keep();
    }

    fn knows(calls: &AlikeCalls, likeness: Likeness, call: Digest, now: Duration) -> bool {
        has_another(&calls.0.lock(), likeness, call, None, now)
    }

    /// 004-09: only another call counts, or the ended one of the same key, for the time that its
    /// contract says.
    #[test]
    fn another_call_counts_for_its_time() {
        let (calls, one, other) = (AlikeCalls::default(), Digest::of(b"1"), Digest::of(b"2"));
        let start = Duration::from_secs(1000);
        let first = beginning(start);
        note(&calls, alike("a"), one, first);
        let past = Some(first.action);
        let elsewhere = Some(ActionId::generate());
        for (likeness, call, past, after, expected) in [
            ("a", other, None, 0, true),
            ("a", other, None, 59, true),
            ("a", other, None, 60, false),
            ("a", one, None, 0, false),
            ("a", one, past, 59, true),
            ("a", one, past, 60, false),
            ("a", one, elsewhere, 0, false),
            ("b", other, None, 0, false),
        ] {
            let now = start + Duration::from_secs(after);
            let found = has_another(&calls.0.lock(), alike(likeness), call, past, now);
            assert_eq!(found, expected, "{likeness} {past:?} {after}");
        }
    }

    /// 004-09: of calls that have all been found to be alone, the first to begin is; what has not begun after
    /// all, or was asked about, holds up nobody.
    #[test]
    fn of_calls_at_once_one_begins_unasked() {
        let (calls, one, other) = (AlikeCalls::default(), Digest::of(b"1"), Digest::of(b"2"));
        let now = Duration::from_secs(1000);
        let [first, second] = [(); 2].map(|()| beginning(now));
        assert!(!knows(&calls, alike("a"), one, now) && !knows(&calls, alike("a"), other, now));
        let begins = calls.begins_alike(alike("a"), one, first);
        assert!(calls.begins_alike(alike("a"), other, second).is_none());
        drop(begins);
        assert!(!knows(&calls, alike("a"), other, now), "it has not begun");
        let begins = calls.begins_alike(alike("a"), other, second);
        begins.expect("it is alone").keep();
        assert!(calls.begins_alike(alike("a"), one, first).is_none());
        let asked = AlikeBeginning {
            is_settled: true,
            ..first
        };
        assert!(calls.begins_alike(alike("a"), one, asked).is_some());
    }

    /// What is known is bounded, and the oldest goes first; what is taken back makes none forgotten.
    #[test]
    fn what_is_known_is_bounded() {
        let (calls, own) = (AlikeCalls::default(), Digest::of(b"own"));
        let name = |number: usize| format!("likeness {number}");
        for number in 0..=MAX_LIKENESSES {
            let now = Duration::from_millis(number as u64);
            note(&calls, alike(&name(number)), own, beginning(now));
        }
        let now = Duration::from_secs(5);
        let other = Digest::of(b"other");
        let known = [0, 1, MAX_LIKENESSES].map(|at| knows(&calls, alike(&name(at)), other, now));
        assert_eq!(known, [false, true, true]);
        note(&calls, alike("one"), other, beginning(now));
        for _ in 0..9 {
            drop(calls.begins_alike(alike("one"), other, beginning(now)));
        }
        assert!(knows(&calls, alike("one"), own, now));
        for _ in 0..9 {
            note(&calls, alike("one"), own, beginning(now));
        }
        assert_eq!(calls.0.lock()[&alike("one").key].len(), MAX_CALLS_ALIKE);
    }
}
