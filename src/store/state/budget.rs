//! Budgets of a task (guarantees §6): what was reserved and spent, and whether one more call fits.
//! A reservation is part of its call's events; the counters are their sum, so recovery gives the
//! same numbers.

use super::Millis;
use super::claim::ClaimPhase;
use super::settlement::Charge;
use crate::model::ids::{ActionId, ToolName};
pub use crate::model::rate::Rate;
use crate::model::task::TaskState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Millionths of a unit of cost.
pub const MICROS_PER_UNIT: u64 = 1_000_000;
/// Calls of a task that the loop detector sees.
pub const MAX_SEEN_CALLS: usize = 32;
/// Calls with side effects that a task can name.
pub const MAX_EVIDENCE_CALLS: usize = 32;
/// Tools that a task counts one by one; more share one count.
const MAX_COUNTED_TOOLS: usize = 256;
/// So many times its calls at once never happen within what a rate looks at.
const UNREACHED_BURST_FACTOR: u64 = 1 << 24;
/// Where the tools beyond [`MAX_COUNTED_TOOLS`] are counted.
const OTHER_TOOLS_KEY: &str = "*";

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
    /// Calls of this tool.
    pub calls_per_tool: Option<u64>,
    /// How fast calls of this tool may follow each other.
    pub rate: Option<Rate>,
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

/// A task, as far as budgets and the loop detector go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUsage {
    /// When its first call was judged.
    pub began: Millis,
    /// When it last did anything.
    pub last: Millis,
    /// Calls that reached the budget.
    pub steps: u64,
    /// Calls reserved or sent.
    pub calls: u64,
    /// Reserved and spent, in millionths.
    pub cost: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Those of them since the last that did not.
    #[serde(default)]
    pub failures_in_a_row: u64,
    /// By tool.
    pub tools: BTreeMap<ToolName, ToolUsage>,
    /// The last calls, oldest first.
    pub history: Vec<SeenCall>,
    /// Where it is in its work; none until its agent says so or something is done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<TaskState>,
    /// Its last calls with side effects that ran or may have, oldest first (003-76).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub evidence: Vec<ActionId>,
}

/// How a task has used one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUsage {
    /// Calls reserved or sent.
    pub calls: u64,
    /// When, at the rate that was in force, the next call would be due.
    pub due: Millis,
}

/// One call as the loop detector remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenCall {
    /// Tool and arguments.
    pub call: u64,
    /// What came of it: the answer's digest, or the refusal's code.
    pub outcome: u64,
    /// Was it refused?
    pub refused: bool,
}

/// The parts of a budget, in the order in which they are asked (guarantees §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// `max_steps`.
    Steps,
    /// `max_tool_calls`.
    ToolCalls,
    /// `max_calls_per_task`.
    CallsPerTool,
    /// `max_cost`.
    Cost,
    /// `max_duration`.
    Duration,
    /// `max_failures`.
    Failures,
    /// `max_failures_in_a_row`.
    FailuresInARow,
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
    /// Calls of this tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calls_per_tool: Option<u64>,
}

impl Remaining {
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
    /// What is left in all parts.
    pub remaining: Remaining,
    /// In how many milliseconds the call would fit; only a rate gives way with time.
    pub after: Option<u64>,
}

impl BudgetLimits {
    /// Whether one more call at `price` fits; what is left before it.
    pub fn admit(
        &self,
        task: Option<&TaskUsage>,
        price: &Price,
        now: Millis,
    ) -> Result<Remaining, Exceeded> {
        let fresh = TaskUsage::new(now);
        let task = task.unwrap_or(&fresh);
        let used = task.used(&price.tool);
        let remaining = self.remaining(task, &price.tool, now);
        let short = |left: Option<u64>, need: u64| left.is_some_and(|left| left < need);
        let exceeded = [
            (Dimension::Steps, short(remaining.steps, 1)),
            (Dimension::ToolCalls, short(remaining.tool_calls, 1)),
            (Dimension::CallsPerTool, short(remaining.calls_per_tool, 1)),
            (Dimension::Cost, short(remaining.cost, price.cost)),
            (Dimension::Duration, short(remaining.duration, 1)),
            (Dimension::Failures, short(remaining.failures, 1)),
            (
                Dimension::FailuresInARow,
                short(remaining.failures_in_a_row, 1),
            ),
        ];
        if let Some((dimension, _)) = exceeded.into_iter().find(|(_, exceeded)| *exceeded) {
            return Err(Exceeded {
                dimension,
                remaining,
                after: None,
            });
        }
        match self.rate.map(|rate| rate.wait(used.due, now)) {
            Some(wait) if wait > 0 => Err(Exceeded {
                dimension: Dimension::Rate,
                remaining,
                after: Some(wait),
            }),
            _ => Ok(remaining),
        }
    }

