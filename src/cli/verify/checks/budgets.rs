//! As many calls run in one task as its limits say, and not one more.

use crate::cli::verify::agent::TrialAnswer;
use crate::cli::verify::person::TrialWord;
use crate::cli::verify::plan::TrialSubject;
use crate::cli::verify::rows::{Guarantee, GuaranteeRow, RowVerdict};
use crate::cli::verify::trial::{Trial, new_key, wait_for_end};
use crate::guards::budget::word;
use crate::model::clock::Clock;
use crate::policy::Policy;
use crate::store::state::budget::Dimension;
use std::time::Duration;

/// Calls that a limit may let through to be tried.
const MAX_TRIED_CALLS: u64 = 1_000;
/// Codes of what a limit refuses; the last one where a person is asked at it, and says no.
const LIMIT_CODES: [&str; 3] = [
    "budget_calls_exceeded",
    "budget_exceeded",
    "approval_denied",
];
/// What stands for all that is limited for a person rather than for a task.
const OF_PERSON: &str = "of all calls of a user";

/// A limit of calls of the subject.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TriedLimit {
    name: &'static str,
    /// How many calls it lets through; or why that is not known.
    calls: Result<u64, &'static str>,
    /// In how much time, where that counts.
    per: Option<Duration>,
}

/// What was seen of calls that came one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BudgetRun {
    ran: u64,
    /// What the last one read.
    last: TrialAnswer,
    took: Duration,
    /// Whether a person was asked about each.
    is_held: bool,
}

/// Makes as many calls as the lowest of the limits lets through, and one more.
pub(in crate::cli::verify) async fn verify(
    trial: &Trial,
    policy: &Policy,
    subject: &TrialSubject,
) -> anyhow::Result<Vec<GuaranteeRow>> {
    let limits = limits_of(policy, subject);
    let known = limits.iter().filter_map(|limit| limit.calls.ok());
    let lowest = known.min().filter(|lowest| *lowest <= MAX_TRIED_CALLS);
    let run = match lowest {
        Some(lowest) => Some(Box::pin(call_until_refused(trial, subject, lowest)).await?),
        None => None,
    };
    let rows = limits.iter().map(|limit| {
        let verdict = limit.judged(lowest, run.as_ref());
        subject.row(Guarantee::Budget(limit.name), verdict)
    });
    Ok(rows.collect())
}

async fn call_until_refused(
    trial: &Trial,
    subject: &TrialSubject,
    most: u64,
) -> anyhow::Result<BudgetRun> {
    let mut agent = trial.agent(&subject.caller);
    let mut call = Trial::fresh_call(&subject.caller, &subject.tool.name, &subject.arguments);
    let (start, began) = (trial.ran(subject), Clock.steady());
    let mut last = TrialAnswer::none();
    for _ in 0..=most {
        call.key = Some(new_key());
        let asked = trial.call(&mut agent, &call, TrialWord::AllowWithinLimits);
        last = Box::pin(asked).await?;
        if !last.is_answered() {
            break;
        }
    }
    let took = Clock.steady().saturating_sub(began);
    wait_for_end(agent.hang_up()).await;
    let ran = u64::try_from(trial.ran(subject) - start)?;
    Ok(BudgetRun {
        ran,
        last,
        took,
        is_held: subject.is_held,
    })
}

/// Every limit that is written for calls of the subject.
fn limits_of(policy: &Policy, subject: &TrialSubject) -> Vec<TriedLimit> {
    let (rules, caller) = (&subject.rules, &subject.caller);
    let asked = rules
        .budget
        .ask(&policy.tasks, caller, &subject.tool.name, rules.side_effect);
    let limits = &asked.limits;
    let counted =
        |dimension, calls: Option<u64>| calls.map(|calls| TriedLimit::of(dimension, Ok(calls)));
    let unseen =
        |dimension, most: Option<u64>, why| most.map(|_| TriedLimit::of(dimension, Err(why)));
    let steps = limits
        .steps
        .filter(|_| !policy.tasks.has_usual_steps(caller));
    let cost = limits.cost.map(|most| {
        let calls = if rules.budget.is_told_cost() {
            Err("what a call costs is in the answers of its tool server")
        } else {
            most.checked_div(asked.price.cost)
                .ok_or("a call of it costs nothing")
        };
        TriedLimit::of(Dimension::Cost, calls)
    });
    let rate = limits.rate.map(|rate| TriedLimit {
        per: Some(Duration::from_millis(rate.per)),
        ..TriedLimit::of(Dimension::Rate, Ok(rate.calls))
    });
    let of_time = "it takes time that is not waited for here";
    let of_failures = "it takes calls that fail, and those made here do not";
    let person = asked.account.as_ref().map(|_| TriedLimit {
        name: OF_PERSON,
        calls: Err("all calls that are made here count for it"),
        per: None,
    });
    let all = [
        counted(Dimension::CallsPerTool, limits.calls_per_tool),
        counted(Dimension::ToolCalls, limits.tool_calls),
        counted(Dimension::Steps, steps),
        cost,
        rate,
        unseen(Dimension::Duration, limits.duration, of_time),
        unseen(Dimension::Failures, limits.failures, of_failures),
        unseen(
            Dimension::FailuresInARow,
            limits.failures_in_a_row,
            of_failures,
        ),
        unseen(Dimension::ToolFailures, limits.tool_failures, of_failures),
        person,
    ];
    all.into_iter().flatten().collect()
}

