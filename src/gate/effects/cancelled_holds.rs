//! Held calls that agents have cancelled: for a while each counts among those of its agent that may wait, or
//! an agent that cancels what it asks could have the store keep any number. In memory only: nobody restarts
//! toolgate for an agent.

use crate::gate::steps::hold_room::HOLD_BOUNDS;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::TenantId;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// For how long one counts.
const PERIOD: Duration = Duration::from_hours(1);
/// Agents that are known; beyond, the one that cancelled something longest ago is forgotten.
const MAX_AGENTS: usize = 512;

/// When each agent has cancelled what was held.
#[derive(Debug, Default)]
pub(in crate::gate) struct CancelledHolds(Mutex<HashMap<Digest, VecDeque<Duration>>>);

impl CancelledHolds {
    /// The caller has cancelled one at `now`.
    pub(in crate::gate) fn note(&self, caller: &Caller, now: Duration) {
        self.note_of(agent(caller), now);
    }

    /// How many the caller's agent has cancelled lately.
    pub(in crate::gate) fn lately(&self, caller: &Caller, now: Duration) -> usize {
        self.lately_of(agent(caller), now)
    }

    fn note_of(&self, agent: Digest, now: Duration) {
        let mut known = self.0.lock();
        if known.len() >= MAX_AGENTS && !known.contains_key(&agent) {
            let last = |times: &VecDeque<Duration>| times.back().copied();
            let oldest = known.iter().min_by_key(|(_, times)| last(times));
            let oldest = oldest.map(|(agent, _)| *agent);
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let times = known.entry(agent).or_default();
        // More than may wait change nothing.
        if times.len() >= HOLD_BOUNDS.agent {
            times.pop_front();
        }
        times.push_back(now);
    }

    fn lately_of(&self, agent: Digest, now: Duration) -> usize {
        let known = self.0.lock();
        let times = known.get(&agent).into_iter().flatten();
        times.filter(|at| now.saturating_sub(**at) < PERIOD).count()
    }
}

/// An agent of a tenant, whichever people are behind it.
fn agent(caller: &Caller) -> Digest {
    let tenant = caller.tenant.as_ref().map(TenantId::as_str);
    let has_tenant = [u8::from(tenant.is_some())];
    let parts: [&[u8]; 3] = [
        &has_tenant,
        tenant.unwrap_or_default().as_bytes(),
        caller.agent.as_str().as_bytes(),
    ];
    Digest::of_parts("cancelled holds", &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each counts for an hour, for its agent; as many are known as may wait, of as many agents as are.
    #[test]
    fn what_was_cancelled_counts_for_an_hour() {
        let (holds, now) = (CancelledHolds::default(), Duration::from_secs(10_000));
        let [one, other] = [b"one", b"two"].map(|name| Digest::of(name));
        holds.note_of(one, now);
        holds.note_of(one, now + PERIOD / 2);
        let counted = [0, 1, 2].map(|halves| holds.lately_of(one, now + halves * PERIOD / 2));
        assert_eq!(counted, [2, 2, 1]);
        assert_eq!(holds.lately_of(other, now), 0);
        for _ in 0..2 * HOLD_BOUNDS.agent {
            holds.note_of(other, now + PERIOD);
        }
        assert_eq!(holds.lately_of(other, now + PERIOD), HOLD_BOUNDS.agent);
        for number in 0..MAX_AGENTS as u64 {
            holds.note_of(Digest::of(&number.to_le_bytes()), now + 2 * PERIOD);
        }
        assert_eq!(holds.0.lock().len(), MAX_AGENTS);
        assert_eq!(holds.lately_of(one, now), 0, "forgotten");
    }
}
