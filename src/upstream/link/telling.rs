//! What a server is told on a link without an answer: notifications, and responses to what it asks.

use super::{Carrier, Link};
use crate::mcp::message::Message;
use crate::model::reply::Fault;

impl Link {
    /// Sends a notification, or the response to a request of the server.
    pub async fn notify(&self, message: Message) -> Result<(), Fault> {
        self.hand(message).await.map(drop)
    }

    /// The same; false where the server, or what stands before it, says by its status that it has not
    /// taken the message: that it knows no such session, or anything else.
    pub(crate) async fn hand(&self, message: Message) -> Result<bool, Fault> {
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
