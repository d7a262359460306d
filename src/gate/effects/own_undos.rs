//! An agent that takes a call of its own back by itself: it makes just the call that its contract names
//! for that. It is that undo then, and no operator makes it once more (003-64).

use crate::gate::call::{Call, OwnUndo};
use crate::gate::effects::{ASK_AGAIN, Effects, unavailable};
use crate::gate::record::findings::KeyFound;
use crate::gate::steps::undo_kept::known_by;
use crate::gate::steps::undo_pieces::pieces;
use crate::guards::idempotency::Keyed;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, TenantId, UserId};
use crate::model::refusal::Refusal;
use crate::store::claims::UndoSearch;
use crate::store::state::StoreKeys;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::undo::{OpenUndo, UndoPhase};
use crate::store::undos::{NoUndo, known};
use serde_json::Value;

/// Undos that are looked at of those that one call makes: the newest.
const MAX_UNDOS_LOOKED_AT: usize = 8;
/// The same of those whose call has to be made first to be compared.
const MAX_UNREAD_UNDOS: usize = 1000;

impl Effects {
    /// Finds out which call this one takes back though nobody has asked for that, if it takes one back; one of which
    /// it is not known yet whether it ran is found once its undo is asked for. The same undo that is on its way, or
    /// may have been made, stops it: two would be two effects.
    pub(in crate::gate) async fn find_own_undo(
        &self,
        call: &Call,
        keyed: &Keyed,
        found: &mut KeyFound,
    ) -> Result<(), Refusal> {
        let judged = &call.judged;
        if call.takes_back().is_some() || !self.store.takes_back(&judged.tool) {
            return Ok(());
        }
        let made = known_by(&call.origin.caller, &judged.tool, &judged.arguments);
        let of = if call.round().is_some() {
            self.begun_by_round(keyed).await?
        } else {
            self.made_by(call, made, found).await?
        };
        let may_be = of.is_none().then_some(made);
        *call.origin.own_undo.lock() = OwnUndo { of, may_be };
        Ok(())
    }

    /// What the rounds before this one take back.
    async fn begun_by_round(&self, keyed: &Keyed) -> Result<Option<ActionId>, Refusal> {
        let place = StoreKeys {
            call: Some(keyed.call_key()),
            ..StoreKeys::default()
        };
        let claim = self.look(place).await?.claim;
        Ok(claim.and_then(|claim| claim.undoes))
    }

    async fn made_by(
        &self,
        call: &Call,
        made: Digest,
        found: &mut KeyFound,
    ) -> Result<Option<ActionId>, Refusal> {
        let search = UndoSearch::MadeBy(made);
        let undos = self.store.undos(search, MAX_UNDOS_LOOKED_AT).await;
        let mut undos = undos.map_err(unavailable)?;
        undos.extend(self.unread_made_by(call, made).await?);
        let now = self.store.now();
        if let Some(open) = undos.iter().find(|undo| undo.bar(now).is_none()) {
            return Ok(Some(open.of));
        }
        let Some((by, refusal)) = undos.iter().find_map(stops) else {
            return Ok(None);
        };
        found.holder = Some(by);
        Err(refusal)
    }
}

impl Effects {
    /// The undos of which nobody knew the call when their outcome was told, and that this one makes, which is
    /// known by `made`. What cannot be read cannot be made by an operator, either.
    async fn unread_made_by(&self, call: &Call, made: Digest) -> Result<Vec<OpenUndo>, Refusal> {
        let (caller, tool) = (&call.origin.caller, &call.judged.tool);
        let tenant = caller.tenant.as_ref().map(TenantId::as_str);
        let of_user = caller.user.as_ref().map(UserId::as_str);
        let unread = OpenUndo::unread(tool, caller.agent.as_str(), tenant, of_user);
        let search = UndoSearch::MadeBy(unread);
        let undos = self.store.undos(search, MAX_UNREAD_UNDOS).await;
        let mut found = Vec::new();
        for undo in undos.map_err(unavailable)? {
            match pieces(&*self.store, &undo).await {
                Ok((arguments, _)) => {
                    if known_by(caller, tool, &Value::Object(arguments)) == made {
                        found.push(undo);
                    }
                }
                // Whether it is the same call is not known.
                Err(NoUndo::Store(error)) => return Err(unavailable(error)),
                Err(_) => {}
            }
        }
        Ok(found)
    }
}

impl Effects {
    /// Whether no other call that makes the same undo has begun, now that this one has and before any of it is sent: what
    /// became of the call that is taken back may have been known only since each of them looked for the other.
    pub(in crate::gate) async fn is_alone(&self, call: &Call) -> Result<(), Refusal> {
        let judged = &call.judged;
        let is_met = if let Some(made) = call.may_undo() {
            let unread = self.unread_made_by(call, made).await?;
            self.is_made_for_another(made).await? || is_under_way(&unread)
        } else if let Some(of) = call.takes_back() {
            let made = known_by(&call.origin.caller, &judged.tool, &judged.arguments);
            self.is_made_by_agent(of, made).await?
        } else {
            false
        };
        if is_met {
            let after_ms = ASK_AGAIN;
            return Err(Refusal::DuplicateInFlight { after_ms });
        }
        Ok(())
    }

