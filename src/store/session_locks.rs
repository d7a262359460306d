//! Lanes: the exclusive lock of a session for calls with side effects, fair and bounded
//! (guarantees §5). First come, first served; calls of different sessions don't wait for each
//! other, and reads take no lane.

use crate::model::digest::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls of one session that may wait; one more is refused.
pub(crate) const MAX_WAITING_CALLS: usize = 64;
/// How long a call waits for its turn.
pub(crate) const SESSION_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The lanes in use.
#[derive(Debug, Default)]
pub struct SessionLocks(Mutex<HashMap<Digest, SessionLock>>);

#[derive(Debug)]
struct SessionLock {
    turn: Arc<Semaphore>,
    /// Calls that hold it or wait for it.
    calls: usize,
}

/// A call's turn on its session's lane; the next one has it when this is dropped.
#[derive(Debug)]
pub struct Lease {
    place: QueueSlot,
    turn: Option<OwnedSemaphorePermit>,
}

/// A place in the queue; given up when dropped.
#[derive(Debug)]
struct QueueSlot {
    lanes: Arc<SessionLocks>,
    session: Digest,
}

/// The queue is full, or it moves too slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLockBusy;

impl SessionLocks {
    /// Waits for the turn of a call of `session`, behind those that came before.
    pub async fn enter(self: &Arc<Self>, session: Digest) -> Result<Lease, SessionLockBusy> {
        let (place, turn) = self.queue(session)?;
        let turn = tokio::time::timeout(SESSION_LOCK_TIMEOUT, turn.acquire_owned()).await;
        let turn = turn
            .map_err(|_| SessionLockBusy)?
            .map_err(|_| SessionLockBusy)?;
        Ok(Lease {
            place,
            turn: Some(turn),
        })
    }

    fn queue(
        self: &Arc<Self>,
        session: Digest,
    ) -> Result<(QueueSlot, Arc<Semaphore>), SessionLockBusy> {
        let mut lanes = self.0.lock();
        let lane = lanes.entry(session).or_insert_with(|| SessionLock {
            turn: Arc::new(Semaphore::new(1)),
            calls: 0,
        });
        if lane.calls > MAX_WAITING_CALLS {
            return Err(SessionLockBusy);
        }
        lane.calls += 1;
        Ok((
            QueueSlot {
                lanes: self.clone(),
                session,
            },
            lane.turn.clone(),
        ))
    }
}

impl Lease {
    /// Whose lane it is.
    pub fn session(&self) -> Digest {
        self.place.session
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The turn goes on before the place is given up, so that a lane is never forgotten while it
        // is held.
        drop(self.turn.take());
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut lanes = self.lanes.0.lock();
        if let Some(lane) = lanes.get_mut(&self.session) {
            lane.calls -= 1;
            if lane.calls == 0 {
                lanes.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn session(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    /// 004-12, 004-17: one at a time and in order within a session, side by side across sessions.
    #[tokio::test]
    async fn a_lane_is_fair_and_its_own() {
        let lanes = Arc::new(SessionLocks::default());
        let first = lanes.enter(session("a")).await.unwrap();
        let mut second = Box::pin(lanes.enter(session("a")));
        let mut third = Box::pin(lanes.enter(session("a")));
        assert!((&mut second).now_or_never().is_none(), "the lane is taken");
        assert!((&mut third).now_or_never().is_none());
        let other = lanes.enter(session("b")).now_or_never();
        assert!(
            other.is_some_and(|lease| lease.is_ok()),
            "another session does not wait"
        );
        drop(first);
        assert!(
            (&mut third).now_or_never().is_none(),
            "the second came before the third"
        );
        let second = second.await.unwrap();
        drop(second);
        drop(third.await.unwrap());
        assert!(lanes.0.lock().is_empty(), "an idle lane is forgotten");
    }

    /// 004-17, guarantees §5: a full queue says so at once, a slow one after a while; both free
    /// their place.
    #[tokio::test(start_paused = true)]
    async fn a_queue_is_bounded() {
        let lanes = Arc::new(SessionLocks::default());
        let held = lanes.enter(session("a")).await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING_CALLS)
            .map(|_| Box::pin(lanes.enter(session("a"))))
            .collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        assert_eq!(
            lanes.enter(session("a")).await.unwrap_err(),
            SessionLockBusy,
            "the queue is full"
        );
        let mut first = waiting.remove(0);
        assert_eq!(
            (&mut first).await.unwrap_err(),
            SessionLockBusy,
            "its patience ends"
        );
        drop((first, waiting));
        assert_eq!(lanes.0.lock()[&session("a")].calls, 1);
        drop(held);
        assert!(lanes.0.lock().is_empty());
    }
}
