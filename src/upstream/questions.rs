//! Requests that legacy tool servers send to an agent: each travels under an id of ours, and only the link that asked
//! gets the answer (SECURITY §3A A12).

use super::link::Link;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, number};
use crate::mcp::methods::is_server_request;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Open requests of one session at most.
const OPEN: usize = 256;

/// The open requests of one session.
#[derive(Default)]
pub struct Questions {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    by_id: HashMap<u64, (Weak<Link>, Text)>,
}

impl Questions {
    /// Notes a server's request and gives it an id of ours; none if it is not one that servers may send.
    pub fn ask(&self, link: &Arc<Link>, message: Message) -> Option<Message> {
        let original = message.id.clone()?;
        let mut open = self.open.lock();
        if !is_server_request(&message.method) || open.by_id.len() >= OPEN {
            tracing::warn!(method = %message.method.escape_debug(), "a tool server's request was refused");
            return None;
        }
        open.last += 1;
        let id = open.last;
        open.by_id.insert(id, (Arc::downgrade(link), original));
        Some(message.with_id(number(id)))
    }

    /// Takes the agent's response and says where it goes.
    pub fn answer(&self, response: Message) -> Option<(Arc<Link>, Message)> {
        let id: u64 = std::str::from_utf8(response.id.as_ref()?.as_bytes()).ok()?.parse().ok()?;
        let (link, original) = self.open.lock().by_id.remove(&id)?;
        Some((link.upgrade()?, response.with_id(original)))
    }
}
