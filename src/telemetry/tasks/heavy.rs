//! Where what is too heavy for the threads that serve calls is done: few threads, a bounded queue,
//! and an end (threat-model §1).
//!
//! Nearly everything is light and never comes here: it is done where it is, up to [`work::INLINE_WORK_UNITS`],
//! and begun anew on the pool only when that does not suffice. Nothing on the pool takes more than
//! [`work::HEAVY_WORK_UNITS`], so its threads come back.

use crate::model::ids::AgentId;
use crate::model::work::{self, WorkExceeded};
use queue::HeavySlot;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::Span;

mod queue;

/// How long is waited for an end, with the time in the queue. The thread ends by itself after that.
const HEAVY_WORK_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a message that is read where it is at most.
const MAX_INLINE_BYTES: usize = 512 << 10;

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeavyWorkError {
    /// It takes more than [`work::HEAVY_WORK_UNITS`].
    TooHeavy,
    /// It was not done within 5 s, because other heavy work is.
    TooLate,
    /// Too much waits, or too much of this agent.
    Full,
}

/// How much heavy work ended how, since the process started.
#[derive(Debug, Default)]
pub(crate) struct HeavyWorkCounts {
    /// Done on the pool.
    pub done: AtomicU64,
    /// Given up because it takes too much.
    pub too_heavy: AtomicU64,
    /// Given up because it took too long.
    pub too_late: AtomicU64,
    /// Refused because too much waits.
    pub full: AtomicU64,
}

impl HeavyWorkCounts {
    /// Each number with its word.
    pub(crate) fn read(&self) -> [(&'static str, u64); 4] {
        let Self {
            done,
            too_heavy,
            too_late,
            full,
        } = self;
        [
            ("done", done),
            ("too_heavy", too_heavy),
            ("too_late", too_late),
            ("full", full),
        ]
        .map(|(word, count)| (word, count.load(Ordering::Relaxed)))
    }
}

/// What this process did on its pool.
pub(crate) static HEAVY_WORK_COUNTS: HeavyWorkCounts = HeavyWorkCounts {
    done: AtomicU64::new(0),
    too_heavy: AtomicU64::new(0),
    too_late: AtomicU64::new(0),
    full: AtomicU64::new(0),
};

/// Does `here` where the call is. When that takes too much, does what `there` makes on the pool
/// instead, in its turn among what `agent` has there: the same work; what `here` has done by then
/// must not count.
pub(crate) async fn done<T, W>(
    agent: &AgentId,
    here: impl FnOnce() -> T,
    there: impl FnOnce() -> W,
) -> Result<T, HeavyWorkError>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    match work::within(work::INLINE_WORK_UNITS, here) {
        Ok(done) => Ok(done),
        Err(WorkExceeded) => Box::pin(on_pool(agent, there())).await,
    }
}

/// Does what is known to be too heavy for where the call is, for `agent`.
pub(crate) async fn on_pool<T: Send + 'static>(
    agent: &AgentId,
    heavy: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HeavyWorkError> {
    let ended = pooled(agent, heavy).await;
    let count = match &ended {
        Ok(_) => &HEAVY_WORK_COUNTS.done,
        Err(HeavyWorkError::TooHeavy) => &HEAVY_WORK_COUNTS.too_heavy,
        Err(HeavyWorkError::TooLate) => &HEAVY_WORK_COUNTS.too_late,
        Err(HeavyWorkError::Full) => &HEAVY_WORK_COUNTS.full,
    };
    count.fetch_add(1, Ordering::Relaxed);
    ended
}

async fn pooled<T: Send + 'static>(
    agent: &AgentId,
    heavy: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HeavyWorkError> {
    let place = HeavySlot::take(agent).ok_or(HeavyWorkError::Full)?;
    let span = Span::current();
    let run = async {
        let thread = place.thread().await;
        let done = tokio::task::spawn_blocking(move || {
            let _thread = thread;
            span.in_scope(|| work::within(work::HEAVY_WORK_UNITS, heavy))
        });
        match done.await {
            Ok(done) => done.map_err(|WorkExceeded| HeavyWorkError::TooHeavy),
            Err(broken) if broken.is_panic() => std::panic::resume_unwind(broken.into_panic()),
            Err(_) => Err(HeavyWorkError::TooLate),
        }
    };
    tokio::time::timeout(HEAVY_WORK_TIMEOUT, run)
        .await
        .unwrap_or(Err(HeavyWorkError::TooLate))
}

