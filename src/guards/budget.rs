//! Says what a call costs and what its task may use; what that leaves is the store's business.
//!
//! After idempotency, so that a replay costs nothing; before approval, so that nobody is asked
//! about a call that may not run. The limits of all layers hold at once: the tightest decides
//! (guarantees §6).

use super::Section;
use crate::model::caller::Caller;
use crate::model::counted::counted;
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use crate::model::pointer::steps;
pub(crate) use crate::model::rate::RateSettings;
use crate::store::state::Millis;
use crate::store::state::budget::{
    BudgetLimits, Exceeded, MICROS_PER_UNIT, Price, Rate, Remaining, TaskUsage,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

pub(super) mod shortage;
mod tasks;

pub(crate) use shortage::{out_of_time, shown, units, word};
use tasks::LimitAction;
pub(crate) use tasks::{TaskLimits, TaskSettings};

/// One unit of cost costs at most so many.
const MAX_UNIT_COST: f64 = 1e12;
const TIMEOUT_MS_BOUNDS: std::ops::RangeInclusive<u64> = 1..=600_000;

/// What one tool may use, and what a call of it costs.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Budget")]
pub(crate) struct Settings {
    /// Calls in one task at most.
    pub max_calls_per_task: Option<u64>,
    /// Milliseconds until the call is given up; no longer than the server's `timeout`.
    pub timeout_ms: Option<u64>,
    /// What a call costs, in units of your choice, with up to six decimals [default: 0].
    pub cost: Option<f64>,
    /// JSON pointer into the structured result to what the call has really cost; `cost` is
    /// reserved until then.
    pub cost_from: Option<String>,
    /// Calls by one task in a span of time at most.
    pub rate: Option<RateSettings>,
}

/// As run. The default limits nothing and costs nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rule {
    calls_per_task: Option<u64>,
    timeout: Option<Duration>,
    cost: u64,
    cost_from: Option<String>,
    rate: Option<Rate>,
    /// The variant whose calls are counted by themselves.
    apart: Option<String>,
}

/// What a call asks of its task, and what the task may use.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetDemand {
    /// What the task may use, all layers and the contract together.
    pub limits: BudgetLimits,
    /// What the call takes.
    pub price: Price,
    /// The limits at which no person is asked.
    pub firm: BudgetLimits,
    /// What the limits would be for a tool that changes nothing; the same for such a tool.
    reads: BudgetLimits,
    /// What it asks of the account of its user, where that is limited.
    pub account: Option<Box<BudgetDemand>>,
}

/// What was used before a call; none where nothing was.
#[derive(Debug, Clone, Copy, Default)]
pub struct UsedBudget<'a> {
    /// By its task.
    pub task: Option<&'a TaskUsage>,
    /// By all tasks of its user.
    pub account: Option<&'a TaskUsage>,
}

impl BudgetDemand {
    /// The same of a task that has ended once it did nothing for so many milliseconds.
    pub fn ending_idle(mut self, idle: Option<u64>) -> Self {
        for limits in [&mut self.limits, &mut self.firm, &mut self.reads] {
            limits.idle = idle;
        }
        self
    }

    /// Whether one more call fits what its task has `used`, and its user's account; what is left of
    /// both before it.
    pub fn admit(&self, used: UsedBudget<'_>, now: Millis) -> Result<Remaining, Box<Exceeded>> {
        self.fits(used, now, |demand| &demand.limits)
    }

    /// The same by the limits at which no person is asked.
    pub fn admit_firmly(
        &self,
        used: UsedBudget<'_>,
        now: Millis,
    ) -> Result<Remaining, Box<Exceeded>> {
        self.fits(used, now, |demand| &demand.firm)
    }

    fn fits(
        &self,
        used: UsedBudget<'_>,
        now: Millis,
        limits: fn(&Self) -> &BudgetLimits,
    ) -> Result<Remaining, Box<Exceeded>> {
        let of_both = |mut exceeded: Box<Exceeded>| {
            exceeded.remaining = self.left(used, now);
            exceeded
        };
        let left = limits(self).admit(used.task, &self.price, now);
        let left = left.map_err(of_both)?;
        let Some(account) = &self.account else {
            return Ok(left);
        };
        let of_user = limits(account).admit(used.account, &account.price, now);
        Ok(left.and(of_user.map_err(of_both)?))
    }

