//! How long an answer is listened for that comes late.

use super::*;
use crate::model::clock::hands::TestClock;
use crate::model::ids::ToolName;
use crate::store::memory::MemoryStore;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a call without a claim is listened for that nobody answers.
async fn listened_for(is_read: bool) -> Duration {
    let (rooms, ends) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
    let take = async |from: &Arc<Semaphore>| from.clone().acquire_owned().await.unwrap();
    let (room, end) = (take(&rooms).await, take(&ends).await);
    let late = LateCost {
        exchange: Box::pin(async move {
            let _end = end;
            std::future::pending().await
        }),
        rules: Arc::default(),
        room: is_read.then(|| Box::new(room)),
    };
    let store = Arc::new(MemoryStore::new(TestClock::new().clock()));
    let began = Instant::now();
    let held = Spend::nothing(Digest::of(b"task"), ToolName::new("bank__look"));
    late.listen(store, held);
    drop(take(&ends).await);
    drop(take(&rooms).await);
    began.elapsed()
}

/// 003-93: what a read has cost is listened for a minute after its deadline, and its room is free then; a
/// write's as long as what became of it.
#[tokio::test(start_paused = true)]
async fn a_late_cost_is_listened_for_so_long() {
    for (is_read, seconds) in [(true, 60), (false, 600)] {
        assert_eq!(listened_for(is_read).await.as_secs(), seconds, "{is_read}");
    }
}
