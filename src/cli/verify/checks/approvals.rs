//! What a person has allowed runs once, with exactly the arguments that were shown; an equal call asks anew, and so
//! does another one.

use crate::cli::verify::agent::{TrialAgent, TrialAnswer};
use crate::cli::verify::person::{TrialWord, say};
use crate::cli::verify::plan::TrialSubject;
use crate::cli::verify::rows::{Guarantee, GuaranteeRow, RowVerdict};
use crate::cli::verify::trial::{Trial, wait_for_end};
use crate::model::counted::counted;
use serde_json::Value;

/// What was counted, step by step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ApprovalRuns {
    /// Runs before a person has said anything.
    before: usize,
    /// The arguments of what ran once the first call was allowed, while the other one waited.
    allowed: Vec<Value>,
    /// Runs more, once the other one was denied.
    denied: usize,
    /// Runs more, once the first call was made again under another key, before a person has said anything of that.
    again: usize,
    /// The arguments of the other one, where there was one.
    other: Option<Value>,
}

/// Has one of two calls allowed, and the rest denied.
pub(in crate::cli::verify) async fn verify(
    trial: &Trial,
    subject: &TrialSubject,
) -> anyhow::Result<Vec<GuaranteeRow>> {
    if !subject.is_held {
        return Ok(Vec::new());
    }
    let mut agent = trial.agent(&subject.caller);
    let runs = Box::pin(counted_runs(trial, subject, &mut agent)).await;
    wait_for_end(agent.hang_up()).await;
    let [once, bound] = match runs? {
        Ok(runs) => [runs.once(), runs.bound()],
        Err(answer) => {
            let why = format!(
                "the call does not wait for a person: it is answered with {}",
                answer.word()
            );
            [RowVerdict::NotShown(why.clone()), RowVerdict::NotShown(why)]
        }
    };
    Ok(vec![
        subject.row(Guarantee::ApprovalOnce, once),
        subject.row(Guarantee::ApprovalBinding, bound),
    ])
}

/// Does all of it; what the first call reads where it does not wait.
async fn counted_runs(
    trial: &Trial,
    subject: &TrialSubject,
    agent: &mut TrialAgent,
) -> anyhow::Result<Result<ApprovalRuns, TrialAnswer>> {
    let gate = &trial.app.door.gate;
    let mut news = gate.effects.store.look_on();
    let (start, mut runs) = (trial.ran(subject), ApprovalRuns::default());
    let (name, arguments) = (&subject.tool.name, &subject.arguments);
    let first = Trial::fresh_call(&subject.caller, name, arguments);
    let waiting = match Box::pin(trial.hold(agent, &first, &mut news)).await? {
        Ok(waiting) => waiting,
        Err(answer) => return Ok(Err(answer)),
    };
    let mut other = None;
    if let Some(arguments) = &subject.second {
        let call = Trial::fresh_call(&subject.caller, name, arguments);
        let held = Box::pin(trial.hold(agent, &call, &mut news)).await?.ok();
        other = held.map(|held| (call, held));
    }
    runs.other = other.as_ref().map(|(call, _)| call.arguments.clone());
    runs.before = trial.ran(subject) - start;
    Box::pin(say(gate, waiting.hold, TrialWord::AllowWithinLimits)).await?;
    Box::pin(trial.decided(agent, &first, &waiting)).await?;
    let so_far = trial.echo.executions(&subject.tool.name).into_iter();
    let so_far = so_far.skip(start + runs.before);
    runs.allowed = so_far.map(|run| run.arguments).collect();
    let seen = trial.ran(subject);
    if let Some((call, held)) = other {
        Box::pin(say(gate, held.hold, TrialWord::Deny)).await?;
        Box::pin(trial.decided(agent, &call, &held)).await?;
    }
    runs.denied = trial.ran(subject) - seen;
    let again = Trial::fresh_call(&subject.caller, name, arguments);
    let seen = trial.ran(subject);
    let waiting = Box::pin(trial.hold(agent, &again, &mut news)).await?;
    runs.again = trial.ran(subject) - seen;
    if let Ok(waiting) = waiting {
        // What is denied stays so for a while, and this very call is made again for other guarantees.
        Box::pin(say(gate, waiting.hold, TrialWord::AllowWithinLimits)).await?;
        Box::pin(trial.decided(agent, &again, &waiting)).await?;
    }
    Ok(Ok(runs))
}

impl ApprovalRuns {
    /// What ran without a word that was for it.
    fn early(&self) -> Option<RowVerdict> {
        (self.before > 0).then(|| {
            let ran = counted(self.before, "time");
            RowVerdict::Broken(format!("it ran {ran} before anybody had allowed it"))
        })
    }

    fn once(&self) -> RowVerdict {
        if let Some(early) = self.early() {
            return early;
        }
        match (self.allowed.len(), self.again) {
            (1, 0) => {
                let seen =
                    "allowed, it ran once; an equal call under another key waits for a new word";
                RowVerdict::Holds(seen.to_owned())
            }
            (0, 0) => RowVerdict::NotShown("allowed, it did not run".to_owned()),
            (ran, again) => {
                let all = counted(ran + again, "time");
                RowVerdict::Broken(format!("allowed once, it ran {all}"))
            }
        }
    }

    fn bound(&self) -> RowVerdict {
        if let Some(early) = self.early() {
            return early;
        }
        let Some(other) = &self.other else {
            let why = "no other arguments were found that wait for a person, too";
            return RowVerdict::NotShown(why.to_owned());
        };
        let others = self.allowed.iter().filter(|ran| *ran == other).count() + self.denied;
        if others > 0 {
            let ran = counted(others, "time");
            return RowVerdict::Broken(format!(
                "other arguments than those that were allowed ran {ran}"
            ));
        }
        if self.allowed.is_empty() {
            return RowVerdict::NotShown("allowed, it did not run".to_owned());
        }
        let seen = "one of two calls was allowed: the other one, with other arguments, did not run";
        RowVerdict::Holds(seen.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What was allowed ran once, and nothing else did; every other count is broken, or shows nothing.
    #[test]
    fn only_what_was_allowed_may_have_run() {
        let right = ApprovalRuns {
            allowed: vec![json!({ "id": 1 })],
            other: Some(json!({ "id": 2 })),
            ..ApprovalRuns::default()
        };
        assert!(matches!(right.once(), RowVerdict::Holds(_)));
        assert!(matches!(right.bound(), RowVerdict::Holds(_)));
        let early = ApprovalRuns {
            before: 1,
            ..right.clone()
        };
        assert!(matches!(early.once(), RowVerdict::Broken(_)));
        assert!(matches!(early.bound(), RowVerdict::Broken(_)));
        let twice = ApprovalRuns {
            again: 1,
            ..right.clone()
        };
        let expected = RowVerdict::Broken("allowed once, it ran 2 times".to_owned());
        assert_eq!(twice.once(), expected);
        let denied = ApprovalRuns {
            denied: 1,
            ..right.clone()
        };
        assert!(matches!(denied.bound(), RowVerdict::Broken(_)));
        let swapped = ApprovalRuns {
            allowed: vec![json!({ "id": 2 })],
            ..right.clone()
        };
        assert!(matches!(swapped.bound(), RowVerdict::Broken(_)));
        let alone = ApprovalRuns {
            other: None,
            ..right
        };
        assert!(matches!(alone.bound(), RowVerdict::NotShown(_)));
        let unmade = ApprovalRuns::default();
        assert!(matches!(unmade.once(), RowVerdict::NotShown(_)));
        assert!(matches!(unmade.bound(), RowVerdict::NotShown(_)));
    }
}
