//! How a task stands, as its agent is told: by what this process knows of its call, or what the store
//! keeps of it.

use super::told::CANCELLED;
use super::{KeptRequest, OwnTaskEnd, OwnTaskId, TaskOf, TaskStand};
use crate::gate::Gate;
use crate::mcp::json::{Object, SERVER_JSON_LIMITS, Text};
use crate::mcp::message::Message;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::claims::StoreError;
use crate::store::state::StoreKeys;
use crate::store::state::claim::{Claim, ClaimPhase, Stored};
use crate::store::state::hold::{Hold, HoldPhase, UsedClaim};
use std::borrow::Cow;

/// What is found of a task.
pub(crate) enum TaskLook {
    /// This is said of it.
    Told(Message),
    /// Its call waits for a person, and nobody sends it: it was asked for before a restart.
    Unsent(KeptRequest),
    /// Nothing is known of it.
    Unknown,
}

impl Gate {
    /// How the task stands.
    pub(crate) async fn look_at_task(&self, id: &OwnTaskId) -> Result<TaskLook, StoreError> {
        match id.of {
            TaskOf::Hold { key, hold } => Box::pin(self.look_at_held(id, key, hold)).await,
            TaskOf::Call { .. } => {
                let told = Box::pin(self.look_at_long(id)).await?;
                Ok(TaskLook::Told(complete(told)))
            }
        }
    }

    async fn look_at_long(&self, id: &OwnTaskId) -> Result<Object, StoreError> {
        let now = self.effects.store.now();
        let TaskOf::Call {
            action,
            key,
            changes,
        } = id.of
        else {
            return Ok(id.unknown(now));
        };
        Ok(match self.own_tasks.look(id) {
            Some(TaskStand::GoesOn(None)) => id.going_on(None, now),
            Some(TaskStand::GoesOn(Some(words))) => id.waits(&words, now),
            Some(TaskStand::Asks(requests)) => id.asks(requests, now),
            Some(TaskStand::Ended(end)) => id.ended(&end, now),
            None => {
                let claim = match key {
                    Some(key) => self.claim_of(action, UsedClaim::Key(key)).await?,
                    None => None,
                };
                let kept = self.used(id, claim).await?;
                kept.unwrap_or_else(|| id.forgotten(changes, now))
            }
        })
    }

    async fn look_at_held(
        &self,
        id: &OwnTaskId,
        key: Digest,
        asked: ActionId,
    ) -> Result<TaskLook, StoreError> {
        let store = &self.effects.store;
        let place = StoreKeys {
            hold: Some(key),
            ..StoreKeys::default()
        };
        let known = self.own_tasks.look(id);
        let held = store.load_view(place).await?.hold;
        let held = held.filter(|held| held.id == asked);
        let now = store.now();
        let told = match (known, held) {
            (Some(TaskStand::Ended(end)), _) => id.ended(&end, now),
            // The call of a held task ends with what its server asks.
            (Some(TaskStand::GoesOn(_) | TaskStand::Asks(_)), held) => {
                id.going_on(held.as_ref(), now)
            }
            (None, Some(found)) => match &found.phase {
                HoldPhase::Withdrawn => {
                    id.ended(&OwnTaskEnd::Cancelled(Cow::Borrowed(CANCELLED)), now)
                }
                HoldPhase::Used { action, claim, .. } => {
                    let claim = self.claim_of(*action, *claim).await?;
                    let kept = self.used(id, claim).await?;
                    kept.unwrap_or_else(|| id.unknown(now))
                }
                HoldPhase::Pending | HoldPhase::Allowed | HoldPhase::Denied => {
                    return Ok(unsent(&found));
                }
            },
            (None, None) => return Ok(TaskLook::Unknown),
        };
        Ok(TaskLook::Told(complete(told)))
    }

    /// What the call that ran for a task has claimed, if that is known still. Records of before don't say
    /// where it stands, so that it is searched for.
    async fn claim_of(
        &self,
        action: ActionId,
        claim: UsedClaim,
    ) -> Result<Option<Claim>, StoreError> {
        let store = &self.effects.store;
        let found = match claim {
            UsedClaim::Nothing => None,
            UsedClaim::Key(key) => {
                let place = StoreKeys {
                    call: Some(key),
                    ..StoreKeys::default()
                };
                store.load_view(place).await?.claim
            }
            UsedClaim::Unsaid => store.find(action).await?.map(|(_, claim)| claim),
        };
        Ok(found.filter(|claim| claim.action == action))
    }

    /// What is kept of the call that ran for the task, if something is.
    async fn used(
        &self,
        id: &OwnTaskId,
        claim: Option<Claim>,
    ) -> Result<Option<Object>, StoreError> {
        let now = self.effects.store.now();
        let Some(claim) = claim else {
            return Ok(None);
        };
        Ok(Some(match claim.phase {
            ClaimPhase::Completed(stored)
            | ClaimPhase::Failed {
                answer: Some(stored),
                ..
            } => match self.stored(&stored).await? {
                Some(answer) => id.ended(&OwnTaskEnd::Answered(answer), now),
                None => id.unknown(now),
            },
            ClaimPhase::NotSent | ClaimPhase::Failed { answer: None, .. } => id.not_sent(now),
            ClaimPhase::AwaitingInput { .. } => id.asks_first(now),
            ClaimPhase::Dispatching => id.going_on(None, now),
            ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => id.unknown(now),
        }))
    }

    async fn stored(&self, stored: &Stored) -> Result<Option<Message>, StoreError> {
        let body = self.effects.store.body(stored).await?;
        let read = Text::read_oddly(body, &SERVER_JSON_LIMITS).ok();
        Ok(read.map(|(body, _)| Message::response(None, body, stored.is_error)))
    }
}

fn unsent(hold: &Hold) -> TaskLook {
    let question = &hold.question;
    let kept = question.request.as_ref();
    let kept = kept.and_then(|kept| KeptRequest::of(kept, question.as_sent()));
    kept.map_or(TaskLook::Unknown, TaskLook::Unsent)
}

fn complete(mut told: Object) -> Message {
    told.set("resultType", Text::string("complete"));
    Message::response(None, told.text(), false)
}
