//! What is left of a task's budget, and what is said when something is used up.

use super::BudgetDemand;
use crate::model::refusal::Refusal;
use crate::store::state::budget::{BudgetLimits, Dimension, Exceeded, MICROS_PER_UNIT, Remaining};
use serde_json::{Map, Value, json};

impl BudgetDemand {
    /// What the agent reads: what is used up, what is left of the rest, and what to do.
    pub fn refuse(&self, exceeded: &Exceeded) -> Refusal {
        let Exceeded {
            dimension,
            remaining,
            after,
        } = exceeded;
        match dimension {
            Dimension::CallsPerTool => Refusal::BudgetCallsExceeded {
                most: self.limits.calls_per_tool.unwrap_or_default(),
            },
            Dimension::Rate => Refusal::RateExceeded {
                after_ms: after.unwrap_or_default(),
            },
            Dimension::Steps
            | Dimension::ToolCalls
            | Dimension::Cost
            | Dimension::Duration
            | Dimension::Failures
            | Dimension::FailuresInARow => Refusal::BudgetExceeded {
                dimension: word(*dimension),
                left: rest(*dimension, remaining),
                reads_remain: limit(&self.reads, *dimension) != limit(&self.limits, *dimension),
            },
        }
    }
}

/// What is left, as agents and the ledger read it: costs in units, times in milliseconds (003-85).
pub(crate) fn shown(remaining: &Remaining) -> Value {
    let numbers = [
        ("steps", remaining.steps.map(|left| json!(left))),
        ("tool_calls", remaining.tool_calls.map(|left| json!(left))),
        ("cost", remaining.cost.map(|left| json!(units(left)))),
        ("duration_ms", remaining.duration.map(|left| json!(left))),
        ("failures", remaining.failures.map(|left| json!(left))),
        (
            "failures_in_a_row",
            remaining.failures_in_a_row.map(|left| json!(left)),
        ),
        (
            "calls_per_task",
            remaining.calls_per_tool.map(|left| json!(left)),
        ),
    ];
    let known = numbers
        .into_iter()
        .filter_map(|(name, left)| Some((name.to_owned(), left?)));
    Value::Object(known.collect::<Map<_, _>>())
}

/// A cost in units, of so many millionths.
#[expect(
    clippy::cast_precision_loss,
    reason = "a cost that long is a number for people"
)]
pub(crate) fn units(micros: u64) -> f64 {
    micros as f64 / MICROS_PER_UNIT as f64
}

pub(super) fn word(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Steps => "steps",
        Dimension::ToolCalls => "tool_calls",
        Dimension::Cost => "cost",
        Dimension::Duration => "duration",
        Dimension::Failures => "failures",
        Dimension::FailuresInARow => "failures_in_a_row",
        Dimension::CallsPerTool => "calls_per_task",
        Dimension::Rate => "rate",
    }
}

fn limit(limits: &BudgetLimits, dimension: Dimension) -> Option<u64> {
    match dimension {
        Dimension::Steps => limits.steps,
        Dimension::ToolCalls => limits.tool_calls,
        Dimension::Cost => limits.cost,
        Dimension::Duration => limits.duration,
        Dimension::Failures => limits.failures,
        Dimension::FailuresInARow => limits.failures_in_a_row,
        Dimension::CallsPerTool => limits.calls_per_tool,
        Dimension::Rate => limits.rate.map(|rate| rate.calls),
    }
}

fn rest(exceeded: Dimension, remaining: &Remaining) -> String {
    let parts = [
        (
            Dimension::Steps,
            remaining.steps.map(|left| format!("{left} steps")),
        ),
        (
            Dimension::ToolCalls,
            remaining
                .tool_calls
                .map(|left| format!("{left} tool_calls")),
        ),
        (
            Dimension::Cost,
            remaining.cost.map(|left| format!("{} cost", units(left))),
        ),
        (
            Dimension::Duration,
            remaining.duration.map(|left| format!("{} s", left / 1000)),
        ),
        (
            Dimension::Failures,
            remaining.failures.map(|left| format!("{left} failures")),
        ),
        (
            Dimension::FailuresInARow,
            remaining
                .failures_in_a_row
                .map(|left| format!("{left} failures_in_a_row")),
        ),
    ];
    let others = parts
        .into_iter()
        .filter(|(dimension, _)| *dimension != exceeded)
        .filter_map(|(_, left)| left);
    let others: Vec<String> = others.collect();
    if others.is_empty() {
        "nothing else is limited".to_owned()
    } else {
        others.join(", ")
    }
}
