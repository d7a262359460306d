//! A call that takes long: its agent, which knows tasks, reads after a while that it has become one,
//! and the call goes on as it was (protocol §6.4). What it ends with, and what its tool server asks on
//! the way, the agent finds by the task.

use super::questions::{ANSWER_TIMEOUT, MAX_ROUNDS, ServerQuestions};
use super::run::{PENDING_CODE, code};
use super::task_id::TaskLife;
use super::{OwnTaskEnd, OwnTaskId};
use crate::gate::Gate;
use crate::gate::call::{Call, TaskTerms};
use crate::gate::catalogue::tool::Tool;
use crate::guards::Mode;
use crate::mcp::error_codes::REQUEST_CANCELLED;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::outlet::{Inlet, Outgoing};
use crate::policy::Policy;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Said of a task that its agent cancelled while its tool server waited for answers.
const UNANSWERED: &str =
    "cancelled before what the tool server asked was answered: the tool did not go on";

/// A call that may become a task.
pub(in crate::gate) struct LongCall {
    gate: Arc<Gate>,
    /// The call as its agent made it.
    made: Arc<Call>,
    after: Duration,
    /// How long it may take in all, once it is sent.
    longest: Duration,
    /// May it change something?
    changes: bool,
}

/// A call that has become one.
struct BegunLong {
    id: OwnTaskId,
    /// Cancelled when its agent wants no more of it.
    stop: CancellationToken,
    /// What is said of the call from now on.
    inlet: Inlet,
}

/// What comes of a question.
enum LongStep {
    /// The next round's answer.
    Answer(Option<Message>),
    /// The task ends; none: with toolgate.
    End(Option<OwnTaskEnd>),
}

impl LongCall {
    /// A call of `tool`, if its agent knows tasks, and its server makes none by itself. None where
    /// nothing is enforced: agents read there what servers say.
    pub(in crate::gate) fn of(
        gate: &Arc<Gate>,
        policy: &Policy,
        made: &Arc<Call>,
        tool: Option<&Tool>,
    ) -> Option<Self> {
        let is_possible = matches!(made.origin.task, TaskTerms::Possible(_));
        let tool = tool.filter(|_| is_possible && policy.mode == Mode::Enforce)?;
        let settings = &tool.server.settings;
        tool.server.takes_long().then_some(())?;
        let admitted = made.admitted(policy);
        let changes = admitted.is_ok_and(|admitted| admitted.rules().side_effect);
        Some(Self {
            gate: gate.clone(),
            made: made.clone(),
            after: settings.task_after,
            longest: settings.timeout,
            changes,
        })
    }

    /// Does `work`, the call; if that takes long, the agent is answered meanwhile.
    pub(in crate::gate) async fn beside(self, mut work: BoxFuture<'static, ()>) {
        tokio::select! {
            biased;
            () = &mut work => return,
            () = tokio::time::sleep(self.after) => {}
        }
        match self.begin() {
            Some(begun) => {
                tokio::join!(work, self.go_on(begun));
            }
            None => work.await,
        }
    }

    /// Answers the agent with a task; none if there is no room for one more, or nobody to be answered.
    fn begin(&self) -> Option<BegunLong> {
        let Self { gate, made, .. } = self;
        let (store, origin) = (&gate.effects.store, &made.origin);
        let life = TaskLife {
            since: store.now(),
            longest: self.longest,
        };
        let id = OwnTaskId::of_call(&gate.seal, made, self.changes, life);
        let (tasks, now) = (&gate.own_tasks, gate.clock.steady());
        if tasks.begin(&id, &origin.caller.agent, now) != Some(true) {
            return None;
        }
        let stop = tasks.stop_of(&id)?;
        let handle = id.handle(None, store.now());
        let answer = Message::response(made.message.id.clone(), handle, false);
        let Some(inlet) = origin.outlet.hand_over(answer) else {
            tasks.end(&id, None, now);
            return None;
        };
        origin.waiting.answered();
        Some(BegunLong { id, stop, inlet })
    }

