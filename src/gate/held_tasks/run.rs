//! The call of a task: sent by toolgate, as its agent would send it again, until it is decided and has
//! ended; and what is found of one that this process does not send.

use super::{HeldEnd, HeldTaskId, KeptRequest, TaskStand};
use crate::gate::Gate;
use crate::gate::call::{Call, CallOrigin, TaskTerms};
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::bridge::without_tasks;
use crate::mcp::json::{Object, SERVER_JSON_LIMITS, Text};
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::ids::{ActionId, unguessable};
use crate::model::refusal::Refusal;
use crate::outlet::{Inlet, Outgoing, way_back};
use crate::store::claims::StoreError;
use crate::store::state::StoreKeys;
use crate::store::state::claim::{Claim, ClaimPhase, Stored};
use crate::store::state::command::{StoreCommand, Withdraw};
use crate::store::state::hold::{Hold, HoldPhase, UsedClaim};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// How often a call is sent that finds toolgate busy.
const MAX_SENDINGS: u32 = 50;
/// Codes of refusals after which the call of a task is sent again.
const BUSY_CODES: [&str; 4] = [
    "rate_exceeded",
    "overloaded",
    "session_busy",
    "duplicate_in_flight",
];
/// The code of a call that still waits: toolgate ends.
const PENDING_CODE: &str = "approval_pending";
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Why the call of a task does not ask a person anew.
pub(in crate::gate) const TASK_OVER: &str = "what a person was asked for this task is over: nobody decided in time, or another call has used the decision";

