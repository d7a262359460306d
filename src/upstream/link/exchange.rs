//! One request on a link: sent once, whatever carries it, and listened to until its answer.

use super::Link;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::reply::Fault;
use crate::telemetry::tasks;
use crate::upstream::departure::Departure;
use crate::upstream::http::HttpExchange;
use crate::upstream::stdio::{Conversation, Ready};
use crate::upstream::{Inbound, Inbox};
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// What was read of an exchange and not asked for yet.
const ASIDE_QUEUED: usize = 16;

/// One request on a link, until its answer. Dropping it stops listening.
pub struct UpstreamExchange {
    /// Our id of the request.
    pub id: Text,
    pub(super) source: ExchangeSource,
    pub(super) kept: Option<Arc<()>>,
    pub(super) tolerance: Tolerance,
}

/// What is let pass of what the strict reader refuses in a message of a tool server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tolerance {
    /// Nothing: what an answer says is read here.
    #[default]
    None,
    /// An answer: its reader judges what of it may be handed on.
    Answer,
    /// Everything: nobody here decides by what it says.
    Everything,
}

pub(super) enum ExchangeSource {
    Http(Box<HttpExchange>),
    /// Over HTTP too, read by a task of its own.
    Aside {
        inbox: mpsc::Receiver<Result<Option<Inbound>, Fault>>,
        /// Ends with the exchange.
        reader: Option<AbortOnDropHandle<()>>,
    },
    Lines {
        inbox: Inbox,
        ready: Option<Ready>,
        conversation: Arc<Conversation>,
        id: u64,
        open: bool,
    },
}

impl UpstreamExchange {
    /// From now on what arrives is read by a task: waiting for it may be given up, and begun again.
    /// Only for one that was sent.
    pub(crate) fn read_aside(&mut self) {
        if !matches!(self.source, ExchangeSource::Http(_)) {
            return;
        }
        let (arrives, inbox) = mpsc::channel(ASIDE_QUEUED);
        let source = std::mem::replace(
            &mut self.source,
            ExchangeSource::Aside {
                inbox,
                reader: None,
            },
        );
        let (ExchangeSource::Http(mut exchange), ExchangeSource::Aside { reader, .. }) =
            (source, &mut self.source)
        else {
            return;
        };
        *reader = Some(AbortOnDropHandle::new(tasks::spawn(
            "exchange",
            async move {
                loop {
                    let next = exchange.next().await;
                    let is_last = !matches!(next, Ok(Some(_)));
                    let pause = match &next {
                        Ok(Some(Inbound::Interrupted(retry_ms))) => *retry_ms,
                        Ok(_) | Err(_) => 0,
                    };
                    if arrives.send(next).await.is_err() || is_last {
                        return;
                    }
                    // As long as the server wants its stream to be left alone.
                    if pause > 0 {
                        tokio::time::sleep(Duration::from_millis(pause)).await;
                    }
                }
            },
        )));
    }

    /// One that is read by a task, which the test is.
    #[cfg(test)]
    pub(crate) fn reading(inbox: mpsc::Receiver<Result<Option<Inbound>, Fault>>) -> Self {
        Self {
            id: crate::mcp::message::number(1),
            source: ExchangeSource::Aside {
                inbox,
                reader: None,
            },
            kept: None,
            tolerance: Tolerance::None,
        }
    }

