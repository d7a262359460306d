//! What a policy that comes in force leaves in the metrics and in the journal: lists that name only tools of disabled servers
//! (001-16, 001-17), and how many tools operators have taken away.

use super::Gate;
use crate::guards::allowlist::written::Unavailable;
use crate::policy::Policy;
use crate::store::disabling::note;
use crate::store::state::event::{Note, Noted};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Gate {
    /// Notes the policy in force, and every later one until `stop`.
    pub async fn note_policies(self: Arc<Self>, stop: CancellationToken) {
        let mut changes = self.policy.changes();
        loop {
            let policy = changes.borrow_and_update().clone();
            self.note(&policy);
            tokio::select! {
                still = changes.changed() => if still.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }

    fn note(&self, policy: &Policy) {
        self.metrics.disabled(policy.allowlist.disabled().len());
        for layer in policy.allowlist.unavailable() {
            let (label, policy) = (layer.label().to_owned(), policy.version.clone());
            match layer.unavailable() {
                Some(Unavailable::Strip) => {
                    tracing::warn!(
                        layer = label,
                        policy,
                        "an allow list names only tools of disabled servers and is left out"
                    );
                    self.metrics.unavailable_allowlist("stripped");
                    let noted = Noted { at: self.effects.store.now(), note: Note::Stripped { layer: label, policy } };
                    if let Err(error) = note(&self.journal, noted) {
                        tracing::error!(%error, "that an allow list is left out cannot be recorded");
                    }
                }
                Some(Unavailable::Keep) => {
                    tracing::warn!(
                        layer = label,
                        policy,
                        "an allow list names only tools of disabled servers: nothing passes it"
                    );
                    self.metrics.unavailable_allowlist("kept");
                }
                None => {}
            }
        }
    }
}
