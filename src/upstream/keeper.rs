//! Who says what a server may ask of an agent and tell it beside its answers, and as what the agent is introduced to it
//! (SECURITY §3C C6, C12). What it decides is the policy's business, which is on a higher floor.

use crate::mcp::answer::INTERNAL;
use crate::mcp::json::Text;
use crate::mcp::message::{Kind, Message};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;

/// Questions of one answer that are looked at (SECURITY §8); with more it is withheld.
const QUESTIONS: usize = 64;

/// A request or notification of a server, and whom it is for.
#[derive(Debug, Clone, Copy)]
pub struct Spoken<'a> {
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
pub type Unheard = (i64, &'static str);

/// Stands between servers and agents for everything but answers.
pub trait Keeper: Send + Sync {
    /// May the agent hear it?
    fn lets_through(&self, spoken: &Spoken<'_>) -> Result<(), Unheard>;
    /// The parameters of an agent's `initialize` as `server` reads them.
    fn introduce(&self, caller: &Caller, server: &ServerName, params: &Text) -> Text;
}

/// Nobody stands there: everything passes as it is.
impl Keeper for () {
    fn lets_through(&self, _: &Spoken<'_>) -> Result<(), Unheard> {
        Ok(())
    }

    fn introduce(&self, _: &Caller, _: &ServerName, params: &Text) -> Text {
        params.clone()
    }
}

/// What a server's answer asks that the agent may not hear (2026-07-28), as words; none if it may hear all of it.
pub fn asks_too_much(
    keeper: &dyn Keeper,
    (caller, server, revision): (&Caller, &ServerName, &'static str),
    answer: &Message,
) -> Option<&'static str> {
    let asked = answer.body.as_ref().filter(|_| !answer.is_error)?.get("inputRequests")?;
    let Some(asked) = asked.members() else { return Some("the tool server asked for input in no form that is known") };
    for (index, (_, question)) in asked.enumerate() {
        let method = question.get("method");
        let method = method.as_ref().and_then(Text::as_str).unwrap_or_default();
        let message = Message::request(0, &method, question.get("params"));
        let spoken = Spoken { caller, server, revision, message: &message };
        if index >= QUESTIONS {
            return Some("the tool server asked for more input than one answer may");
        }
        if let Err((_, words)) = keeper.lets_through(&spoken) {
            return Some(words);
        }
    }
    None
}

/// The error that stands for an answer which is withheld.
pub fn withheld(answer: &Message, words: &str) -> Message {
    debug_assert_eq!(answer.kind, Kind::Response, "only answers are withheld");
    Message::error(answer.id.clone(), INTERNAL, words, None)
}
