//! What a server is told on a link without an answer: notifications, and responses to what it asks.

use super::{Carrier, Link};
use crate::mcp::message::Message;
use crate::model::reply::Fault;
use std::time::Duration;

/// How long a server may take over one message that it does not answer. The agents' doors and the
/// opening of links wait for it, so that a server that never reads holds up nothing for longer.
const HAND_TIMEOUT: Duration = Duration::from_secs(30);

impl Link {
    /// Sends a notification, or the response to a request of the server.
    pub async fn notify(&self, message: Message) -> Result<(), Fault> {
        self.hand(message).await.map(drop)
    }

    /// The same; false where the server, or what stands before it, says by its status that it has not
    /// taken the message: that it knows no such session, or anything else.
    ///
    /// # Errors
    ///
    /// When it could not be sent, or the server has not taken it within [`HAND_TIMEOUT`].
    pub(crate) async fn hand(&self, message: Message) -> Result<bool, Fault> {
        // Rare beside calls, whose futures hold this one.
        let handed = Box::pin(tokio::time::timeout(HAND_TIMEOUT, self.handed(message)));
        handed.await.unwrap_or_else(|_| {
            Err(Fault::after_sending(format!(
                "the tool server did not take a message within {HAND_TIMEOUT:?}"
            )))
        })
    }

    async fn handed(&self, message: Message) -> Result<bool, Fault> {
        match &self.carrier {
            Carrier::Http { endpoint, session } => {
                let wire = self.wire(session.as_ref());
                let response = endpoint.post(&message, &wire).await?;
                Ok(response.status().is_success())
            }
            Carrier::Child { conversation, .. } => {
                conversation.notify(message).await.map(|()| true)
            }
        }
    }
}
