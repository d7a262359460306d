//! What a policy that comes in force leaves in the metrics and in the journal: lists that name only
//! tools of disabled servers (001-16, 001-17), how many tools operators have taken away, and which
//! definitions are no longer as they were approved.

use crate::gate::Gate;
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::pinned::Withheld;
use crate::guards::Mode;
use crate::guards::allowlist::written::Unavailable;
use crate::policy::Policy;
use crate::store::disabling::note;
use crate::store::state::event::{Note, Noted};
use crate::upstream::servers::Servers;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Drifts that one process records: a server that is another every second must not fill the disk.
/// The log tells of all.
const MOST_DRIFTS: usize = 1_000;

impl Gate {
    /// Records every drift when it is first seen, after each change of the tools or the policy
    /// until `stop`.
    pub async fn note_drifts(
        self: Arc<Self>,
        servers: Arc<Servers>,
        mut changed: watch::Receiver<u64>,
        stop: CancellationToken,
    ) {
        let mut known = HashSet::new();
        loop {
            let policy = self.policy.current();
            let withheld = match policy.mode {
                Mode::Enforce => pinned::withheld(&policy, &self.tools.current(), &servers),
                Mode::Observe => Vec::new(),
            };
            for Withheld {
                tool,
                digest,
                words: why,
                ..
            } in withheld.into_iter().filter(|one| one.drifted)
            {
                if known.len() < MOST_DRIFTS && known.insert((tool.clone(), digest.clone())) {
                    let noted = Noted {
                        at: self.effects.store.now(),
                        note: Note::Drifted { tool, digest, why },
                    };
                    if let Err(error) = note(&self.journal, noted) {
                        tracing::error!(%error, "that a definition has changed cannot be recorded");
                    }
                }
            }
            tokio::select! {
                still = changed.changed() => if still.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }

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
        let away = policy.allowlist.disabled();
        let contracts = policy.allowlist.contracts();
        let frozen = contracts.filter(|tool| away.is_frozen(tool)).count();
        self.metrics.disabled(away.tools.len() + frozen);
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
                    let noted = Noted {
                        at: self.effects.store.now(),
                        note: Note::Stripped {
                            layer: label,
                            policy,
                        },
                    };
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