/// Does `work` on a message of so many bytes where it is. When these are many, another thread takes
/// over what else is served here meanwhile: to read the longest messages, and to look for secrets
/// in them, takes longer than others may wait.
pub(crate) fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_others = || {
        Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    if bytes > MAX_INLINE_BYTES && has_others() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::queue::{MAX_QUEUED_PER_AGENT, MAX_QUEUED_WORK, THREAD_PERMITS};
    use super::*;
    use std::thread;

    /// threat-model §13 F3: light work stays where it is, heavier work goes to another thread, too
    /// much of it ends.
    #[tokio::test]
    async fn heavy_work_is_done_elsewhere() {
        for (units, ended) in [
            (work::INLINE_WORK_UNITS, Ok(true)),
            (work::INLINE_WORK_UNITS + 1, Ok(false)),
            (work::HEAVY_WORK_UNITS, Ok(false)),
            (work::HEAVY_WORK_UNITS + 1, Err(HeavyWorkError::TooHeavy)),
        ] {
            let home = thread::current().id();
            let work = move || {
                work::spend(units);
                thread::current().id() == home
            };
            assert_eq!(done(&agent("a"), work, || work).await, ended, "{units}");
        }
    }

    /// threat-model §13 F3: while a long message is read, what else is served on that thread goes
    /// on.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_long_message_holds_nobody_up() {
        let (said, heard) = std::sync::mpsc::channel();
        let reader = crate::telemetry::tasks::spawn("reader", async move {
            let waits = || heard.recv_timeout(Duration::from_secs(40)).is_ok();
            aside(MAX_INLINE_BYTES + 1, waits)
        });
        crate::telemetry::tasks::spawn("other", async move { said.send(()) })
            .await
            .unwrap()
            .unwrap();
        assert!(reader.await.unwrap());
        assert!(
            aside(MAX_INLINE_BYTES, || true),
            "short ones are read where they are"
        );
    }

    /// What waits is bounded, in all and of one agent, and nobody waits for ever: the pool is held
    /// by work that does not end.
    #[tokio::test(start_paused = true)]
    async fn the_queue_is_bounded() {
        let held = hold().await;
        let heavy = async |name: &str| done(&agent(name), || work::spend(u64::MAX), || || ()).await;
        let names = ["a"; MAX_QUEUED_PER_AGENT + 1]
            .into_iter()
            .chain(["b"; MAX_QUEUED_PER_AGENT])
            .chain(["c"]);
        let all: Vec<_> = futures_util::future::join_all(names.map(heavy)).await;
        let count = |wanted| all.iter().filter(|ended| **ended == Err(wanted)).count();
        assert_eq!(
            (count(HeavyWorkError::Full), count(HeavyWorkError::TooLate)),
            (2, MAX_QUEUED_WORK)
        );
        drop(held);
        assert_eq!(heavy("a").await, Ok(()), "the places are free again");
    }

    /// One agent's heavy work does not stand before another's, however much of it there is.
    #[tokio::test]
    async fn agents_take_turns() {
        let held = hold().await;
        let order = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let heavy = |name: &'static str| {
            let order = order.clone();
            async move {
                let there = move || order.lock().push(name);
                done(&agent(name), || work::spend(u64::MAX), || there).await
            }
        };
        let many = futures_util::future::join_all(["greedy"; MAX_QUEUED_PER_AGENT].map(heavy));
        let all = async { tokio::join!(many, heavy("modest"), async { drop(held) }) };
        let (many, modest, ()) = all.await;
        assert!(modest.is_ok() && many.iter().all(Result::is_ok));
        let place = order
            .lock()
            .iter()
            .position(|name| *name == "modest")
            .unwrap();
        let most = 2 * std::thread::available_parallelism().unwrap().get();
        assert!(place <= most, "after {place} of {MAX_QUEUED_PER_AGENT}");
    }

    fn agent(name: &str) -> AgentId {
        AgentId::new(name)
    }

    async fn hold() -> tokio::sync::OwnedSemaphorePermit {
        THREAD_PERMITS
            .clone()
            .acquire_many_owned(u32::try_from(THREAD_PERMITS.available_permits()).unwrap())
            .await
            .unwrap()
    }
}
