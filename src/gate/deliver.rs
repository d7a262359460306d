//! Steps 14 to 16, 15 up to the store: sends a call, again only with proof that it did not run, and
//! says what is proven when it ends.

use super::call::Call;
use super::dispatch::{Cleared, Terms, asks_for_task, dispatch, pack, terms, too_late};
use super::effects::{Effects, unavailable};
use super::late::{self, Exchange, Late};
use super::proof::{self, Named, Proof};
use super::shaper::Shaper;
use super::taken::{Held, Taken};
use super::toolbox::Tool;
use super::trail::{Broken, Trail};
use crate::guards::ToolRules;
use crate::guards::secrets::Sealed;
use crate::mcp::message::Message;
use crate::model::refusal::Refusal;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait before a call is sent again; doubled each time.
const PAUSE: Duration = Duration::from_millis(100);

/// A call that every guard has passed.
pub(super) struct Delivery<'a> {
    pub(super) call: &'a Arc<Call>,
    pub(super) tool: &'a Arc<Tool>,
    pub(super) rules: &'a Arc<ToolRules>,
    pub(super) cleared: Cleared<'a>,
}

impl Delivery<'_> {
    fn shaper(&self) -> Shaper {
        let Call {
            caller,
            links,
            judged,
            policy,
            ..
        } = &**self.call;
        Shaper {
            tool: self.tool.clone(),
            rules: self.rules.clone(),
            mode: policy.mode,
            wants_task: asks_for_task(self.call),
            caller: caller.clone(),
            revision: judged.revision,
            keeper: links.servers().keeper().clone(),
        }
    }

    async fn shaped(&self, ending: Result<Message, Refusal>) -> Result<Message, Refusal> {
        match ending {
            Ok(answer) => Ok(self.shaper().answer(answer).await),
            Err(refusal) => Err(refusal),
        }
    }
}

/// Sends the call and waits for its answer, or for its deadline.
pub(super) async fn deliver(
    effects: &Effects,
    delivery: Delivery<'_>,
    sealed: &Sealed,
    (trail, taken): (&mut Trail, &mut Taken),
) -> Result<Message, Refusal> {
    let Delivery {
        rules, ref cleared, ..
    } = delivery;
    let (terms, began) = (terms(delivery.tool, rules), trail.now());
    let (mut attempt, mut proven) = (1, Proof::NotSent);
    loop {
        trail.sent += 1;
        if let Some(held) = &mut taken.claim {
            // The proof that nothing left ends here, for us and for the process that finds our
            // journal.
            effects
                .store
                .sent(held.claimed.action)
                .map_err(unavailable)?;
            held.proof = Proof::Unknown;
        }
        let (ended, late) = once(&delivery, sealed, terms).await;
        trail.meaning = proof::meaning(&ended, &rules.output);
        let (Some(held), Some(rule)) = (&mut taken.claim, &rules.idempotency) else {
            return delivery
                .shaped(trail.answered(rules.side_effect, ended))
                .await;
        };
        let not_executed = &*delivery.tool.server.settings.not_executed;
        let before = proven;
        proven = proof::of(
            &ended,
            Named {
                rules,
                rule,
                not_executed,
            },
        )
        .after(proven);
        held.proof = proven;
        let again = match held.proof {
            Proof::NotSent | Proof::NotRun { again: true } => true,
            // The server tells a second copy by its own key.
            Proof::Unknown => {
                late.is_none() && trail.now().saturating_sub(began) < cleared.window()
            }
            Proof::Answered | Proof::Erred | Proof::Asked | Proof::NotRun { again: false } => false,
        };
        // Nobody wants it sent any more.
        let is_cancelled = matches!(ended, Err(Broken::Cancelled(_)));
        if again && !is_cancelled && attempt < rule.attempts() {
            tokio::time::sleep(PAUSE * 2_u32.saturating_pow(attempt - 1)).await;
            attempt += 1;
            continue;
        }
        let ended = late::readable(ended, delivery.call.era);
        // Step 16, once it is known what the answer proves, and before it is kept: it is kept as it
        // is read.
        let round = held.claimed.round;
        let late = late.map(|exchange| Late {
            exchange,
            before,
            round,
            era: delivery.call.era,
            shaper: delivery.shaper(),
        });
        return delivery
            .shaped(finish(held, (ended, late), &delivery, trail))
            .await;
    }
}

/// What the agent is told of a claimed call.
fn finish(
    held: &mut Held,
    (ended, late): (Result<Message, Broken>, Option<Late>),
    delivery: &Delivery<'_>,
    trail: &mut Trail,
) -> Result<Message, Refusal> {
    let rules = delivery.rules;
    held.late = late;
    let structured = ended
        .as_ref()
        .ok()
        .and_then(|answer| answer.body.as_ref()?.get("structuredContent"));
    held.cost = structured.and_then(|structured| rules.budget.spent(&structured.value()));
    trail.cost = held.cost.unwrap_or(trail.cost);
    let ending = trail.answered(true, ended);
    match (held.proof, &ending) {
        (Proof::Unknown, _) => Err(Refusal::OutcomeUnknown),
        // A bare status, of which the contract or the operator says that nothing was done.
        (Proof::NotRun { .. }, Err(Refusal::OutcomeUnknown)) => Err(Refusal::UpstreamRefused),
        _ => ending,
    }
}

/// One attempt. A call that is to be finished leaves its exchange behind when its deadline passes,
/// if it has left itself; otherwise it is taken back: what is late is only listened to (SEMANTICS
/// §4).
async fn once(
    delivery: &Delivery<'_>,
    sealed: &Sealed,
    terms: Terms,
) -> (Result<Message, Broken>, Option<Exchange>) {
    let parcel = pack(delivery.call, delivery.tool, &delivery.cleared, sealed);
    let departure = parcel.departure();
    let mut exchange = dispatch(delivery.call.clone(), delivery.shaper(), parcel, terms);
    if !terms.detached {
        return (exchange.await, None);
    }
    match tokio::time::timeout(terms.deadline, &mut exchange).await {
        Ok(ended) => (ended, None),
        Err(_) if departure.take_back() => (Err(too_late(terms.deadline, true)), None),
        Err(_) => (Err(too_late(terms.deadline, false)), Some(exchange)),
    }
}
