//! In whose name a link is: a session goes on in the name in which it was begun; requests of a modern
//! server stand each for itself, and may be in another name each.

use super::{Carrier, Link};
use crate::upstream::credentials::classes::CredentialName;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

impl Carrier {
    /// In whose name requests on it are; toolgate's own where nothing is shown.
    pub(super) fn name(&self) -> CredentialName {
        match self {
            Self::Http { endpoint, .. } => endpoint.name().clone(),
            Self::Child { .. } => CredentialName::default(),
        }
    }
}

impl Link {
    /// In whose name it was begun.
    pub(in crate::upstream) fn name(&self) -> &CredentialName {
        &self.name
    }

    /// The same, whose carrier does not say that it was begun in that name.
    pub(in crate::upstream) fn begun_by(mut self, name: CredentialName) -> Self {
        self.name = name;
        self
    }

    /// The same conversation for requests in another name, whose caller proved itself by what has that
    /// digest; none where it has no address. It ends with this one, and its ids are none of this one's.
    pub(in crate::upstream) fn named(
        &self,
        name: CredentialName,
        made_of: Option<[u8; 32]>,
    ) -> Option<Self> {
        let Carrier::Http { endpoint, session } = &self.carrier else {
            return None;
        };
        let carrier = Carrier::Http {
            endpoint: Box::new(endpoint.named(name.clone(), made_of)),
            session: session.clone(),
        };
        Some(Self {
            carrier,
            name,
            revision: self.revision,
            next: self.next.clone(),
            heard: AtomicU64::new(self.heard.load(Ordering::Relaxed)),
            ended: self.ended.child_token(),
            kept: Arc::clone(&self.kept),
            doubted: AtomicBool::new(false),
        })
    }
}
