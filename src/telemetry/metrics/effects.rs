//! What was kept from running twice, what ran twice all the same, what nobody knows, and what tasks
//! have used.

use super::labels::LabelPair;
use super::{Buckets, Metrics, buckets};
use crate::model::tally::REGIME_WORDS;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// How long the same side effect in the same trace counts as the same (004-03).
const DUPLICATE_WINDOW: Duration = Duration::from_mins(10);
/// Side effects that are remembered for that.
const MAX_RECENT_EFFECTS: usize = 1 << 16;
/// The parts of a budget that have a label.
const BUDGET_DIMENSIONS: [&str; 8] = [
    "steps",
    "tool_calls",
    "cost",
    "duration_ms",
    "failures",
    "failures_in_a_row",
    "tool_failures",
    "calls_per_task",
];

/// What a look at a tool server can find.
const LOOK_RESULTS: [&str; 5] = ["found", "absent", "unclear", "empty", "failed"];

/// What one call has to tell when it has ended.
#[derive(Debug, Clone, Default)]
pub struct CallEffects<'a> {
    /// It was one that had come before, and did not run for that.
    pub is_duplicate: bool,
    /// Its answer is an earlier call's.
    pub is_replayed: bool,
    /// The regimes that would have given it an earlier call's answer, where nothing is enforced.
    pub would_join: &'a [&'static str],
    /// It was the first of its key, was sent or about to be, and has no answer.
    pub is_failed_first: bool,
    /// It changes something and was sent.
    pub executed: Option<ExecutedEffect>,
    /// Steps that its task has used, this call included, and their cost in millionths of a unit.
    pub used: Option<(u64, u64)>,
    /// What its task has left, by dimension.
    pub remaining: Option<&'a serde_json::Value>,
}

/// A side effect that was sent.
#[derive(Debug, Clone, Copy)]
pub struct ExecutedEffect {
    /// A digest of trace, tool and arguments.
    pub digest: u64,
    /// It was made since an equal one was taken back, or takes a call back itself: that it runs again is meant.
    pub is_anew: bool,
}

#[derive(Debug)]
pub(super) struct EffectMetrics {
    suppressed: Counter,
    replays: Counter,
    would_join: Family<LabelPair, Counter>,
    failed_first: Counter,
    executed: Counter,
    executed_again: Counter,
    recent: Mutex<RecentEffects>,
    unknown: Gauge,
    unknown_age: Gauge,
    looks: Family<LabelPair, Counter>,
    held: Gauge,
    decided: Family<LabelPair, Histogram, Buckets>,
    grant_uses: Counter,
    remaining: Family<LabelPair, Histogram, Buckets>,
    steps: Histogram,
    cost: Histogram,
    before_hooks: Family<LabelPair, Counter>,
    after_hooks: Family<LabelPair, Counter>,
}

impl Metrics {
    /// A look at a tool server about a call with an unknown outcome was made, and found this: a word fixed
    /// in the source.
    pub(crate) fn looked(&self, found: &'static str) {
        self.effects.looked(found);
    }
}

/// Side effects of the last minutes, the oldest first.
#[derive(Debug, Default)]
struct RecentEffects {
    order: VecDeque<(Duration, u64)>,
    known: HashSet<u64>,
}

impl RecentEffects {
    /// Whether the same was seen within [`DUPLICATE_WINDOW`] before `now`.
    fn has_seen(&mut self, effect: u64, now: Duration) -> bool {
        while let Some((at, oldest)) = self.order.front().copied() {
            if now.saturating_sub(at) < DUPLICATE_WINDOW && self.order.len() < MAX_RECENT_EFFECTS {
                break;
            }
            self.order.pop_front();
            self.known.remove(&oldest);
        }
        let is_new = self.known.insert(effect);
        if is_new {
            self.order.push_back((now, effect));
        }
        !is_new
    }
}

