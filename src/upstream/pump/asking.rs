//! Questions that a server of 2026-07-28 asks by its answer, put to an agent of a legacy session as
//! the requests that it knows, in the stream of its call (protocol §4.4).

use super::{ExchangeContext, SLOW_READER_TIMEOUT};
use crate::mcp::answer::is_tool_error;
use crate::mcp::bridge::{PAGE_ID_MEMBER, question_to_legacy_agent, related_to};
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use crate::model::ids::{ServerName, unguessable};
use crate::outlet::Outgoing;
use crate::upstream::keeper::{asks_too_much, withheld};
use crate::upstream::link::Link;
use crate::upstream::links::Links;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// What a server has done with a page that the agent's person was to open (2025-11-25).
const PAGE_DONE_METHOD: &str = "notifications/elicitation/complete";
/// Rounds of questions of one call.
pub(super) const MAX_ROUNDS: u32 = 10;
/// How long toolgate waits before it asks again what asked nothing of the agent.
const EMPTY_ROUND_PAUSE: Duration = Duration::from_millis(250);

/// What comes of an answer that asks.
pub(super) enum AskedRound {
    /// The agent has answered.
    Answered(AnsweredRound),
    /// It ends here, with this answer.
    Over(Message),
    /// The agent has gone, or cancelled the call.
    Gone,
}

/// What an agent has answered.
pub(super) struct AnsweredRound {
    /// The parameters of the next round.
    pub(super) params: Text,
    /// The ids of pages that its person has agreed to open.
    pub(super) pages: Vec<Text>,
}

/// The answers to questions, by the names of these.
pub(super) struct QuestionAnswers {
    pub(super) answers: Object,
    /// The ids of pages that the agent's person has agreed to open.
    pub(super) pages: Vec<Text>,
}

/// Why a question has no answer.
pub(super) enum Unanswered {
    /// The agent cannot answer it, or does not, as words.
    Ends(&'static str),
    /// The agent has gone, or cancelled the call.
    Gone,
}

/// A question that was put to the agent.
struct PutQuestion {
    /// Under which name the server reads the answer.
    key: String,
    /// The id of the page, if it is one to open.
    page: Option<Text>,
    response: oneshot::Receiver<Message>,
}

impl ExchangeContext<'_> {
    /// Puts what `answer` asks to the agent; none if it asks nothing, or the agent reads such
    /// answers itself. `params`: as they were sent before.
    pub(super) async fn asked(
        &self,
        server: &ServerName,
        link: &Link,
        message: &Message,
        answer: &Message,
    ) -> Option<AskedRound> {
        self.links.legacy_revision()?;
        // Of an answer that two readers could read differently, nothing is believed.
        let is_plain = !answer.is_error && answer.odd.is_none();
        let result = answer.body.as_ref().filter(|_| is_plain)?;
        let kind = result.get("resultType")?;
        if kind.as_str().as_deref() != Some("input_required") {
            return None;
        }
        let keeper = &**self.links.servers().keeper();
        let wire = link.revision.as_str();
        if let Some(words) = asks_too_much(keeper, self.caller, server, wire, answer) {
            return Some(AskedRound::Over(withheld(answer, words)));
        }
        let requests = result.get("inputRequests");
        let requests = requests.as_ref().and_then(Text::object).unwrap_or_default();
        Some(match self.put(&requests, None).await {
            Ok(QuestionAnswers { answers, pages }) => {
                let params = next(message, result, &answers);
                AskedRound::Answered(AnsweredRound { params, pages })
            }
            Err(Unanswered::Gone) => AskedRound::Gone,
            Err(Unanswered::Ends(words)) => AskedRound::Over(unanswerable(message, answer, words)),
        })
    }

    /// Puts questions of a server of 2026-07-28 to the agent of a legacy session, and waits for its
    /// answers. `task`: which task asks.
    pub(super) async fn put(
        &self,
        requests: &Object,
        task: Option<&Text>,
    ) -> Result<QuestionAnswers, Unanswered> {
        let ends = |words| Err(Unanswered::Ends(words));
        let mut waiting = Vec::new();
        for (key, question) in requests.iter() {
            let question = as_request(self.links, question, task).map_err(Unanswered::Ends)?;
            let Some(question) = self.remarked(&question).await else {
                return ends("what the tool server asks takes too much to check and to redact");
            };
            let questions = self.links.legacy_questions();
            let Some((question, response)) = questions.and_then(|all| all.ask_for(question)) else {
                return ends("too many questions wait for the agent's answers");
            };
            let (key, page) = (key.to_owned(), page_of(&question));
            let told = self.outlet.say(Outgoing::Message(Box::new(question)));
            if told.await.is_err() {
                return Err(Unanswered::Gone);
            }
            waiting.push(PutQuestion {
                key,
                page,
                response,
            });
        }
        if waiting.is_empty() {
            tokio::time::sleep(EMPTY_ROUND_PAUSE).await;
        }
        let (mut answers, mut pages) = (Object::new(), Vec::new());
        for PutQuestion {
            key,
            page,
            response,
        } in waiting
        {
            let response = tokio::select! {
                response = response => response.ok(),
                () = self.gone_for_good() => return Err(Unanswered::Gone),
            };
            match response {
                Some(response) if !response.is_error => {
                    let said = response.body.unwrap_or_else(|| Object::new().text());
                    pages.extend(page.filter(|_| is_accepted(&said)));
                    answers.set(&key, said);
                }
                _ => return ends("the agent's program did not answer what the tool server asked"),
            }
        }
        Ok(QuestionAnswers { answers, pages })
    }

