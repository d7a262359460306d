//! How many calls may wait for a person at once. What is void waits for nobody, and takes no room.

use crate::gate::Gate;
use crate::gate::effects::unavailable;
use crate::model::refusal::Refusal;
use crate::store::state::command::HoldBounds;
use crate::store::state::hold::{Hold, HoldBound, HoldQuestion};

/// Calls that may be held (threat-model §8): people behind one agent are bounded together, too, since
/// users are names that the agent says.
pub(in crate::gate) const HOLD_BOUNDS: HoldBounds = HoldBounds {
    all: 256,
    agent: 128,
    caller: 20,
};
/// Held calls that are looked at for room.
const MAX_LOOKED_AT: usize = 1000;

/// The same `bounds` for an agent that has cancelled so many calls lately.
pub(in crate::gate) fn beside_cancelled(bounds: HoldBounds, cancelled: usize) -> HoldBounds {
    HoldBounds {
        agent: bounds.agent.saturating_sub(cancelled),
        ..bounds
    }
}

impl Gate {
    /// The bounds for `question`, wider by what is void: at most by as much again, however often
    /// policies change.
    pub(in crate::gate) async fn bounds_beside_void(
        &self,
        question: &HoldQuestion,
    ) -> Result<HoldBounds, Refusal> {
        let store = &self.effects.store;
        let holds = store.holds(MAX_LOOKED_AT).await.map_err(unavailable)?;
        let now = store.now();
        let waits = |(_, hold): &(_, Hold)| hold.is_waiting(now);
        let void: Vec<Hold> = holds
            .into_iter()
            .filter(|held| waits(held) && self.void(&held.1).is_some())
            .map(|(_, hold)| hold)
            .collect();
        let count = |fits: &dyn Fn(&Hold) -> bool| void.iter().filter(|hold| fits(hold)).count();
        let HoldBounds { all, agent, caller } = HOLD_BOUNDS;
        Ok(HoldBounds {
            all: all + void.len().min(all),
            agent: agent + count(&|hold| hold.is_alike(question, now)).min(agent),
            caller: caller + count(&|hold| hold.is_for_same(question, now)).min(caller),
        })
    }
}

/// The refusal of a call for which there is no room.
pub(in crate::gate) fn full(bound: HoldBound) -> Refusal {
    let HoldBounds { all, agent, caller } = HOLD_BOUNDS;
    Refusal::ApprovalQueueFull {
        waiting: match bound {
            HoldBound::All => format!("{all} calls"),
            HoldBound::Agent => {
                format!(
                    "{agent} calls of this agent, with those that it has cancelled within an hour,"
                )
            }
            HoldBound::Caller => format!("{caller} calls of this user"),
        },
    }
}
