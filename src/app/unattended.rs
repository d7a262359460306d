//! Held calls on which nobody has said a word for long: told in the log once each, and counted, so that an alert
//! can fire where nobody watches a channel.

use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::state::Millis;
use crate::store::state::hold::Hold;
use std::collections::BTreeSet;
use std::time::Duration;

/// The held calls that were told of.
#[derive(Debug, Default)]
pub(super) struct UnattendedHolds(BTreeSet<ActionId>);

impl UnattendedHolds {
    /// Tells of those of `holds` on which nobody has said a word for half of their time. Gives how long
    /// the oldest that waits has waited.
    pub(super) fn look(&mut self, holds: &[(Digest, Hold)], now: Millis) -> Duration {
        let waiting = || {
            holds
                .iter()
                .map(|(_, hold)| hold)
                .filter(|hold| hold.is_waiting(now))
        };
        self.0.retain(|id| waiting().any(|hold| hold.id == *id));
        for hold in waiting().filter(|hold| is_unattended(hold, now)) {
            if self.0.insert(hold.id) {
                let left = hold.approve_by.saturating_sub(now) / 1000;
                tracing::warn!(
                    id = %hold.id, tool = %hold.question.tool, roles = hold.roles.join(","), seconds_left = left,
                    "a call waits, and no operator has said a word on it for half of its time"
                );
            }
        }
        let oldest = waiting().map(|hold| now.saturating_sub(hold.asked)).max();
        Duration::from_millis(oldest.unwrap_or_default())
    }
}

/// To give it more time is a word, too.
fn is_unattended(hold: &Hold, now: Millis) -> bool {
    let half = hold.approve_by.saturating_sub(hold.asked) / 2;
    let is_unanswered = hold.decisions.is_empty() && hold.extended_by.is_none();
    is_unanswered && now.saturating_sub(hold.asked) >= half
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::tests::hold;

    #[test]
    fn what_nobody_answers_is_told_once() {
        let waits = hold(1, 1_000);
        let id = waits.id;
        let holds = [(Digest::of(b"k"), waits)];
        let mut unattended = UnattendedHolds::default();
        assert_eq!(
            unattended.look(&holds, 300_999),
            Duration::from_millis(299_999)
        );
        assert!(unattended.0.is_empty());
        assert_eq!(unattended.look(&holds, 301_000), Duration::from_mins(5));
        assert_eq!(unattended.0, BTreeSet::from([id]));
        // An operator has said something of it.
        let (key, waits) = &holds[0];
        let extended = Hold {
            extended_by: Some("ann".to_owned()),
            ..waits.clone()
        };
        let mut other = UnattendedHolds::default();
        other.look(&[(*key, extended)], 301_000);
        assert!(other.0.is_empty());
        // Its time is over.
        assert_eq!(unattended.look(&holds, 601_000), Duration::ZERO);
        assert!(unattended.0.is_empty());
    }
}
