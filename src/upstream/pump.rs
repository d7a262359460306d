//! Carries what arrives on an exchange to the agent, up to the answer.

use super::Inbound;
use super::link::{Exchange, Link};
use super::links::Links;
use crate::mcp::json::Text;
use crate::mcp::message::{Kind, Message};
use crate::model::reply::Fault;
use crate::outlet::{Outgoing, Outlet};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a server may take to answer a request that the agent has cancelled.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The agent's side of an exchange.
pub struct Passage<'a> {
    /// Where the agent reads.
    pub outlet: &'a Outlet,
    /// What the agent reaches; on the legacy wire also who remembers the servers' own requests.
    pub links: &'a Links,
    /// Does the exchange end when the agent goes away?
    pub stop_when_gone: bool,
    /// Ends the exchange when the agent cancels the request.
    pub cancelled: Option<&'a CancellationToken>,
    /// The id that notifications of a subscription carry towards the agent.
    pub subscription: Option<&'a Text>,
}

/// How the passage ended.
#[derive(Debug)]
pub enum Passed {
    /// The server answered.
    Answer(Message),
    /// The agent went away, and the exchange was to end then.
    Gone,
}

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

impl Passage<'_> {
    /// Carries everything; returns the answer under the server's id.
    pub async fn carry(&self, link: &Arc<Link>, exchange: &mut Exchange) -> Result<Passed, Fault> {
        let passage = self.until_cancelled(link, exchange);
        tokio::pin!(passage);
        tokio::select! {
            biased;
            passed = &mut passage => return passed,
            () = cancelled(self.cancelled), if self.stop_when_gone => {}
        }
        // The server has been told; what it still answers is the answer.
        tokio::time::timeout(LAST_WORDS, passage).await.unwrap_or(Ok(Passed::Gone))
    }

    async fn until_cancelled(&self, link: &Arc<Link>, exchange: &mut Exchange) -> Result<Passed, Fault> {
        loop {
            let inbound = if self.stop_when_gone {
                tokio::select! {
                    biased;
                    inbound = exchange.next() => inbound?,
                    () = self.outlet.closed() => return Ok(Passed::Gone),
                }
            } else {
                exchange.next().await?
            };
            let outgoing = match inbound {
                None => return Err(Fault::after_sending("the tool server closed the exchange without an answer")),
                Some(Inbound::KeepAlive) => Outgoing::KeepAlive,
                Some(Inbound::Interrupted(retry_ms)) => Outgoing::Interrupted(retry_ms),
                Some(Inbound::Message(message)) => match message.kind {
                    Kind::Response => return Ok(Passed::Answer(self.relabel(message))),
                    Kind::Notification => Outgoing::Message(self.relabel(message)),
                    Kind::Request => {
                        match self.links.legacy_questions().and_then(|questions| questions.ask(link, message)) {
                            Some(message) => Outgoing::Message(message),
                            None => continue,
                        }
                    }
                },
            };
            let pause = match outgoing {
                Outgoing::Interrupted(retry_ms) => Some(Duration::from_millis(retry_ms)),
                Outgoing::KeepAlive | Outgoing::Message(_) | Outgoing::Last(_) => None,
            };
            if self.cancelled.is_some_and(CancellationToken::is_cancelled) {
                continue;
            }
            if self.outlet.send(outgoing).await.is_err() && self.stop_when_gone {
                return Ok(Passed::Gone);
            }
            if let Some(pause) = pause {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.links.returned.notified() => {}
                }
            }
        }
    }

    fn relabel(&self, mut message: Message) -> Message {
        let Some(ours) = self.subscription else { return message };
        let Some(mut params) = message.body.as_ref().and_then(Text::object) else { return message };
        let Some(mut meta) = params.get("_meta").and_then(Text::object) else { return message };
        if meta.get(SUBSCRIPTION).is_some() {
            meta.set(SUBSCRIPTION, ours.clone());
            params.set("_meta", meta.text());
            message.body = Some(params.text());
        }
        message
    }
}

async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}
