//! Sends a call of unknown outcome once more, as it was sent, under the key by which its server tells
//! a second copy from a second call (guarantees §4).

use super::{Delivery, once};
use crate::gate::case::Subject;
use crate::gate::record::probes::LookAnswer;
use crate::gate::steps::dispatch::terms;
use crate::gate::steps::late::{self, Late};
use crate::gate::steps::proof::{Broken, Named, Proof};
use crate::gate::steps::undo_kept;
use crate::guards::idempotency;
use crate::mcp::message::Message;
use crate::model::ids::ActionId;
use crate::store::claims::Store;
use crate::store::state::undo::AnswerWorth;
use std::time::Duration;

/// What came of it.
pub(in crate::gate) struct ResentCall {
    /// The good answer, as its agent reads it: nothing else says anything of the sending before.
    pub(in crate::gate) answer: Option<Message>,
    /// What the call cost, in millionths, when its answer says so.
    pub(in crate::gate) cost: Option<u64>,
    /// What its answer leaves for an undo.
    pub(in crate::gate) worth: AnswerWorth,
    /// An answer that may still come.
    pub(in crate::gate) late: Option<Late>,
    /// What came back, for the ledger; how long it took is for who waited.
    pub(in crate::gate) told: LookAnswer,
}

/// Sends the call, which changes something and has the claim of `action`, and waits for its answer, or for
/// its deadline.
pub(in crate::gate) async fn resend(
    store: &dyn Store,
    action: ActionId,
    delivery: Delivery<'_>,
    rule: &idempotency::Rule,
) -> ResentCall {
    let Subject { call, tool, rules } = &delivery.subject;
    let (ended, late) = once(&delivery, terms(tool, rules)).await;
    let named = Named {
        rules,
        rule,
        not_executed: &tool.server.settings.not_executed,
    };
    let (proof, parked) = delivery.proof(&ended, named);
    let (cost, told) = (late::spent(rules, &ended), told(&ended));
    let worth = undo_kept::worth(store, action, &delivery.shaper, &ended);
    // Of the first sending nothing is known still, whatever is said of this one but that it was done.
    let proven = proof.after(Proof::Unknown);
    let rest = late.or(parked.map(|rest| rest.exchange));
    let late = rest.map(|exchange| Late {
        exchange,
        before: Proof::Unknown,
        round: 0,
        era: call.origin.era,
        shaper: delivery.shaper.clone(),
        parked: None,
    });
    let answer = match ended {
        Ok(answer) if proven == Proof::Answered => Some(delivery.shaper.answer(answer).await),
        Ok(_) | Err(_) => None,
    };
    ResentCall {
        answer,
        cost,
        worth,
        late,
        told,
    }
}

fn told(ended: &Result<Message, Broken>) -> LookAnswer {
    match ended {
        Ok(answer) => LookAnswer {
            body: answer.body.clone(),
            is_error: answer.is_error,
            fault: None,
            took: Duration::ZERO,
        },
        Err(Broken::Cancelled(_)) => LookAnswer::failed("its agent cancelled it".to_owned()),
        Err(Broken::Fault(fault)) => LookAnswer::failed(fault.what.clone()),
    }
}
