//! The people of the contracts while verifying: each operator of the configuration says a word at once, by the roles that
//! the configuration gives, so that a call which nobody could allow is not allowed here either. Of the operators whom
//! issuers name, as many speak as a call needs, with all the roles that their tokens can give.

use crate::gate::Gate;
use crate::model::absence::DecidingRight;
use crate::model::approvers::{Approver, ApproverName};
use crate::model::ids::ActionId;
use crate::store::approvals::{DecisionError, DecisionOutcome, DecisionRequest, decide};
use crate::store::hold_news::HoldNews;
use crate::store::state::hold::Hold;
use anyhow::Context as _;
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// The reason of each word.
const REASON: &str = "toolgate verify";

/// What is said of calls that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialWord {
    /// They may run, but for those that go over a limit.
    AllowWithinLimits,
    /// They may not.
    Deny,
}

/// The next call that begins to wait.
pub(super) async fn next_hold(news: &mut Receiver<HoldNews>) -> ActionId {
    loop {
        match news.recv().await {
            Ok(hold) if hold.is_new => return hold.id,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Says a word on the call that is held as `id`, or as many as its contract wants, one for each operator who may. Where
/// nobody's counts, the call waits on.
///
/// # Errors
/// The store does not know it, or cannot be read or written.
pub(super) async fn say(gate: &Arc<Gate>, id: ActionId, word: TrialWord) -> anyhow::Result<()> {
    let store = &*gate.effects.store;
    let known = store.find_hold(id).await?;
    let (_, hold) = known.context("a held call is not there any more")?;
    // To allow what goes over a limit would be to lift the limit that is tried.
    let allow = word == TrialWord::AllowWithinLimits && hold.question.over.is_none();
    let judge = gate.clone();
    let void = move |hold: &Hold| judge.void(hold);
    let may = |role: &String| hold.roles.contains(role);
    let approvers = gate.approvers.current();
    let all = approvers.0.iter();
    let deciding = all.filter(|one| one.roles.iter().any(may));
    for (who, roles) in deciding.flat_map(|one| voices(one, hold.needed)) {
        let request = DecisionRequest {
            who,
            right: DecidingRight {
                roles,
                on_behalf: None,
            },
            allow,
            why: REASON.to_owned(),
            usual: None,
            shown: None,
            surface: None,
        };
        if is_settled(decide(store, &void, id, request).await)? {
            break;
        }
    }
    Ok(())
}

/// The names and roles under which `approver` speaks: its own, and `needed` of those whom issuers name.
fn voices(approver: &Approver, needed: u32) -> impl Iterator<Item = (String, Vec<String>)> {
    let count = match approver.name {
        ApproverName::One(_) => 1,
        ApproverName::Issued => needed,
    };
    (1..=count).map(move |nth| {
        let name = match &approver.name {
            ApproverName::One(name) => name.clone(),
            ApproverName::Issued => format!("operator-{nth}@toolgate-verify"),
        };
        (name, approver.roles.clone())
    })
}

/// Whether no word is needed any more. What the store cannot do is no operator's refusal.
fn is_settled(came: Result<DecisionOutcome, DecisionError>) -> anyhow::Result<bool> {
    match came {
        Ok(came) => Ok(came.state != "pending"),
        Err(error @ DecisionError::Store(_)) => Err(error.into()),
        // An operator who is named like the agent has no word; the next one may have.
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::approvers::{Approvers, is_issued_name};
    use crate::store::claims::StoreError;
    use std::collections::BTreeSet;

    /// A word that does not count leaves it to the next operator; a store that fails leaves nothing to say.
    #[test]
    fn a_failing_store_is_no_operator_without_a_word() {
        let came = |state: &str| {
            Ok(DecisionOutcome {
                changed: true,
                state: state.to_owned(),
                waited: None,
            })
        };
        assert!(is_settled(came("allowed")).unwrap());
        assert!(!is_settled(came("pending")).unwrap());
        let not_theirs = DecisionError::NotYours {
            roles: Vec::new(),
            is_itself: true,
        };
        assert!(!is_settled(Err(not_theirs)).unwrap());
        let failed = DecisionError::Store(StoreError::Broken("it is away".to_owned()));
        assert!(is_settled(Err(failed)).is_err());
    }

    /// Two operators whom issuers name speak where a call needs two; an operator of the configuration counts once.
    #[test]
    fn those_whom_issuers_name_are_as_many_as_are_needed() {
        let one = |name| Approver {
            name,
            stands_in: Vec::new(),
            roles: vec!["finance".to_owned()],
        };
        let issued = one(ApproverName::Issued);
        let names: BTreeSet<String> = voices(&issued, 2).map(|(name, _)| name).collect();
        assert_eq!(names.len(), 2);
        let known = Approvers(vec![issued]);
        for name in &names {
            assert!(is_issued_name(name) && known.decides(name, &["finance".to_owned()]));
        }
        let ann = one(ApproverName::One("ann".to_owned()));
        let said: Vec<_> = voices(&ann, 2).collect();
        assert_eq!(said, [("ann".to_owned(), vec!["finance".to_owned()])]);
    }
}
