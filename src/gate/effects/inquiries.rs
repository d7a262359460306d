//! What is under way to find out about calls of unknown outcome: which are sent again under their
//! servers' own keys, and whose turn it is to find out about one. Kept in memory: what an earlier
//! process sent, it sent before this one began.

use crate::gate::effects::Effects;
use crate::gate::effects::listened::ListenedCalls;
use crate::model::ids::ActionId;
use crate::store::state::Millis;
use crate::store::state::claim::Claim;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// Calls of which it is known when they were sent again last. Of more, the one that was sent longest
/// ago is forgotten, and each that is not known counts as sent then.
const MAX_RESENT_CALLS: usize = 1024;
/// How long after the first time a call may be sent once more; doubled each time.
const FIRST_PAUSE_MS: u64 = 1000;
/// The longest such pause.
const LONGEST_PAUSE_MS: u64 = 5 * 60 * 1000;

/// All of it.
#[derive(Debug)]
pub(in crate::gate) struct OpenInquiries {
    /// Which given up calls may still be answered.
    pub(in crate::gate) listened: ListenedCalls,
    /// Which were sent again.
    pub(in crate::gate) resends: ResentCalls,
    /// Whose turn it is.
    pub(in crate::gate) turns: InquiryTurns,
}

impl OpenInquiries {
    /// Of a process that begins at `now`.
    pub(in crate::gate) fn new(now: Millis) -> Self {
        Self {
            listened: ListenedCalls::default(),
            resends: ResentCalls::new(now),
            turns: InquiryTurns::default(),
        }
    }
}

/// When each call was sent again.
#[derive(Debug)]
pub(in crate::gate) struct ResentCalls(Mutex<KnownResends>);

#[derive(Debug)]
struct KnownResends {
    sent: HashMap<ActionId, SentAgain>,
    /// Each sending since then is known.
    complete: Millis,
}

#[derive(Debug, Clone, Copy)]
struct SentAgain {
    times: u32,
    /// When the last of them was waited for last.
    last: Millis,
}

impl SentAgain {
    fn is_paused(self, now: Millis) -> bool {
        let doubled = 2_u64.saturating_pow(self.times.saturating_sub(1));
        let pause = FIRST_PAUSE_MS.saturating_mul(doubled).min(LONGEST_PAUSE_MS);
        now < self.last.saturating_add(pause)
    }
}

impl ResentCalls {
    /// Of a process that begins at `now`.
    pub(in crate::gate) fn new(now: Millis) -> Self {
        Self(Mutex::new(KnownResends {
            sent: HashMap::new(),
            complete: now,
        }))
    }

    /// Notes that the call of `claim` is sent again at `now`, unless it was waited for so lately that it has
    /// to wait.
    pub(in crate::gate) fn begin(&self, claim: &Claim, now: Millis) -> bool {
        self.begin_of(claim.action, claim.changed, now)
    }

    /// Whether the call of `claim` has to wait before it is sent again.
    pub(in crate::gate) fn is_paused(&self, claim: &Claim, now: Millis) -> bool {
        let first = SentAgain {
            times: 0,
            last: claim.changed,
        };
        let known = self.0.lock().sent.get(&claim.action).copied();
        known.unwrap_or(first).is_paused(now)
    }

    fn begin_of(&self, action: ActionId, changed: Millis, now: Millis) -> bool {
        let mut known = self.0.lock();
        let before = known.sent.get(&action).copied();
        let first = SentAgain {
            times: 0,
            last: changed,
        };
        if before.unwrap_or(first).is_paused(now) {
            return false;
        }
        if before.is_none() && known.sent.len() >= MAX_RESENT_CALLS {
            let oldest = known.sent.iter().min_by_key(|(_, sent)| sent.last);
            if let Some((oldest, last)) = oldest.map(|(action, sent)| (*action, sent.last)) {
                known.sent.remove(&oldest);
                known.complete = known.complete.max(last);
            }
        }
        let times = before.map_or(0, |before| before.times).saturating_add(1);
        known.sent.insert(action, SentAgain { times, last: now });
        true
    }

    /// It is not waited for any more at `now`, and may still be on its way.
    pub(in crate::gate) fn given_up(&self, action: ActionId, now: Millis) {
        if let Some(sent) = self.0.lock().sent.get_mut(&action) {
            sent.last = now;
        }
    }

