//! An operator's word on a held call, whichever way it comes: judged by who may see the call, and by
//! what that operator was shown.

use super::seen;
use crate::admin::OperatorsDoor;
use crate::admin::operators::OperatorIdentity;
use crate::model::absence::DecidingRight;
use crate::model::ids::ActionId;
use crate::store::approvals::{
    self, DecisionError, DecisionOutcome, DecisionRequest, OpenHold, decide, show,
};

/// What an operator says, and how.
#[derive(Debug, Clone)]
pub(in crate::admin) struct Said {
    /// Is it allowed? Otherwise denied.
    pub allow: bool,
    /// The operator's reason.
    pub why: String,
    /// What stands for a reason to allow it where none is said and the contract wants none.
    pub usual: Option<&'static str>,
    /// What names the card that the operator was shown, where they say so.
    pub shown: Option<String>,
    /// Where it was said: `page` or `api`.
    pub surface: &'static str,
}

/// Counts the word of `known` on the held call `id`.
pub(in crate::admin) async fn say(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
    id: ActionId,
    said: Said,
) -> Result<DecisionOutcome, DecisionError> {
    let hold = as_shown(door, known, id, said.shown.as_deref()).await?;
    let right = right_of(door, known, &hold);
    let (store, void) = (&*door.switches.store, &*door.switches.void);
    let Said {
        allow,
        why,
        usual,
        shown,
        surface,
    } = said;
    let request = DecisionRequest {
        who: known.name.clone(),
        right,
        allow,
        why,
        usual,
        shown,
        surface: Some(surface.to_owned()),
    };
    let came = Box::pin(decide(store, void, id, request)).await?;
    door.switches.recount.notify_one();
    if let Some(waited) = came.waited {
        let word = if allow { "allow" } else { "deny" };
        door.switches.metrics.decided(word, waited);
    }
    Ok(came)
}

/// By whose right `known` speaks of `hold`: their own where they have none, so that the store says why.
pub(in crate::admin) fn right_of(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
    hold: &OpenHold,
) -> DecidingRight {
    let right = known.right_to(hold, door.switches.store.now());
    right.unwrap_or_else(|| DecidingRight {
        roles: known.roles.clone(),
        on_behalf: None,
    })
}

/// The held call, if it is the one that the operator was shown, where they say which, and may see.
pub(in crate::admin) async fn as_shown(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
    id: ActionId,
    shown: Option<&str>,
) -> Result<OpenHold, DecisionError> {
    let hold = show(&*door.switches.store, &*door.switches.void, id).await?;
    // Who may not see it is not told that it is there.
    let hold = hold
        .and_then(|hold| seen(door, hold, known))
        .ok_or(DecisionError::Gone(id))?;
    approvals::as_shown(&hold, shown)?;
    Ok(hold)
}
