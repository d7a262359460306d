//! Steps 14 to 16, 15 up to the store: sends a call, again only with proof that it did not run, and
//! says what is proven when it ends.

pub(in crate::gate) mod resend;

use crate::gate::call::Call;
use crate::gate::case::{SealedCall, Subject};
use crate::gate::effects::Effects;
use crate::gate::effects::taken::Taken;
use crate::gate::effects::unavailable;
use crate::gate::record::findings::DispatchFound;
use crate::gate::record::timing::StageTimer;
use crate::gate::steps::cleared::Cleared;
use crate::gate::steps::dispatch::Terms;
use crate::gate::steps::dispatch::asks_for_task;
use crate::gate::steps::dispatch::exchange;
use crate::gate::steps::dispatch::pack;
use crate::gate::steps::dispatch::too_late;
use crate::gate::steps::dispatch::{LateListening, terms};
use crate::gate::steps::late;
use crate::gate::steps::late::Late;
use crate::gate::steps::late::LateCost;
use crate::gate::steps::late::LateExchange;
use crate::gate::steps::late::ParkedRest;
use crate::gate::steps::proof;
use crate::gate::steps::proof::Broken;
use crate::gate::steps::proof::Named;
use crate::gate::steps::proof::Proof;
use crate::gate::steps::shaper::{Shaper, ShaperRest};
use crate::gate::steps::undo_kept;
use crate::guards::ToolRules;
use crate::guards::budget::out_of_time;
use crate::guards::secrets::Sealed;
use crate::mcp::message::Message;
use crate::model::refusal::Refusal;
use crate::model::reply::Sent;
use crate::store::state::settlement::Charge;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How long to wait before a call is sent again; doubled each time.
const RESEND_DELAY: Duration = Duration::from_millis(100);

/// A call that every guard has passed.
pub(in crate::gate) struct Delivery<'p> {
    subject: Subject<'p>,
    cleared: Cleared<'p>,
    sealed: Sealed,
    /// What its contract makes of all that its tool says: whether it may become a task is read out of
    /// the call, once.
    shaper: Shaper,
}

/// What a sending tells of.
pub(in crate::gate) struct SendingLog<'a> {
    pub(in crate::gate) timer: &'a mut StageTimer,
    pub(in crate::gate) found: &'a mut DispatchFound,
    pub(in crate::gate) taken: &'a mut Taken,
}

impl<'p> Delivery<'p> {
    /// Of a call that waits for nobody any more.
    pub(in crate::gate) fn of(call: SealedCall<'p>) -> Self {
        let SealedCall {
            subject,
            cleared,
            sealed,
        } = call;
        let Call { judged, origin, .. } = &*subject.call;
        let shaper = Shaper {
            tool: subject.tool.clone(),
            rules: subject.rules.clone(),
            mode: origin.policy.mode,
            wants_task: asks_for_task(&subject.call),
            caller: origin.caller.clone(),
            revision: judged.revision,
            keeper: origin.links.servers().keeper().clone(),
            waited: origin.waited.load(Ordering::Relaxed),
            rest: ShaperRest::of(
                subject.call.edit(),
                undo_kept::taken_over(&subject.call, subject.rules),
            ),
        };
        Self {
            subject,
            cleared,
            sealed,
            shaper,
        }
    }

    /// What the end of an attempt proves, and the rest of the call where it has become a task of
    /// toolgate's own: then its server has asked.
    fn proof(
        &self,
        ended: &Result<Message, Broken>,
        named: Named<'_>,
    ) -> (Proof, Option<ParkedRest>) {
        match late::of_parked_task(&self.subject.call, ended, || self.shaper.clone()) {
            Some(rest) => (Proof::AskedAsTask, Some(rest)),
            None => (proof::of(ended, named), None),
        }
    }

    async fn shaped(&self, ending: Result<Message, Refusal>) -> Result<Message, Refusal> {
        match ending {
            Ok(answer) => Ok(self.shaper.answer(answer).await),
            Err(refusal) => Err(refusal),
        }
    }
}

/// Sends the call and waits for its answer, or for its deadline. No `async fn`, so that a call in
/// flight holds what it delivers once.
pub(in crate::gate) fn deliver<'a>(
    effects: &'a Effects,
    delivery: Delivery<'a>,
    sending: SendingLog<'a>,
) -> impl Future<Output = Result<Message, Refusal>> + Send + 'a {
    let mut terms = terms(&delivery.subject.tool, delivery.subject.rules);
    let room = || effects.late_costs.clone().try_acquire_owned().ok();
    let is_for_cost = terms.listens == LateListening::ForCost;
    let room = is_for_cost.then(room).flatten().map(Box::new);
    if is_for_cost && room.is_none() {
        terms.listens = LateListening::Never;
    }
    let listening = Listening { terms, room };
    async move { delivered(effects, &delivery, sending, listening).await }
}

