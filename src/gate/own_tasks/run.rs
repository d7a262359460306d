//! The call of a task: sent by toolgate, as its agent would send it again, until it is decided and has
//! ended.

use super::told::CANCELLED;
use super::{KeptRequest, OwnTaskEnd, OwnTaskId, TaskOf};
use crate::gate::Gate;
use crate::gate::call::{Call, CallOrigin, TaskTerms};
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::bridge::without_tasks;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, unguessable};
use crate::model::refusal::Refusal;
use crate::outlet::{Inlet, Outgoing, way_back};
use crate::store::state::StoreKeys;
use crate::store::state::command::{StoreCommand, Withdraw};
use crate::store::state::hold::HoldPhase;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often a call is sent that finds toolgate busy.
const MAX_SENDINGS: u32 = 50;
/// Codes of refusals after which a call that toolgate sends in its agent's place is sent again.
pub(in crate::gate) const BUSY_CODES: [&str; 4] = [
    "rate_exceeded",
    "overloaded",
    "session_busy",
    "duplicate_in_flight",
];
/// The code of a call that still waits: toolgate ends.
pub(super) const PENDING_CODE: &str = "approval_pending";
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

impl Gate {
    /// The task that an agent names, if it was given to this caller.
    pub(crate) fn own_task_id(&self, caller: &Caller, id: &Text) -> Option<OwnTaskId> {
        OwnTaskId::read(&self.seal, caller, &id.as_str()?)
    }

    /// The task that the call becomes which has ended so; `call` is as its agent made it.
    pub(in crate::gate) async fn begin_task(
        self: &Arc<Self>,
        ending: &Result<Message, Refusal>,
        call: Arc<Call>,
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
        let id = OwnTaskId::of_hold(&self.seal, caller, key, &hold);
        let handle = id.handle(Some(&hold), effects.store.now());
        let is_new = self
            .own_tasks
            .begin(&id, &caller.agent, self.clock.steady())?;
        let run = is_new.then(|| self.clone().send_task(id, call));
        Some(BegunTask { handle, run })
    }

    /// Sends the call of a task that nobody sends, if there is room.
    pub(crate) fn resume_task(
        self: &Arc<Self>,
        id: &OwnTaskId,
        call: Call,
    ) -> Option<BoxFuture<'static, ()>> {
        let agent = &call.origin.caller.agent;
        let is_new = self.own_tasks.begin(id, agent, self.clock.steady())?;
        is_new.then(|| self.clone().send_task(id.clone(), Arc::new(call)))
    }

    fn send_task(self: Arc<Self>, id: OwnTaskId, call: Arc<Call>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let end = match id.of {
                TaskOf::Hold { key, hold } => tokio::select! {
                    end = self.sent_until_decided(&call, hold) => end,
                    never = self.tells_of_hold(&id, key) => match never {},
                },
                TaskOf::Call { .. } => None,
            };
            self.own_tasks.end(&id, end, self.clock.steady());
        })
    }

    /// Sends the call until it has ended; none: with toolgate, or it cannot be sent.
    async fn sent_until_decided(
        self: &Arc<Self>,
        call: &Call,
        hold: ActionId,
    ) -> Option<OwnTaskEnd> {
        let mut end = None;
        for _ in 0..MAX_SENDINGS {
            let params = call.message.body.clone();
            let (work, inlet) = self.sends(call, params, TaskTerms::Of(hold))?;
            let ((), answer) = tokio::join!(work, last(inlet));
            let Some(answer) = answer else {
                return Some(OwnTaskEnd::Cancelled(Cow::Borrowed(CANCELLED)));
            };
            let code = code(&answer);
            end = Some(OwnTaskEnd::Answered(answer));
            let ends = self.effects.ending.is_cancelled();
            let is_busy = code
                .as_ref()
                .is_some_and(|code| BUSY_CODES.contains(&&**code));
            if code.as_deref() == Some(PENDING_CODE) || is_busy && ends {
                return None;
            }
            if !is_busy {
                break;
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
        end
    }

    /// Tells subscriptions each time that what is said of the held call of the task has changed, for as
    /// long as it is polled: that it has more time, and that it is decided.
    async fn tells_of_hold(&self, id: &OwnTaskId, key: Digest) -> Infallible {
        let store = &self.effects.store;
        let place = StoreKeys {
            hold: Some(key),
            ..StoreKeys::default()
        };
        loop {
            store.decided(key).await;
            self.own_tasks.tell(id.text());
            let hold = store.load_view(place).await.map(|view| view.hold);
            if !hold.is_ok_and(|hold| hold.is_some_and(|hold| hold.phase == HoldPhase::Pending)) {
                return std::future::pending().await;
            }
        }
    }

    /// Sends the call with these parameters: what does, and where it is answered.
    pub(super) fn sends(
        self: &Arc<Self>,
        call: &Call,
        params: Option<Text>,
        task: TaskTerms,
    ) -> Option<(BoxFuture<'static, ()>, Inlet)> {
        let (sent, inlet) = self.as_sent(call, params, task)?;
        Some((Box::pin(self.clone().call_tool(sent)), inlet))
    }

    /// The call as toolgate sends it with these parameters, and where it is answered.
    fn as_sent(&self, call: &Call, params: Option<Text>, task: TaskTerms) -> Option<(Call, Inlet)> {
        let (outlet, inlet) = way_back();
        let origin = &call.origin;
        let id = Text::string(&unguessable());
        let waiting = origin.links.wait(&id).ok()?;
        let mut sent = call.clone();
        sent.judged.action = ActionId::generate();
        sent.judged.arrived = self.clock.steady();
        sent.message = Message {
            id: Some(id),
            body: params.map(|params| unattended(&params)),
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
            task,
            asks_page: AtomicBool::default(),
            undoes: origin.undoes.clone(),
            own_undo: Mutex::default(),
            claimed: OnceLock::new(),
            page: OnceLock::new(),
            waited: AtomicU64::default(),
        });
        Some((sent, inlet))
    }

    /// The agent wants no more of it: a call that has not begun never runs; of one that has, the task
    /// says what becomes of it.
    pub(crate) async fn cancel_task(&self, id: &OwnTaskId, caller: &Caller) {
        let TaskOf::Hold { key, hold } = id.of else {
            if let Some(stop) = self.own_tasks.stop_of(id) {
                stop.cancel();
            }
            return;
        };
        let withdraw = Withdraw {
            key,
            id: hold,
            who: caller.agent.to_string(),
            void: None,
        };
        let effects = &self.effects;
        let told = effects.store.run(StoreCommand::Withdraw(withdraw), None);
        match told.await {
            Ok(Ok(_)) => effects.cancelled.note(caller, self.clock.steady()),
            Ok(Err(_)) => {}
            Err(error) => {
                tracing::warn!(%error, %hold, "a task cannot be cancelled");
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
pub(super) fn code(answer: &Message) -> Option<String> {
    let body = answer.body.as_ref()?;
    let code = body.at(&["_meta", DECISION_META_KEY, "code"])?;
    code.as_str().map(std::borrow::Cow::into_owned)
}
