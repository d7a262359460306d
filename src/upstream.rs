//! Floor 1: tool servers. One conversation with a server is a link; one request on it is an exchange.

mod backoff;
pub mod catalog;
pub mod child;
pub mod http;
pub mod leftovers;
pub mod lineage;
pub mod lines;
pub mod link;
pub mod links;
pub mod owners;
mod probe;
pub mod pump;
pub mod questions;
pub mod server;
pub mod servers;
mod standalone;
pub mod stdio;

use crate::mcp::message::Message;
use crate::model::reply::Fault;
use tokio::sync::mpsc;

/// Messages that wait to be read on one exchange or one link (SECURITY §8).
pub const QUEUE: usize = 64;

/// What arrives on an exchange before and with its answer.
#[derive(Debug)]
pub enum Inbound {
    /// A comment on the stream: the server is alive.
    KeepAlive,
    /// A legacy server closed the stream and wants to be asked again after this many milliseconds (PROTOCOL §3.1).
    Interrupted(u64),
    /// A notification or request that belongs to the exchange, or its answer, which ends it.
    Message(Message),
}

/// Where an exchange's messages come from when they don't come from a response body.
pub type Inbox = mpsc::Receiver<Result<Inbound, Fault>>;
