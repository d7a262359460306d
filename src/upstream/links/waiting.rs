//! Requests of an agent that wait for their answers: where each waits, and how the agent cancels it.

use super::Links;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::outlet::receipt::Receipt;
use crate::upstream::link::Link;
use futures_util::future::Either;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tokio_util::sync::CancellationToken;

/// Requests of one agent's conversation that wait for an answer (threat-model §8).
const MAX_REQUESTS_IN_FLIGHT: usize = 256;

/// Answered requests whose receipts a cancellation can still reach. One that comes later than so many
/// others crosses no answer.
const MAX_RECEIPTS: usize = MAX_REQUESTS_IN_FLIGHT + 64;

/// Answers that a cancellation may cross on its way.
#[derive(Default)]
pub(super) struct CrossableAnswers(Mutex<VecDeque<(Vec<u8>, Weak<Receipt>)>>);

impl CrossableAnswers {
    fn keep(&self, id: &[u8], receipt: &Arc<Receipt>) {
        let mut kept = self.0.lock();
        if kept.len() >= MAX_RECEIPTS {
            kept.pop_front();
        }
        kept.push_back((id.to_vec(), Arc::downgrade(receipt)));
    }

    /// The agent does not want the answer to request `id`.
    fn void(&self, id: &[u8]) {
        let kept = self.0.lock();
        let meant = kept.iter().filter(|(of, _)| of == id);
        for receipt in meant.filter_map(|(_, receipt)| receipt.upgrade()) {
            receipt.void();
        }
    }
}

/// A request of the agent that waits.
pub(super) struct InFlight {
    link: Option<(Arc<Link>, Text)>,
    cancelled: CancellationToken,
}

/// A request that waits for its answer; dropping it says that it no longer does.
pub struct WaitingRequest {
    links: Arc<Links>,
    id: Vec<u8>,
    /// Whether the agent has cancelled the request.
    pub cancelled: AgentCancellation,
    /// The agent has its answer; read and set under the lock of those in flight.
    answered: AtomicBool,
}

/// Whether an agent has cancelled a request. No agent can cancel one that stands alone: nothing is
/// kept for it, and nothing waits.
pub struct AgentCancellation(Option<CancellationToken>);

impl AgentCancellation {
    /// Whether it has.
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    /// Ends when it has. No `async fn`: each call in flight keeps such a wait.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + '_ {
        match &self.0 {
            Some(token) => Either::Left(token.cancelled()),
            None => Either::Right(std::future::pending()),
        }
    }
}

/// Why a request of an agent cannot wait for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotWait {
    /// The agent used an id twice.
    #[error("another request of this id waits for its answer; use ids only once")]
    SameId,
    /// The agent sent more than it lets us answer.
    #[error(
        "{MAX_REQUESTS_IN_FLIGHT} requests wait for their answers already; send more once some are answered"
    )]
    TooMany,
}

impl Links {
    /// Notes that the agent's request waits.
    pub fn wait(self: &Arc<Self>, id: &Text) -> Result<WaitingRequest, CannotWait> {
        if self.alone {
            return Ok(WaitingRequest {
                links: self.clone(),
                id: Vec::new(),
                cancelled: AgentCancellation(None),
                answered: AtomicBool::new(false),
            });
        }
        let mut in_flight = self.in_flight.lock();
        if in_flight.contains_key(id.as_bytes()) {
            return Err(CannotWait::SameId);
        }
        if in_flight.len() >= MAX_REQUESTS_IN_FLIGHT {
            return Err(CannotWait::TooMany);
        }
        let cancelled = CancellationToken::new();
        in_flight.insert(
            id.as_bytes().to_vec(),
            InFlight {
                link: None,
                cancelled: cancelled.clone(),
            },
        );
        Ok(WaitingRequest {
            links: self.clone(),
            id: id.as_bytes().to_vec(),
            cancelled: AgentCancellation(Some(cancelled)),
            answered: AtomicBool::new(false),
        })
    }

