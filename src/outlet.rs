//! Floor 1: the way back to the agent for one request.

use crate::mcp::message::Message;
use crate::mcp::sse::SseComment;
use tokio::sync::mpsc;

/// What an agent reads for one request. Messages are boxed: a queue makes room for dozens at once.
#[derive(Debug)]
pub enum Outgoing {
    /// Keeps the stream open, and may say something that is no message.
    Comment(SseComment),
    /// The stream pauses; it can be taken up again after this many milliseconds. Legacy HTTP only.
    Interrupted(u64),
    /// A notification or a server's request.
    Message(Box<Message>),
    /// The response; nothing follows.
    Last(Box<Message>),
}

/// Where it is written. A closed outlet means that the agent has gone.
pub type Outlet = mpsc::Sender<Outgoing>;
