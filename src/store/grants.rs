//! What an operator sees and says of standing grants (guarantees §7).

use super::claims::{Store, StoreError};
use super::operator::{reason, time};
use super::state::command::{Decide, GrantBounds, MintGrant, RevokeGrant, StoreCommand};
use super::state::event::StoreEvent;
use super::state::grant::{Grant, GrantBound, GrantEnd};
use super::state::hold::{MAX_DECISION_REASON_BYTES, Undecided};
use super::state::{CommandRefusal, Millis, StoreKeys};
use crate::model::ids::ActionId;
use std::time::Duration;

pub(crate) mod at_rest;
pub(crate) mod view;

/// Grants that can cover a call at once (threat-model §8).
const BOUNDS: GrantBounds = GrantBounds {
    all: 1000,
    agent: 200,
};
/// Grants that are listed at once, at most.
pub(crate) const MAX_GRANTS_LISTED: usize = 2000;

/// What came of an operator's word on a grant.
#[derive(Debug)]
pub(crate) struct MintedGrant {
    /// The grant.
    pub grant: Grant,
    /// How long the call that was shown had waited, if one was.
    pub waited: Option<Duration>,
}

/// The held call that was shown, and the word that allows it.
#[derive(Debug)]
pub(crate) struct ShownCall {
    /// The word.
    pub allow: Decide,
    /// Since when it waits.
    pub asked: Millis,
}

/// Why an operator's word on a grant counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GrantError {
    /// Which of the two is told to nobody.
    #[error("grant {0} is forgotten or not found")]
    Gone(ActionId),
    /// The held call is not known, or not any more.
    #[error("approval {0} is expired or not found")]
    NoCall(ActionId),
    /// Not this operator's to decide.
    #[error("only an operator with one of these roles can grant that, and not for itself: {0}")]
    NotYours(String),
    /// The held call can never run.
    #[error("it is void, nothing runs as things stand: {0}")]
    Void(String),
    /// There can be no such grant.
    #[error("it cannot be granted: {0}")]
    Refused(String),
    /// What was shown is decided already.
    #[error("the call is decided already, so it cannot be what a grant begins with")]
    Decided,
    /// Too many.
    #[error("there are {0} grants that can cover a call, and no room for one more")]
    Full(&'static str),
    /// What was said cannot be used.
    #[error("{0}")]
    Unfit(String),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What an operator gives as the reason of a grant.
pub(crate) fn grant_reason(why: &str) -> Result<String, GrantError> {
    reason(why, MAX_DECISION_REASON_BYTES).map_err(GrantError::Unfit)
}

/// Mints `grant` for `lasts` milliseconds, durably, and allows the held call that was shown with it.
pub(crate) async fn mint(
    store: &dyn Store,
    grant: Grant,
    lasts: u64,
    shown: Option<ShownCall>,
) -> Result<MintedGrant, GrantError> {
    let roles = grant.roles.join(", ");
    let asked = shown.as_ref().map(|shown| shown.asked);
    let allow = shown.map(|shown| shown.allow);
    let held = allow.as_ref().map(|allow| allow.id);
    let mint = MintGrant {
        grant,
        lasts,
        allow,
        bounds: BOUNDS,
    };
    match store.run(StoreCommand::Mint(Box::new(mint)), None).await? {
        Ok(StoreEvent::Granted(minted)) => {
            let grant = minted.grant;
            tracing::info!(id = %grant.id, tool = %grant.scope.tool, who = grant.who, "an operator has granted calls");
            let waited = asked.map(|asked| grant.minted.saturating_sub(asked));
            Ok(MintedGrant {
                grant,
                waited: waited.map(Duration::from_millis),
            })
        }
        Err(CommandRefusal::TooManyGrants(bound)) => Err(GrantError::Full(match bound {
            GrantBound::All => "1000",
            GrantBound::Agent => "200 of the agent's",
        })),
        Err(CommandRefusal::Undecided(Undecided::NotYours)) => Err(GrantError::NotYours(roles)),
        Err(CommandRefusal::Undecided(Undecided::Same | Undecided::Other { .. })) => {
            Err(GrantError::Decided)
        }
        Ok(_) | Err(_) => Err(held.map_or_else(
            || GrantError::Unfit("it could not be granted".to_owned()),
            GrantError::NoCall,
        )),
    }
}

/// Takes the grant `id` back, durably. Whether that says anything new.
pub(crate) async fn revoke(
    store: &dyn Store,
    id: ActionId,
    who: &str,
    why: &str,
) -> Result<bool, GrantError> {
    let (who, why) = (who.to_owned(), grant_reason(why)?);
    let revoke = RevokeGrant {
        id,
        who: who.clone(),
        why,
    };
    match store.run(StoreCommand::Revoke(revoke), None).await? {
        Ok(_) => {
            tracing::info!(%id, who, "an operator has taken a grant back");
            Ok(true)
        }
        Err(CommandRefusal::Granted(GrantEnd::Revoked)) => Ok(false),
        Err(_) => Err(GrantError::Gone(id)),
    }
}

/// The grant `id`, for as long as it is known.
pub(crate) async fn find(store: &dyn Store, id: ActionId) -> Result<Option<Grant>, StoreError> {
    let place = StoreKeys {
        grant: Some(Grant::key_of(id)),
        ..StoreKeys::default()
    };
    Ok(store.load_view(place).await?.grant)
}