impl TriedLimit {
    fn of(dimension: Dimension, calls: Result<u64, &'static str>) -> Self {
        Self {
            name: word(dimension),
            calls,
            per: None,
        }
    }

    /// `lowest`: as many calls as the lowest of all limits lets through, where that was tried.
    fn judged(&self, lowest: Option<u64>, run: Option<&BudgetRun>) -> RowVerdict {
        let calls = match self.calls {
            Ok(calls) => calls,
            Err(why) => return RowVerdict::NotShown(why.to_owned()),
        };
        let (Some(lowest), Some(run)) = (lowest, run) else {
            return RowVerdict::NotShown(format!(
                "{calls} calls are too many to be made here, where {MAX_TRIED_CALLS} are"
            ));
        };
        // Before all that is counted: a window that is over lets more through, rightly.
        if self.per.is_some_and(|per| run.took >= per) {
            return RowVerdict::NotShown(format!(
                "{} calls took longer than the time that they are counted in",
                run.ran
            ));
        }
        if run.ran > calls {
            return RowVerdict::Broken(format!("{} calls ran, and {calls} are allowed", run.ran));
        }
        if calls > lowest {
            return RowVerdict::NotShown(format!(
                "another limit ends calls of this tool after {lowest}, before the {calls} of this one"
            ));
        }
        let (read, tried) = (run.last.word(), calls.saturating_add(1));
        let is_limit = LIMIT_CODES.iter().any(|code| run.last.is(code));
        if !is_limit {
            return RowVerdict::NotShown(format!("after {} calls one read {read}", run.ran));
        }
        match run.ran {
            count if count == calls => RowVerdict::Holds(format!(
                "of {tried} calls {count} ran, and the last one read {read}"
            )),
            // What is held and comes again may count more than once for its steps.
            count if run.is_held => RowVerdict::NotShown(format!(
                "{count} of {calls} calls ran, then one read {read}"
            )),
            count => RowVerdict::Broken(format!(
                "only {count} of {calls} calls ran, then one read {read}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ran: u64, code: Option<&str>) -> BudgetRun {
        BudgetRun {
            ran,
            last: TrialAnswer {
                outcome: if code.is_some() {
                    "refused"
                } else {
                    "answered"
                }
                .to_owned(),
                code: code.map(str::to_owned),
                ..TrialAnswer::default()
            },
            took: Duration::from_secs(1),
            is_held: false,
        }
    }

    /// One call too many is broken under every limit that it passes, and so is one too few; what ended for another
    /// reason shows nothing.
    #[test]
    fn a_limit_holds_to_the_call() {
        let limit = TriedLimit::of(Dimension::CallsPerTool, Ok(3));
        let judged = |run: &BudgetRun| limit.judged(Some(3), Some(run));
        let exceeded = Some("budget_calls_exceeded");
        assert!(matches!(judged(&run(3, exceeded)), RowVerdict::Holds(_)));
        assert!(matches!(judged(&run(4, None)), RowVerdict::Broken(_)));
        assert!(matches!(judged(&run(4, exceeded)), RowVerdict::Broken(_)));
        assert!(matches!(judged(&run(2, exceeded)), RowVerdict::Broken(_)));
        assert!(matches!(
            judged(&run(3, Some("overloaded"))),
            RowVerdict::NotShown(_)
        ));
        assert!(matches!(judged(&run(3, None)), RowVerdict::NotShown(_)));
        let held = BudgetRun {
            is_held: true,
            ..run(2, exceeded)
        };
        assert!(matches!(judged(&held), RowVerdict::NotShown(_)));
        let wider = TriedLimit::of(Dimension::Steps, Ok(9));
        assert!(matches!(
            wider.judged(Some(3), Some(&run(3, exceeded))),
            RowVerdict::NotShown(_)
        ));
        assert!(matches!(limit.judged(None, None), RowVerdict::NotShown(_)));
    }

    /// A window that is over lets more through, rightly.
    #[test]
    fn a_rate_counts_within_its_time() {
        let rate = |per| TriedLimit {
            per: Some(Duration::from_secs(per)),
            ..TriedLimit::of(Dimension::Rate, Ok(3))
        };
        let judged = |per, run| rate(per).judged(Some(3), Some(&run));
        let exceeded = Some("budget_exceeded");
        assert!(matches!(judged(60, run(3, exceeded)), RowVerdict::Holds(_)));
        assert!(matches!(
            judged(1, run(3, exceeded)),
            RowVerdict::NotShown(_)
        ));
        assert!(matches!(judged(60, run(4, None)), RowVerdict::Broken(_)));
        assert!(matches!(judged(1, run(4, None)), RowVerdict::NotShown(_)));
    }

    /// What a server says a call has cost can be anything: no number of calls is exact then.
    #[test]
    fn a_limit_without_a_number_is_not_shown() {
        let told = TriedLimit::of(Dimension::Cost, Err("in the answers"));
        let verdict = told.judged(Some(3), Some(&run(3, Some("budget_exceeded"))));
        assert_eq!(verdict, RowVerdict::NotShown("in the answers".to_owned()));
    }
}
