//! How agents come to a process of a legacy server: to one that runs, where they may share it, else to
//! a new one.

use super::{ServerState, UpstreamServer};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::reply::Fault;
use crate::upstream::shared_children::{ChildSeat, OpenedChild, Sitter};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether processes are idle, at most and at least.
const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(5);
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(20);

impl UpstreamServer {
    /// A seat in a process for an agent that is introduced with `told`, and what the process answered
    /// to `initialize`; no seat where that is an error. `is_session`: it is for a legacy agent's
    /// session.
    ///
    /// # Errors
    ///
    /// When none can be started: the server has as many as it may, or it does not answer.
    pub(in crate::upstream) async fn join(
        &self,
        caller: &Caller,
        told: &Text,
        is_session: bool,
        sitter: &Sitter,
    ) -> Result<(Option<ChildSeat>, Message), Fault> {
        let (children, settings) = (&self.children, &self.settings);
        let key = children.key(settings.sharing, caller, told, is_session);
        let opening = children.opening(&key);
        let _opening = opening.lock().await;
        let seat = || {
            let seat = children.seat(&key, settings.max_children, sitter)?;
            let answer = seat.child().answer.clone();
            Some((Some(seat), answer))
        };
        if let Some(seated) = seat() {
            return Ok(seated);
        }
        self.wake(key.fits_first()).await?;
        if let Some(seated) = seat() {
            return Ok(seated);
        }
        let is_shared = key.is_shared();
        // Rare beside calls, whose futures hold this one.
        let opens = Box::pin(self.open_child(told, caller, is_shared));
        Box::pin(children.start(settings, key.clone(), sitter, opens)).await
    }

    async fn open_child(
        &self,
        told: &Text,
        caller: &Caller,
        introduces: bool,
    ) -> Result<OpenedChild, Fault> {
        let opened = self.open(told, caller).await?;
        if introduces && !opened.1.is_error {
            let note = Message::notification("notifications/initialized", None);
            opened.0.notify(note).await?;
        }
        Ok(opened)
    }

    /// Has toolgate start its own process again, if that rests: whatever agents do next, its tools are
    /// read anew. `waits`: until it runs, also for the first time.
    async fn wake(&self, waits: bool) -> Result<(), Fault> {
        let is_starting = matches!(*self.state.borrow(), ServerState::Starting);
        if !self.rests.load(Ordering::Relaxed) && !is_starting {
            return Ok(());
        }
        self.woken.notify_one();
        if !waits {
            return Ok(());
        }
        let mut state = self.state();
        let awake = state.wait_for(|state| match state {
            ServerState::Up(up) => !up.base.is_over(),
            ServerState::Down(_) => true,
            ServerState::Starting => false,
        });
        let awake = tokio::time::timeout(self.settings.start_timeout, awake).await;
        let is_up = matches!(awake, Ok(Ok(state)) if matches!(*state, ServerState::Up(_)));
        if is_up {
            return Ok(());
        }
        Err(Fault::unsent(format!(
            "tool server `{}` could not be started; the log says why",
            self.settings.name
        )))
    }

    /// Waits until an agent wants the server, or its tools have to be read.
    pub(super) async fn rest(&self, stop: &CancellationToken) {
        self.rests.store(true, Ordering::Relaxed);
        tracing::info!(server = %self.settings.name, "the tool server rests: nobody uses it; it starts again with the next request");
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.woken.notified() => {}
            () = self.stale.notified() => {}
            () = self.lost.notified() => {}
        }
    }

    /// Ends processes that nobody uses, and at the end all of them.
    pub(in crate::upstream) async fn tend(&self, stop: &CancellationToken) {
        let idle = self.settings.idle_timeout;
        let pause = (idle / 4).clamp(MIN_SWEEP_INTERVAL, MAX_SWEEP_INTERVAL);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => self.children.sweep(idle).await,
            }
        }
        self.children.close().await;
    }
}
