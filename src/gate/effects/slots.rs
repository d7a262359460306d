//! Room for calls in flight, of which no agent has all: however slow the reads of one are,
//! another's calls go on.

use crate::model::ids::AgentId;
use crate::model::shares::Shares;
use parking_lot::Mutex;
use std::sync::Arc;

/// Calls in flight at most (threat-model §8).
pub const IN_FLIGHT: usize = 320;
/// Calls of one agent in flight at most.
pub const IN_FLIGHT_OF_ONE: usize = 256;

/// Calls in flight, by agent.
#[derive(Debug, Default)]
pub struct Slots(Arc<Mutex<Shares>>);

/// Room that one call has, until this is dropped.
#[derive(Debug)]
pub(in crate::gate) struct Slot {
    slots: Arc<Mutex<Shares>>,
    agent: AgentId,
}

impl Slots {
    /// Room for one more call of `agent`; none when it, or all agents together, have as many as
    /// they may.
    pub(in crate::gate) fn take(&self, agent: &AgentId) -> Option<Slot> {
        let mut taken = self.0.lock();
        if taken.of(agent) >= IN_FLIGHT_OF_ONE || taken.all() >= IN_FLIGHT {
            return None;
        }
        taken.add(agent, 1);
        drop(taken);
        Some(Slot {
            slots: Arc::clone(&self.0),
            agent: agent.clone(),
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.agent, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// threat-model §3I: one agent leaves a fifth to the others, and what was taken comes back.
    #[test]
    fn one_agent_does_not_take_all_slots() {
        let slots = Slots::default();
        let [one, two, three] = ["one", "two", "three"].map(AgentId::new);
        let mut taken: Vec<Slot> = (0..IN_FLIGHT_OF_ONE)
            .map(|_| slots.take(&one).unwrap())
            .collect();
        assert!(slots.take(&one).is_none());
        taken.extend((IN_FLIGHT_OF_ONE..IN_FLIGHT).map(|_| slots.take(&two).unwrap()));
        assert!(
            slots.take(&two).is_none() && slots.take(&three).is_none(),
            "all are taken"
        );
        taken.pop();
        taken.push(slots.take(&three).unwrap());
        taken.clear();
        let left = slots.0.lock();
        assert_eq!((left.all(), left.agents()), (0, 0));
    }
}
