//! The only spawn: every task has a name, keeps its span, and a panic in it is logged, not lost.

pub(crate) mod heavy;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context as Task, Poll};
use tokio::task::JoinHandle;
use tracing::Instrument;

/// Runs `future` on its own.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[cfg(test)]
    if spawn_capture::is_set() {
        return spawn_capture::take(future);
    }
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    tokio::spawn(async move {
        let bomb = PanicReporter(name);
        let output = future.in_current_span().await;
        std::mem::forget(bomb);
        output
    })
}

#[cfg(test)]
pub(crate) mod spawn_capture {
    //! Where a simulation runs on this thread, the simulation runs the tasks: it says who goes on
    //! next, and who dies.

    use super::JoinHandle;
    use std::cell::RefCell;
    use std::future::Future;
    use std::pin::Pin;
    use std::rc::Rc;
    use tokio::sync::oneshot;

    type Take = dyn Fn(Pin<Box<dyn Future<Output = ()>>>);

    thread_local! {
        static SPAWN_CAPTURE: RefCell<Option<Rc<Take>>> = const { RefCell::new(None) };
    }

    /// Until it is dropped, `take` is given what this thread spawns.
    pub(crate) struct SpawnCapture(());

    impl SpawnCapture {
        pub(crate) fn set(take: impl Fn(Pin<Box<dyn Future<Output = ()>>>) + 'static) -> Self {
            SPAWN_CAPTURE.set(Some(Rc::new(take)));
            Self(())
        }
    }

    impl Drop for SpawnCapture {
        fn drop(&mut self) {
            SPAWN_CAPTURE.set(None);
        }
    }

    pub(super) fn is_set() -> bool {
        SPAWN_CAPTURE.with_borrow(Option::is_some)
    }

    pub(super) fn take<F>(future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (done, ended) = oneshot::channel();
        if let Some(take) = SPAWN_CAPTURE.with_borrow(Option::clone) {
            take(Box::pin(async move { drop(done.send(future.await)) }));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "whoever waits for the task waits for the simulation's"
        )]
        tokio::spawn(async move {
            match ended.await {
                Ok(output) => output,
                // Killed: nobody is there any more who could be told.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

/// Work that is done where it is awaited and needs no task for that: waking one costs more than
/// judging a call does. Dropped before its end, it goes on in a task of its own, so the waiting
/// task may leave. A panic ends it, not that task.
#[must_use = "dropped, it becomes a task"]
pub struct DetachOnDrop {
    name: &'static str,
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl DetachOnDrop {
    /// Work of that name, not yet begun.
    pub fn new(name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            name,
            work: Some(Box::pin(work)),
        }
    }
}

impl Future for DetachOnDrop {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        // Taken out, so that work that panics is not taken up again by the drop.
        let Some(mut work) = self.work.take() else {
            return Poll::Ready(());
        };
        let polled = begun(self.name, || work.as_mut().poll(task)).unwrap_or(Poll::Ready(()));
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        // Without a runtime the process is at its end, and so would the task be.
        if tokio::runtime::Handle::try_current().is_ok() {
            drop(spawn(self.name, work));
        }
    }
}

/// What `begin` makes of work; none, and the log says so, when it panics.
pub fn begun<T>(name: &'static str, begin: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(|| {
        let bomb = PanicReporter(name);
        let made = begin();
        std::mem::forget(bomb);
        made
    }))
    .ok()
}

/// Dropped only by a panic or an abort.
struct PanicReporter(&'static str);

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                task = self.0,
                "a task panicked; what it did is recorded as far as it came"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    /// Work of two steps, the second after `go`; says when it is done.
    fn errand() -> (DetachOnDrop, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let ((go, gone), (done, ended)) = (oneshot::channel::<()>(), oneshot::channel());
        let work = async move {
            gone.await.unwrap();
            done.send(()).unwrap();
        };
        (DetachOnDrop::new("work", work), go, ended)
    }

    #[tokio::test]
    async fn an_errand_is_done_where_it_is_awaited() {
        let (mut errand, go, mut ended) = errand();
        assert_eq!((&mut errand).now_or_never(), None);
        go.send(()).unwrap();
        assert!(ended.try_recv().is_err(), "nobody else does it");
        errand.await;
        ended.try_recv().unwrap();
    }

    /// guarantees §4: the waiting task may leave, before the first step or between two.
    #[tokio::test]
    async fn a_dropped_errand_goes_on() {
        for begun in [false, true] {
            let (mut errand, go, ended) = errand();
            if begun {
                assert_eq!((&mut errand).now_or_never(), None);
            }
            drop(errand);
            go.send(()).unwrap();
            ended.await.unwrap();
        }
    }

    /// Work that panics is over: the waiting task goes on, and nothing of it is done twice.
    #[tokio::test]
    async fn a_panic_ends_an_errand_only() {
        let (done, ended) = oneshot::channel::<()>();
        let mut errand = DetachOnDrop::new("work", async move {
            let _done = done;
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "it panics");
        });
        assert_eq!((&mut errand).now_or_never(), None);
        (&mut errand).await;
        assert!(ended.await.is_err(), "what it held is given back");
        drop(errand);
    }
}
