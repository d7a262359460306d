//! Fencing tokens (guarantees §5): per session, the newest token that a side effect was begun with.

use super::{CommandRefusal, Millis};
use serde::{Deserialize, Serialize};

/// A session, as far as side effects go. Tokens come from one counter for all sessions that only
/// grows, so a session that was forgotten and comes back never sees an old one again. What stands
/// for dropped segments carries the newest of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFence {
    /// The newest token.
    pub token: u64,
    /// When it was taken.
    pub at: Millis,
}

impl SessionFence {
    /// The session after `token` was used. Never goes back.
    pub(super) fn holding(before: Option<&Self>, token: u64, at: Millis) -> Self {
        let token = before.map_or(token, |session| session.token.max(token));
        Self { token, at }
    }
}

/// Only a token that is newer than any used before begins anything.
pub(crate) fn admit(session: Option<&SessionFence>, token: u64) -> Result<(), CommandRefusal> {
    match session {
        Some(session) if session.token >= token => Err(CommandRefusal::Fenced {
            current: session.token,
        }),
        _ => Ok(()),
    }
}
