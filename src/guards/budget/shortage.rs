//! What is left of a task's budget, and what is said when something is used up.

use super::BudgetDemand;
use crate::model::counted::counted;
use crate::model::refusal::{Ran, Refusal, RefusalCode, RefusalFacts, RefusalKind, Retry};
use crate::store::state::budget::{BudgetLimits, Dimension, Exceeded, MICROS_PER_UNIT, Remaining};
use serde_json::{Map, Value, json};

pub(in crate::guards) const BUDGET_CALLS_EXCEEDED: RefusalCode = RefusalCode {
    code: "budget_calls_exceeded",
    meaning: "the tool was called as often in this task as its contract allows",
    remedy: "go on without it, or report what is missing",
    kind: RefusalKind::Overrun,
};

/// 003-27: `most` calls of the tool are all that its contract allows in this task.
pub(in crate::guards) fn calls_exceeded(most: u64) -> Refusal {
    let most = counted(most, "time");
    let facts = RefusalFacts {
        dimension: Some(word(Dimension::CallsPerTool)),
        ..RefusalFacts::new(
            &BUDGET_CALLS_EXCEEDED,
            format!("this task may call the tool {most}, and has"),
            "Go on without it, or stop and report what was done and what is missing.",
        )
    };
    facts.into()
}

pub(in crate::guards) const BUDGET_EXCEEDED: RefusalCode = RefusalCode {
    code: "budget_exceeded",
    meaning: "the task, or all that is done for its user, has used up its steps, tool_calls, cost, duration or failures, or the tool its rate or its failures in a row",
    remedy: "stop, and report what was done and what is missing; where a time is given, send the same call after it",
    kind: RefusalKind::Overrun,
};