    /// The agent cancelled, or went away.
    pub(super) async fn gone(&self) {
        tokio::select! {
            () = self.waiting.cancelled.cancelled() => {}
            () = self.left() => {}
        }
    }

    /// The agent went away, while it waited.
    pub(super) async fn left(&self) {
        self.outlet.closed().await;
        if self.has_outlived() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the exchange goes on without its agent.
    pub(super) fn has_outlived(&self) -> bool {
        self.outlives
            .is_some_and(|outlives| outlives.load(Ordering::Acquire))
    }

    /// Ends when the agent has cancelled the request or will hear no more of it: its stream could be
    /// taken up again until the session ended.
    pub(super) async fn gone_for_good(&self) {
        tokio::select! {
            () = self.gone() => {}
            () = self.links.ended() => {}
        }
    }

    /// Tells the agent that the server goes on after these pages, if it does: a server of 2026-07-28
    /// says so by its answer alone.
    pub(super) async fn pages_done(&self, pages: Vec<Text>, answer: &Message) {
        let has_failed = answer.is_error || answer.body.as_ref().is_none_or(is_tool_error);
        for page in pages.into_iter().filter(|_| !has_failed) {
            let params = Text::members_of(&[(PAGE_ID_MEMBER, page)]);
            let note = Message::notification(PAGE_DONE_METHOD, Some(params));
            let told = Outgoing::Message(Box::new(note));
            let _ = self.outlet.say_within(told, SLOW_READER_TIMEOUT).await;
        }
    }
}

/// A question as the agent's revision knows it, or why it cannot be asked.
fn as_request(links: &Links, asked: &Text, task: Option<&Text>) -> Result<Message, &'static str> {
    let method = asked.get("method");
    let method = method.as_ref().and_then(Text::as_str).unwrap_or_default();
    let mode = asked.at(&["params", "mode"]);
    let capability: &[&str] = match &*method {
        "elicitation/create" if mode.as_ref().is_some_and(is_url) => &["elicitation", "url"],
        "elicitation/create" => &["elicitation"],
        "sampling/createMessage" => &["sampling"],
        "roots/list" => &["roots"],
        _ => return Err("the tool server asked for input in no form that is known"),
    };
    if !links.has_declared(capability) {
        return Err(
            "the tool server asked for something that the agent's program has not declared",
        );
    }
    let revision = links.legacy_revision().unwrap_or(Revision::NEWEST_LEGACY);
    let question = question_to_legacy_agent(asked, revision, &unguessable())?;
    let Some(task) = task else {
        return Ok(question);
    };
    let params = question.body.unwrap_or_else(|| Object::new().text());
    let params = related_to(task, &params);
    Ok(Message::request(0, &method, Some(params)))
}

fn is_url(mode: &Text) -> bool {
    mode.as_str().as_deref() == Some("url")
}

/// The id of the page that a question is about.
fn page_of(question: &Message) -> Option<Text> {
    let params = question.body.as_ref()?;
    params.get("mode").filter(is_url)?;
    params.get(PAGE_ID_MEMBER)
}

fn is_accepted(said: &Text) -> bool {
    let action = said.get("action");
    action.is_some_and(|action| action.as_str().as_deref() == Some("accept"))
}

/// The parameters of the next round: those of the agent, with its answers and the server's state.
fn next(message: &Message, result: &Text, answers: &Object) -> Text {
    let mut params = message
        .body
        .as_ref()
        .and_then(Text::object)
        .unwrap_or_default();
    params.set("inputResponses", answers.text());
    match result.get("requestState") {
        Some(state) => params.set("requestState", state),
        None => drop(params.remove("requestState")),
    }
    params.text()
}

/// What an agent reads of a call that its server does not end without an answer which there is not.
pub(super) fn unanswerable(message: &Message, answer: &Message, words: &str) -> Message {
    if message.method == "tools/call" {
        let result = json!({ "content": [{ "type": "text", "text": words }], "isError": true });
        return Message::response(answer.id.clone(), Text::of(&result), false);
    }
    Message::error(answer.id.clone(), INTERNAL_ERROR, words, None)
}