    /// What is left of both, whether or not the call fits.
    pub fn left(&self, used: UsedBudget<'_>, now: Millis) -> Remaining {
        let own = self.left_of_own(used.task, now);
        match &self.account {
            Some(account) => own.and(account.left_of_own(used.account, now)),
            None => own,
        }
    }

    fn left_of_own(&self, used: Option<&TaskUsage>, now: Millis) -> Remaining {
        self.limits.left(used, &self.price.tool, now)
    }

    /// Whether anything limits the call.
    pub fn is_limited(&self) -> bool {
        self.limits.is_limited() || self.account.is_some()
    }

    /// Whether a file limits the call; `usual`: are its steps those of a task about which nothing is
    /// written?
    pub fn has_written_limits(&self, usual: bool) -> bool {
        let limits = BudgetLimits {
            steps: self.limits.steps.filter(|_| !usual),
            ..self.limits.clone()
        };
        limits.is_limited() || self.account.is_some()
    }

    /// The same without a limit of steps.
    pub fn without_steps(mut self) -> Self {
        for limits in [&mut self.limits, &mut self.firm, &mut self.reads] {
            limits.steps = None;
        }
        self
    }
}

// === impl Settings ===

impl Settings {
    /// These, and those of `contract` where these say nothing, for a variant of it.
    #[must_use]
    pub(crate) fn over(self, contract: &Self) -> Self {
        Self {
            max_calls_per_task: self.max_calls_per_task.or(contract.max_calls_per_task),
            timeout_ms: self.timeout_ms.or(contract.timeout_ms),
            cost: self.cost.or(contract.cost),
            cost_from: self.cost_from.or_else(|| contract.cost_from.clone()),
            rate: self.rate.or_else(|| contract.rate.clone()),
        }
    }

    /// Do these limit how often something is called?
    pub(crate) fn counts(&self) -> bool {
        self.max_calls_per_task.is_some() || self.rate.is_some()
    }
}

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "budget";

    fn compile(self, problems: &mut Problems) -> Rule {
        let Self {
            max_calls_per_task,
            timeout_ms,
            cost,
            cost_from,
            rate,
        } = self;
        if max_calls_per_task == Some(0) {
            let hint = "allow at least one call, or take the tool off with `layers`";
            problems.under("max_calls_per_task", |problems| {
                problems.error("no call would ever pass", hint);
            });
        }
        if timeout_ms.is_some_and(|timeout| !TIMEOUT_MS_BOUNDS.contains(&timeout)) {
            let hint = format!(
                "between {} and {}",
                TIMEOUT_MS_BOUNDS.start(),
                TIMEOUT_MS_BOUNDS.end()
            );
            problems.under("timeout_ms", |problems| {
                problems.error("is out of bounds", hint);
            });
        }
        let written = cost.is_some();
        let cost = cost.map_or(0, |cost| {
            problems.under("cost", |problems| micros(cost, problems))
        });
        if let Some(pointer) = &cost_from {
            problems.under("cost_from", |problems| {
                judge_pointer(pointer, written, problems);
            });
        }
        let rate = rate.and_then(|rate| problems.under("rate", |problems| rate.compile(problems)));
        let timeout = timeout_ms.map(Duration::from_millis);
        Rule {
            calls_per_task: max_calls_per_task,
            timeout,
            cost,
            cost_from,
            rate,
            apart: None,
        }
    }
}

fn judge_pointer(pointer: &str, has_cost: bool, problems: &mut Problems) {
    let escaped = pointer
        .split('~')
        .skip(1)
        .all(|rest| rest.starts_with(['0', '1']));
    if !pointer.starts_with('/') || !escaped {
        problems.error(
            "not a JSON pointer into the result",
            "write `/` and a name, such as `/usage/cost`",
        );
    }
    if !has_cost {
        let hint =
            "add `cost`: the most that a call can cost; it is reserved until the result tells";
        problems.error("nothing would be reserved while the call runs", hint);
    }
}

