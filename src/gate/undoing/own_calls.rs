//! Calls of its agent that have taken another one back, of which nobody knew then what had become of it: they are found
//! once that undo is asked for.

use super::sending::UndoEnd;
use super::{CallUndoer, UndoPlan};
use crate::gate::steps::undo_kept::known_by;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::undo::{AskUndo, OpenUndo, OwnCall, UndoPhase};
use crate::store::undos::{NoUndo, ask};
use serde_json::Value;

/// Calls that are looked at: the newest.
const MAX_OWN_CALLS: usize = 8;
const MADE_ITSELF: &str = "Nothing was sent now. The agent has made just this call itself, when it was not known yet what had become of \
                           the one that is taken back.";

impl CallUndoer {
    /// The call by which its agent has taken `plan.undo.of` back itself, if there is one: just the call of `plan`, begun
    /// after that one, and carried out.
    pub(super) async fn own_call(&self, plan: &UndoPlan) -> Result<Option<OwnCall>, NoUndo> {
        let effects = &self.gate.effects;
        let arguments = Value::Object(plan.arguments.clone());
        let made = known_by(&plan.caller, &plan.undo.terms.tool, &arguments);
        let since = effects
            .began(&plan.undo)
            .await
            .map_err(|refusal| lacking(&refusal))?;
        for (key, claim) in effects.store.own_calls(made, MAX_OWN_CALLS).await? {
            if claim.began < since {
                break;
            }
            if claim.phase == ClaimPhase::Dispatching {
                return Err(NoUndo::Running(claim.action));
            }
            // Where it is not known what became of it, it stops the undo as any equal call does.
            if effects
                .has_succeeded(&claim)
                .await
                .map_err(|refusal| lacking(&refusal))?
            {
                let action = claim.action;
                return Ok(Some(OwnCall { action, key }));
            }
        }
        Ok(None)
    }

    /// Notes that the equal call `by`, whose end was the answer to the undo that was asked for, has taken the call back.
    pub(super) async fn is_made_by(
        &self,
        undo: &OpenUndo,
        by: ActionId,
        end: &UndoEnd,
    ) -> Result<bool, NoUndo> {
        let is_open = matches!(undo.phase, UndoPhase::Requested | UndoPhase::Failed { .. });
        let asked = undo.asked.as_ref();
        let Some(asked) = asked.filter(|_| is_open && end.code.is_none()) else {
            return Ok(false);
        };
        let effects = &self.gate.effects;
        // What was made for an undo has ended that by itself, well or with an error.
        let made = effects.store.find(by).await?;
        let Some((key, claim)) = made.filter(|(_, claim)| claim.undoes.is_none()) else {
            return Ok(false);
        };
        let has_run = effects.has_succeeded(&claim).await.unwrap_or(false);
        if has_run {
            let done = AskUndo {
                of: undo.of,
                who: asked.who.clone(),
                why: asked.why.clone(),
                caller: asked.caller.clone(),
                drops: false,
                made_by: Some(OwnCall { action: by, key }),
            };
            ask(&*effects.store, done).await?;
        }
        Ok(has_run)
    }
}

impl UndoEnd {
    /// That its agent has made the call itself.
    pub(super) fn made_by(own: OwnCall) -> Self {
        Self {
            verdict: "answered".to_owned(),
            code: None,
            approval_id: None,
            words: MADE_ITSELF.to_owned(),
            same_as: Some(own.action),
        }
    }
}

fn lacking(refusal: &Refusal) -> NoUndo {
    NoUndo::Lacking(refusal.words())
}
