//! Each call of a session has a newer fencing token than the one before it, and who says that an old one is held is
//! refused.

use crate::cli::verify::agent::{TrialAnswer, TrialCall};
use crate::cli::verify::person::TrialWord;
use crate::cli::verify::plan::TrialSubject;
use crate::cli::verify::rows::RowVerdict;
use crate::cli::verify::trial::{Trial, new_key, wait_for_end};
use crate::model::counted::counted;
use crate::model::ids::unguessable;

/// Makes two calls of one session, and a third with the token of the first.
pub(in crate::cli::verify) async fn verify(
    trial: &Trial,
    subject: &TrialSubject,
) -> anyhow::Result<RowVerdict> {
    let mut agent = trial.agent(&subject.caller);
    let first = Trial::fresh_call(&subject.caller, &subject.tool.name, &subject.arguments);
    // Each in a task of its own, so that no limit of a task comes before the fence.
    let next = |token| TrialCall {
        key: Some(new_key()),
        task: unguessable(),
        token,
        ..first.clone()
    };
    let second = next(None);
    let start = trial.ran(subject);
    let mut answers = Vec::new();
    for call in [&first, &second] {
        let asked = trial.call(&mut agent, call, TrialWord::AllowWithinLimits);
        answers.push(Box::pin(asked).await?);
    }
    let runs = trial.echo.executions(&subject.tool.name);
    let tokens: Vec<Option<u64>> = runs.iter().skip(start).map(|run| run.token).collect();
    let stale = next(tokens.first().copied().flatten());
    let before = trial.ran(subject);
    let asked = trial.call(&mut agent, &stale, TrialWord::AllowWithinLimits);
    let answer = Box::pin(asked).await?;
    wait_for_end(agent.hang_up()).await;
    if let Some(other) = answers.iter().find(|answer| !answer.is_answered()) {
        let word = other.word();
        return Ok(RowVerdict::NotShown(format!(
            "two calls of one session do not run: one reads {word}"
        )));
    }
    Ok(judged(&tokens, &answer, trial.ran(subject) - before))
}

/// `tokens`: those of the two calls; `ran`: how often the one with the old token did.
fn judged(tokens: &[Option<u64>], stale: &TrialAnswer, ran: usize) -> RowVerdict {
    let [Some(first), Some(second)] = tokens else {
        return RowVerdict::NotShown("no fencing token reaches the tool server".to_owned());
    };
    let word = stale.word();
    if second <= first {
        return RowVerdict::Broken(
            "the second call of a session has no newer token than the first".to_owned(),
        );
    }
    match (ran, stale.is("fenced")) {
        (0, true) => RowVerdict::Holds(
            "the second call has a newer token, and the old one is refused with `fenced`"
                .to_owned(),
        ),
        (0, false) => RowVerdict::NotShown(format!(
            "the call with the old token is not sent, and reads {word}"
        )),
        (_, _) => {
            let ran = counted(ran, "time");
            RowVerdict::Broken(format!(
                "a call with the old token ran {ran}, and read {word}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token that does not rise is broken, and so is an old one that is let through.
    #[test]
    fn an_old_token_never_holds() {
        let fenced = TrialAnswer {
            outcome: "refused".to_owned(),
            code: Some("fenced".to_owned()),
            ..TrialAnswer::default()
        };
        assert!(matches!(
            judged(&[Some(1), Some(2)], &fenced, 0),
            RowVerdict::Holds(_)
        ));
        assert!(matches!(
            judged(&[Some(1), Some(2)], &fenced, 1),
            RowVerdict::Broken(_)
        ));
        for same in [[Some(2), Some(2)], [Some(3), Some(2)]] {
            assert!(matches!(judged(&same, &fenced, 0), RowVerdict::Broken(_)));
        }
        for none in [&[None, Some(2)][..], &[Some(1)], &[]] {
            assert!(matches!(judged(none, &fenced, 0), RowVerdict::NotShown(_)));
        }
        let other = TrialAnswer::none();
        assert!(matches!(
            judged(&[Some(1), Some(2)], &other, 0),
            RowVerdict::NotShown(_)
        ));
    }
}
