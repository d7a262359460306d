//! When which call of unknown outcome is looked at, and what several looks at it come to. Kept in
//! memory: after a restart each is counted anew, which only makes the end later.

use crate::guards::idempotency::ProbeVerdict;
use crate::model::ids::ActionId;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Calls that are known. Of more, the one that was looked at longest ago is forgotten, and counted anew.
const MAX_KNOWN_CALLS: usize = 10_000;
/// The longest time between two looks at one call, where `every` is not longer.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// `reconcile` of the configuration, as run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReconcileTerms {
    /// How often it is looked which calls are due; and the least time between two looks at one call of
    /// which both count.
    pub(crate) every: Duration,
    /// How long an outcome is unknown before the first look.
    pub(crate) older_than: Duration,
    /// How long after that a call has been on its way before "nothing is there" counts, beside
    /// `absent_after` of its probe.
    pub(crate) settle: Duration,
    /// How often "nothing is there" has to be found, one after the other, before the call counts as
    /// not executed.
    pub(crate) equal_answers: u32,
    /// Calls that are looked at each time.
    pub(crate) max: usize,
}

impl Default for ReconcileTerms {
    fn default() -> Self {
        Self {
            every: Duration::from_mins(1),
            older_than: Duration::from_secs(30),
            settle: Duration::from_mins(2),
            equal_answers: 2,
            max: 20,
        }
    }
}

/// The looks at calls of unknown outcome that nobody else has asked for.
#[derive(Debug, Default)]
pub(crate) struct LookSchedule {
    /// None: nothing is kept to ask by, and nothing is asked by a timer.
    terms: Option<ReconcileTerms>,
    known: Mutex<HashMap<ActionId, KnownLooks>>,
}

/// The looks at one call so far.
#[derive(Debug, Clone, Copy)]
struct KnownLooks {
    times: u32,
    last: Duration,
    /// How often nothing was found, one after the other, each so long after the other that both count.
    absent: u32,
    /// When that was counted last.
    counted: Duration,
}

/// Calls of unknown outcome that a round chooses among.
#[derive(Debug)]
pub(in crate::gate) struct OpenAges {
    /// Each with how long its outcome has been unknown.
    pub(in crate::gate) ages: Vec<(ActionId, Duration)>,
    /// Whether these are all: then of others nothing is kept.
    pub(in crate::gate) is_all: bool,
}

/// What a look comes to with those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum LookSum {
    /// The call was carried out.
    Done,
    /// It was not, and no longer will be.
    NotDone,
    /// Nothing was there, so often of so many times that count.
    Absent(u32, u32),
    /// Nothing was there, too early for that to count.
    Early,
    /// Nothing is proven.
    Open,
}

/// One look, as it is counted.
#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct CountedLook {
    pub(in crate::gate) verdict: ProbeVerdict,
    /// Whether the call's own answer may still come: its server may be at work.
    pub(in crate::gate) is_listened: bool,
    /// For how long the call has been on its way.
    pub(in crate::gate) since: Duration,
    /// Steady time.
    pub(in crate::gate) now: Duration,
}

impl LookSchedule {
    /// On these terms; none: off.
    pub(crate) fn new(terms: Option<ReconcileTerms>) -> Self {
        Self {
            terms,
            known: Mutex::default(),
        }
    }

    /// Whether toolgate asks by itself.
    pub(in crate::gate) fn is_on(&self) -> bool {
        self.terms.is_some()
    }

    /// On which terms it does.
    pub(in crate::gate) fn terms(&self) -> Option<ReconcileTerms> {
        self.terms
    }

    /// Those of `open` that are due at `now`, as many as are looked at each time: those first that were
    /// not looked at for longest.
    pub(in crate::gate) fn due(&self, open: &OpenAges, now: Duration) -> Vec<ActionId> {
        let Some(terms) = self.terms else {
            return Vec::new();
        };
        let mut known = self.known.lock();
        if open.is_all {
            let all: HashSet<ActionId> = open.ages.iter().map(|(action, _)| *action).collect();
            known.retain(|action, _| all.contains(action));
        }
        let mut due: Vec<_> = open
            .ages
            .iter()
            .filter(|(_, unknown)| *unknown >= terms.older_than)
            .map(|(action, unknown)| (known.get(action), *unknown, *action))
            .filter(|(looks, ..)| {
                looks.is_none_or(|looks| now >= looks.last.saturating_add(looks.pause(&terms)))
            })
            .collect();
        due.sort_by_key(|(looks, unknown, _)| (looks.map(|looks| looks.last), Reverse(*unknown)));
        due.truncate(terms.max);
        due.into_iter().map(|(.., action)| action).collect()
    }

    /// Notes that nothing could be asked about the call.
    pub(in crate::gate) fn passed_over(&self, action: ActionId, now: Duration) {
        self.with(action, now, |_| ());
    }

    /// Counts a look at `action`, and says what it comes to with those before it.
    pub(in crate::gate) fn count(&self, action: ActionId, look: CountedLook) -> LookSum {
        let terms = self.terms.unwrap_or_default();
        let CountedLook {
            verdict,
            is_listened,
            since,
            now,
        } = look;
        self.with(action, now, |looks| match verdict {
            ProbeVerdict::Found => LookSum::Done,
            ProbeVerdict::Unclear | ProbeVerdict::Unsaid => {
                looks.absent = 0;
                LookSum::Open
            }
            ProbeVerdict::Absent if is_listened || since < terms.settle => {
                looks.absent = 0;
                LookSum::Early
            }
            ProbeVerdict::Absent => {
                let is_apart = now >= looks.counted.saturating_add(terms.every);
                if looks.absent == 0 || is_apart {
                    (looks.absent, looks.counted) = (looks.absent.saturating_add(1), now);
                }
                if looks.absent >= terms.equal_answers {
                    LookSum::NotDone
                } else {
                    LookSum::Absent(looks.absent, terms.equal_answers)
                }
            }
        })
    }

    fn with<R>(
        &self,
        action: ActionId,
        now: Duration,
        sums: impl FnOnce(&mut KnownLooks) -> R,
    ) -> R {
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN_CALLS && !known.contains_key(&action) {
            let oldest = known.iter().min_by_key(|(_, looks)| looks.last);
            if let Some(oldest) = oldest.map(|(action, _)| *action) {
                known.remove(&oldest);
            }
        }
        let looks = known.entry(action).or_insert(KnownLooks {
            times: 0,
            last: now,
            absent: 0,
            counted: Duration::ZERO,
        });
        looks.times = looks.times.saturating_add(1);
        looks.last = now;
        sums(looks)
    }
}

impl KnownLooks {
    /// How long after the last look the next one is due: longer each time, but where the last one has
    /// found that nothing is there and only that has to be found again.
    fn pause(self, terms: &ReconcileTerms) -> Duration {
        if self.absent > 0 {
            return terms.every;
        }
        let doubled = 2_u32.saturating_pow(self.times.saturating_sub(1).min(16));
        let longest = LONGEST_PAUSE.max(terms.every);
        terms.every.saturating_mul(doubled).min(longest)
    }
}

impl LookSum {
    /// In words, for the ledger.
    pub(in crate::gate) fn words(self, verdict: ProbeVerdict) -> String {
        let word = verdict.word();
        match self {
            Self::Done | Self::Open => word.to_owned(),
            Self::NotDone => format!("{word}, found often enough"),
            Self::Absent(found, needed) => format!("{word}, {found} of {needed} times"),
            Self::Early => format!("{word}, too early to count"),
        }
    }
}

#[cfg(test)]
mod tests;
