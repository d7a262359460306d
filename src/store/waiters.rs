//! Calls that wait for the end of a call with the same key.

use super::state::digest::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// Who waits, by call key. Holds an entry only while somebody waits.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<HashMap<Digest, Arc<Notify>>>);

impl Waiters {
    /// Waits until [`Waiters::wake`] is called for `key`, unless `is_over` already, which is asked once it can no longer
    /// be missed.
    pub(super) async fn wait(&self, key: Digest, is_over: impl FnOnce() -> bool) {
        let notify = self.0.lock().entry(key).or_default().clone();
        let woken = notify.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        if !is_over() {
            woken.await;
        }
        let mut waiting = self.0.lock();
        // Two: the map's and ours.
        if Arc::strong_count(&notify) <= 2 && waiting.get(&key).is_some_and(|other| Arc::ptr_eq(other, &notify)) {
            waiting.remove(&key);
        }
    }

    /// Wakes everybody who waits for `key`.
    pub(super) fn wake(&self, key: &Digest) {
        if let Some(notify) = self.0.lock().get(key) {
            notify.notify_waiters();
        }
    }
}
