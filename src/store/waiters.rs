//! Calls that wait for the end of a call with the same key, or for what operators say of a held
//! one.

use super::state::event::StoreEvent;
use crate::model::digest::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// Who waits, by call key or the key under which a call is held. Holds an entry only while a call
/// waits.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<HashMap<Digest, Arc<Notify>>>);

/// One who waits. Leaves when it is dropped, too: an agent may hang up.
struct KeyWaiter<'a> {
    waiters: &'a Waiters,
    key: Digest,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Waits until [`Waiters::wake`] is called for `key`, unless `is_over` already, which is asked
    /// once it can no longer be missed.
    pub(super) async fn wait(&self, key: Digest, is_over: impl FnOnce() -> bool) {
        let notify = self.0.lock().entry(key).or_default().clone();
        let waiter = KeyWaiter {
            waiters: self,
            key,
            notify,
        };
        let woken = waiter.notify.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        if !is_over() {
            woken.await;
        }
    }

    /// Wakes every caller that waits for what happened.
    pub(super) fn wake_for(&self, event: &StoreEvent) {
        match event {
            StoreEvent::Settled(settled) => self.wake(&settled.key),
            StoreEvent::Intended(intended) => intended.hold.iter().for_each(|key| self.wake(key)),
            StoreEvent::Decided(decided) => self.wake(&decided.key),
            StoreEvent::Edited(edited) => self.wake(&edited.key),
            StoreEvent::Extended(extended) => self.wake(&extended.key),
            StoreEvent::Granted(minted) => {
                minted
                    .allowed
                    .iter()
                    .for_each(|allowed| self.wake(&allowed.key));
            }
            StoreEvent::Reserved(_)
            | StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Steered(_)
            | StoreEvent::Fenced { .. }
            | StoreEvent::Held(_)
            | StoreEvent::Revoked(_)
            | StoreEvent::UndoAsked(_)
            | StoreEvent::Carried(_)
            | StoreEvent::Noted(_) => {}
        }
    }

    /// Wakes every caller that waits for `key`.
    pub(super) fn wake(&self, key: &Digest) {
        if let Some(notify) = self.0.lock().get(key) {
            notify.notify_waiters();
        }
    }
}

impl Drop for KeyWaiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.0.lock();
        // Two: the map's and ours.
        if Arc::strong_count(&self.notify) <= 2 {
            waiting.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn who_has_gone_leaves_nothing_behind() {
        let waiters = Waiters::default();
        let key = Digest::of(b"key");
        let mut first = Box::pin(waiters.wait(key, || false));
        let mut second = Box::pin(waiters.wait(key, || false));
        assert!(
            first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none()
        );
        drop(first);
        assert_eq!(waiters.0.lock().len(), 1, "the other one still waits");
        waiters.wake(&key);
        assert!(second.now_or_never().is_some());
        assert!(waiters.0.lock().is_empty());
        assert_eq!(Box::pin(waiters.wait(key, || false)).now_or_never(), None);
        assert!(
            waiters.0.lock().is_empty(),
            "it hung up before anything happened"
        );
        waiters.wait(key, || true).await;
        assert!(waiters.0.lock().is_empty());
    }
}
