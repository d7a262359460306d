//! One request that waits for its answer, and what belongs to it while it does.

use super::{ExchangeContext, QUESTIONS_WINDOW};
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::reply::Fault;
use crate::model::tally::FOREIGN_PROGRESS;
use crate::upstream::caller_links::{CallerLink, QuestionInbox};
use crate::upstream::keeper::Unheard;
use crate::upstream::link::Link;
use crate::upstream::links::SentRequest;
use crate::upstream::owners::PROGRESS_METHOD;
use crate::upstream::parking::{FollowedTask, ParkedCall};
use crate::upstream::questions::bytes_of;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::{Sleep, sleep};

/// Questions of one call that are put to the agent together.
const MAX_QUESTIONS_AT_ONCE: usize = 16;

/// Bytes of them: as many as one message of a server may have.
const MAX_BYTES_ASKED_AT_ONCE: usize = 4 << 20;

/// Said to a tool server that asks more than an agent is asked at once.
pub(super) const TOO_MANY_QUESTIONS: Unheard = Unheard {
    code: INTERNAL_ERROR,
    words: "the call asks too much at once (16 questions, 4 MiB); ask again once the agent has answered",
};

/// One request that waits for its answer.
pub(super) struct Leg {
    pub(super) request: Box<SentRequest>,
    /// Only on a link of a modern agent's own.
    pub(super) own: Option<Box<OwnLeg>>,
}

/// What a request of a modern agent needs on a legacy link.
#[derive(Default)]
pub(super) struct OwnLeg {
    /// Where questions arrive that name no request.
    pub(super) asides: Option<QuestionInbox>,
    /// Its parameters, as the agent wrote them when it was sent.
    pub(super) asked: Option<Text>,
    /// Whether it waited for its agent, who may know progress by another token by now.
    pub(super) is_taken_up: bool,
    /// That token.
    pub(super) token: Option<Text>,
    /// What the server asks, and the agent was not asked yet.
    pub(super) questions: Vec<Message>,
    /// Ends when the agent is asked them: soon after the first, whatever else the server says.
    pub(super) window: Option<Pin<Box<Sleep>>>,
    /// The task that it became, and whose result toolgate waits for.
    pub(super) followed: Option<FollowedTask>,
}

impl ExchangeContext<'_> {
    /// Whether it is progress of another request than the one with these parameters
    /// (threat-model §3A A12).
    pub(super) fn is_foreign(&self, said: &Message, asked: Option<&Text>) -> bool {
        if said.kind != MessageKind::Notification || said.method != PROGRESS_METHOD {
            return false;
        }
        let token = asked.and_then(|params| params.at(&["_meta", "progressToken"]));
        let told = said
            .body
            .as_ref()
            .and_then(|params| params.get("progressToken"))
            .map(|told| told.value());
        let mut own = token.iter().chain(self.task_token);
        let is_own = told.is_some_and(|told| own.any(|own| own.value() == told));
        if !is_own {
            FOREIGN_PROGRESS.add(1);
        }
        !is_own
    }
}

impl Leg {
    pub(super) fn link(&self) -> &Arc<Link> {
        &self.request.reached.link
    }

    /// The agent's own link, where this is a request of its server.
    pub(super) fn own_if_request(&self, message: &Message) -> Option<Arc<CallerLink>> {
        let own = self.request.reached.legacy();
        own.filter(|_| message.kind == MessageKind::Request)
            .cloned()
    }

    /// The parameters under which it was sent, where they are not those of now.
    pub(super) fn asked(&self) -> Option<&Text> {
        self.own.as_ref()?.asked.as_ref()
    }

    /// The task that it became, and whose result is waited for in its place.
    pub(super) fn followed(&self) -> Option<&FollowedTask> {
        self.own.as_ref()?.followed.as_ref()
    }

    /// From now on the result of this task is waited for.
    pub(super) fn follow(&mut self, id: Text) {
        if let Some(own) = &mut self.own {
            if let Some(asides) = &own.asides {
                asides.becomes(&id);
            }
            own.followed = Some(FollowedTask { id, breaks: 0 });
        }
    }

    /// The server asks this, too; it comes back if the agent is asked enough already.
    pub(super) fn add_question(&mut self, question: Message) -> Option<Message> {
        let Some(own) = &mut self.own else {
            return Some(question);
        };
        let bytes: usize = own.questions.iter().chain([&question]).map(bytes_of).sum();
        if own.questions.len() >= MAX_QUESTIONS_AT_ONCE || bytes > MAX_BYTES_ASKED_AT_ONCE {
            return Some(question);
        }
        own.questions.push(question);
        own.window
            .get_or_insert_with(|| Box::pin(sleep(QUESTIONS_WINDOW)));
        None
    }

    /// What the server asks.
    pub(super) fn take_questions(&mut self) -> Vec<Message> {
        let Some(own) = &mut self.own else {
            return Vec::new();
        };
        own.window = None;
        std::mem::take(&mut own.questions)
    }

    /// A call that waited for its agent, and is waited for again.
    pub(super) fn of(parked: ParkedCall, token: Option<Text>) -> Self {
        let ParkedCall {
            reached,
            exchange,
            asides,
            asked,
            followed,
            ..
        } = parked;
        Self {
            request: Box::new(SentRequest { reached, exchange }),
            own: Some(Box::new(OwnLeg {
                asides,
                asked,
                is_taken_up: true,
                token,
                followed,
                ..OwnLeg::default()
            })),
        }
    }
}

/// A fault after so many rounds.
pub(super) fn of_round(rounds: u32, fault: Fault) -> Fault {
    if rounds == 0 { fault } else { fault.of_later() }
}
