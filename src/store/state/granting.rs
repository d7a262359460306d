//! What operators' words make of standing grants (guarantees §7), and what calls take of them.

use super::command::{GrantBounds, MintGrant, RevokeGrant};
use super::event::{GrantMinted, StoreEvent};
use super::grant::{Grant, GrantBound, GrantEnd, GrantRevocation, GrantRevoked, GrantUse};
use super::{CommandRefusal, Millis, StoreView, holding};

/// Step 10 of a call that a grant covers: it still does, if it has to.
pub(super) fn admit(
    used: Option<&GrantUse>,
    grant: Option<&Grant>,
    now: Millis,
) -> Result<(), CommandRefusal> {
    let Some(used) = used else {
        return Ok(());
    };
    let admitted = match grant {
        Some(grant) if Grant::key_of(grant.id) == used.key => grant.admit(used.amount, now),
        Some(_) | None => Err(GrantEnd::Absent),
    };
    admitted.map_err(CommandRefusal::Granted)
}

/// A grant begins, and the held call that was shown is allowed with it; neither without the other.
pub(super) fn minted(
    mint: &MintGrant,
    view: &StoreView,
    now: Millis,
) -> Result<StoreEvent, CommandRefusal> {
    let GrantBounds { all, agent } = mint.bounds;
    let live = view.grants;
    if live.agent >= agent {
        return Err(CommandRefusal::TooManyGrants(GrantBound::Agent));
    }
    if live.all >= all {
        return Err(CommandRefusal::TooManyGrants(GrantBound::All));
    }
    let decided = mint.allow.as_ref();
    let decided = decided.map(|allow| holding::decided(allow, view, now));
    let minted = GrantMinted {
        grant: Grant {
            minted: now,
            until: now.saturating_add(mint.lasts),
            ..mint.grant.clone()
        },
        allowed: decided.transpose().map_err(CommandRefusal::Undecided)?,
    };
    Ok(StoreEvent::Granted(Box::new(minted)))
}

/// A grant is taken back; the first word stands.
pub(super) fn revoked(
    revoke: &RevokeGrant,
    grant: Option<&Grant>,
    now: Millis,
) -> Result<StoreEvent, CommandRefusal> {
    let grant = grant.filter(|grant| grant.id == revoke.id);
    let grant = grant.ok_or(CommandRefusal::Granted(GrantEnd::Absent))?;
    if grant.revoked.is_some() {
        return Err(CommandRefusal::Granted(GrantEnd::Revoked));
    }
    Ok(StoreEvent::Revoked(GrantRevoked {
        id: grant.id,
        revoked: GrantRevocation {
            who: revoke.who.clone(),
            why: revoke.why.clone(),
            at: now,
        },
    }))
}
