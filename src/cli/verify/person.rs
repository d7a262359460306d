//! The people of the contracts while verifying: each operator of the configuration says a word at once, by the roles that
//! the configuration gives, so that a call which nobody could allow is not allowed here either.

use crate::gate::Gate;
use crate::model::absence::DecidingRight;
use crate::model::ids::ActionId;
use crate::store::approvals::{DecisionRequest, decide};
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
/// The store does not know it.
pub(super) async fn say(gate: &Arc<Gate>, id: ActionId, word: TrialWord) -> anyhow::Result<()> {
    let store = &*gate.effects.store;
    let known = store.find_hold(id).await?;
    let (_, hold) = known.context("a held call is not there any more")?;
    // To allow what goes over a limit would be to lift the limit that is tried.
    let allow = word == TrialWord::AllowWithinLimits && hold.question.over.is_none();
    let judge = gate.clone();
    let void = move |hold: &Hold| judge.void(hold);
    let may = |role: &String| hold.roles.contains(role);
    for operator in gate
        .approvers
        .0
        .iter()
        .filter(|one| one.roles.iter().any(may))
    {
        let request = DecisionRequest {
            who: operator.name.clone(),
            right: DecidingRight {
                roles: operator.roles.clone(),
                on_behalf: None,
            },
            allow,
            why: REASON.to_owned(),
            usual: None,
            shown: None,
            surface: None,
        };
        let came = decide(store, &void, id, request).await;
        // An operator who is named like the agent has no word; the next one may have.
        if came.is_ok_and(|came| came.state != "pending") {
            break;
        }
    }
    Ok(())
}