impl EffectMetrics {
    pub(super) fn new() -> Self {
        Self {
            suppressed: Counter::default(),
            replays: Counter::default(),
            would_join: Family::default(),
            failed_first: Counter::default(),
            executed: Counter::default(),
            executed_again: Counter::default(),
            recent: Mutex::default(),
            unknown: Gauge::default(),
            unknown_age: Gauge::default(),
            looks: Family::default(),
            held: Gauge::default(),
            decided: Family::new_with_constructor(Buckets(buckets::DECISION_SECONDS)),
            grant_uses: Counter::default(),
            remaining: Family::new_with_constructor(Buckets(buckets::BUDGET_AMOUNTS)),
            steps: Histogram::new(buckets::BUDGET_AMOUNTS.iter().copied()),
            cost: Histogram::new(buckets::BUDGET_AMOUNTS.iter().copied()),
            before_hooks: Family::default(),
            after_hooks: Family::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_duplicates_suppressed",
            "Calls with side effects that had come before and were not run again",
            self.suppressed.clone(),
        );
        registry.register(
            "toolgate_replays",
            "Calls answered with the stored answer of an earlier call",
            self.replays.clone(),
        );
        registry.register(
            "toolgate_first_arrival_failures",
            "Calls that were the first of their key and ended without an answer",
            self.failed_first.clone(),
        );
        registry.register(
            "toolgate_side_effects",
            "Calls with side effects that were sent to a tool server",
            self.executed.clone(),
        );
        registry.register(
            "toolgate_duplicates_executed",
            "Those of them that were sent before with the same trace, tool and arguments, within ten minutes",
            self.executed_again.clone(),
        );
        registry.register(
            "toolgate_unknown_outcomes",
            "Calls of which nobody knows whether they ran; at most 1000 are counted",
            self.unknown.clone(),
        );
        registry.register(
            "toolgate_unknown_outcome_age_seconds",
            "For how long the oldest of them has been unknown",
            self.unknown_age.clone(),
        );
        registry.register(
            "toolgate_budget_remaining",
            "What the task of a call had left of a budget when the call ended",
            self.remaining.clone(),
        );
        registry.register(
            "toolgate_steps_used",
            "Steps that the task of a call had used",
            self.steps.clone(),
        );
        registry.register(
            "toolgate_token_cost",
            "Cost that the task of a call had run up, the call included",
            self.cost.clone(),
        );
        self.register_hooks(registry);
        self.register_holds(registry);
        self.register_looks(registry);
    }

    fn register_looks(&self, registry: &mut Registry) {
        for found in LOOK_RESULTS {
            drop(self.looks.get_or_create_owned(&LabelPair("found", found)));
        }
        registry.register(
            "toolgate_outcome_looks",
            "Looks at tool servers about calls with an unknown outcome, by what they found",
            self.looks.clone(),
        );
    }

    fn register_holds(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_approvals_pending",
            "Calls that are held until operators decide",
            self.held.clone(),
        );
        registry.register(
            "toolgate_approval_seconds",
            "Seconds from the first call to the operator's word that decided",
            self.decided.clone(),
        );
        registry.register(
            "toolgate_grant_uses",
            "Calls that have begun with a standing grant, without being asked about",
            self.grant_uses.clone(),
        );
    }

    fn register_hooks(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_before_hooks",
            "Calls that a hook was asked about before they were sent, by what it said",
            self.before_hooks.clone(),
        );
        for regime in REGIME_WORDS {
            drop(
                self.would_join
                    .get_or_create_owned(&LabelPair("regime", regime)),
            );
        }
        registry.register(
            "toolgate_would_join",
            "Calls in observe mode that a regime would have answered with an earlier call's answer",
            self.would_join.clone(),
        );
        registry.register(
            "toolgate_after_hooks",
            "Ended calls that a hook was to hear of, by whether it did",
            self.after_hooks.clone(),
        );
    }

    pub(super) fn before_hook(&self, said: &'static str) {
        self.before_hooks
            .get_or_create(&LabelPair("outcome", said))
            .inc();
    }

    pub(super) fn after_hook(&self, heard: &'static str) {
        self.after_hooks
            .get_or_create(&LabelPair("outcome", heard))
            .inc();
    }

    /// Whether the effect ran again.
    pub(super) fn count(&self, tally: &CallEffects<'_>, now: Duration) -> bool {
        for (counter, counts) in [
            (&self.suppressed, tally.is_duplicate),
            (&self.replays, tally.is_replayed),
            (&self.failed_first, tally.is_failed_first),
        ] {
            counter.inc_by(u64::from(counts));
        }
        for regime in tally.would_join {
            self.would_join
                .get_or_create(&LabelPair("regime", regime))
                .inc();
        }
        let mut is_again = false;
        if let Some(effect) = tally.executed {
            // Noted in any case: the next equal one may not be meant.
            is_again = self.recent.lock().has_seen(effect.digest, now) && !effect.is_anew;
            self.executed.inc();
            self.executed_again.inc_by(u64::from(is_again));
        }
        if let Some((steps, cost)) = tally.used {
            self.steps.observe(amount(steps));
            self.cost.observe(amount(cost) / 1e6);
        }
        for dimension in BUDGET_DIMENSIONS {
            let left = tally
                .remaining
                .and_then(|left| left.get(dimension)?.as_f64());
            if let Some(left) = left {
                self.remaining
                    .get_or_create(&LabelPair("dimension", dimension))
                    .observe(left);
            }
        }
        is_again
    }

    pub(super) fn set_held_calls(&self, count: usize) {
        self.held.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn decided(&self, decision: &'static str, waited: Duration) {
        self.decided
            .get_or_create(&LabelPair("decision", decision))
            .observe(waited.as_secs_f64());
    }

    pub(super) fn grant_used(&self) {
        self.grant_uses.inc();
    }

    pub(super) fn unknown(&self, count: usize, oldest: Duration) {
        self.unknown.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.unknown_age
            .set(i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX));
    }

    fn looked(&self, found: &'static str) {
        self.looks.get_or_create(&LabelPair("found", found)).inc();
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn amount(number: u64) -> f64 {
    number as f64
}
