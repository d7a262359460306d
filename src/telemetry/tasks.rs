//! The only spawn: every task has a name, keeps its span, and a panic in it is logged, not lost.

use std::future::Future;
use tokio::task::JoinHandle;
use tracing::Instrument;

/// Runs `future` on its own.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    tokio::spawn(async move {
        let bomb = Bomb(name);
        let output = future.in_current_span().await;
        std::mem::forget(bomb);
        output
    })
}

/// Dropped only by a panic or an abort.
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(task = self.0, "a task panicked; what it did is recorded as far as it came");
        }
    }
}
