//! Requests that legacy tool servers send to an agent: each travels under an id of ours, and only
//! the link that asked gets the answer (threat-model §3A A12).

use super::keeper::Unheard;
use super::link::Link;
use crate::mcp::error_codes::{INTERNAL_ERROR, METHOD_NOT_FOUND};
use crate::mcp::json::Text;
use crate::mcp::message::{Message, number};
use crate::mcp::methods::{Treatment, is_server_request, treatment};
use crate::mcp::revision::Era;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;

/// Open requests of one session at most.
const MAX_OPEN_REQUESTS: usize = 256;
/// Progress tokens of them that are remembered, the newest: a request that became a task of the
/// agent has its answer long before its last progress.
const MAX_PROGRESS_TOKENS: usize = 2 * MAX_OPEN_REQUESTS;
/// Bytes of a token that is remembered.
const PROGRESS_TOKEN_BYTES_MAX: usize = 256;

/// How long a server may take to take an answer.
pub(super) const TELL_TIMEOUT: Duration = Duration::from_secs(5);

/// Who waits for the answer to a request.
enum Questioner {
    /// A server, under its own id of it.
    Server(Weak<Link>, Text),
    /// toolgate, for a server that asks in another way.
    Toolgate(oneshot::Sender<Message>),
}

/// Where an agent's response goes.
pub enum Answered {
    /// To a server, under its id.
    Server(Arc<Link>, Message),
    /// To toolgate, which has it now.
    Toolgate,
    /// Nowhere: nobody asks.
    Nobody,
}

/// The open requests of one session.
#[derive(Default)]
pub struct Questions {
    open: Mutex<OpenQuestions>,
    /// What the agent says it can do with tasks; none if it says nothing.
    tasks: Option<Text>,
}

#[derive(Default)]
struct OpenQuestions {
    last: u64,
    by_id: HashMap<u64, Questioner>,
    tokens: VecDeque<(Weak<Link>, Value)>,
}

impl Questions {
    /// For an agent with these parameters of `initialize`.
    pub fn to(initialize: &Text) -> Self {
        Self {
            open: Mutex::default(),
            tasks: initialize
                .at(&["capabilities", "tasks"])
                .filter(Text::is_object),
        }
    }

    /// A server's request under an id of ours; none if it goes nowhere, and then the server is
    /// told.
    pub async fn ask(&self, link: &Arc<Link>, message: Message) -> Option<Message> {
        let original = message.id.clone()?;
        match self.note(link, &message, original) {
            Ok(id) => Some(message.with_id(number(id))),
            Err(unheard) => {
                refuse(link, &message, unheard).await;
                None
            }
        }
    }

    fn note(&self, link: &Arc<Link>, message: &Message, original: Text) -> Result<u64, Unheard> {
        // What agents ask servers is no question to them, in any mode.
        let is_theirs = treatment(&message.method, Era::Legacy) != Treatment::Unknown;
        if is_theirs && !is_server_request(&message.method) {
            return Err(Unheard {
                code: METHOD_NOT_FOUND,
                words: "servers do not send this request",
            });
        }
        if !self.is_declared(&message.method) {
            return Err(Unheard {
                code: METHOD_NOT_FOUND,
                words: "the agent has not declared that it can do this with tasks",
            });
        }
        let mut open = self.open.lock();
        if open.by_id.len() >= MAX_OPEN_REQUESTS {
            return Err(Unheard {
                code: INTERNAL_ERROR,
                words: "too many requests wait for the agent's answer; try again later",
            });
        }
        open.last += 1;
        let id = open.last;
        open.by_id
            .insert(id, Questioner::Server(Arc::downgrade(link), original));
        let token = message
            .body
            .as_ref()
            .and_then(|params| params.at(&["_meta", "progressToken"]));
        if let Some(token) =
            token.filter(|token| token.as_bytes().len() <= PROGRESS_TOKEN_BYTES_MAX)
        {
            open.tokens.push_back((Arc::downgrade(link), token.value()));
            if open.tokens.len() > MAX_PROGRESS_TOKENS {
                open.tokens.pop_front();
            }
        }
        Ok(id)
    }

    /// Tasks are asked about only where the agent says that it has them (2025-11-25, "Capabilities"
    /// of tasks).
    fn is_declared(&self, method: &str) -> bool {
        let Some(asked) = method.strip_prefix("tasks/") else {
            return true;
        };
        let has = |name: &str| {
            self.tasks
                .as_ref()
                .is_some_and(|tasks| tasks.get(name).is_some_and(|it| it.is_object()))
        };
        match asked {
            "list" | "cancel" => has(asked),
            _ => self.tasks.is_some(),
        }
    }

    /// Whether the server at the other end of `link` asked something under the token of this
    /// `progress` of the agent.
    pub fn asked_under(&self, link: &Arc<Link>, progress: &Message) -> bool {
        let token = progress
            .body
            .as_ref()
            .and_then(|params| params.get("progressToken"));
        let Some(token) = token
            .filter(|token| token.as_bytes().len() <= PROGRESS_TOKEN_BYTES_MAX)
            .map(|token| token.value())
        else {
            return false;
        };
        let is_it = |(asker, known): &(Weak<Link>, Value)| {
            *known == token && std::ptr::eq(asker.as_ptr(), Arc::as_ptr(link))
        };
        self.open.lock().tokens.iter().any(is_it)
    }

