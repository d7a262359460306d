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
    tracing::trace!(task = name, "a task of its own");
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
/// begun there is written over what has ended there. Work of each name has a part of it, since
/// work of one name is of one size. Work that has to leave the connection takes its part along.
#[derive(Clone, Default)]
pub struct WorkPlace(Arc<Mutex<Vec<PlacePart>>>);

/// Where work of that name has ended.
struct PlacePart {
    name: &'static str,
    ended: ReusableBoxFuture<'static, ()>,
}

impl WorkPlace {
    /// Puts work there; elsewhere when its part is taken.
    fn put(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> ReusableBoxFuture<'static, ()> {
        // What has ended keeps nothing, though it lies there until the next.
        let work = work.fuse();
        let Some(mut ended) = self.take(name) else {
            return memory_for(name, work);
        };
        match ended.try_set(work) {
            Ok(()) => ended,
            Err(work) => memory_for(name, work),
        }
    }

    fn take(&self, name: &'static str) -> Option<ReusableBoxFuture<'static, ()>> {
        let mut parts = self.0.lock();
        let index = parts.iter().position(|part| part.name == name)?;
        Some(parts.swap_remove(index).ended)
    }

    fn give_back(&self, name: &'static str, ended: ReusableBoxFuture<'static, ()>) {
        let mut parts = self.0.lock();
        if parts.iter().all(|part| part.name != name) {
            parts.push(PlacePart { name, ended });
        }
    }
}

/// Memory of its own for this work. The log tells, so that a test can show that requests which come
/// often need none.
fn memory_for(
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
) -> ReusableBoxFuture<'static, ()> {
    tracing::trace!(work = name, "memory of its own");
    ReusableBoxFuture::new(work)
}

/// A future in memory of its own, for a branch that is rarely taken: what waits for it stays small.
/// The log tells, as above.
pub(crate) fn rarely<F: Future>(name: &'static str, work: F) -> Pin<Box<F>> {
    tracing::trace!(work = name, "memory of its own");
    Box::pin(work)
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
            work: Some(memory_for(name, work)),
            place: None,
        }
    }

    /// The same at the place of its connection, if that has one.
    pub fn at(
        place: Option<WorkPlace>,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let Some(at) = &place else {
            return Self::new(name, work);
        };
        Self {
            name,
            work: Some(at.put(name, work)),
            place,
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
                    place.give_back(self.name, work);
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
            let mut parts = place.0.lock();
            let part = parts.iter_mut().find(|part| part.name == "work");
            let ended = part.map(|part| part.ended.get_pin());
            ended.map(|ended| std::ptr::from_ref(&*ended).addr())
        };
        let mut first = None;
        for steps in [0, 1, 2] {
            let work = DetachOnDrop::at(Some(place.clone()), "work", work(steps));
            assert_eq!(address(), None, "it is taken");
            work.await;
            assert!(running.is_empty(), "what has ended keeps nothing");
            assert_eq!(*first.get_or_insert(address()), address(), "{steps}");
            // Work of another name and size, in between, leaves it where it is.
            let other = async { assert_eq!(std::hint::black_box([0; 64])[0], 0) };
            DetachOnDrop::at(Some(place.clone()), "other", other).await;
        }
        assert!(first.flatten().is_some());
        let (at, done) = (place.clone(), oneshot::channel());
        let left = work(1);
        drop(DetachOnDrop::at(Some(at), "work", async move {
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
