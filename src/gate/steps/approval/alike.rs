//! Whether a person is asked because another call is much like this one (004-09): while that is so, and for
//! as long as what the person was asked then stands.

use super::hold_key;
use crate::gate::case::KeyedCall;
use crate::gate::effects::Effects;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::store::state::StoreKeys;
use crate::store::state::hold::{HoldStatus, hold_status};
use std::time::Duration;

/// What operators read of a call that is held because another one is much like it.
pub(super) const ALIKE_WORD: &str = "near_duplicate";

impl Effects {
    /// Whether the call is much like another one that was begun lately. `past`: the ended call of the same
    /// key that it is not.
    pub(in crate::gate) async fn is_alike(
        &self,
        policy: &Policy,
        case: &KeyedCall<'_>,
        past: Option<ActionId>,
        now: Duration,
    ) -> Result<bool, Refusal> {
        let keyed = case.keyed.as_ref().filter(|_| !case.is_paid);
        let Some(keyed) = keyed.filter(|keyed| keyed.likeness().is_some()) else {
            return Ok(false);
        };
        if self.alike.knows_another(keyed, past, now) {
            return Ok(true);
        }
        // The time in which the other call counts ends before that of a denial, or of a question.
        let place = StoreKeys {
            hold: Some(hold_key(policy, &case.subject, Some(ALIKE_WORD))),
            ..StoreKeys::default()
        };
        let hold = self.look(place).await?.hold;
        Ok(hold_status(hold.as_ref(), self.store.now()) != HoldStatus::Absent)
    }
}