    /// Waits for the end of the call, and puts to the agent what its tool server asks. Boxed: a round
    /// is a call, too.
    fn go_on(&self, begun: BegunLong) -> BoxFuture<'_, ()> {
        let BegunLong { id, stop, inlet } = begun;
        async move {
            let mut answer = heard(inlet, &stop).await;
            let mut end = None;
            for _ in 0..MAX_ROUNDS {
                let Some(asked) = answer.as_ref().and_then(ServerQuestions::of) else {
                    break;
                };
                match self.asked(&id, &asked, &stop).await {
                    LongStep::Answer(next) => answer = next,
                    LongStep::End(ended) => {
                        end = Some(ended);
                        break;
                    }
                }
            }
            let gate = &self.gate;
            // A round that waits for a person ends with toolgate.
            let waits = answer.as_ref().and_then(code).as_deref() == Some(PENDING_CODE);
            let is_over = waits && gate.effects.ending.is_cancelled();
            let end = end.unwrap_or_else(|| (!is_over).then(|| ended(answer, &stop)));
            gate.own_tasks.end(&id, end, gate.clock.steady());
        }
        .boxed()
    }

    /// Waits for the agent's answers, and sends the next round with them.
    async fn asked(
        &self,
        id: &OwnTaskId,
        asked: &ServerQuestions,
        stop: &CancellationToken,
    ) -> LongStep {
        let gate = &self.gate;
        let Some(answers) = gate.own_tasks.ask(id, &asked.requests) else {
            return LongStep::End(Some(self.unasked(asked)));
        };
        let answers = tokio::select! {
            biased;
            answers = answers => answers.ok(),
            () = stop.cancelled() => {
                let end = OwnTaskEnd::Cancelled(Cow::Borrowed(UNANSWERED));
                return LongStep::End(Some(end));
            }
            () = gate.effects.ending.cancelled() => return LongStep::End(None),
            () = tokio::time::sleep(ANSWER_TIMEOUT) => None,
        };
        let Some(answers) = answers else {
            return LongStep::End(Some(self.unasked(asked)));
        };
        let params = self.made.message.body.as_ref();
        let params = params.and_then(|params| asked.next(params, answers));
        match gate.sends(&self.made, params, TaskTerms::Round(id.text().into())) {
            Some((work, inlet)) => {
                let ((), answer) = tokio::join!(work, heard(inlet, stop));
                LongStep::Answer(answer)
            }
            None => LongStep::End(Some(self.unasked(asked))),
        }
    }

    /// How it ends where nobody answers.
    fn unasked(&self, asked: &ServerQuestions) -> OwnTaskEnd {
        OwnTaskEnd::Answered(asked.answer(self.made.message.id.clone()))
    }
}

/// The answer to a call; none if it has none. Where its agent wants no more of it, nobody waits for it
/// any more.
async fn heard(mut inlet: Inlet, stop: &CancellationToken) -> Option<Message> {
    let mut has_left = false;
    loop {
        tokio::select! {
            biased;
            said = inlet.recv() => match said? {
                Outgoing::Last(answer) => return Some(*answer),
                Outgoing::Comment(_) | Outgoing::Interrupted(_) | Outgoing::Message(_) => {}
            },
            () = stop.cancelled(), if !has_left => {
                inlet.leave();
                has_left = true;
            }
        }
    }
}

/// How a call with this answer has ended.
fn ended(answer: Option<Message>, stop: &CancellationToken) -> OwnTaskEnd {
    let cancelled = |words: String| OwnTaskEnd::Cancelled(Cow::Owned(words));
    let Some(answer) = answer else {
        return cancelled("cancelled: the tool may have run".to_owned());
    };
    let body = answer.body.as_ref().filter(|_| answer.is_error);
    let code = body.and_then(|error| error.get("code")?.value().as_i64());
    if stop.is_cancelled() && code == Some(REQUEST_CANCELLED) {
        let words = body.and_then(|error| error.get("message"));
        let words = words.as_ref().and_then(Text::as_str);
        return cancelled(words.map(Cow::into_owned).unwrap_or_default());
    }
    OwnTaskEnd::Answered(answer)
}