    /// Whether the call that is known by `made` is on its way to take another one back, or may have.
    async fn is_made_for_another(&self, made: Digest) -> Result<bool, Refusal> {
        let search = UndoSearch::MadeBy(made);
        let undos = self.store.undos(search, MAX_UNDOS_LOOKED_AT).await;
        Ok(is_under_way(&undos.map_err(unavailable)?))
    }

    /// Whether its agent makes by itself the call that is known by `made`, or has since `of` began, so that it takes `of`
    /// back.
    async fn is_made_by_agent(&self, of: ActionId, made: Digest) -> Result<bool, Refusal> {
        let calls = self.store.own_calls(made, MAX_UNDOS_LOOKED_AT).await;
        let calls = calls.map_err(unavailable)?;
        if calls.is_empty() {
            return Ok(false);
        }
        let undo = known(&*self.store, of).await.map_err(unavailable)?;
        let Some(undo) = undo else { return Ok(false) };
        let since = self.began(&undo).await?;
        for (_, claim) in calls {
            let is_since = claim.began >= since;
            let runs = claim.phase == ClaimPhase::Dispatching;
            if is_since && (runs || self.has_succeeded(&claim).await?) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_under_way(undos: &[OpenUndo]) -> bool {
    undos.iter().any(|undo| stops(undo).is_some())
}

/// Which call stops another one that makes the same undo, and with what.
fn stops(undo: &OpenUndo) -> Option<(ActionId, Refusal)> {
    match undo.phase {
        UndoPhase::Running { by } => Some((
            by,
            Refusal::DuplicateInFlight {
                after_ms: ASK_AGAIN,
            },
        )),
        UndoPhase::Unknown { by } => Some((by, Refusal::OutcomeUnknown)),
        UndoPhase::Offered
        | UndoPhase::Requested
        | UndoPhase::Done { .. }
        | UndoPhase::Failed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::clock::hands::TestClock;
    use crate::store::memory::MemoryStore;
    use crate::store::state::claim::Stored;
    use crate::store::tests::undos::{asks, begun, ended, own_call, undo_of, undoable};
    use bytes::Bytes;
    use std::sync::Arc;
    use std::time::Duration;

    fn answered(text: &'static str) -> ClaimPhase {
        ClaimPhase::Completed(Stored::inline(false, Bytes::from_static(text.as_bytes())))
    }

    /// 003-64: an agent's own call that has begun sees the operator's undo that runs, or may have run; not one that is only
    /// asked for, which sees the call itself.
    #[tokio::test]
    async fn an_own_call_sees_the_undo_that_began() {
        let store = Arc::new(MemoryStore::new(TestClock::new().clock()));
        let effects = Effects::new(store.clone());
        let (made, other) = (Digest::of(b"bin 1"), Digest::of(b"bin 2"));
        let of = undoable(&*store, "first", made).await;
        asks(&*store, of.action, false).await;
        assert_eq!(effects.is_made_for_another(made).await, Ok(false));
        let undo = begun(&*store, undo_of(&*store, &of)).await;
        assert_eq!(effects.is_made_for_another(made).await, Ok(true));
        assert_eq!(effects.is_made_for_another(other).await, Ok(false));
        let why = "the line broke".to_owned();
        ended(&*store, &undo, ClaimPhase::Unknown { why }, true).await;
        assert_eq!(effects.is_made_for_another(made).await, Ok(true));
    }

    /// 003-64: an operator's undo that has begun sees the agent's own call that runs, or has run, since the call began that
    /// is taken back; not one that failed, was made before, or is another.
    #[tokio::test]
    async fn an_undo_sees_the_own_call_that_began() {
        let hands = TestClock::new();
        let store = Arc::new(MemoryStore::new(hands.clock()));
        let effects = Effects::new(store.clone());
        let (made, other) = (Digest::of(b"bin 1"), Digest::of(b"bin 2"));
        let own =
            async |key: &str, made: Digest| begun(&*store, own_call(&*store, key, made)).await;
        let before = own("before", made).await;
        ended(&*store, &before, answered("gone"), false).await;
        hands.pass(Duration::from_secs(1));
        let of = undoable(&*store, "first", made).await.action;
        own("other", other).await;
        assert_eq!(effects.is_made_by_agent(of, made).await, Ok(false));
        let failing = own("failing", made).await;
        assert_eq!(effects.is_made_by_agent(of, made).await, Ok(true));
        ended(&*store, &failing, answered("locked"), true).await;
        assert_eq!(effects.is_made_by_agent(of, made).await, Ok(false));
        let done = own("done", made).await;
        ended(&*store, &done, answered("{}"), false).await;
        assert_eq!(effects.is_made_by_agent(of, made).await, Ok(true));
    }
}
