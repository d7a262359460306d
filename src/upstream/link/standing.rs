//! How the conversation of a link stands: who is waited for, and why it ended.

use super::{CLOSE_TIMEOUT, Carrier, Link};
use std::sync::Arc;

impl Link {
    /// Whose requests the server may be at, if they are all of one of those who share the link; only a
    /// child is shared so.
    pub(crate) fn only_user(&self) -> Option<u64> {
        match &self.carrier {
            Carrier::Http { .. } => None,
            Carrier::Child { conversation, .. } => conversation.only_user(),
        }
    }

    /// Whether a child has something to do, as far as is known.
    pub(crate) fn is_busy(&self) -> bool {
        let is_asked = match &self.carrier {
            Carrier::Http { .. } => false,
            Carrier::Child { conversation, .. } => conversation.is_busy(),
        };
        is_asked || Arc::strong_count(&self.kept) > 1
    }

    /// Why a child has ended, once it has; of any other link, that it has.
    pub(crate) async fn end_reason(&self) -> String {
        self.ended().await;
        let why = match &self.carrier {
            Carrier::Child { conversation, .. } if conversation.is_over() => {
                let why = tokio::time::timeout(CLOSE_TIMEOUT, conversation.closed()).await;
                why.ok().filter(|why| !why.is_empty())
            }
            Carrier::Child { .. } | Carrier::Http { .. } => None,
        };
        why.unwrap_or_else(|| "the conversation ended".to_owned())
    }
}