    /// What the server has asked here and nobody has read; nothing more is listened to.
    pub(crate) fn unread(&mut self) -> Vec<Message> {
        let mut unread = Vec::new();
        if let ExchangeSource::Aside { inbox, .. } = &mut self.source {
            inbox.close();
            while let Ok(said) = inbox.try_recv() {
                match said {
                    Ok(Some(Inbound::Message(said))) if said.kind == MessageKind::Request => {
                        unread.push(said);
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        unread
    }

    /// Sends the request, if that has not been done. Over HTTP this waits until the server begins
    /// to answer, so the exchange's id must be where it is needed before.
    pub async fn begin(&mut self) -> Result<(), Fault> {
        match &mut self.source {
            ExchangeSource::Http(exchange) => exchange.begin().await,
            ExchangeSource::Aside { .. } => Ok(()),
            ExchangeSource::Lines { ready, .. } => {
                if let Some(ready) = ready.take() {
                    ready.queue();
                }
                Ok(())
            }
        }
    }

    /// From now on it leaves only if `departure` lets it.
    pub fn departs_by(&mut self, departure: Departure) {
        match &mut self.source {
            ExchangeSource::Http(exchange) => exchange.departs_by(departure),
            ExchangeSource::Lines {
                ready: Some(ready), ..
            } => ready.departs_by(departure),
            ExchangeSource::Lines { ready: None, .. } | ExchangeSource::Aside { .. } => {}
        }
    }

    /// From now on so much is let pass.
    pub(crate) fn tolerates(&mut self, tolerance: Tolerance) {
        self.tolerance = tolerance;
    }

    /// As long as it lasts, no session of `link` is ended at the server.
    pub fn keeps(&mut self, link: &Link) {
        self.kept = Some(link.kept.clone());
    }

    /// Whether the server has begun to answer it, as far as that can be known before the answer is
    /// read.
    pub fn is_heard(&self) -> bool {
        matches!(&self.source, ExchangeSource::Http(exchange) if exchange.is_heard())
    }

    pub(super) fn is_bad_request(&self) -> bool {
        matches!(&self.source, ExchangeSource::Http(exchange) if exchange.has_status(StatusCode::BAD_REQUEST))
    }

    /// Whether the server says that the session is no more, of which this is a request.
    pub fn session_is_gone(&self) -> bool {
        matches!(&self.source, ExchangeSource::Http(exchange) if exchange.session_is_gone())
    }

    /// Whether the server takes the token no more that came with the request, and there may be another.
    pub(crate) fn token_is_old(&self) -> bool {
        matches!(&self.source, ExchangeSource::Http(exchange) if exchange.token_is_old())
    }

    /// The fault of an answer that is none to this request.
    pub fn unanswered(&self, what: &str) -> Fault {
        let fault = Fault::after_sending(what);
        match &self.source {
            ExchangeSource::Http(exchange) => exchange.under_status(fault),
            ExchangeSource::Lines { .. } | ExchangeSource::Aside { .. } => fault,
        }
    }

    /// Waits for the answer, the sending included; whatever else arrives is passed over.
    pub async fn answer(mut self) -> Result<Message, Fault> {
        self.begin().await?;
        loop {
            match self.next().await? {
                Some(Inbound::Message(message)) if message.kind == MessageKind::Response => {
                    return Ok(message);
                }
                Some(Inbound::Interrupted(retry_ms)) => {
                    tokio::time::sleep(Duration::from_millis(retry_ms)).await;
                }
                Some(_) => {}
                None => {
                    return Err(Fault::after_sending("the tool server did not answer"));
                }
            }
        }
    }

    /// What arrives next, the sending included; none after the answer.
    pub async fn next(&mut self) -> Result<Option<Inbound>, Fault> {
        loop {
            let inbound = self.arrives().await?;
            let odd = match &inbound {
                Some(Inbound::Message(message)) => message.odd.as_ref().zip(Some(message)),
                Some(Inbound::Comment(_) | Inbound::Interrupted(_)) | None => None,
            };
            match odd {
                None => return Ok(inbound),
                // Of an error that names no request nobody knows whose answer it is.
                Some((odd, message)) if message.kind == MessageKind::Response => {
                    return match (self.tolerance, message.id.is_some()) {
                        (_, false) => Err(Fault::after_sending(odd.what)),
                        (Tolerance::None, true) => Err(Fault::unreadable(odd.what)),
                        (Tolerance::Answer | Tolerance::Everything, true) => Ok(inbound),
                    };
                }
                // The tool server waits for the answer to a request.
                Some((_, message))
                    if self.tolerance == Tolerance::Everything
                        || message.kind == MessageKind::Request =>
                {
                    return Ok(inbound);
                }
                Some(_) => {}
            }
        }
    }

    async fn arrives(&mut self) -> Result<Option<Inbound>, Fault> {
        match &mut self.source {
            ExchangeSource::Http(exchange) => exchange.next().await,
            ExchangeSource::Aside { inbox, .. } => inbox.recv().await.unwrap_or(Ok(None)),
            ExchangeSource::Lines {
                inbox, open, ready, ..
            } => {
                if let Some(ready) = ready.take() {
                    ready.queue();
                }
                match inbox.recv().await {
                    Some(Ok(inbound)) => {
                        *open = !matches!(&inbound, Inbound::Message(message) if message.kind == MessageKind::Response);
                        Ok(Some(inbound))
                    }
                    Some(Err(fault)) => Err(fault),
                    None => Ok(None),
                }
            }
        }
    }
}

impl Drop for UpstreamExchange {
    fn drop(&mut self) {
        if let ExchangeSource::Lines {
            conversation,
            id,
            open: true,
            ..
        } = &self.source
        {
            let _ = conversation.forget(*id);
        }
    }
}
