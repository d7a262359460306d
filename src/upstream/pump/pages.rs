//! Pages that a person has to open before a legacy server does what an agent of 2026-07-28 asks
//! for: the server says so by an error, the agent is asked by a result and sends its request again
//! (protocol §4.3).

use super::asking::unanswerable;
use super::{ASKED_METHODS, ExchangeContext, Leg, Outbound};
use crate::mcp::bridge::{
    has_opened_all, input_required, is_after_pages, pages_of, pages_state, to_modern_agent,
};
use crate::mcp::message::Message;
use crate::model::ids::unguessable;

/// The result that asks the agent to have pages opened, in place of the error by which its
/// server asks; none if the answer asks for none, the agent cannot have them opened, or the
/// request may not be sent again.
pub(super) fn pages_asked(outbound: &Outbound<'_>, leg: &Leg, answer: &Message) -> Option<Message> {
    let own = leg.request.reached.legacy()?;
    let method = outbound.message.method.as_str();
    // What changes something is not begun anew: the state that this takes is kept nowhere, and would
    // do so whenever it came.
    let may = outbound.terms.begins_anew && !outbound.changes;
    if !may || !answer.is_error || answer.odd.is_some() || !ASKED_METHODS.contains(&method) {
        return None;
    }
    let pages = pages_of(answer.body.as_ref()?)?;
    if !pages.iter().all(|page| own.may_ask(page)) {
        return None;
    }
    let keys: Vec<_> = (1..=pages.len()).map(|n| format!("page-{n}")).collect();
    let asked = keys.iter().map(String::as_str).zip(&pages);
    let result = input_required(asked, &pages_state(&unguessable()));
    Some(Message::response(answer.id.clone(), result, false))
}

impl ExchangeContext<'_> {
    /// What an agent reads whose person has not opened the pages without which its server does
    /// nothing: nothing is sent.
    pub(super) fn unopened(&self, outbound: &Outbound<'_>) -> Option<Message> {
        let message = outbound.message;
        let params = message.body.as_ref();
        let declined = self.links.is_modern() && is_after_pages(params) && !has_opened_all(params);
        let words = "a page was not opened without which the tool server does nothing; the request was not sent again";
        declined.then(|| to_modern_agent(&message.method, unanswerable(message, message, words)))
    }
}