    /// What is left of `task` for a call of `tool`.
    pub fn remaining(&self, task: &TaskUsage, tool: &ToolName, now: Millis) -> Remaining {
        let left = |limit: Option<u64>, used: u64| limit.map(|limit| limit.saturating_sub(used));
        Remaining {
            steps: left(self.steps, task.steps),
            tool_calls: left(self.tool_calls, task.calls),
            cost: left(self.cost, task.cost),
            duration: left(self.duration, now.saturating_sub(task.began)),
            failures: left(self.failures, task.failures),
            failures_in_a_row: left(self.failures_in_a_row, task.failures_in_a_row),
            calls_per_tool: left(self.calls_per_tool, task.used(tool).calls),
        }
    }

    /// The same pace, and no limit: what is counted with these is counted right, and always fits.
    #[must_use]
    pub fn only_counted(&self) -> Self {
        let rate = self.rate.map(|Rate { calls, per }| Rate {
            calls: calls.saturating_mul(UNREACHED_BURST_FACTOR),
            per: per.saturating_mul(UNREACHED_BURST_FACTOR),
        });
        Self {
            rate,
            ..Self::default()
        }
    }

    /// Whether anything is limited.
    pub fn is_limited(&self) -> bool {
        *self != Self::default()
    }

    /// The milliseconds one call takes up of the rate; 0 without one.
    pub(super) fn step(&self) -> u64 {
        self.rate.map_or(0, Rate::step)
    }
}

impl TaskUsage {
    /// A task that begins.
    pub fn new(now: Millis) -> Self {
        Self {
            began: now,
            last: now,
            ..Self::default()
        }
    }

    /// How it has used `tool`.
    pub fn used(&self, tool: &ToolName) -> ToolUsage {
        let tool = self.tools.get(tool).or_else(|| {
            self.tools
                .get(OTHER_TOOLS_KEY)
                .filter(|_| self.tools.len() > MAX_COUNTED_TOOLS)
        });
        tool.copied().unwrap_or_default()
    }

    pub(super) fn reserve(&mut self, tool: &str, cost: u64, rate: u64, now: Millis) {
        self.steps += 1;
        self.calls += 1;
        self.cost = self.cost.saturating_add(cost);
        self.last = self.last.max(now);
        let used = self.tool(tool);
        used.calls += 1;
        used.due = used.due.max(now).saturating_add(rate);
    }

    pub(super) fn settle(&mut self, tool: &ToolName, reserved: u64, charge: Charge) {
        match charge {
            Charge::Hold => {}
            Charge::Settle(cost) => {
                self.cost = self.cost.saturating_sub(reserved).saturating_add(cost);
            }
            Charge::Release => {
                self.cost = self.cost.saturating_sub(reserved);
                self.calls = self.calls.saturating_sub(1);
                let used = self.tool(tool.as_str());
                used.calls = used.calls.saturating_sub(1);
            }
        }
    }

    pub(super) fn note(&mut self, failed: bool, seen: Option<SeenCall>, now: Millis) {
        self.failures += u64::from(failed);
        self.failures_in_a_row += u64::from(failed);
        self.last = self.last.max(now);
        if let Some(seen) = seen {
            let surplus = (self.history.len() + 1).saturating_sub(MAX_SEEN_CALLS);
            self.history.drain(..surplus);
            self.history.push(seen);
        }
    }

    /// A call was answered, and well: the failures before it are no row any more (003-92).
    pub(super) fn succeed(&mut self) {
        self.failures_in_a_row = 0;
    }

    /// Keeps in mind that `action` ran or may have, and forgets it when it is known that it did
    /// not.
    pub(super) fn prove(&mut self, action: ActionId, phase: &ClaimPhase) {
        self.evidence.retain(|known| *known != action);
        match phase {
            ClaimPhase::Completed(_) | ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => {
                let surplus = (self.evidence.len() + 1).saturating_sub(MAX_EVIDENCE_CALLS);
                self.evidence.drain(..surplus);
                self.evidence.push(action);
            }
            ClaimPhase::Dispatching
            | ClaimPhase::AwaitingInput { .. }
            | ClaimPhase::NotSent
            | ClaimPhase::Failed { .. } => {}
        }
    }

    fn tool(&mut self, tool: &str) -> &mut ToolUsage {
        let known = self.tools.contains_key(tool) || self.tools.len() < MAX_COUNTED_TOOLS;
        self.tools
            .entry(ToolName::new(if known { tool } else { OTHER_TOOLS_KEY }))
            .or_default()
    }
}
