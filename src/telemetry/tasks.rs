//! The only spawn: every task has a name, keeps its span, and a panic in it is logged, not lost.

pub(crate) mod heavy;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use tokio::task::JoinHandle;
use tokio_util::sync::ReusableBoxFuture;
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

/// A place in memory where one connection's requests are worked on, one after the other: what is
/// begun there is written over what has ended there. Work that has to leave the connection takes
/// the place along.
#[derive(Clone, Default)]
pub struct WorkPlace(Arc<Mutex<Option<ReusableBoxFuture<'static, ()>>>>);

impl WorkPlace {
    /// Puts work there; elsewhere when the place is taken.
    fn put(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> ReusableBoxFuture<'static, ()> {
        // What has ended keeps nothing, though it lies there until the next.
        let work = work.fuse();
        let place = self.0.lock().take();
        match place {
            Some(mut place) => {
                place.set(work);
                place
            }
            None => ReusableBoxFuture::new(work),
        }
    }

    fn give_back(&self, ended: ReusableBoxFuture<'static, ()>) {
        *self.0.lock() = Some(ended);
    }
}

/// Work that is done where it is awaited and needs no task for that: waking one costs more than
/// judging a call does. Dropped before its end, it goes on in a task of its own, so the waiting
/// task may leave. A panic ends it, not that task.
#[must_use = "dropped, it becomes a task"]
pub struct DetachOnDrop {
    name: &'static str,
    work: Option<ReusableBoxFuture<'static, ()>>,
    place: Option<WorkPlace>,
}

impl DetachOnDrop {
    /// Work of that name, not yet begun.
    pub fn new(name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            name,
            work: Some(ReusableBoxFuture::new(work)),
            place: None,
        }
    }

    /// The same at a place that its connection has.
    pub fn at(
        place: WorkPlace,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            name,
            work: Some(place.put(work)),
            place: Some(place),
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
        match begun(self.name, || work.poll(task)) {
            Some(Poll::Pending) => {
                self.work = Some(work);
                Poll::Pending
            }
            Some(Poll::Ready(())) => {
                if let Some(place) = &self.place {
                    place.give_back(work);
                }
                Poll::Ready(())
            }
            None => Poll::Ready(()),
        }
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
    use tokio::sync::oneshot;
    use tokio_util::task::TaskTracker;

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

    /// A connection's requests are worked on at one place; what had ended there keeps nothing, and
    /// what leaves the connection takes the place along.
    #[tokio::test]
    async fn work_of_a_connection_has_one_place() {
        let place = WorkPlace::default();
        let running = TaskTracker::new();
        let work = |steps: usize| {
            running.track_future(async move {
                for _ in 0..steps {
                    tokio::task::yield_now().await;
                }
            })
        };
        let address = || {
            let mut place = place.0.lock();
            let place = place.as_mut().map(ReusableBoxFuture::get_pin);
            place.map(|place| std::ptr::from_ref(&*place).addr())
        };
        let mut first = None;
        for steps in [0, 1, 2] {
            let work = DetachOnDrop::at(place.clone(), "work", work(steps));
            assert_eq!(address(), None, "it is taken");
            work.await;
            assert!(running.is_empty(), "what has ended keeps nothing");
            assert_eq!(*first.get_or_insert(address()), address(), "{steps}");
        }
        assert!(first.flatten().is_some());
        let (at, done) = (place.clone(), oneshot::channel());
        let left = work(1);
        drop(DetachOnDrop::at(at, "work", async move {
            left.await;
            done.0.send(()).unwrap();
        }));
        assert_eq!(address(), None, "it went with the work");
        done.1.await.unwrap();
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