    /// It has ended.
    pub(in crate::gate) fn forget(&self, action: ActionId) {
        self.0.lock().sent.remove(&action);
    }

    /// The latest that a sending of it can have been waited for.
    fn last(&self, action: ActionId) -> Millis {
        let known = self.0.lock();
        let sent = known.sent.get(&action);
        sent.map_or(known.complete, |sent| sent.last)
    }
}

/// Who finds out about which call right now.
#[derive(Debug, Default)]
pub(in crate::gate) struct InquiryTurns(Mutex<HashMap<ActionId, Weak<tokio::sync::Mutex<()>>>>);

impl InquiryTurns {
    /// The turn about `action`: one at a time looks at the server, or sends to it again, so that no look
    /// ends a call that is just being sent.
    fn of(&self, action: ActionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.get(&action).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::default();
            turns.insert(action, Arc::downgrade(&turn));
            turn
        })
    }

    /// Waits for the turn.
    pub(in crate::gate) async fn enter(&self, action: ActionId) -> OwnedMutexGuard<()> {
        self.of(action).lock_owned().await
    }

    /// The turn, if nobody has it.
    pub(in crate::gate) fn try_enter(&self, action: ActionId) -> Option<OwnedMutexGuard<()>> {
        self.of(action).try_lock_owned().ok()
    }
}

impl Effects {
    /// For how long the call of `claim` has been on its way while no agent waits for it: since its outcome
    /// became unknown, or since it was sent again where it can be.
    pub(in crate::gate) fn since_sent(&self, claim: &Claim) -> Duration {
        let inquiry = claim.inquiry.as_ref();
        let can_be_resent = inquiry.is_some_and(|inquiry| inquiry.sent_key.is_some());
        let resent = can_be_resent.then(|| self.inquiries.resends.last(claim.action));
        let last = claim.changed.max(resent.unwrap_or_default());
        Duration::from_millis(self.store.now().saturating_sub(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// guarantees §4: a call that is sent again waits longer each time, and counts as on its way since
    /// the last; one of which nothing is known counts from when everything is known.
    #[test]
    fn sendings_are_paced_and_known() {
        let calls = ResentCalls::new(100);
        let [one, other] = [(); 2].map(|()| ActionId::generate());
        assert_eq!(calls.last(one), 100, "an earlier process may have sent it");
        for (at, may) in [
            (999, false),
            (1_000, true),
            (1_999, false),
            (2_000, true),
            (3_999, false),
            (4_000, true),
            (7_999, false),
        ] {
            assert_eq!(calls.begin_of(one, 0, at), may, "{at}");
        }
        calls.given_up(one, 5_000);
        assert_eq!((calls.last(one), calls.last(other)), (5_000, 100));
        assert!(calls.begin_of(other, 0, 5_000), "each by itself");
        calls.forget(one);
        assert!(calls.begin_of(one, 0, 5_001));
    }

    /// threat-model §8: what is known is bounded, and what is forgotten counts as sent.
    #[test]
    fn what_is_forgotten_counts_as_sent() {
        let calls = ResentCalls::new(0);
        for at in 0..MAX_RESENT_CALLS as u64 {
            assert!(calls.begin_of(ActionId::generate(), 0, 1_000 + at));
        }
        let unknown = ActionId::generate();
        assert_eq!(calls.last(unknown), 0);
        assert!(calls.begin_of(ActionId::generate(), 0, 5_000));
        assert_eq!(calls.0.lock().sent.len(), MAX_RESENT_CALLS);
        assert_eq!(calls.last(unknown), 1_000, "the one that was forgotten");
    }

    /// One at a time finds out about one call; nothing is kept of those that nobody asks about.
    #[tokio::test]
    async fn one_at_a_time_finds_out() {
        let turns = InquiryTurns::default();
        let [one, other] = [(); 2].map(|()| ActionId::generate());
        let turn = turns.enter(one).await;
        assert!(turns.try_enter(one).is_none() && turns.try_enter(other).is_some());
        drop(turn);
        assert!(turns.try_enter(one).is_some());
        turns.of(other);
        assert_eq!(turns.0.lock().len(), 1);
    }
}
