//! A server as one request of an agent reaches it.

use super::CallerLink;
use super::pins::LinkPin;
use crate::mcp::revision::Era;
use crate::upstream::link::Link;
use std::sync::Arc;

/// A server as one agent reaches it.
#[derive(Clone)]
pub(crate) struct ReachedLink {
    /// The conversation.
    pub link: Arc<Link>,
    /// Where it is the agent's own, though it has no session; kept as long as it is used.
    pub own: Option<Arc<CallerLink>>,
    /// Kept for what waits on it for its agent.
    pub pin: Option<LinkPin>,
    /// By which number its requests are told from those of others on it; 0 where it is not shared, or
    /// each request says itself whose it is.
    pub user: u64,
}

impl ReachedLink {
    /// One that is nobody's own.
    pub(crate) fn shared(link: Arc<Link>) -> Self {
        Self::seated(link, 0)
    }

    /// One on which this number stands for an agent's session.
    pub(crate) fn seated(link: Arc<Link>, user: u64) -> Self {
        let (own, pin) = (None, None);
        Self {
            link,
            own,
            pin,
            user,
        }
    }

    /// An agent's own.
    pub(crate) fn owned(own: Arc<CallerLink>) -> Self {
        Self {
            link: own.link.clone(),
            user: own.user_number(),
            own: Some(own),
            pin: None,
        }
    }

    /// The agent's own link to a legacy server.
    pub(crate) fn legacy(&self) -> Option<&Arc<CallerLink>> {
        let own = self.own.as_ref();
        own.filter(|_| self.link.revision.era() == Era::Legacy)
    }

    /// Whether nothing more comes of it: it has ended, or its agent has got another since the server
    /// no longer knows its session.
    pub(crate) fn is_over(&self) -> bool {
        let is_given_up = |own: &Arc<CallerLink>| own.given_up.is_cancelled();
        self.link.is_over() || self.own.as_ref().is_some_and(is_given_up)
    }
}
