//! A call whose answer is lost on the way, and which its agent makes again under a new id, runs once, and the agent
//! reads what came of it the first time.

use crate::cli::verify::agent::TrialAnswer;
use crate::cli::verify::person::TrialWord;
use crate::cli::verify::plan::TrialSubject;
use crate::cli::verify::rows::RowVerdict;
use crate::cli::verify::trial::{Trial, wait_for_end};
use crate::model::clock::Clock;
use crate::model::counted::counted;

/// What was seen of a call that was made again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MadeAgain {
    /// What the agent read then.
    answer: TrialAnswer,
    /// What stands in the answer to each run.
    said: Vec<String>,
    /// Whether both have one key.
    has_key: bool,
    /// Whether it came too late to be taken for the same.
    is_late: bool,
}

/// Makes the call, loses its answer, and makes it again.
pub(in crate::cli::verify) async fn verify(
    trial: &Trial,
    subject: &TrialSubject,
) -> anyhow::Result<RowVerdict> {
    let mut call = Trial::fresh_call(&subject.caller, &subject.tool.name, &subject.arguments);
    // As agents call that know nothing of keys, wherever that is promised anything.
    let has_key = subject.needs_key || subject.joins_only();
    call.key = call.key.filter(|_| has_key);
    let (before, began) = (trial.ran(subject), Clock.steady());
    let early = Box::pin(trial.lose_answer(subject, &call)).await?;
    if let Some(early) = early {
        return Ok(unsent(&early, trial.ran(subject) - before));
    }
    let mut again = trial.agent(&subject.caller);
    let asked = trial.call(&mut again, &call, TrialWord::AllowWithinLimits);
    let answer = Box::pin(asked).await?;
    wait_for_end(again.hang_up()).await;
    let took = Clock.steady().saturating_sub(began);
    let window = subject.reissue_window().filter(|_| !has_key);
    let runs = trial.echo.executions(&subject.tool.name).into_iter();
    let seen = MadeAgain {
        answer,
        said: runs.skip(before).map(|run| run.said).collect(),
        has_key,
        is_late: window.is_some_and(|window| took >= window),
    };
    Ok(seen.judged())
}

/// Of a call that was answered though no answer was to come.
fn unsent(early: &TrialAnswer, ran: usize) -> RowVerdict {
    let word = early.word();
    if ran > 0 {
        return RowVerdict::Broken(format!(
            "the agent read {word}, and the call ran {}",
            counted(ran, "time")
        ));
    }
    RowVerdict::NotShown(format!("the call is not sent: it is answered with {word}"))
}

impl MadeAgain {
    fn judged(&self) -> RowVerdict {
        let word = self.answer.word();
        let [first] = &self.said[..] else {
            let ran = counted(self.said.len(), "time");
            let seen =
                format!("one call, whose answer was lost, ran {ran}; made again, it read {word}");
            return if self.is_late {
                RowVerdict::NotShown(format!("{seen}, after its `window` was over"))
            } else {
                RowVerdict::Broken(seen)
            };
        };
        if !(self.answer.is_answered() && self.answer.is_replayed) {
            return RowVerdict::Broken(format!(
                "it ran once, and made again it read {word} in place of the first answer"
            ));
        }
        if !self.answer.words.contains(first) {
            let why =
                "it ran once; what its contract leaves of the answer cannot be told from another";
            return RowVerdict::NotShown(why.to_owned());
        }
        let key = if self.has_key {
            " with the same key"
        } else {
            ""
        };
        RowVerdict::Holds(format!(
            "its answer lost, and made again under a new id{key}: 1 execution, and the same answer"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(outcome: &str, is_replayed: bool, words: &str) -> TrialAnswer {
        TrialAnswer {
            outcome: outcome.to_owned(),
            is_replayed,
            words: words.to_owned(),
            code: None,
        }
    }

    fn again(answer: TrialAnswer, said: &[&str]) -> MadeAgain {
        MadeAgain {
            answer,
            said: said.iter().map(|said| (*said).to_owned()).collect(),
            has_key: false,
            is_late: false,
        }
    }

    /// Two runs are never right, whatever the agent reads; nor is one whose answer is gone, or another's.
    #[test]
    fn two_runs_never_hold() {
        let same = answer("answered", true, "a note\ncounted as call 1");
        let first = "counted as call 1";
        let judged = |answer: &TrialAnswer, said: &[&str]| again(answer.clone(), said).judged();
        assert!(matches!(judged(&same, &[first]), RowVerdict::Holds(_)));
        for said in [&[][..], &[first, "counted as call 2"]] {
            assert!(
                matches!(judged(&same, said), RowVerdict::Broken(_)),
                "{said:?}"
            );
        }
        let other = answer("answered", true, "counted as call 2");
        assert!(matches!(judged(&other, &[first]), RowVerdict::NotShown(_)));
        let fresh = answer("answered", false, first);
        assert!(matches!(judged(&fresh, &[first]), RowVerdict::Broken(_)));
        let refused = TrialAnswer {
            code: Some("outcome_unknown".to_owned()),
            ..answer("unknown", false, "")
        };
        assert!(matches!(judged(&refused, &[first]), RowVerdict::Broken(_)));
        let late = MadeAgain {
            is_late: true,
            ..again(fresh, &[first, "counted as call 2"])
        };
        assert!(matches!(late.judged(), RowVerdict::NotShown(_)));
    }

    /// What was refused proves nothing, and what was refused and ran all the same is the worst.
    #[test]
    fn a_refusal_shows_nothing_unless_it_lies() {
        let refused = TrialAnswer {
            code: Some("rate_exceeded".to_owned()),
            ..answer("refused", false, "")
        };
        let expected = RowVerdict::NotShown(
            "the call is not sent: it is answered with `rate_exceeded`".to_owned(),
        );
        assert_eq!(unsent(&refused, 0), expected);
        assert!(matches!(unsent(&refused, 1), RowVerdict::Broken(_)));
    }
}
