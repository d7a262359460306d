//! Budgets of a task (guarantees §6): what was reserved and spent, and whether one more call fits.
//! A reservation is part of its call's events; the counters are their sum, so recovery gives the
//! same numbers.

mod limits;
mod remaining;

use super::Millis;
use super::claim::ClaimPhase;
use super::settlement::Charge;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
pub use crate::model::rate::Rate;
use crate::model::task::{TaskOrigin, TaskState, TaskStopped};
use crate::model::window::SlidingWindow;
pub use limits::{BudgetLimits, Price};
pub use remaining::{Dimension, Exceeded, Remaining};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Millionths of a unit of cost.
pub const MICROS_PER_UNIT: u64 = 1_000_000;
/// Calls of a task that the loop detector sees.
pub const MAX_SEEN_CALLS: usize = 32;
/// Calls that a plan can have.
pub const MAX_PLANNED_CALLS: usize = 64;
/// Calls with side effects that a task can name.
pub const MAX_EVIDENCE_CALLS: usize = 32;
/// Tools that a task counts one by one; more share one count.
const MAX_COUNTED_TOOLS: usize = 256;
/// Where the tools beyond [`MAX_COUNTED_TOOLS`] are counted.
const OTHER_TOOLS_KEY: &str = "*";

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
    /// Whose it is; none for one that began before that was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub origin: Option<TaskOrigin>,
    /// Whether an operator has stopped it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<TaskStopped>,
    /// What it has planned, by tool and arguments, since it began to; oldest first (003-11).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub plan: Vec<Digest>,
    /// Whether its plan binds it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_planned: bool,
    /// How often its last call came in a row, whatever came of it.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub equal_calls: u64,
}

/// How a task has used one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUsage {
    /// Calls reserved or sent.
    pub calls: u64,
    /// Calls that failed since the last that did not: as many as opened its circuit are the last.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub failures_in_a_row: u64,
    /// When the next call would be due, in records from before rates were counted in a window.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub due: Millis,
    /// Calls within its rate's span of time.
    #[serde(skip_serializing_if = "SlidingWindow::is_empty", default)]
    pub recent: SlidingWindow,
    /// That span, in milliseconds, as the last of them was counted.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub per: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_zero(number: &Millis) -> bool {
    *number == 0
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
    /// How often it came, one after the other.
    #[serde(skip_serializing_if = "is_one", default = "one")]
    pub times: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

fn one() -> u32 {
    1
}

impl ToolUsage {
    /// Milliseconds until one more call fits `rate`.
    fn wait(&self, rate: Rate, now: Millis) -> u64 {
        match self.before_windows(rate, now) {
            Some(recent) => recent.wait(rate.calls, rate.per, now),
            None => self.recent.wait(rate.calls, rate.per, now),
        }
    }

    /// What a record from before rates were counted in a window says of it: as many calls as were
    /// not due yet, all of them made as late as they can have been.
    fn before_windows(&self, rate: Rate, now: Millis) -> Option<SlidingWindow> {
        let step = rate.per.div_ceil(rate.calls.max(1)).max(1);
        let calls = self.due.saturating_sub(now).div_ceil(step);
        (calls > 0).then(|| SlidingWindow::full(self.due.saturating_sub(calls * step), calls))
    }

    fn take(&mut self, rate: Rate, now: Millis) {
        if let Some(recent) = self.before_windows(rate, now) {
            self.recent = recent;
        }
        (self.due, self.per) = (0, rate.per);
        self.recent.take(rate.per, now);
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
        tool.cloned().unwrap_or_default()
    }

    /// Takes a call's part. `due`: what records from before rates were counted in a window say.
    pub(super) fn reserve(
        &mut self,
        tool: &str,
        cost: u64,
        rate: (Option<Rate>, u64),
        now: Millis,
    ) {
        self.steps += 1;
        self.calls += 1;
        self.cost = self.cost.saturating_add(cost);
        self.last = self.last.max(now);
        let used = self.tool(&ToolName::new(tool));
        used.calls += 1;
        match rate {
            (Some(rate), _) => used.take(rate, now),
            (None, 0) => {}
            (None, due) => used.due = used.due.max(now).saturating_add(due),
        }
    }

    pub(super) fn settle(&mut self, tool: &ToolName, reserved: u64, charge: Charge) {
        match charge {
            Charge::Hold => {}
            Charge::Settle(cost) => {
                self.cost = self.cost.saturating_sub(reserved).saturating_add(cost);
            }
            Charge::Release => {
                self.cost = self.cost.saturating_sub(reserved);
                self.steps = self.steps.saturating_sub(1);
                self.calls = self.calls.saturating_sub(1);
                let used = self.tool(tool);
                used.calls = used.calls.saturating_sub(1);
            }
        }
    }

    /// A call of `tool` that was reserved at `at` is proven not to have been sent: it counts for no
    /// rate either.
    pub(super) fn unsend(&mut self, tool: &ToolName, at: Millis, now: Millis) {
        let used = self.tool(tool);
        used.recent.give_back(at, used.per, now);
    }