/// Millionths of a unit of cost.
fn micros(cost: f64, problems: &mut Problems) -> u64 {
    in_micros(cost).unwrap_or_else(|| {
        problems.error(
            "is no cost",
            "write a number from 0 to 1000000000000, with up to six decimals",
        );
        0
    })
}

/// `cost` in millionths; none for what is no cost.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "within bounds, and rounded before"
)]
pub(crate) fn in_micros(cost: f64) -> Option<u64> {
    let micros = cost * MICROS_PER_UNIT as f64;
    (0.0..=MAX_UNIT_COST)
        .contains(&cost)
        .then(|| micros.round() as u64)
}

// === impl Rule ===

impl Rule {
    /// What a call of `tool` takes, and what its task may use. `changes`: is the tool one with side
    /// effects?
    pub fn ask(
        &self,
        tasks: &TaskLimits,
        caller: &Caller,
        tool: &ToolName,
        changes: bool,
    ) -> BudgetDemand {
        let own = |limits: BudgetLimits| BudgetLimits {
            calls_per_tool: self.calls_per_task,
            rate: self.rate,
            ..limits
        };
        let counted = self
            .apart
            .as_ref()
            .map(|variant| ToolName::new(&format!("{tool}#{variant}")));
        let price = Price {
            tool: counted.unwrap_or_else(|| tool.clone()),
            cost: self.cost,
        };
        let holds = |action| changes || action != LimitAction::Degrade;
        let is_firm = |action| match action {
            LimitAction::Stop => true,
            LimitAction::Degrade => changes,
            LimitAction::Ask => false,
        };
        let holds_reads = |action| action != LimitAction::Degrade;
        let account = || {
            Some(Box::new(BudgetDemand {
                limits: tasks.user_limits(caller, holds)?,
                price: price.clone(),
                firm: tasks.user_limits(caller, is_firm)?,
                reads: tasks.user_limits(caller, holds_reads)?,
                account: None,
            }))
        };
        BudgetDemand {
            account: account(),
            limits: own(tasks.limits(caller, holds)),
            firm: own(tasks.limits(caller, is_firm)),
            reads: own(tasks.limits(caller, holds_reads)),
            price,
        }
    }

    /// The same for a variant whose calls are not counted with the tool's other ones.
    #[must_use]
    pub fn apart(self, variant: &str) -> Self {
        Self {
            apart: Some(variant.to_owned()),
            ..self
        }
    }

    /// What the contract's own limits can refuse with.
    pub fn codes(&self) -> impl Iterator<Item = &'static str> {
        let calls = self
            .calls_per_task
            .is_some()
            .then_some("budget_calls_exceeded");
        let rate = self.rate.is_some().then_some("budget_exceeded");
        [calls, rate].into_iter().flatten()
    }

    /// When a call is given up, if the contract says so.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Where the structured result says what a call has cost, as a path from its root.
    pub(crate) fn cost_path(&self) -> Option<Vec<String>> {
        self.cost_from.as_deref().map(steps)
    }

    /// Whether the answer to a call says what it has cost.
    pub fn is_told_cost(&self) -> bool {
        self.cost_from.is_some()
    }

    /// What a call has really cost, in millionths, if the structured result tells as the contract
    /// says.
    pub fn spent(&self, result: &Value) -> Option<u64> {
        let cost = result.pointer(self.cost_from.as_deref()?)?.as_f64()?;
        // What costs more than can be said costs as much as can be.
        in_micros(cost.min(MAX_UNIT_COST))
    }

    /// In words, for `explain`; none when there is nothing to say.
    pub fn describe(&self) -> Option<String> {
        let parts = [
            self.calls_per_task
                .map(|most| format!("{} per task", counted(most, "call"))),
            self.timeout
                .map(|timeout| format!("{} ms per call", timeout.as_millis())),
            (self.cost > 0).then(|| format!("cost {}", units(self.cost))),
            self.cost_from
                .as_ref()
                .map(|pointer| format!("cost from {pointer}")),
            self.rate.map(|rate| rate.words("call")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

#[cfg(test)]
mod tests;
