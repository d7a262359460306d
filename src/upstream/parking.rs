//! Calls whose legacy server has asked the agent something, while an agent of 2026-07-28 fetches the
//! answer: nothing of its request is open then, and the server still waits in its own (protocol §4.3,
//! guarantees §4). The request is not sent again: its next round takes up what waits here.

use super::caller_links::{QuestionInbox, ReachedLink};
use super::link::UpstreamExchange;
use super::questions::{bytes_of, tell};
use crate::mcp::bridge::{answer_to_legacy_server, input_required, is_after_pages};
use crate::mcp::error_codes::{INTERNAL_ERROR, METHOD_NOT_FOUND};
use crate::mcp::json::{JsonMembers, Text};
use crate::mcp::message::Message;
use crate::model::caller::{Caller, CallerKey};
use crate::model::ids::{ServerName, unguessable};
use crate::telemetry::tasks;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

#[cfg(test)]
mod tests;

/// Calls that wait at once, of one agent and of all.
const MAX_PARKED_PER_AGENT: usize = 64;
const MAX_PARKED: usize = 1_000;
/// Bytes of what they ask, of one agent and of all.
const MAX_QUESTION_BYTES_PER_AGENT: usize = 16 << 20;
const MAX_QUESTION_BYTES: usize = 64 << 20;
/// A call that nobody takes up again for so long is given up.
const PARKED_TIMEOUT: Duration = Duration::from_mins(5);
/// How long toolgate waits, when it ends, for servers to hear that nobody waits for a call.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);
/// What the state begins with that an agent brings back.
const STATE_PREFIX: &str = "toolgate-parked:";

/// What a server wants to know.
pub(crate) struct ParkedQuestion {
    /// Under which name the agent reads it.
    key: String,
    /// The request of the server.
    question: Message,
}

/// A task that a legacy server has made of a call, and whose result toolgate waits for in the agent's
/// place.
pub(crate) struct FollowedTask {
    /// What the server calls it.
    pub id: Text,
    /// How often its result was asked for in vain.
    pub breaks: u32,
}

/// A call that waits for the agent's answers.
pub(crate) struct ParkedCall {
    whose: CallerKey,
    server: ServerName,
    /// Where it was sent.
    pub reached: ReachedLink,
    /// What the server will answer it with.
    pub exchange: UpstreamExchange,
    /// Where further questions arrive.
    pub asides: Option<QuestionInbox>,
    /// The parameters under which it was sent.
    pub asked: Option<Text>,
    /// The task that it became: then the exchange is that of the task's result.
    pub followed: Option<FollowedTask>,
    questions: Vec<ParkedQuestion>,
    /// Gives it up, unless it is taken up before.
    timer: Option<AbortOnDropHandle<()>>,
}

/// A call that is about to wait.
pub(crate) struct AskingCall<'a> {
    /// Who called.
    pub caller: &'a Caller,
    /// Whom.
    pub server: &'a ServerName,
    /// Where it was sent.
    pub reached: ReachedLink,
    /// What the server will answer it with.
    pub exchange: UpstreamExchange,
    /// Where further questions arrive.
    pub asides: Option<QuestionInbox>,
    /// The parameters under which it was sent.
    pub asked: Option<Text>,
    /// The task that it became.
    pub followed: Option<FollowedTask>,
}

/// All that wait.
#[derive(Default)]
pub(crate) struct ParkedCalls(Mutex<HashMap<String, ParkedCall>>);

impl ParkedCalls {
    /// Has a call wait for answers to these questions; returns the result that the agent reads. Too
    /// many wait: the questions are refused, and the call comes back, to be listened to.
    pub(crate) async fn park(
        self: &Arc<Self>,
        call: AskingCall<'_>,
        questions: Vec<Message>,
    ) -> Result<Message, ParkedCall> {
        let numbered = questions.into_iter().enumerate();
        let questions: Vec<_> = numbered
            .map(|(index, question)| ParkedQuestion {
                key: format!("question-{}", index + 1),
                question,
            })
            .collect();
        let id = unguessable();
        let asked = questions
            .iter()
            .map(|question| (&*question.key, &question.question));
        let result = input_required(asked, &format!("{STATE_PREFIX}{id}"));
        let parked = ParkedCall {
            whose: call.caller.key(),
            server: call.server.clone(),
            reached: call.reached,
            exchange: call.exchange,
            asides: call.asides,
            asked: call.asked,
            followed: call.followed,
            questions,
            timer: None,
        };
        if let Some(mut crowded) = self.put(&id, parked) {
            let words = "too many calls wait for their agents' answers, or ask too much (16 MiB of one agent, 64 MiB of all); try again later";
            crowded.refuse(INTERNAL_ERROR, words).await;
            return Err(crowded);
        }
        let (all, expired) = (self.clone(), id.clone());
        let timer = tasks::spawn("parked call", async move {
            tokio::time::sleep(PARKED_TIMEOUT).await;
            let parked = all.0.lock().remove(&expired);
            if let Some(mut parked) = parked {
                // This task is what it would end.
                drop(parked.timer.take().map(AbortOnDropHandle::detach));
                tracing::warn!(server = %parked.server, "nobody has answered a tool server's question in time; its call is given up");
                parked.give_up().await;
            }
        });
        if let Some(parked) = self.0.lock().get_mut(&id) {
            parked.timer = Some(AbortOnDropHandle::new(timer));
        }
        Ok(Message::response(None, result, false))
    }