/// How long a call may take, and its room among those whose late answers say what they have cost.
struct Listening {
    terms: Terms,
    /// Boxed: few calls have it, and each call in flight would be larger.
    room: Option<Box<OwnedSemaphorePermit>>,
}

async fn delivered(
    effects: &Effects,
    delivery: &Delivery<'_>,
    mut sending: SendingLog<'_>,
    listening: Listening,
) -> Result<Message, Refusal> {
    let Listening { terms, room } = listening;
    let Subject { call, tool, rules } = &delivery.subject;
    let began = sending.timer.now();
    let (mut attempt, mut proven) = (1, Proof::NotSent);
    loop {
        sending.leaves(effects)?;
        let (ended, late) = once(delivery, terms.within(sending.time_left(began))).await;
        sending.found.attempts -= u32::from(proof::has_left_nothing(&ended));
        let left = sending.time_left(began);
        sending.found.is_out_of_time = ended.is_err() && left == Some(Duration::ZERO);
        sending.found.meaning = proof::meaning(&ended, &rules.output);
        let (Some(held), Some(rule)) = (&mut sending.taken.claim, &rules.idempotency) else {
            sending.charged(rules, &ended);
            sending.awaits(rules, late, room);
            let ended = late::readable(ended, call.origin.era);
            let ending = sending.answered(rules.side_effect, ended);
            return delivery.shaped(ending).await;
        };
        let named = Named {
            rules,
            rule,
            not_executed: &tool.server.settings.not_executed,
        };
        let before = proven;
        let (proof, parked) = delivery.proof(&ended, named);
        proven = proof.after(proven);
        held.proof = proven;
        let (now, window) = (sending.timer.now(), delivery.cleared.window());
        let is_in_time = now.saturating_sub(began) < window;
        let waits = late.is_some() || parked.is_some();
        let again = goes_again(held.proof, is_in_time && !waits);
        // Nobody wants it sent any more.
        let is_cancelled = matches!(ended, Err(Broken::Cancelled(_)));
        let pause = RESEND_DELAY * 2_u32.saturating_pow(attempt - 1);
        let has_time = left.is_none_or(|left| pause < left);
        if again && has_time && !is_cancelled && attempt < rule.attempts() {
            tokio::time::sleep(pause).await;
            attempt += 1;
            continue;
        }
        let action = held.claimed.action;
        held.worth = undo_kept::worth(&*effects.store, action, &delivery.shaper, &ended);
        sending.found.can_undo = held.worth.is_whole();
        let era = call.origin.era;
        let ended = late::readable(ended, era);
        // Step 16, once it is known what the answer proves, and before it is kept: it is kept as it
        // is read.
        let (rest, settling) = parked.map(|rest| (rest.exchange, rest.settling)).unzip();
        held.late = late.or(rest).map(|exchange| Late {
            exchange,
            before,
            round: held.claimed.round,
            era,
            shaper: delivery.shaper.clone(),
            parked: settling.filter(|_| proven == Proof::AskedAsTask),
        });
        let ending = sending.finished(rules, ended);
        return delivery.shaped(ending).await;
    }
}

/// Whether the call may be sent once more; `by_key`: its server tells a second copy by its own key,
/// still, and nothing waits for the answer to the first.
fn goes_again(proof: Proof, by_key: bool) -> bool {
    match proof {
        Proof::NotSent | Proof::NotRun { again: true } => true,
        Proof::Unknown => by_key,
        Proof::Answered
        | Proof::Erred
        | Proof::Asked
        | Proof::AskedAsTask
        | Proof::NotRun { again: false } => false,
    }
}

