//! A held call whose agent can open a page for its person (`open_page`, guarantees §7). In 2026-07-28
//! the call is answered by a question that names the page; in a session the question is put beside
//! it. That the page was opened allows nothing: the hold alone says what was decided.

use super::waiting::{AwaitedHold, progress_token};
use crate::gate::Gate;
use crate::gate::call::{ArgumentOrigin, Call, PageReturn, TaskTerms};
use crate::mcp::bridge::{CAPABILITIES_META_KEY, PAGE_ID_MEMBER};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::{Era, Revision};
use crate::model::refusal::Refusal;
use crate::outlet::Outgoing;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What the state begins with that an agent brings back; it is sealed like a tool server's.
const STATE_PREFIX: &str = "toolgate-page:";
/// The name of the question.
const QUESTION_KEY: &str = "approval";
const QUESTION_METHOD: &str = "elicitation/create";
/// What a server has done with a page that the agent's person was to open (2025-11-25).
const PAGE_DONE_METHOD: &str = "notifications/elicitation/complete";
/// How long a call waits whose agent says that the page was opened, before it is asked again.
const OPENED_WAIT: Duration = Duration::from_secs(20);

/// How an agent comes to the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageWay {
    /// By the answer to its call.
    Answer,
    /// By a request in the stream of its call.
    Beside,
}

impl PageWay {
    /// Of an agent that waits neither as a task nor with news of progress, and says that it opens
    /// pages.
    fn of(call: &Call) -> Option<Self> {
        let origin = &call.origin;
        let waits_otherwise =
            progress_token(call).is_some() || !matches!(origin.task, TaskTerms::Unknown);
        let opens = match origin.era {
            Era::Modern => {
                let declared = call.message.meta(CAPABILITIES_META_KEY);
                declared.is_some_and(|declared| declared.at(&["elicitation", "url"]).is_some())
            }
            Era::Legacy => {
                let revision = origin.links.legacy_revision();
                revision >= Some(Revision::V2025_11_25)
                    && origin.links.has_declared(&["elicitation", "url"])
            }
        };
        (opens && !waits_otherwise).then_some(match origin.era {
            Era::Modern => Self::Answer,
            Era::Legacy => Self::Beside,
        })
    }
}

/// The call without what it brings back of such a question, which says no more than whether the page
/// was opened.
pub(in crate::gate) fn taken_back(mut call: Call) -> Call {
    let is_readable = call.origin.era == Era::Modern && call.reading != ArgumentOrigin::Foreign;
    let Some(params) = call.message.body.as_ref().filter(|_| is_readable) else {
        return call;
    };
    let state = params.get("requestState");
    let is_ours = state.is_some_and(|state| {
        let state = state.as_str();
        state.is_some_and(|state| state.starts_with(STATE_PREFIX))
    });
    let Some(mut rest) = params.object().filter(|_| is_ours) else {
        return call;
    };
    let action = params.at(&["inputResponses", QUESTION_KEY, "action"]);
    let is_opened = action.is_some_and(|action| action.as_str().as_deref() == Some("accept"));
    let returned = if is_opened {
        PageReturn::Opened
    } else {
        PageReturn::NotOpened
    };
    // Set once: a call is made ready once.
    let _ = call.origin.page.set(returned);
    rest.remove("requestState");
    rest.remove("inputResponses");
    call.message.body = Some(rest.text());
    call
}

/// How long a call waits that is answered by such a question; none if it is not.
pub(super) fn page_wait(gate: &Gate, call: &Call) -> Option<Duration> {
    gate.public_url.as_ref()?;
    (PageWay::of(call)? == PageWay::Answer).then_some(())?;
    match call.origin.page.get() {
        None => Some(Duration::ZERO),
        Some(PageReturn::Opened) => Some(OPENED_WAIT),
        // It waits like any other.
        Some(PageReturn::NotOpened) => None,
    }
}

/// The answer to a call that has ended so, where that asks the agent to open a page.
pub(in crate::gate) fn question(call: &Call, ending: &Result<Message, Refusal>) -> Option<Text> {
    let Err(Refusal::ApprovalPending {
        roles,
        hold: Some(hold),
    }) = ending
    else {
        return None;
    };
    let asks = call.origin.asks_page.load(Ordering::Relaxed);
    let page = hold.page.as_ref().filter(|_| asks)?;
    let asked = json!({ "method": QUESTION_METHOD, "params": params(roles, page) });
    Some(Text::of(&json!({
        "resultType": "input_required",
        "inputRequests": { QUESTION_KEY: asked },
        "requestState": format!("{STATE_PREFIX}{}", hold.id),
    })))
}

fn params(roles: &[String], page: &str) -> serde_json::Value {
    let roles = roles.join(" or ");
    let message = format!(
        "A person with the role {roles} has to allow this call. toolgate shows it at this address, after a login; to open it allows nothing."
    );
    json!({ "mode": "url", "message": message, "url": page })
}

/// Puts the question to the agent of a session, once a hold. Its answer says nothing of the decision,
/// and nobody reads it.
pub(super) async fn put(gate: &Gate, call: &Call, hold: &AwaitedHold<'_>) {
    let is_first = hold.before.is_zero() && PageWay::of(call) == Some(PageWay::Beside);
    let Some(page) = gate.page_of(hold.id).filter(|_| is_first) else {
        return;
    };
    let mut params = params(hold.roles, &page);
    params[PAGE_ID_MEMBER] = json!(hold.id.to_string());
    let question = Message::request(0, QUESTION_METHOD, Some(Text::of(&params)));
    let questions = call.origin.links.legacy_questions();
    if let Some((question, _answer)) = questions.and_then(|all| all.ask_for(question)) {
        say(call, question).await;
    }
}

/// Tells the agent of a session that the page has done its part.
pub(super) async fn done(gate: &Gate, call: &Call, hold: &AwaitedHold<'_>) {
    if gate.public_url.is_none() || PageWay::of(call) != Some(PageWay::Beside) {
        return;
    }
    let id = Text::string(&hold.id.to_string());
    let params = Text::members_of(&[(PAGE_ID_MEMBER, id)]);
    say(call, Message::notification(PAGE_DONE_METHOD, Some(params))).await;
}

/// An agent that does not read misses it, and nobody waits.
async fn say(call: &Call, message: Message) {
    let told = Outgoing::Message(Box::new(message));
    let _ = call.origin.outlet.say_within(told, Duration::ZERO).await;
}
