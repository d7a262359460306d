//! What the state machine has, compared with the book.

use super::super::super::claim::claim_status;
use super::reference::{ReferenceReservation, ReferenceState, ReferenceStore};
use super::*;

impl ReferenceStore {
    /// I6 and 003-27: counters are the sums of their reservations, and never above what was
    /// allowed.
    pub(super) fn check(&self) {
        let within = |used: u64, limit: Option<u64>| limit.is_none_or(|limit| used <= limit);
        for (name, task) in &self.world.tasks {
            let mine: Vec<&ReferenceReservation> =
                self.paid.iter().filter(|paid| paid.task == *name).collect();
            let held = |paid: &&&ReferenceReservation| !paid.is_released;
            assert_eq!(task.steps, mine.iter().filter(held).count() as u64);
            assert_eq!(task.calls, mine.iter().filter(held).count() as u64);
            assert_eq!(task.cost, mine.iter().map(|paid| paid.cost).sum::<u64>());
            assert_eq!(
                task.failures,
                self.failures.get(name).copied().unwrap_or_default()
            );
            assert!(
                within(task.steps, self.limits.steps) && within(task.calls, self.limits.tool_calls)
            );
            assert!(within(task.cost, self.limits.cost));
            for tool in TOOL_NAMES {
                let of_tool: Vec<&&ReferenceReservation> =
                    mine.iter().filter(|paid| paid.tool == tool).collect();
                let calls = of_tool.iter().filter(|paid| !paid.is_released).count() as u64;
                assert_eq!(task.used(&ToolName::new(tool)).calls, calls);
                assert!(within(calls, self.limits.calls_per_tool));
                let Some(rate) = self.limits.rate else {
                    continue;
                };
                let times: Vec<u64> = of_tool.iter().map(|paid| paid.at).collect();
                for (first, from) in times.iter().enumerate() {
                    for (last, to) in times.iter().enumerate().skip(first) {
                        let most = rate.calls + (to - from) * rate.calls / rate.per;
                        assert!(
                            (last - first) as u64 <= most,
                            "{} calls in {} ms",
                            last - first + 1,
                            to - from
                        );
                    }
                }
            }
        }
    }

    /// Whatever was written can be read, and gives the same again (guarantees §8: the journal is
    /// the truth).
    pub(super) fn replay(&self) {
        let mut world = ReferenceState::default();
        for event in &self.events {
            let read = StoreEvent::decode(&Bytes::from(event.encode().unwrap())).unwrap();
            world.apply(&read);
        }
        assert_eq!(world, self.world);
    }

    /// Time alone frees nothing that may have run (guarantees §3).
    pub(super) fn outlive(&self) {
        for claim in self.world.claims.values() {
            let stands = claim_status(Some(claim), &claim.fingerprint, None, Millis::MAX);
            match &claim.phase {
                ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => {
                    assert_eq!(stands, ClaimStatus::Unknown(claim.action));
                }
                ClaimPhase::Dispatching => assert_eq!(stands, ClaimStatus::InFlight(claim.action)),
                ClaimPhase::AwaitingInput { asked, .. } => {
                    assert_eq!(stands, ClaimStatus::Asked(asked.clone()));
                }
                ClaimPhase::Completed(_) | ClaimPhase::Failed { .. } | ClaimPhase::NotSent => {
                    assert!(matches!(stands, ClaimStatus::Open { .. }), "{stands:?}");
                }
            }
        }
    }
}
