//! Whether a modern server on stdio speaks `initialize`, too. Its process is modern from its first request on, so
//! that the answer takes a second process: that one is started when a legacy agent comes, and not before.

use super::{ServerState, Up, UpstreamServer};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::reply::{CredentialLack, Fault};
use crate::upstream::UnsolicitedReceiver;
use crate::upstream::link::Link;
use crate::upstream::probe::{self, LegacyOpening};
use crate::upstream::server_eras::ServerEras;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl UpstreamServer {
    /// Opens a legacy session of its own for one agent session, in the name of `caller` where the
    /// server is shown who asks.
    pub(in crate::upstream) async fn open(
        &self,
        params: &Text,
        caller: &Caller,
    ) -> Result<(Arc<Link>, Message, UnsolicitedReceiver), Fault> {
        let opening = LegacyOpening {
            params,
            over_events: self.known().is_some_and(|known| known.over_events),
            name: self.settings.name_of(caller)?.unwrap_or_default(),
        };
        let opening = probe::open_legacy(&self.settings, &self.surroundings, opening);
        let opened = tokio::time::timeout(self.settings.start_timeout, opening).await;
        opened.map_err(|_| {
            Fault::after_sending("the tool server did not answer `initialize` in time")
        })?
    }

    /// The modern link, for requests of `caller`.
    pub(in crate::upstream) fn shared_for(&self, caller: &Caller) -> Result<Arc<Link>, Fault> {
        let shared = self.shared()?;
        let name = self.settings.name_of(caller)?;
        let made_of = caller.proof().map(|(_, proof)| proof.digest);
        let named = name.and_then(|name| shared.named(name, made_of));
        Ok(named.map_or(shared, Arc::new))
    }

    /// Whether `link`, a session, may carry requests of `caller`: it was begun in the same name.
    pub(in crate::upstream) fn may_carry(&self, link: &Link, caller: &Caller) -> Result<(), Fault> {
        let name = self.settings.name_of(caller)?;
        if name.is_none_or(|name| *link.name() == name) {
            return Ok(());
        }
        Err(Fault {
            lack: Some(CredentialLack::Session),
            ..Fault::unsent(
                "the session at the tool server was begun in the name of another caller",
            )
        })
    }

    /// Opens a modern link of its own for one agent.
    pub(in crate::upstream) async fn open_modern(
        &self,
    ) -> Result<(Arc<Link>, Text, UnsolicitedReceiver), Fault> {
        probe::open_modern(&self.settings, &self.surroundings).await
    }

    /// A legacy agent has come, or both eras are to be told: from now on the server is asked for both before it
    /// counts as up.
    pub fn expects_legacy(&self) {
        self.is_legacy_expected.store(true, Ordering::SeqCst);
    }

    /// Whether a legacy agent has come.
    pub(super) fn is_legacy_expected(&self) -> bool {
        self.is_legacy_expected.load(Ordering::SeqCst)
    }

    /// Whether it may speak `initialize`, and was not asked yet.
    pub fn is_legacy_unasked(&self) -> bool {
        self.known().is_some_and(|known| known.is_legacy_unasked)
    }

    /// Asks it by `initialize`, if it is not known yet whether it speaks that; takes as long as a process may take
    /// to start. The process that answers is kept for the first agent whose words to it would be the same.
    pub async fn settle_legacy(&self) {
        self.expects_legacy();
        let _asking = self.asking.lock().await;
        if !self.is_legacy_unasked() {
            return;
        }
        match probe::legacy_too(&self.settings, &self.surroundings).await {
            Ok(Some((link, answer, unsolicited))) => {
                let (name, said) = (&self.settings.name, answer.body.clone());
                drop(self.children.first(name, &link, answer, unsolicited));
                self.learns(said);
            }
            Ok(None) => self.learns(None),
            Err(fault) => {
                tracing::warn!(server = %self.settings.name, %fault, "whether the tool server speaks `initialize` is asked again");
            }
        }
    }

    /// It is up, with what is known of its eras by now.
    pub(super) fn comes_up(&self, up: Up) {
        // Held until it is told, so that nothing is learned in between.
        let verdict = self.verdict.lock();
        let known = verdict.clone().unwrap_or_else(|| up.verdict.clone());
        let up = Up {
            verdict: known,
            ..up
        };
        self.state.send_replace(ServerState::Up(Arc::new(up)));
    }

    /// It has `said` this to `initialize`; none: it does not speak it.
    fn learns(&self, said: Option<Text>) {
        let mut verdict = self.verdict.lock();
        let Some(known) = verdict.as_ref() else {
            return;
        };
        let learned = Arc::new(ServerEras {
            discovered: known.discovered.clone(),
            initialized: said,
            over_events: known.over_events,
            is_legacy_unasked: false,
        });
        *verdict = Some(learned.clone());
        self.state.send_if_modified(|state| {
            if let ServerState::Up(up) = state {
                *up = Arc::new(Up {
                    verdict: learned,
                    shared: up.shared.clone(),
                    catalog: up.catalog.clone(),
                    base: up.base.clone(),
                });
            }
            // Agents would be told that its tools have changed, and they are the same.
            false
        });
    }
}
