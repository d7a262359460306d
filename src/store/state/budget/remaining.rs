//! The parts of a budget, what is left of them, and which of them a call would overrun.

use super::{MICROS_PER_UNIT, Price};
use serde::{Deserialize, Serialize};

/// The parts of a budget, in the order in which they are asked: first those with which the task is over
/// whatever it would call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// `max_steps`.
    Steps,
    /// `max_tool_calls`.
    ToolCalls,
    /// `max_duration`.
    Duration,
    /// `max_failures`.
    Failures,
    /// `max_failures_in_a_row`.
    FailuresInARow,
    /// `max_tool_failures`.
    ToolFailures,
    /// `max_calls_per_task`.
    CallsPerTool,
    /// `max_cost`.
    Cost,
    /// `rate`.
    Rate,
}

/// What is left of a task's budget; absent where there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// Steps.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub steps: Option<u64>,
    /// Calls, of any tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_calls: Option<u64>,
    /// Millionths of a unit of cost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<u64>,
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration: Option<u64>,
    /// Failures.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failures: Option<u64>,
    /// Failures in a row.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failures_in_a_row: Option<u64>,
    /// Failures in a row of this tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_failures: Option<u64>,
    /// Calls of this tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calls_per_tool: Option<u64>,
}

impl Remaining {
    /// For people; none where nothing is limited.
    pub fn words(&self) -> Option<String> {
        let count = |count: Option<u64>, what: &str| count.map(|count| format!("{count} {what}"));
        let units = |micros: u64| {
            let (whole, rest) = (micros / MICROS_PER_UNIT, micros % MICROS_PER_UNIT);
            let rest = format!("{rest:06}");
            let rest = rest.trim_end_matches('0');
            let point = if rest.is_empty() { "" } else { "." };
            format!("{whole}{point}{rest} of cost")
        };
        let parts = [
            count(self.steps, "steps"),
            count(self.tool_calls, "calls"),
            count(self.calls_per_tool, "calls of this tool"),
            self.cost.map(units),
            count(self.duration.map(|left| left / 1000), "seconds"),
            count(self.failures, "failures"),
            count(self.failures_in_a_row, "failures in a row"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// What is left where both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let lower = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        Self {
            steps: lower(self.steps, other.steps),
            tool_calls: lower(self.tool_calls, other.tool_calls),
            cost: lower(self.cost, other.cost),
            duration: lower(self.duration, other.duration),
            failures: lower(self.failures, other.failures),
            failures_in_a_row: lower(self.failures_in_a_row, other.failures_in_a_row),
            tool_failures: lower(self.tool_failures, other.tool_failures),
            calls_per_tool: lower(self.calls_per_tool, other.calls_per_tool),
        }
    }

    /// What is left once a call at `price` has taken its part.
    #[must_use]
    pub fn after(self, price: &Price) -> Self {
        let less = |left: Option<u64>, used: u64| left.map(|left| left.saturating_sub(used));
        Self {
            steps: less(self.steps, 1),
            tool_calls: less(self.tool_calls, 1),
            cost: less(self.cost, price.cost),
            calls_per_tool: less(self.calls_per_tool, 1),
            ..self
        }
    }
}

/// A budget that one more call would overrun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// Which part; the first in the order of [`Dimension`].
    pub dimension: Dimension,
    /// All parts that are used up besides, in that order; a rate only where nothing else is.
    pub others: Box<[Dimension]>,
    /// What is left in all parts; where a task and its user's account both pay, of both.
    pub remaining: Remaining,
    /// In how many milliseconds the call would fit; only a rate and a user's account give way with
    /// time.
    pub after: Option<u64>,
    /// Is it the user's account that has no more, and not the task?
    pub is_account: bool,
}
