//! What a task may use, and whether one more call fits.

use super::{Dimension, Exceeded, Millis, Rate, Remaining, TaskUsage};
use crate::model::ids::ToolName;

/// What a task may use, and each tool within it. Absent: no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Judged calls that reached this step.
    pub steps: Option<u64>,
    /// Calls sent.
    pub tool_calls: Option<u64>,
    /// Millionths of a unit of cost.
    pub cost: Option<u64>,
    /// Milliseconds since the task's first call.
    pub duration: Option<u64>,
    /// Failed calls.
    pub failures: Option<u64>,
    /// Failed calls since the last that did not fail.
    pub failures_in_a_row: Option<u64>,
    /// Failed calls of this tool since the last that did not fail.
    pub tool_failures: Option<u64>,
    /// Calls of this tool.
    pub calls_per_tool: Option<u64>,
    /// How many calls of this tool may be made in a span of time.
    pub rate: Option<Rate>,
    /// Is the rate only counted, so that it never refuses?
    pub is_only_counted: bool,
    /// Milliseconds without a call after which the task has ended, and the next call begins another.
    pub idle: Option<u64>,
    /// Milliseconds from its first call after which a user's account has ended, and the next call
    /// begins another; only of an account.
    pub span: Option<u64>,
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// What the call counts as: `server__tool`, with `#` and its variant where that is counted by
    /// itself.
    pub tool: ToolName,
    /// Millionths of a unit of cost, as far as known before the call.
    pub cost: u64,
}

impl BudgetLimits {
    /// Whether one more call at `price` fits; what is left before it.
    pub fn admit(
        &self,
        task: Option<&TaskUsage>,
        price: &Price,
        now: Millis,
    ) -> Result<Remaining, Box<Exceeded>> {
        let fresh = TaskUsage::new(now);
        // A rate is over time, not over a task: what was used of it stays used when the task ends.
        let used = task.unwrap_or(&fresh).used(&price.tool);
        let task = self.current(task, now).unwrap_or(&fresh);
        let remaining = self.remaining(task, &price.tool, now);
        let short = |left: Option<u64>, need: u64| left.is_some_and(|left| left < need);
        // Then nothing more may be called, what costs nothing neither.
        let is_overspent = self.cost.is_some_and(|most| task.cost > most);
        let exceeded = [
            (Dimension::Steps, short(remaining.steps, 1)),
            (Dimension::ToolCalls, short(remaining.tool_calls, 1)),
            (Dimension::Duration, short(remaining.duration, 1)),
            (Dimension::Failures, short(remaining.failures, 1)),
            (
                Dimension::FailuresInARow,
                short(remaining.failures_in_a_row, 1),
            ),
            (Dimension::ToolFailures, short(remaining.tool_failures, 1)),
            (Dimension::CallsPerTool, short(remaining.calls_per_tool, 1)),
            (
                Dimension::Cost,
                is_overspent || short(remaining.cost, price.cost),
            ),
        ];
        let mut exceeded = exceeded
            .into_iter()
            .filter_map(|(dimension, exceeded)| exceeded.then_some(dimension));
        if let Some(dimension) = exceeded.next() {
            return Err(Box::new(Exceeded {
                dimension,
                others: exceeded.collect(),
                remaining,
                after: self
                    .span
                    .map(|span| (task.began + span).saturating_sub(now)),
                is_account: self.span.is_some(),
            }));
        }
        let rate = self.rate.filter(|_| !self.is_only_counted);
        match rate.map(|rate| used.wait(rate, now)) {
            Some(wait) if wait > 0 => Err(Box::new(Exceeded {
                dimension: Dimension::Rate,
                others: Box::default(),
                remaining,
                after: Some(wait),
                is_account: false,
            })),
            _ => Ok(remaining),
        }
    }

    /// What is left for a call of `tool`, of the task as it goes on at `now`, or of one that begins.
    pub fn left(&self, task: Option<&TaskUsage>, tool: &ToolName, now: Millis) -> Remaining {
        let fresh = TaskUsage::new(now);
        let task = self.current(task, now).unwrap_or(&fresh);
        self.remaining(task, tool, now)
    }

    /// What is left of `task` for a call of `tool`.
    pub fn remaining(&self, task: &TaskUsage, tool: &ToolName, now: Millis) -> Remaining {
        let left = |limit: Option<u64>, used: u64| limit.map(|limit| limit.saturating_sub(used));
        let of_tool = task.used(tool);
        Remaining {
            steps: left(self.steps, task.steps),
            tool_calls: left(self.tool_calls, task.calls),
            cost: left(self.cost, task.cost),
            duration: left(self.duration, now.saturating_sub(task.began)),
            failures: left(self.failures, task.failures),
            failures_in_a_row: left(self.failures_in_a_row, task.failures_in_a_row),
            tool_failures: left(self.tool_failures, of_tool.failures_in_a_row),
            calls_per_tool: left(self.calls_per_tool, of_tool.calls),
        }
    }

    /// The same rate, and no limit: what is counted with these is counted right, and always fits.
    #[must_use]
    pub fn only_counted(&self) -> Self {
        Self {
            rate: self.rate,
            is_only_counted: true,
            idle: self.idle,
            span: self.span,
            ..Self::default()
        }
    }

    /// Whether anything is limited.
    pub fn is_limited(&self) -> bool {
        let limits = Self {
            idle: None,
            span: None,
            ..self.clone()
        };
        limits != Self::default()
    }

    /// The task as it goes on at `now`; none when there is none, or it has ended. What an operator
    /// has stopped stays so.
    pub fn current<'a>(&self, task: Option<&'a TaskUsage>, now: Millis) -> Option<&'a TaskUsage> {
        let goes_on = |task: &&TaskUsage| {
            let is_idle = |idle: u64| task.last.saturating_add(idle) <= now;
            let is_over = |span: u64| task.began.saturating_add(span) <= now;
            task.stopped.is_some()
                || !(self.idle.is_some_and(is_idle) || self.span.is_some_and(is_over))
        };
        task.filter(goes_on)
    }
}