    /// A call of `tool` has ended.
    pub(super) fn end(
        &mut self,
        tool: &ToolName,
        failed: bool,
        seen: Option<SeenCall>,
        now: Millis,
    ) {
        if failed {
            let used = self.tool(tool);
            used.failures_in_a_row = used.failures_in_a_row.saturating_add(1);
        }
        self.note(failed, seen, now);
    }

    pub(super) fn note(&mut self, failed: bool, seen: Option<SeenCall>, now: Millis) {
        self.failures += u64::from(failed);
        self.failures_in_a_row += u64::from(failed);
        self.last = self.last.max(now);
        if let Some(seen) = seen {
            self.see(seen);
        }
    }

    /// Keeps a call in mind for the loop detector.
    pub(super) fn see(&mut self, seen: SeenCall) {
        // What was refused or never answered is no step of a circle here: its agent may ask again until
        // it is answered.
        if !seen.refused {
            let last = self.history.last();
            let is_equal = last.is_some_and(|last| last.call == seen.call);
            let before = if is_equal { self.equal_calls } else { 0 };
            self.equal_calls = before.saturating_add(u64::from(seen.times));
        }
        see(&mut self.history, seen);
    }

    /// Comes to a state. A plan begins with the first step that is planned, and ends when its task
    /// has reported and asks again: one that is given up binds until another is made.
    pub(super) fn enter(&mut self, state: TaskState, now: Millis) {
        let has_reported = self.state == Some(TaskState::Summarize);
        match state {
            TaskState::Plan => {
                self.plan.clear();
                self.is_planned = true;
            }
            TaskState::Collect if has_reported => {
                self.plan.clear();
                self.is_planned = false;
            }
            TaskState::Collect | TaskState::Execute | TaskState::Summarize => {}
        }
        (self.state, self.last) = (Some(state), self.last.max(now));
    }

    /// Whether it is at its plan, and that has no room for `call`.
    pub(super) fn is_plan_full(&self, call: &Digest) -> bool {
        let is_at_it = self.state == Some(TaskState::Plan);
        is_at_it && self.plan.len() >= MAX_PLANNED_CALLS && !self.plan.contains(call)
    }

    /// Takes a call into its plan; the first begins another. So one that is refused changes nothing of
    /// the plan before, and binds a task without one to none.
    pub(super) fn intend(&mut self, call: Digest, now: Millis) {
        if self.state != Some(TaskState::Plan) {
            self.enter(TaskState::Plan, now);
        }
        (self.is_planned, self.last) = (true, self.last.max(now));
        if !self.plan.contains(&call) && self.plan.len() < MAX_PLANNED_CALLS {
            self.plan.push(call);
        }
    }

    /// What its tools have used of their rates, which outlives it.
    pub(super) fn rates(self) -> BTreeMap<ToolName, ToolUsage> {
        let tools = self.tools.into_iter();
        let rates = tools.map(|(name, used)| {
            let used = ToolUsage {
                calls: 0,
                failures_in_a_row: 0,
                ..used
            };
            (name, used)
        });
        rates
            .filter(|(_, used)| used.due > 0 || !used.recent.is_empty())
            .collect()
    }

    /// Begins to count anew; what it has done, and where it is, stay.
    pub(super) fn reset(&mut self, now: Millis) {
        let before = std::mem::take(self);
        *self = Self {
            state: before.state,
            evidence: before.evidence.clone(),
            origin: before.origin.clone(),
            plan: before.plan.clone(),
            is_planned: before.is_planned,
            tools: before.rates(),
            ..Self::new(now)
        };
    }

    /// A call was answered, and well: the failures before it are no row any more (003-92).
    pub(super) fn succeed(&mut self) {
        self.failures_in_a_row = 0;
    }

    /// The same of a call of `tool`, whose own failures are no row any more either.
    pub(super) fn succeed_with(&mut self, tool: &ToolName) {
        self.succeed();
        let is_counted = self.tools.contains_key(tool);
        let key = if is_counted {
            tool.as_str()
        } else {
            OTHER_TOOLS_KEY
        };
        if let Some(used) = self.tools.get_mut(key) {
            used.failures_in_a_row = 0;
        }
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

    pub(super) fn tool(&mut self, tool: &ToolName) -> &mut ToolUsage {
        let known = self.tools.contains_key(tool) || self.tools.len() < MAX_COUNTED_TOOLS;
        let name = if known {
            tool.clone()
        } else {
            ToolName::new(OTHER_TOOLS_KEY)
        };
        self.tools.entry(name).or_default()
    }
}

/// Adds `seen` to the last calls, oldest first; equal ones in a row stand once.
pub(super) fn see(history: &mut Vec<SeenCall>, seen: SeenCall) {
    let same = history.last_mut().filter(|last| {
        (last.call, last.outcome, last.refused) == (seen.call, seen.outcome, seen.refused)
    });
    if let Some(last) = same {
        last.times = last.times.saturating_add(seen.times);
    } else {
        let surplus = (history.len() + 1).saturating_sub(MAX_SEEN_CALLS);
        history.drain(..surplus);
        history.push(seen);
    }
}
