//! The last calls that were begun, by what makes others much like them: of such another one a person
//! is asked (004-09). It is kept in memory: of calls before a restart nobody is asked.

use crate::guards::idempotency::{Keyed, Likeness};
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
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
        likeness.is_some_and(|likeness| self.has_another(likeness, keyed.call_key(), past, now))
    }

    /// Whether another call than `call`, which is as much like others, was begun lately. `past`: the
    /// ended call of the same key that it is not.
    fn has_another(
        &self,
        likeness: Likeness,
        call: Digest,
        past: Option<ActionId>,
        now: Duration,
    ) -> bool {
        let Likeness { key, within } = likeness;
        let known = self.0.lock();
        let mut calls = known.get(&key).into_iter().flatten();
        calls.any(|other| {
            let is_another = other.call != call || past == Some(other.action);
            is_another && now.saturating_sub(other.at) < within
        })
    }

    /// The call is begun at `now`.
    pub(in crate::gate) fn begun(&self, keyed: &Keyed, action: ActionId, now: Duration) {
        if let Some(likeness) = keyed.likeness() {
            self.note(likeness, keyed.call_key(), action, now);
        }
    }

    fn note(&self, likeness: Likeness, call: Digest, action: ActionId, now: Duration) {
        let Likeness { key, .. } = likeness;
        let mut known = self.0.lock();
        if known.len() >= MAX_LIKENESSES && !known.contains_key(&key) {
            let last = |calls: &Vec<BegunAlike>| calls.last().map(|call| call.at);
            let oldest = known.iter().min_by_key(|(_, calls)| last(calls));
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                known.remove(&oldest);
            }
        }
        let calls = known.entry(key).or_default();
        if calls.len() >= MAX_CALLS_ALIKE {
            calls.remove(0);
        }
        calls.push(BegunAlike {
            call,
            action,
            at: now,
        });
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

    /// 004-09: only another call counts, or the ended one of the same key, for the time that its
    /// contract says.
    #[test]
    fn another_call_counts_for_its_time() {
        let (calls, one, other) = (AlikeCalls::default(), Digest::of(b"1"), Digest::of(b"2"));
        let (action, start) = (ActionId::generate(), Duration::from_secs(1000));
        calls.note(alike("a"), one, action, start);
        let past = Some(action);
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
            let found = calls.has_another(alike(likeness), call, past, now);
            assert_eq!(found, expected, "{likeness} {past:?} {after}");
        }
    }

    /// What is known is bounded, and the oldest goes first.
    #[test]
    fn what_is_known_is_bounded() {
        let (calls, own) = (AlikeCalls::default(), Digest::of(b"own"));
        let name = |number: usize| format!("likeness {number}");
        for number in 0..=MAX_LIKENESSES {
            let now = Duration::from_millis(number as u64);
            calls.note(alike(&name(number)), own, ActionId::generate(), now);
        }
        let now = Duration::from_secs(5);
        let other = Digest::of(b"other");
        let knows = |number| calls.has_another(alike(&name(number)), other, None, now);
        assert_eq!(
            [knows(0), knows(1), knows(MAX_LIKENESSES)],
            [false, true, true]
        );
        for _ in 0..9 {
            calls.note(alike("one"), own, ActionId::generate(), now);
        }
        assert_eq!(calls.0.lock()[&alike("one").key].len(), MAX_CALLS_ALIKE);
    }
}