impl SendingLog<'_> {
    /// What the agent is told of a claimed call.
    fn finished(
        &mut self,
        rules: &ToolRules,
        ended: Result<Message, Broken>,
    ) -> Result<Message, Refusal> {
        let cost = self.charged(rules, &ended);
        let ending = self.answered(true, ended);
        let proof = self.taken.claim.as_mut().map(|held| {
            held.cost = cost;
            held.proof
        });
        match (proof, &ending) {
            (Some(Proof::Unknown), _) => Err(Refusal::OutcomeUnknown),
            // A bare status, of which the contract or the operator says that nothing was done.
            (Some(Proof::NotRun { .. }), Err(Refusal::OutcomeUnknown)) => {
                Err(Refusal::UpstreamRefused)
            }
            _ => ending,
        }
    }

    /// The proof that nothing left ends here, for us and for the process that finds our journal.
    fn leaves(&mut self, effects: &Effects) -> Result<(), Refusal> {
        if let Some(held) = &mut self.taken.claim {
            let sent = effects.store.sent(held.claimed.action);
            sent.map_err(unavailable)?;
            held.proof = Proof::Unknown;
        }
        if let Some(reserved) = &mut self.taken.reserved {
            reserved.charge = Charge::Settle(reserved.cost);
        }
        self.found.attempts += 1;
        Ok(())
    }

    /// How long its task may go on, where that is limited; the call is sent since `began`.
    fn time_left(&self, began: Duration) -> Option<Duration> {
        let whole = self.found.time_left?;
        let took = self.timer.now().saturating_sub(began);
        Some(whole.saturating_sub(took))
    }

    /// Notes what the call cost, in millionths, when its answer says so; what it holds of a budget
    /// without a claim becomes that, or is given back when nothing left.
    fn charged(&mut self, rules: &ToolRules, ended: &Result<Message, Broken>) -> Option<u64> {
        let cost = late::spent(rules, ended);
        self.found.cost = cost;
        if let Some(reserved) = &mut self.taken.reserved {
            reserved.charge = if proof::has_left_nothing(ended) {
                Charge::Release
            } else {
                Charge::Settle(cost.unwrap_or(reserved.cost))
            };
        }
        cost
    }

    /// What the call cost is told by an answer that may still come: all that is reserved is held until
    /// then. Only what changes something has no `room` for it.
    fn awaits(
        &mut self,
        rules: &Arc<ToolRules>,
        late: Option<LateExchange>,
        room: Option<Box<OwnedSemaphorePermit>>,
    ) {
        match (&mut self.taken.reserved, late) {
            (Some(reserved), Some(exchange)) => {
                reserved.charge = Charge::Hold;
                reserved.late = Some(Box::new(LateCost {
                    exchange,
                    rules: rules.clone(),
                    room,
                }));
            }
            (None, Some(exchange)) if room.is_none() => late::finish(exchange),
            (_, None) | (None, Some(_)) => {}
        }
    }

    /// Notes the end of the exchange; a fault becomes the refusal that the agent reads.
    fn answered(
        &mut self,
        side_effect: bool,
        ended: Result<Message, Broken>,
    ) -> Result<Message, Refusal> {
        self.timer.answered();
        ended.map_err(|broken| match broken {
            Broken::Cancelled(_) => Refusal::Cancelled,
            Broken::Fault(fault) => {
                let unsent = fault
                    .lack
                    .map_or(Refusal::UpstreamUnavailable, Refusal::NoCredential);
                let refusal = match (fault.sent, side_effect) {
                    (Sent::Nothing, _) => unsent,
                    (Sent::Maybe | Sent::Answered, true) => Refusal::OutcomeUnknown,
                    (Sent::Maybe, false) if self.found.is_out_of_time => out_of_time(),
                    (Sent::Maybe | Sent::Answered, false) => Refusal::UpstreamFailed,
                };
                self.found.fault = Some(fault);
                refusal
            }
        })
    }
}

/// One attempt. A call that is to be finished leaves its exchange behind when its deadline passes,
/// if it has left itself; otherwise it is taken back: what is late is only listened to
/// (guarantees §4).
async fn once(
    delivery: &Delivery<'_>,
    terms: Terms,
) -> (Result<Message, Broken>, Option<LateExchange>) {
    let Delivery {
        subject,
        cleared,
        sealed,
        shaper,
    } = delivery;
    let mut parcel = pack(&subject.call, &subject.tool, cleared, sealed);
    if !terms.is_awaited() {
        if subject.rules.side_effect {
            parcel.departs();
        }
        let ended = exchange(&subject.call, shaper, &parcel, terms).await;
        return (ended, None);
    }
    let (departure, outlives) = (parcel.departure(), parcel.outlives());
    let (call, shaper) = (subject.call.clone(), shaper.clone());
    let mut detached: LateExchange =
        Box::pin(async move { exchange(&call, &shaper, &parcel, terms).await });
    match tokio::time::timeout(terms.deadline, &mut detached).await {
        Ok(ended) => (ended, None),
        Err(_) if departure.take_back() => (Err(too_late(terms.deadline, true)), None),
        Err(_) => {
            outlives.store(true, Ordering::Release);
            let rest = late::to_the_end(subject.call.clone(), detached, delivery.shaper.clone());
            (Err(too_late(terms.deadline, false)), Some(rest))
        }
    }
}
