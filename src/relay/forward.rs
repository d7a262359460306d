//! One request to one server, and its answer back.

use super::{Failed, Relay, Request};
use crate::mcp::answer::INVALID_REQUEST;
use crate::mcp::message::Message;
use crate::model::ids::ServerName;
use crate::model::reply::{Fault, Sent};
use crate::upstream::pump::{Passage, Passed};
use std::time::Duration;

/// Requests that wait for something to happen have no deadline of ours.
const PATIENT: &[&str] = &["tasks/result", "subscriptions/listen"];
const FOREVER: Duration = Duration::from_hours(365 * 24);

impl Relay {
    /// Sends `message` to `server` and carries everything back; the answer is returned under the server's id.
    pub(super) async fn forward(
        &self,
        request: &Request,
        server: &ServerName,
        message: Message,
    ) -> Result<Message, Failed> {
        let waiting = request.message.id.as_ref().map(|id| request.links.wait(id));
        let Some(waiting) = waiting.flatten() else {
            let words = "another request of this id waits, or too many requests do".to_owned();
            return Err(Failed::Answer(INVALID_REQUEST, words));
        };
        let patient = PATIENT.contains(&message.method.as_str());
        let timeout = self.servers.get(server.as_str()).map_or(FOREVER, |server| server.settings.timeout);
        let passage = Passage {
            outlet: &request.outlet,
            links: &request.links,
            stop_when_gone: true,
            cancelled: Some(&waiting.cancelled),
            subscription: None,
        };
        let mut sent = None;
        let exchange = async {
            let (link, mut exchange) = request.links.request(server, message, Vec::new()).await?;
            sent = Some((link.clone(), exchange.id.clone()));
            waiting.on(&link, &exchange.id);
            passage.carry(&link, &mut exchange).await
        };
        let ended = match tokio::time::timeout(if patient { FOREVER } else { timeout }, exchange).await {
            Ok(ended) => ended,
            Err(_) => Err(Fault::after_sending(format!("no answer within {timeout:?}"))),
        };
        match ended {
            Ok(Passed::Answer(answer)) => Ok(answer),
            Ok(Passed::Gone) => {
                if let Some((link, id)) = sent.filter(|_| !waiting.cancelled.is_cancelled()) {
                    link.cancel(&id, "the agent went away").await;
                }
                Err(Failed::Gone)
            }
            Err(fault) => {
                if let (Sent::Nothing, Some(server)) = (fault.sent, self.servers.get(server.as_str())) {
                    server.suspect();
                }
                Err(fault.into())
            }
        }
    }
}