/// 003-40: the task has reached its limits of what is `used_up`, of which the first is named to programs;
/// of what else has a limit there is `left`.
pub(in crate::guards) fn exceeded_of(
    used_up: &[&'static str],
    left: &str,
    reads_remain: bool,
) -> Refusal {
    reached("the task has reached its", used_up, left, reads_remain).into()
}

/// The same of all calls of a user, which count anew in `after_ms` milliseconds.
pub(in crate::guards) fn user_exceeded_of(
    used_up: &[&'static str],
    left: &str,
    reads_remain: bool,
    after_ms: u64,
) -> Refusal {
    let minutes = counted(after_ms.div_ceil(60_000), "minute");
    let left = format!("{left}; it begins anew in {minutes}");
    let whose = "all that is done for this user has reached its";
    let facts = RefusalFacts {
        retry: Retry::AfterMs(after_ms),
        ..reached(whose, used_up, &left, reads_remain)
    };
    facts.into()
}

fn reached(whose: &str, used_up: &[&'static str], left: &str, reads_remain: bool) -> RefusalFacts {
    let limits = if used_up.len() > 1 { "limits" } else { "limit" };
    let words = used_up.join(" and ");
    RefusalFacts {
        dimension: used_up.first().copied(),
        ..RefusalFacts::new(
            &BUDGET_EXCEEDED,
            format!("{whose} {limits} of {words}; left: {left}"),
            if reads_remain {
                "Only tools that change nothing may still be called; report what was done and what is missing."
            } else {
                "Stop, and report what was done and what is missing."
            },
        )
    }
}

/// 003-92: the tool has failed `most` times in a row, as often as it may in this task.
pub(in crate::guards) fn tool_failed(most: u64, reads_remain: bool) -> Refusal {
    let most = counted(most, "time");
    let alone = if reads_remain {
        " as long as it changes something"
    } else {
        ""
    };
    let facts = RefusalFacts {
        dimension: Some(word(Dimension::ToolFailures)),
        ..RefusalFacts::new(
            &BUDGET_EXCEEDED,
            format!(
                "the tool has failed {most} in a row, and is not called again for this task{alone}"
            ),
            "Use another tool or go about it in another way; else report what was done and what is missing.",
        )
    };
    facts.into()
}

/// 003-91: the task's time was over before a call that changes nothing was answered.
pub(crate) fn out_of_time() -> Refusal {
    let facts = RefusalFacts {
        ran: Ran::Maybe,
        dimension: Some(word(Dimension::Duration)),
        ..RefusalFacts::new(
            &BUDGET_EXCEEDED,
            "the task has reached its limit of duration, and the call was given up",
            "Stop, and report what was done and what is missing.",
        )
    };
    facts.into()
}

/// The tool was called as often in a span of time as its contract allows.
pub(in crate::guards) fn rate_exceeded(after_ms: u64) -> Refusal {
    let seconds = after_ms.div_ceil(1000);
    let facts = RefusalFacts {
        retry: Retry::AfterMs(after_ms),
        dimension: Some(word(Dimension::Rate)),
        ..RefusalFacts::new(
            &BUDGET_EXCEEDED,
            format!("the tool may be called again in {seconds} seconds"),
            "Send the same call again then.",
        )
    };
    facts.into()
}

impl BudgetDemand {
    /// What the agent reads: what is used up, what is left of the rest, and what to do.
    pub fn refuse(&self, exceeded: &Exceeded) -> Refusal {
        if let Some(account) = self.account.as_ref().filter(|_| exceeded.is_account) {
            return account.refuse(exceeded);
        }
        let Exceeded {
            dimension,
            others,
            remaining,
            after,
            is_account,
        } = exceeded;
        match dimension {
            Dimension::CallsPerTool => {
                calls_exceeded(self.limits.calls_per_tool.unwrap_or_default())
            }
            Dimension::ToolFailures => {
                let most = self.limits.tool_failures;
                let reads_remain = self.reads.tool_failures != most;
                tool_failed(most.unwrap_or_default(), reads_remain)
            }
            Dimension::Rate => rate_exceeded(after.unwrap_or_default()),
            Dimension::Steps
            | Dimension::ToolCalls
            | Dimension::Cost
            | Dimension::Duration
            | Dimension::Failures
            | Dimension::FailuresInARow => {
                let others = others.iter().copied();
                let is_of_task = |other: &Dimension| {
                    !matches!(other, Dimension::CallsPerTool | Dimension::ToolFailures)
                };
                let others = others.filter(is_of_task);
                let used_up = std::iter::once(*dimension).chain(others);
                // What leaves tools that change nothing is named after what leaves nothing.
                let leaves_reads =
                    |used: &Dimension| limit(&self.reads, *used) != limit(&self.limits, *used);
                let (softer, harder): (Vec<_>, Vec<_>) = used_up.partition(leaves_reads);
                let reads_remain = harder.is_empty();
                let used_up = [harder, softer].concat();
                let left = rest(&used_up, remaining);
                let words: Vec<_> = used_up.into_iter().map(word).collect();
                match after.filter(|_| *is_account) {
                    Some(after) => user_exceeded_of(&words, &left, reads_remain, after),
                    None => exceeded_of(&words, &left, reads_remain),
                }
            }
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
            "tool_failures",
            remaining.tool_failures.map(|left| json!(left)),
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

/// A part of a budget, as policies and agents name it.
pub(crate) fn word(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Steps => "steps",
        Dimension::ToolCalls => "tool_calls",
        Dimension::Cost => "cost",
        Dimension::Duration => "duration",
        Dimension::Failures => "failures",
        Dimension::FailuresInARow => "failures_in_a_row",
        Dimension::ToolFailures => "tool_failures",
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
        Dimension::ToolFailures => limits.tool_failures,
        Dimension::CallsPerTool => limits.calls_per_tool,
        Dimension::Rate => limits.rate.map(|rate| rate.calls),
    }
}

fn rest(used_up: &[Dimension], remaining: &Remaining) -> String {
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
        .filter(|(dimension, _)| !used_up.contains(dimension))
        .filter_map(|(_, left)| left);
    let others: Vec<String> = others.collect();
    if others.is_empty() {
        "nothing else is limited".to_owned()
    } else {
        others.join(", ")
    }
}
