//! How long agents wait for a first word, by one timer for all of them: one for each request would
//! be the next to end each time it is set, and setting that wakes the thread that waits for it.

use crate::telemetry::tasks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The longest wait.
pub(super) const FIRST_WORD_TIMEOUT: Duration = Duration::from_millis(200);
/// Ticks that a request waits for.
const TICKS_AWAITED: u32 = 2;

/// The timer of all requests that wait for their first word. It stands still while there are none.
#[derive(Default)]
pub(crate) struct SharedPatience {
    wanted: Notify,
    ticks: watch::Sender<()>,
    is_begun: AtomicBool,
}

impl SharedPatience {
    /// Ends after 100 to 200 ms.
    pub(super) async fn ends(self: &Arc<Self>) {
        let mut ticks = self.ticks.subscribe();
        if !self.is_begun.swap(true, Ordering::Relaxed) {
            tasks::spawn("patience", self.clone().tick());
        }
        self.wanted.notify_one();
        for _ in 0..TICKS_AWAITED {
            // Its sender is this one.
            let _ = ticks.changed().await;
        }
    }

    async fn tick(self: Arc<Self>) {
        loop {
            self.wanted.notified().await;
            while self.ticks.receiver_count() > 0 {
                tokio::time::sleep(FIRST_WORD_TIMEOUT / TICKS_AWAITED).await;
                self.ticks.send_replace(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// A request that comes while the timer runs waits no longer than the one that set it, and not for nothing.
    #[tokio::test(start_paused = true)]
    async fn one_timer_serves_all() {
        let patience = Arc::new(SharedPatience::default());
        let waits = |late_ms: u64| {
            let patience = patience.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(late_ms)).await;
                let began = Instant::now();
                patience.ends().await;
                began.elapsed()
            }
        };
        for _ in 0..2 {
            let late = [0, 1, 99, 101, 150, 250, 5_000];
            for waited in futures_util::future::join_all(late.map(waits)).await {
                assert!(
                    waited <= FIRST_WORD_TIMEOUT + Duration::from_millis(2),
                    "{waited:?}"
                );
                assert!(waited >= FIRST_WORD_TIMEOUT / TICKS_AWAITED, "{waited:?}");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(patience.ticks.receiver_count(), 0, "nobody waits");
        }
    }
}
