//! Who says what a server may ask of an agent and tell it beside its answers, and as what the agent
//! is introduced to it (threat-model §3C C6, C12). What it decides is the policy's business, which
//! is on a higher floor.

use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;

/// Questions of one answer that are looked at (threat-model §8); with more it is withheld.
const MAX_QUESTIONS: usize = 64;

/// A request or notification of a server, and whom it is for.
#[derive(Debug, Clone, Copy)]
pub struct ServerMessage<'a> {
    /// Who would hear it.
    pub caller: &'a Caller,
    /// Who says it.
    pub server: &'a ServerName,
    /// The revision that is spoken.
    pub revision: &'static str,
    /// What is said.
    pub message: &'a Message,
}

/// Why something goes nowhere: the JSON-RPC error that its server reads, if it asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unheard {
    /// The error's code.
    pub code: i64,
    /// The error's message.
    pub words: &'static str,
}

/// Stands between servers and agents for everything but answers.
pub trait ServerMessagePolicy: Send + Sync {
    /// May the agent hear it?
    fn lets_through(&self, spoken: &ServerMessage<'_>) -> Result<(), Unheard>;
    /// The parameters of an agent's `initialize` as `server` reads them.
    fn introduce(&self, caller: &Caller, server: &ServerName, params: &Text) -> Text;
}

/// Nobody stands there: everything passes as it is.
impl ServerMessagePolicy for () {
    fn lets_through(&self, _: &ServerMessage<'_>) -> Result<(), Unheard> {
        Ok(())
    }

    fn introduce(&self, _: &Caller, _: &ServerName, params: &Text) -> Text {
        params.clone()
    }
}

/// May the agent hear a notification or a request: it, and all that is asked in a notification?
pub(crate) fn hears(
    keeper: &dyn ServerMessagePolicy,
    spoken: &ServerMessage<'_>,
) -> Result<(), Unheard> {
    let ServerMessage {
        caller,
        server,
        revision,
        message,
    } = *spoken;
    keeper.lets_through(spoken)?;
    let said = Some(message).filter(|message| message.kind == MessageKind::Notification);
    let asks = said.and_then(|said| asks_too_much(keeper, caller, server, revision, said));
    let code = INTERNAL_ERROR;
    asks.map_or(Ok(()), |words| Err(Unheard { code, words }))
}

/// What a server's answer, or what it says of a task, asks that the agent may not hear, as words;
/// none if it may hear all of it. Since 2026-07-28 servers ask with results; pages on the web they
/// also ask for with errors (2025-11-25). Each question is recorded, so this is done once for each
/// message.
pub(crate) fn asks_too_much(
    keeper: &dyn ServerMessagePolicy,
    caller: &Caller,
    server: &ServerName,
    revision: &'static str,
    said: &Message,
) -> Option<&'static str> {
    let body = said.body.as_ref()?;
    let mut asked = QuestionCheck {
        keeper,
        caller,
        server,
        revision,
        questions: 0,
    };
    if said.is_error {
        return asked.by_error(body);
    }
    body.members()?
        .parts()
        .find_map(|(key, value)| match &*key {
            "inputRequests" => asked.by_result(&value.text()),
            // How a task stands, and how it ended.
            "task" | "result" => value
                .text()
                .get("inputRequests")
                .and_then(|requests| asked.by_result(&requests)),
            "error" => asked.by_error(&value.text()),
            _ => None,
        })
}

/// What one message asks.
struct QuestionCheck<'a> {
    keeper: &'a dyn ServerMessagePolicy,
    caller: &'a Caller,
    server: &'a ServerName,
    revision: &'static str,
    questions: usize,
}

impl QuestionCheck<'_> {
    fn by_result(&mut self, requests: &Text) -> Option<&'static str> {
        let Some(mut requests) = requests.members() else {
            return Some(UNKNOWN_FORM_MESSAGE);
        };
        requests.find_map(|(_, question)| {
            let method = question.get("method");
            let method = method.as_ref().and_then(Text::as_str).unwrap_or_default();
            self.question(&method, question.get("params"))
        })
    }

    /// Whatever the code is: agents may look for pages in any error.
    fn by_error(&mut self, error: &Text) -> Option<&'static str> {
        let pages = error.at(&["data", "elicitations"])?;
        // In no form that is known, it is judged as one that asks nothing.
        let Some(pages) = pages.elements() else {
            return self.question("elicitation/create", None);
        };
        pages
            .into_iter()
            .find_map(|page| self.question("elicitation/create", Some(page)))
    }

    fn question(&mut self, method: &str, params: Option<Text>) -> Option<&'static str> {
        self.questions += 1;
        if self.questions > MAX_QUESTIONS {
            return Some("the tool server asked for more input than one answer may");
        }
        let message = &Message::request(0, method, params);
        let Self {
            keeper,
            caller,
            server,
            revision,
            ..
        } = *self;
        keeper
            .lets_through(&ServerMessage {
                caller,
                server,
                revision,
                message,
            })
            .err()
            .map(|unheard| unheard.words)
    }
}

/// What an agent reads of questions that have another form than the revisions give them.
const UNKNOWN_FORM_MESSAGE: &str = "the tool server asked for input in no form that is known";

/// The error that stands for an answer which is withheld.
pub(crate) fn withheld(answer: &Message, words: &str) -> Message {
    debug_assert_eq!(
        answer.kind,
        MessageKind::Response,
        "only answers are withheld"
    );
    Message::error(answer.id.clone(), INTERNAL_ERROR, words, None)
}