    /// The call comes back if there is no room for it.
    fn put(&self, id: &str, parked: ParkedCall) -> Option<ParkedCall> {
        let mut all = self.0.lock();
        let (mut calls, mut own_bytes, mut bytes) = (0, parked.bytes(), parked.bytes());
        for known in all.values() {
            let kept = known.bytes();
            bytes += kept;
            if known.whose.agent == parked.whose.agent {
                (calls, own_bytes) = (calls + 1, own_bytes + kept);
            }
        }
        let is_full = all.len() >= MAX_PARKED || calls >= MAX_PARKED_PER_AGENT;
        if is_full || own_bytes > MAX_QUESTION_BYTES_PER_AGENT || bytes > MAX_QUESTION_BYTES {
            return Some(parked);
        }
        all.insert(id.to_owned(), parked);
        None
    }

    /// Whether this is a round of a call that waited here once, wherever it is now.
    pub(crate) fn was_parked(params: Option<&Text>) -> bool {
        state_of(params).is_some()
    }

    /// Whether the call that this is the state of waits here now.
    pub(crate) fn waits(&self, params: Option<&Text>) -> bool {
        state_of(params).is_some_and(|id| self.0.lock().contains_key(&id))
    }

    /// Whether this is any round but the first: a legacy server knows none, so it is never sent
    /// there. A request that its server refused until pages were opened is begun anew.
    pub(crate) fn is_round(params: Option<&Text>) -> bool {
        let is_of_round = |key: &str| matches!(key, "inputResponses" | "requestState");
        let members = params.and_then(Text::members).map(JsonMembers::parts);
        let mut members = members.into_iter().flatten();
        members.any(|(key, _)| is_of_round(&key)) && !is_after_pages(params)
    }

    /// The call that this is the next round of, once; none if it waits no more, or is another's.
    pub(crate) fn take(
        &self,
        caller: &Caller,
        server: &ServerName,
        params: Option<&Text>,
    ) -> Option<ParkedCall> {
        let id = state_of(params)?;
        let mut all = self.0.lock();
        let is_own = all
            .get(&id)
            .is_some_and(|parked| parked.whose == caller.key() && parked.server == *server);
        is_own.then(|| all.remove(&id)).flatten()
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// They are gone as after a kill: nobody is told.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    /// Gives all up: toolgate ends.
    pub(crate) async fn close(&self) {
        let all: Vec<_> = self.0.lock().drain().map(|(_, parked)| parked).collect();
        let given_up = futures_util::future::join_all(all.into_iter().map(ParkedCall::give_up));
        drop(tokio::time::timeout(CLOSE_TIMEOUT, given_up).await);
    }
}

impl ParkedCall {
    /// Hands the agent's answers to the server that asked; one that has none reads so.
    pub(crate) async fn answer(&mut self, params: Option<&Text>) {
        let answers = params.and_then(|params| params.get("inputResponses"));
        for ParkedQuestion { key, question } in self.questions.drain(..) {
            let id = question.id.clone();
            let answer = answers.as_ref().and_then(|answers| answers.get(&key));
            let revision = self.reached.link.revision;
            let known =
                answer.and_then(|it| answer_to_legacy_server(&question.method, it, revision));
            let answer = match known {
                Some(answer) => Message::response(id, answer, false),
                None => Message::error(id, INTERNAL_ERROR, "the agent did not answer this", None),
            };
            tell(&self.reached.link, answer).await;
        }
    }

    fn bytes(&self) -> usize {
        let asked = self.questions.iter();
        asked.map(|asked| bytes_of(&asked.question)).sum()
    }

    async fn refuse(&mut self, code: i64, words: &str) {
        for ParkedQuestion { question, .. } in self.questions.drain(..) {
            let refused = Message::error(question.id, code, words, None);
            tell(&self.reached.link, refused).await;
        }
    }

    async fn give_up(mut self) {
        self.reached
            .link
            .cancel(&self.exchange.id, "nobody answered what it asked");
        // What has arrived since it waits was put to nobody.
        let mut unread = self.exchange.unread();
        unread.extend(self.asides.iter_mut().flat_map(QuestionInbox::unread));
        let unread = unread.into_iter().map(|question| ParkedQuestion {
            key: String::new(),
            question,
        });
        self.questions.extend(unread);
        let words = "the agent did not come back with an answer";
        self.refuse(METHOD_NOT_FOUND, words).await;
    }
}

fn state_of(params: Option<&Text>) -> Option<String> {
    let state = params?.get("requestState")?;
    let id = state.as_str()?.strip_prefix(STATE_PREFIX)?.to_owned();
    Some(id)
}
