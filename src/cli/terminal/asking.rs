//! How far it is with tool servers that are asked: shown also while none answers, since one that is fetched
//! first may take long.

use super::progress::{ProgressUnit, WorkProgress};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often it is shown meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How many of the servers were tried.
pub(in crate::cli) struct AskingProgress {
    progress: WorkProgress,
    tried: AtomicU64,
}

impl AskingProgress {
    /// Of so many servers.
    pub(in crate::cli) fn of(servers: usize) -> Self {
        let all = u64::try_from(servers).ok();
        Self {
            progress: WorkProgress::of("asking the tool servers", all, ProgressUnit::Steps),
            tried: AtomicU64::new(0),
        }
    }

    /// One more has answered, or will not.
    pub(in crate::cli) fn tried(&self) {
        self.tried.fetch_add(1, Ordering::Relaxed);
        self.show();
    }

    /// What comes of `asking`, and meanwhile how far it is.
    pub(in crate::cli) async fn during<T>(&self, asking: impl Future<Output = T>) -> T {
        let mut asking = pin!(asking);
        loop {
            tokio::select! {
                biased;
                asked = &mut asking => return asked,
                () = tokio::time::sleep(LOOK_INTERVAL) => self.show(),
            }
        }
    }

    fn show(&self) {
        self.progress.reach(self.tried.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 17 "progress bars on what takes over a second": one server that takes long is waited for to its
    /// end, and how many were tried stays as it was.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_long_is_waited_for() {
        let asking = AskingProgress::of(3);
        asking.tried();
        assert_eq!(asking.progress.position(), 1);
        let late = async {
            tokio::time::sleep(LOOK_INTERVAL * 7).await;
            assert_eq!(asking.progress.position(), 1);
            asking.tried();
            "there"
        };
        assert_eq!(asking.during(late).await, "there");
        assert_eq!(asking.progress.position(), 2);
    }
}