    /// Hands the agent's cancellation to the server that works on the request, under the server's
    /// id of it.
    pub fn cancel(&self, note: &Message) {
        let Some(mut params) = note.body.as_ref().and_then(Text::object) else {
            return;
        };
        let Some(id) = params.get("requestId").cloned() else {
            return;
        };
        self.crossable.void(id.as_bytes());
        let found = {
            // From here on the agent may use the id again.
            let mut in_flight = self.in_flight.lock();
            let Some(waiting) = in_flight.remove(id.as_bytes()) else {
                return;
            };
            // Under the lock, so that a place of this id is either its own or known to be
            // cancelled.
            waiting.cancelled.cancel();
            waiting.link
        };
        if let Some((link, upstream_id)) = found {
            params.set("requestId", upstream_id);
            link.pass_cancellation(Message {
                body: Some(Object::text(&params)),
                ..note.clone()
            });
        }
    }
}

impl WaitingRequest {
    /// Says which server works on the request from now on, under which id. False: the agent has
    /// cancelled it already.
    #[must_use]
    pub fn on(&self, link: &Arc<Link>, id: &Text) -> bool {
        if self.links.alone {
            return true;
        }
        let mut in_flight = self.links.in_flight.lock();
        if self.cancelled.is_cancelled() {
            return false;
        }
        if let (Some(waiting), false) = (in_flight.get_mut(&self.id), self.is_answered()) {
            waiting.link = Some((link.clone(), id.clone()));
        }
        true
    }

    /// A cancellation of the request voids `receipt`, also once it is answered.
    pub fn keeps(&self, receipt: &Arc<Receipt>) {
        if self.links.alone {
            return;
        }
        self.links.crossable.keep(&self.id, receipt);
        if self.cancelled.is_cancelled() {
            receipt.void();
        }
    }

    /// Whether the agent has its answer.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// The agent has its answer: from here on it may use the id again, also while the server is
    /// still listened for.
    pub fn answered(&self) {
        if self.links.alone {
            self.answered.store(true, Ordering::Relaxed);
            return;
        }
        let mut in_flight = self.links.in_flight.lock();
        if !self.cancelled.is_cancelled() && !self.answered.swap(true, Ordering::Relaxed) {
            in_flight.remove(&self.id);
        }
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.answered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::http::connections;
    use crate::upstream::server_settings::Surroundings;
    use crate::upstream::servers::Servers;
    use std::path::PathBuf;

    /// threat-model §8: an agent's open requests have a bound, and it is told what it ran into.
    #[test]
    fn an_agent_is_told_why_a_request_cannot_wait() {
        let around = Surroundings {
            connections: connections().unwrap(),
            guard: PathBuf::new(),
            leftovers: Arc::default(),
        };
        let links = Arc::new(Links::shared(Arc::new(Servers::new(Vec::new(), &around))));
        let id = |number: usize| Text::string(&number.to_string());
        let mut waiting: Vec<_> = (0..MAX_REQUESTS_IN_FLIGHT)
            .map(|number| links.wait(&id(number)).unwrap())
            .collect();
        let cannot = |number| links.wait(&id(number)).map(drop);
        assert_eq!(cannot(7), Err(CannotWait::SameId));
        assert_eq!(cannot(MAX_REQUESTS_IN_FLIGHT), Err(CannotWait::TooMany));
        let [one, other] = [&waiting[0], &waiting[1]].map(|request| &request.cancelled);
        let params = Text::members_of(&[("requestId", id(0))]);
        let note = Message::notification("notifications/cancelled", Some(params));
        let alone = Arc::new(links.alone());
        let stands_alone = alone.wait(&id(0)).unwrap();
        links.cancel(&note);
        alone.cancel(&note);
        assert!(one.is_cancelled() && !other.is_cancelled());
        assert!(
            !stands_alone.cancelled.is_cancelled(),
            "no agent can name it"
        );
        assert_eq!(cannot(0), Ok(()), "its id is free again");
        waiting.truncate(7);
        assert_eq!(
            (cannot(7), cannot(MAX_REQUESTS_IN_FLIGHT)),
            (Ok(()), Ok(()))
        );
    }
}
