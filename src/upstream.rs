//! Floor 1: tool servers. One conversation with a server is a link; one request on it is an
//! exchange.

pub(crate) mod backoff;
pub(crate) mod caller_links;
pub(crate) mod catalog;
pub mod child;
pub mod credentials;
pub(crate) mod departure;
pub(crate) mod egress;
pub(crate) mod fetching;
pub(crate) mod hook;
pub mod http;
pub(crate) mod keeper;
pub(crate) mod key_sets;
pub mod leftovers;
pub(crate) mod legacy_tasks;
pub(crate) mod lineage;
pub(crate) mod lines;
pub(crate) mod link;
pub mod links;
pub(crate) mod log_levels;
pub(crate) mod mail;
pub(crate) mod own_catalogs;
pub(crate) mod owners;
pub(crate) mod parked_tasks;
pub(crate) mod parking;
mod probe;
pub(crate) mod pump;
pub(crate) mod questions;
pub(crate) mod reachable;
pub(crate) mod server;
mod server_eras;
pub mod server_settings;
pub mod servers;
pub(crate) mod shared_children;
mod standalone;
pub mod stdio;

use crate::mcp::message::Message;
use crate::mcp::sse::SseComment;
use crate::model::reply::Fault;
use tokio::sync::mpsc;

/// Messages that wait to be read on one exchange or one link (threat-model §8).
pub const INBOX_MESSAGES_MAX: usize = 64;

/// What arrives on an exchange before and with its answer, or outside any.
#[derive(Debug)]
pub enum Inbound {
    /// A comment on the stream: the server is alive, and may say more.
    Comment(SseComment),
    /// A legacy server closed the stream and wants to be asked again after this many milliseconds
    /// (protocol §3.1).
    Interrupted(u64),
    /// A notification or request that belongs to the exchange, or its answer, which ends it.
    Message(Message),
}

/// What a server says outside any request: messages and comments. At most [`INBOX_MESSAGES_MAX`] of them wait.
pub type UnsolicitedReceiver = mpsc::Receiver<Inbound>;

/// Where an exchange's messages come from when they don't come from a response body.
pub type Inbox = mpsc::Receiver<Result<Inbound, Fault>>;
