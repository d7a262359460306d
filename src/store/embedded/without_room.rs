//! What was decided and finds no room on the disk: it is queued, and written once there is some. What its
//! caller reads is true: it is taken back behind that, or counts then.

use super::errors::unwritten;
use super::inner::EmbeddedInner;
use crate::store::claims::StoreError;
use crate::store::journal::JournalError;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{RevokeGrant, Settle, StoreCommand};
use crate::store::state::event::{GrantMinted, Intended, StoreEvent};
use crate::store::state::settlement::Evidence;
use crate::store::state::undo::AnswerWorth;

/// Why a grant is taken back.
const NO_ROOM: &str = "there was no room on the disk to keep it";
/// What an operator reads of a word that is queued.
const WAITS: &str = "what was said counts once there is room, and need not be said again";

impl EmbeddedInner {
    /// What the caller reads whose `event` could not be written.
    pub(super) fn unwritten(&self, event: &StoreEvent, error: JournalError) -> StoreError {
        let JournalError::NoSpace(why) = error else {
            return unwritten(error);
        };
        match event {
            StoreEvent::Intended(intended) => {
                self.take_back(intended);
                StoreError::Full(why)
            }
            StoreEvent::Granted(minted) => {
                let became = self.take_grant_back(minted);
                StoreError::Full(format!("{why}; {became}"))
            }
            StoreEvent::Decided(_)
            | StoreEvent::Edited(_)
            | StoreEvent::Extended(_)
            | StoreEvent::Revoked(_)
            | StoreEvent::UndoAsked(_)
            | StoreEvent::Steered(_) => StoreError::Full(format!("{why}; {WAITS}")),
            StoreEvent::Settled(_)
            | StoreEvent::Reserved(_)
            | StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Fenced { .. }
            | StoreEvent::Held(_)
            | StoreEvent::Carried(_)
            | StoreEvent::Noted(_) => StoreError::Full(why),
        }
    }

    /// Takes back an intent that waits for room on the disk: nothing was sent, and nothing will be.
    fn take_back(&self, intended: &Intended) {
        let settle = Settle {
            key: intended.key,
            action: intended.action,
            phase: ClaimPhase::NotSent,
            evidence: Evidence::Exchange,
            cost: None,
            failed: false,
            seen: None,
            worth: AnswerWorth::Unread,
        };
        // Queued behind the intent, and waited for by nobody.
        if let Err(error) = self.decide(&StoreCommand::Settle(settle), None) {
            tracing::error!(action = %intended.action, %error, "a call that was not sent holds its key until a restart");
        }
        self.waiters.wake(&intended.key);
    }

    /// Takes back a grant that waits for room: no call could begin by it yet. Gives what became of it and of
    /// the word on the held call, in words.
    fn take_grant_back(&self, minted: &GrantMinted) -> &'static str {
        let grant = &minted.grant;
        let revoke = RevokeGrant {
            id: grant.id,
            who: grant.who.clone(),
            why: NO_ROOM.to_owned(),
        };
        match (
            self.decide(&StoreCommand::Revoke(revoke), None),
            &minted.allowed,
        ) {
            (Ok(Ok(_)), None) => "the grant is taken back",
            (Ok(Ok(_)), Some(_)) => {
                "the grant is taken back; that the call is allowed counts once there is room"
            }
            (refused, _) => {
                tracing::warn!(id = %grant.id, is_known = refused.is_ok(), "a grant without room is not taken back");
                WAITS
            }
        }
    }
}
