//! Held calls on which nobody has said a word for long, and at which nobody looks: told in the log, and counted, so that
//! an alert can fire where nobody watches a channel.

use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::hold_looks::HoldLooks;
use crate::store::state::Millis;
use crate::store::state::hold::Hold;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a look counts at most; it is no longer than a quarter of the call's time.
const LOOK_COUNTS_MOST: Millis = 5 * 60 * 1000;

/// The held calls that were told of, and when last.
#[derive(Debug, Default)]
pub(super) struct UnattendedHolds(BTreeMap<ActionId, Millis>);

/// How held calls wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldsWaiting {
    /// For how long the oldest.
    pub oldest: Duration,
    /// How many nobody attends to.
    pub unattended: usize,
}

/// What is known of held calls beside what stands in the store.
pub(super) struct HoldsSeen<'a> {
    /// When operators have looked at them.
    pub looks: &'a HoldLooks,
    /// Whether nobody's word on one counts any more.
    pub is_void: &'a dyn Fn(&Hold) -> bool,
}

impl UnattendedHolds {
    /// Tells of those of `holds` that nobody attends to, and not of the same again unless an operator has looked since.
    pub(super) fn look(
        &mut self,
        holds: &[(Digest, Hold)],
        seen: &HoldsSeen<'_>,
        now: Millis,
    ) -> HoldsWaiting {
        let waiting: Vec<&Hold> = holds
            .iter()
            .map(|(_, hold)| hold)
            .filter(|hold| hold.is_waiting(now))
            .collect();
        let waits = |id: ActionId| waiting.iter().any(|hold| hold.id == id);
        self.0.retain(|id, _| waits(*id));
        seen.looks.keep(waits);
        let mut unattended = 0;
        for hold in &waiting {
            let looked = seen.looks.last(hold.id);
            let due = due(hold, looked).filter(|due| now >= *due);
            let Some(due) = due.filter(|_| !(seen.is_void)(hold)) else {
                continue;
            };
            unattended += 1;
            if self.0.get(&hold.id).is_none_or(|told| *told < due) {
                self.0.insert(hold.id, now);
                tell(hold, looked, now);
            }
        }
        let oldest = waiting.iter().map(|hold| now.saturating_sub(hold.asked));
        HoldsWaiting {
            oldest: Duration::from_millis(oldest.max().unwrap_or_default()),
            unattended,
        }
    }
}

/// From when on nobody attends to the call: from half of its time on, and not while a look counts; in its last quarter
/// looks count no more, however often an operator looks. None where an operator has said a word on it: to change it and to give
/// it more time are words, too.
fn due(hold: &Hold, looked: Option<Millis>) -> Option<Millis> {
    let has_word =
        !hold.decisions.is_empty() || !hold.edits.is_empty() || hold.extended_by.is_some();
    let time = hold.approve_by.saturating_sub(hold.asked);
    let half = hold.asked.saturating_add(time / 2);
    let last_quarter = hold.asked.saturating_add(time - time / 4);
    let counts = (time / 4).min(LOOK_COUNTS_MOST);
    let due = looked.map_or(half, |looked| looked.saturating_add(counts));
    (!has_word).then(|| due.clamp(half, last_quarter))
}

fn tell(hold: &Hold, looked: Option<Millis>, now: Millis) {
    let left = hold.approve_by.saturating_sub(now) / 1000;
    let (id, tool, roles) = (hold.id, &hold.question.tool, hold.roles.join(","));
    if looked.is_none() {
        tracing::warn!(
            %id, %tool, roles, seconds_left = left,
            "a call waits, and no operator has looked at it or said a word on it for half of its time"
        );
    } else {
        tracing::warn!(
            %id, %tool, roles, seconds_left = left,
            "a call waits, and no operator has said a word on it since one looked at it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::tests::hold;

    const NOBODY: HoldsWaiting = HoldsWaiting {
        oldest: Duration::ZERO,
        unattended: 0,
    };

    /// A call that asked at second 1 and has ten minutes: half of it is over at 301, its last quarter begins at 451.
    struct Watched {
        hold: Hold,
        looks: HoldLooks,
        told: UnattendedHolds,
    }

    impl Watched {
        fn new() -> Self {
            Self {
                hold: hold(1, 1_000),
                looks: HoldLooks::default(),
                told: UnattendedHolds::default(),
            }
        }

        /// Whether it is unattended at that second, and whether that is told then.
        fn at(&mut self, second: Millis) -> (bool, bool) {
            let now = second * 1_000;
            let before = self.told.0.get(&self.hold.id).copied();
            let waiting = self.looked_through(now, false);
            let after = self.told.0.get(&self.hold.id).copied();
            (waiting.unattended == 1, before != after)
        }

        fn looked_through(&mut self, now: Millis, is_void: bool) -> HoldsWaiting {
            let holds = [(Digest::of(b"k"), self.hold.clone())];
            let seen = HoldsSeen {
                looks: &self.looks,
                is_void: &|_| is_void,
            };
            self.told.look(&holds, &seen, now)
        }

        fn is_looked_at(&self, second: Millis) {
            self.looks.note(self.hold.id, second * 1_000);
        }
    }

    #[test]
    fn what_nobody_attends_to_is_told_once() {
        let mut watched = Watched::new();
        assert_eq!(watched.at(300), (false, false));
        assert_eq!(watched.at(301), (true, true));
        assert_eq!(watched.at(460), (true, false));
        // Its time is over.
        assert_eq!(watched.looked_through(601_000, false), NOBODY);
        assert!(watched.told.0.is_empty());
        let oldest = Watched::new().looked_through(301_000, false).oldest;
        assert_eq!(oldest, Duration::from_mins(5));
    }

    /// A look counts for a quarter of the call's time, and then it is told again; in the last quarter none counts.
    #[test]
    fn a_look_silences_it_for_a_while() {
        let mut watched = Watched::new();
        watched.is_looked_at(250);
        assert_eq!(watched.at(399), (false, false));
        assert_eq!(watched.at(400), (true, true));
        watched.is_looked_at(410);
        assert_eq!(watched.at(450), (false, false));
        assert_eq!(watched.at(451), (true, true));
        watched.is_looked_at(470);
        assert_eq!(watched.at(480), (true, false));
        // A look long before half of its time is none any more then.
        let mut early = Watched::new();
        early.is_looked_at(2);
        assert_eq!(early.at(301), (true, true));
    }

    /// Of a call that may wait for a day a look counts for five minutes.
    #[test]
    fn a_look_counts_for_five_minutes_at_most() {
        let mut watched = Watched::new();
        watched.hold.approve_by = 1_000 + 86_400_000;
        assert_eq!(watched.at(43_201), (true, true));
        watched.is_looked_at(43_300);
        assert_eq!(watched.at(43_599), (false, false));
        assert_eq!(watched.at(43_600), (true, true));
    }

    #[test]
    fn what_has_a_word_or_is_void_is_attended_to() {
        let mut extended = Watched::new();
        extended.hold.extended_by = Some("ann".to_owned());
        assert_eq!(extended.at(301), (false, false));
        let void = Watched::new().looked_through(301_000, true);
        assert_eq!(void.unattended, 0);
    }

    /// No more looks are known than calls wait.
    #[test]
    fn looks_at_what_waits_no_longer_are_forgotten() {
        let mut watched = Watched::new();
        watched.is_looked_at(10);
        watched.looked_through(20_000, false);
        assert!(watched.looks.last(watched.hold.id).is_some());
        watched.looked_through(601_000, false);
        assert_eq!(watched.looks.last(watched.hold.id), None);
    }
}