    /// A server's cancellation of a request of its own, under our id of it; none if that is not
    /// open. The agent owes no answer any more.
    pub fn take_back(&self, link: &Arc<Link>, mut note: Message) -> Option<Message> {
        let mut params = note.body.as_ref().and_then(Text::object)?;
        let asked = params.get("requestId").cloned()?;
        let mut open = self.open.lock();
        let is_it = |asker: &Questioner| match asker {
            Questioner::Server(of, id) => {
                *id == asked && std::ptr::eq(of.as_ptr(), Arc::as_ptr(link))
            }
            Questioner::Toolgate(_) => false,
        };
        let id = open
            .by_id
            .iter()
            .find(|(_, question)| is_it(question))
            .map(|(id, _)| *id)?;
        open.by_id.remove(&id);
        params.set("requestId", number(id));
        note.body = Some(params.text());
        Some(note)
    }

    /// Takes the agent's response and says where it goes.
    pub fn answer(&self, response: Message) -> Answered {
        match self.asker(&response) {
            Some(Questioner::Server(link, original)) => match link.upgrade() {
                Some(link) => Answered::Server(link, response.with_id(original)),
                None => Answered::Nobody,
            },
            Some(Questioner::Toolgate(asks)) => match asks.send(response) {
                Ok(()) => Answered::Toolgate,
                Err(_) => Answered::Nobody,
            },
            None => Answered::Nobody,
        }
    }

    fn asker(&self, response: &Message) -> Option<Questioner> {
        let id: u64 = std::str::from_utf8(response.id.as_ref()?.as_bytes())
            .ok()?
            .parse()
            .ok()?;
        self.open.lock().by_id.remove(&id)
    }

    /// A request of toolgate's own to the agent, for a server that asks by its answer, and where
    /// the response will be; none if too many are open.
    pub(crate) fn ask_for(
        &self,
        question: Message,
    ) -> Option<(Message, oneshot::Receiver<Message>)> {
        let (asks, response) = oneshot::channel();
        let mut open = self.open.lock();
        if open.by_id.len() >= MAX_OPEN_REQUESTS {
            open.by_id.retain(
                |_, asker| !matches!(asker, Questioner::Toolgate(asks) if asks.is_closed()),
            );
        }
        if open.by_id.len() >= MAX_OPEN_REQUESTS {
            return None;
        }
        open.last += 1;
        let id = open.last;
        open.by_id.insert(id, Questioner::Toolgate(asks));
        Some((question.with_id(number(id)), response))
    }
}

/// What a server reads in place of an agent's answer that is not handed on.
pub(crate) fn refused_answer(id: Text) -> Message {
    Message::error(
        Some(id),
        INTERNAL_ERROR,
        "the agent's answer was refused by toolgate",
        None,
    )
}

/// What a server reads whose request goes nowhere.
pub(crate) fn refusal(message: &Message, unheard: Unheard) -> Message {
    let Unheard { code, words } = unheard;
    tracing::warn!(method = %message.method.escape_debug(), "a tool server's request was refused");
    Message::error(message.id.clone(), code, words, None)
}

/// Tells a server that its request goes nowhere.
pub(crate) async fn refuse(link: &Link, message: &Message, unheard: Unheard) {
    tell(link, refusal(message, unheard)).await;
}

/// What a question takes while it waits for the agent, in bytes.
pub(crate) fn bytes_of(question: &Message) -> usize {
    let body = question
        .body
        .as_ref()
        .map_or(0, |body| body.as_bytes().len());
    body + question.method.len()
}

/// Hands an answer to the server that asked; whether the server has taken it. One that reads nothing
/// holds nobody up for longer than this takes.
pub(crate) async fn tell(link: &Link, answer: Message) -> bool {
    let told = tokio::time::timeout(TELL_TIMEOUT, link.hand(answer)).await;
    let is_told = matches!(told, Ok(Ok(true)));
    if !is_told {
        tracing::debug!(?told, "an answer did not reach the tool server");
    }
    is_told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::ServerName;
    use crate::upstream::stdio::Conversation;

    /// protocol §3.3: a server that reads nothing any more is told nothing, and holds nobody up.
    #[tokio::test(start_paused = true)]
    async fn a_deaf_server_holds_nobody_up() {
        let (ours, _theirs) = tokio::io::duplex(64);
        let (input, output) = tokio::io::split(ours);
        let bank = ServerName::new("bank");
        let (conversation, _) = Conversation::start(&bank, input, output, std::future::pending());
        let link = Link::over(Arc::new(conversation));
        let note = || link.notify(Message::notification("notifications/x", None));
        let second = Duration::from_secs(1);
        while tokio::time::timeout(second, note()).await.is_ok() {}
        let asked = Message::request(1, "elicitation/create", None);
        let words = "not now";
        let code = INTERNAL_ERROR;
        let refused = refuse(&link, &asked, Unheard { code, words });
        let refused = tokio::time::timeout(TELL_TIMEOUT * 2, refused).await;
        assert!(refused.is_ok(), "it waits for ever");
    }
}
