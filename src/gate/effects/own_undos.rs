//! An agent that takes a call of its own back by itself: it makes just the call that its contract names
//! for that. It is that undo then, and no operator makes it once more (003-64).

use crate::gate::call::Call;
use crate::gate::effects::{ASK_AGAIN, Effects, unavailable};
use crate::gate::record::findings::KeyFound;
use crate::gate::steps::undo_kept::known_by;
use crate::guards::idempotency::Keyed;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::store::claims::UndoSearch;
use crate::store::state::StoreKeys;
use crate::store::state::undo::{OpenUndo, UndoPhase};

/// Undos that are looked at of those that one call makes: the newest.
const MAX_UNDOS_LOOKED_AT: usize = 8;

impl Effects {
    /// Finds out which call this one takes back though nobody has asked for that, if it takes one back. The
    /// same undo that is on its way, or may have been made, stops it: two would be two effects.
    pub(in crate::gate) async fn find_own_undo(
        &self,
        call: &Call,
        keyed: &Keyed,
        found: &mut KeyFound,
    ) -> Result<(), Refusal> {
        if call.takes_back().is_some() {
            return Ok(());
        }
        let of = if call.round().is_some() {
            self.begun_by_round(keyed).await?
        } else {
            self.made_by(call, found).await?
        };
        *call.origin.undoes_unasked.lock() = of;
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
        found: &mut KeyFound,
    ) -> Result<Option<ActionId>, Refusal> {
        let judged = &call.judged;
        let made = known_by(&call.origin.caller, &judged.tool, &judged.arguments);
        let search = UndoSearch::MadeBy(made);
        let undos = self.store.undos(search, MAX_UNDOS_LOOKED_AT).await;
        let undos = undos.map_err(unavailable)?;
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