/// A call that has become a task.
pub(in crate::gate) struct BegunTask {
    /// What its agent reads.
    pub(in crate::gate) handle: Text,
    /// The call, if it is not sent already.
    pub(in crate::gate) run: Option<BoxFuture<'static, ()>>,
}

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
    /// The task that an agent names, if it was given to this caller.
    pub(crate) fn held_task_id(&self, caller: &Caller, id: &Text) -> Option<HeldTaskId> {
        HeldTaskId::read(&self.seal, caller, &id.as_str()?)
    }

    /// The task that the call becomes which has ended so; `call` is as its agent made it.
    pub(in crate::gate) async fn begin_task(
        self: &Arc<Self>,
        ending: &Result<Message, Refusal>,
        call: Box<Call>,
    ) -> Option<BegunTask> {
        let Err(Refusal::ApprovalPending { hold, .. }) = ending else {
            return None;
        };
        let (effects, pending) = (&self.effects, hold.as_ref()?);
        if effects.ending.is_cancelled() {
            return None;
        }
        let (key, hold) = effects.store.find_hold(pending.id).await.ok()??;
        if hold.question.request.is_none() || hold.question.request != KeptRequest::value_of(&call)
        {
            return None;
        }
        let caller = &call.origin.caller;
        let id = HeldTaskId::of(&self.seal, caller, key, &hold);
        let handle = id.handle(&hold, effects.store.now());
        let is_new = self
            .held_tasks
            .begin(&id, &caller.agent, self.clock.steady())?;
        let run = is_new.then(|| self.clone().send_task(id, call));
        Some(BegunTask { handle, run })
    }

    /// Sends the call of a task that nobody sends, if there is room.
    pub(crate) fn resume_task(
        self: &Arc<Self>,
        id: &HeldTaskId,
        call: Call,
    ) -> Option<BoxFuture<'static, ()>> {
        let agent = &call.origin.caller.agent;
        let is_new = self.held_tasks.begin(id, agent, self.clock.steady())?;
        is_new.then(|| self.clone().send_task(id.clone(), Box::new(call)))
    }

    fn send_task(self: Arc<Self>, id: HeldTaskId, call: Box<Call>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut end = None;
            for _ in 0..MAX_SENDINGS {
                let Some((sent, inlet)) = self.as_sent(&call, id.hold) else {
                    break;
                };
                let ((), answer) = tokio::join!(self.clone().call_tool(sent), last(inlet));
                end = Some(answer.map_or(HeldEnd::Cancelled, HeldEnd::Answered));
                let Some(HeldEnd::Answered(answer)) = &end else {
                    break;
                };
                let code = code(answer);
                let ends = self.effects.ending.is_cancelled();
                let is_busy = code
                    .as_ref()
                    .is_some_and(|code| BUSY_CODES.contains(&&**code));
                if code.as_deref() == Some(PENDING_CODE) || is_busy && ends {
                    end = None;
                    break;
                }
                if !is_busy {
                    break;
                }
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            self.held_tasks.end(&id, end, self.clock.steady());
        })
    }

    /// The call as toolgate sends it, and where it is answered.
    fn as_sent(&self, call: &Call, hold: ActionId) -> Option<(Call, Inlet)> {
        let (outlet, inlet) = way_back();
        let origin = &call.origin;
        let id = Text::string(&unguessable());
        let waiting = origin.links.wait(&id).ok()?;
        let mut sent = call.clone();
        sent.judged.action = ActionId::generate();
        sent.judged.arrived = self.clock.steady();
        sent.message = Message {
            id: Some(id),
            body: call.message.body.as_ref().map(unattended),
            ..call.message.clone()
        };
        sent.origin = Arc::new(CallOrigin {
            caller: origin.caller.clone(),
            policy: origin.policy.clone(),
            era: origin.era,
            links: origin.links.clone(),
            outlet,
            waiting,
            arrived: Duration::ZERO,
            is_relayed: origin.is_relayed,
            task: TaskTerms::Of(hold),
            waited: AtomicU64::default(),
        });
        Some((sent, inlet))
    }

    /// How the task stands.
    pub(crate) async fn look_at_task(&self, id: &HeldTaskId) -> Result<TaskLook, StoreError> {
        let store = &self.effects.store;
        let place = StoreKeys {
            hold: Some(id.key),
            ..StoreKeys::default()
        };
        let known = self.held_tasks.look(id);
        let hold = store.load_view(place).await?.hold;
        let hold = hold.filter(|hold| hold.id == id.hold);
        let now = store.now();
        let told = match (known, hold) {
            (Some(TaskStand::Ended(end)), _) => id.ended(&end, now),
            (Some(TaskStand::GoesOn), hold) => id.going_on(hold.as_ref(), now),
            (None, Some(hold)) => match &hold.phase {
                HoldPhase::Withdrawn => id.ended(&HeldEnd::Cancelled, now),
                HoldPhase::Used { action, claim, .. } => {
                    let claim = self.claim_of(*action, *claim).await?;
                    self.used(id, claim).await?
                }
                HoldPhase::Pending | HoldPhase::Allowed | HoldPhase::Denied => {
                    return Ok(unsent(&hold));
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

    /// What is kept of the call that ran for the task.
    async fn used(&self, id: &HeldTaskId, claim: Option<Claim>) -> Result<Object, StoreError> {
        let now = self.effects.store.now();
        let Some(claim) = claim else {
            return Ok(id.unknown(now));
        };
        Ok(match claim.phase {
            ClaimPhase::Completed(stored)
            | ClaimPhase::Failed {
                answer: Some(stored),
                ..
            } => match self.stored(&stored).await? {
                Some(answer) => id.ended(&HeldEnd::Answered(answer), now),
                None => id.unknown(now),
            },
            ClaimPhase::NotSent | ClaimPhase::Failed { answer: None, .. } => id.not_sent(now),
            ClaimPhase::AwaitingInput { .. } => id.asks_first(now),
            ClaimPhase::Dispatching => id.going_on(None, now),
            ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => id.unknown(now),
        })
    }

    async fn stored(&self, stored: &Stored) -> Result<Option<Message>, StoreError> {
        let body = self.effects.store.body(stored).await?;
        let read = Text::read_oddly(body, &SERVER_JSON_LIMITS).ok();
        Ok(read.map(|(body, _)| Message::response(None, body, stored.is_error)))
    }

    /// The agent wants no more of it: a call that has not begun never runs; of one that has, the task
    /// says what becomes of it.
    pub(crate) async fn cancel_task(&self, id: &HeldTaskId, caller: &Caller) {
        let withdraw = Withdraw {
            key: id.key,
            id: id.hold,
            who: caller.agent.to_string(),
        };
        let effects = &self.effects;
        let told = effects.store.run(StoreCommand::Withdraw(withdraw), None);
        match told.await {
            Ok(Ok(_)) => effects.cancelled.note(caller, self.clock.steady()),
            Ok(Err(_)) => {}
            Err(error) => {
                tracing::warn!(%error, hold = %id.hold, "a task cannot be cancelled");
            }
        }
    }
}

/// The parameters without what a call that nobody waits for has no use for: it hears no progress, and
/// becomes no other task.
fn unattended(params: &Text) -> Text {
    let (Some(mut kept), Some(mut meta)) = (
        params.object(),
        params.get("_meta").as_ref().and_then(Text::object),
    ) else {
        return params.clone();
    };
    meta.remove("progressToken");
    kept.set("_meta", without_tasks(meta).text());
    kept.text()
}

fn unsent(hold: &Hold) -> TaskLook {
    let question = &hold.question;
    let kept = question.request.as_ref();
    let kept = kept.and_then(|kept| KeptRequest::of(kept, question.as_sent()));
    kept.map_or(TaskLook::Unknown, TaskLook::Unsent)
}

/// The answer to a call that nobody waits for; none if it has none.
async fn last(mut inlet: Inlet) -> Option<Message> {
    while let Some(said) = inlet.recv().await {
        if let Outgoing::Last(answer) = said {
            return Some(*answer);
        }
    }
    None
}

/// Our code in an answer.
fn code(answer: &Message) -> Option<String> {
    let body = answer.body.as_ref()?;
    let code = body.at(&["_meta", DECISION_META_KEY, "code"])?;
    code.as_str().map(std::borrow::Cow::into_owned)
}

fn complete(mut told: Object) -> Message {
    told.set("resultType", Text::string("complete"));
    Message::response(None, told.text(), false)
}
