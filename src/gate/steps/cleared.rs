//! The proof that a call may be sent, and what it carries upstream for that.

use crate::guards::evidence::{NotRepeated, Ruled};
use crate::guards::idempotency::{self, Keyed, Placement};
use crate::mcp::json::Text;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::session_locks::Lease;
use crate::store::state::claim::Claim;
use serde_json::{Value, json};
use std::time::Duration;

/// A call that may be sent: claimed, reserved, fenced and recorded, durably. Only
/// the store's transaction of step 12 makes one.
#[derive(Debug)]
pub(in crate::gate) struct Claimed {
    pub(in crate::gate) key: Digest,
    pub(in crate::gate) action: ActionId,
    /// Which round of input it brings; 0 for none.
    pub(in crate::gate) round: u32,
    pub(in crate::gate) session: Digest,
    pub(in crate::gate) fence: u64,
    /// Its turn, until it is settled.
    pub(in crate::gate) _lease: Lease,
}

/// The proof that a call may be sent: every guard before has passed it, and what changes something
/// has its claim.
pub(in crate::gate) enum Cleared<'a> {
    /// Nothing is enforced.
    Observed(Ruled),
    /// It needs no claim.
    Read(NotRepeated),
    /// It is claimed.
    Claimed(Stamp<'a>),
}

/// What a claimed call carries upstream: its session, its token, and the key that its tool server
/// knows it by.
pub(in crate::gate) struct Stamp<'a> {
    pub(in crate::gate) fence: Text,
    pub(in crate::gate) key: Option<(&'a Placement, String)>,
    pub(in crate::gate) action: ActionId,
    /// For how long after its first sending the server tells a second one by that key.
    window: Duration,
}

impl<'a> Stamp<'a> {
    /// The stamp of `claimed`.
    pub(in crate::gate) fn of(
        claimed: &Claimed,
        rule: &'a idempotency::Rule,
        keyed: &Keyed,
    ) -> Self {
        let Claimed {
            session,
            fence,
            action,
            ..
        } = claimed;
        let fence = json!({ "session": session.to_string(), "token": fence, "action": action });
        Self::made(&fence, *action, rule, keyed)
    }

    /// The stamp of the call of `claim`, which may have run and is sent again under `token`.
    pub(in crate::gate) fn of_claim(
        claim: &Claim,
        token: u64,
        rule: &'a idempotency::Rule,
        keyed: &Keyed,
    ) -> Self {
        let (session, action) = (claim.session.to_string(), claim.action);
        let fence = json!({ "session": session, "token": token, "action": action });
        Self::made(&fence, action, rule, keyed)
    }

    fn made(fence: &Value, action: ActionId, rule: &'a idempotency::Rule, keyed: &Keyed) -> Self {
        let upstream = rule.upstream();
        let key = upstream.map(|upstream| (&upstream.place, keyed.upstream_key(action)));
        Self {
            fence: Text::of(fence),
            key,
            action,
            window: upstream.map_or(Duration::ZERO, |upstream| upstream.trusted),
        }
    }

    /// Its session and token as a header has them: an item with a parameter (RFC 9651).
    pub(in crate::gate) fn fence_item(&self) -> String {
        let fence = self.fence.value();
        format!("{};session={}", fence["token"], fence["session"])
    }
}

impl Cleared<'_> {
    /// For how long the server tells a second sending of the call from a second call.
    pub(in crate::gate) fn window(&self) -> Duration {
        match self {
            Self::Claimed(stamp) => stamp.window,
            Self::Observed(_) | Self::Read(_) => Duration::ZERO,
        }
    }
}
