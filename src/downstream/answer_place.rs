//! Where the answers of one connection are worked on, one after the other: what is begun there is
//! written over what has ended there. The HTTP library moves what it is given several times before it is
//! polled, and an answer to be has room for all that a request can become.

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use tokio_util::sync::ReusableBoxFuture;

/// Memory for one answer, if it is not in use.
type FreeMemory<T> = Arc<Mutex<Option<ReusableBoxFuture<'static, T>>>>;

/// The place of one connection.
pub(super) struct AnswerPlace<T>(FreeMemory<T>);

impl<T: Send + 'static> AnswerPlace<T> {
    /// With nothing in it.
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Puts an answer to be there; elsewhere while another is.
    pub(super) fn put(&self, answer: impl Future<Output = T> + Send + 'static) -> PlacedAnswer<T> {
        // What has ended keeps nothing, though it lies there until the next.
        let answer = answer.fuse();
        let free = self.0.lock().take();
        let memory = match free {
            None => ReusableBoxFuture::new(answer),
            Some(mut memory) => match memory.try_set(answer) {
                Ok(()) => memory,
                Err(answer) => ReusableBoxFuture::new(answer),
            },
        };
        PlacedAnswer {
            memory: Some(memory),
            place: Arc::clone(&self.0),
        }
    }
}

/// An answer to be. Its memory goes back to its place with its end; dropped before, it is gone.
#[must_use = "it is polled, or nothing is answered"]
pub(super) struct PlacedAnswer<T> {
    memory: Option<ReusableBoxFuture<'static, T>>,
    place: FreeMemory<T>,
}

impl<T> Future for PlacedAnswer<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<T> {
        let Some(memory) = &mut self.memory else {
            return Poll::Pending;
        };
        let polled = memory.poll(task);
        if polled.is_ready() {
            let ended = self.memory.take();
            *self.place.lock() = ended;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Ends when it is polled a second time, and keeps `kept` until then.
    async fn answer(kept: Arc<u32>) -> u32 {
        tokio::task::yield_now().await;
        *kept
    }

    fn polled(answer: &mut PlacedAnswer<u32>) -> Poll<u32> {
        answer.poll_unpin(&mut Task::from_waker(Waker::noop()))
    }

    #[test]
    fn an_answer_is_worked_on_where_the_last_one_was() {
        let (place, kept) = (AnswerPlace::new(), Arc::new(7));
        let is_free = || place.0.lock().is_some();
        for _ in 0..3 {
            let mut next = place.put(answer(kept.clone()));
            assert!(!is_free());
            assert_eq!(polled(&mut next), Poll::Pending);
            assert_eq!(Arc::strong_count(&kept), 2);
            assert_eq!(polled(&mut next), Poll::Ready(7));
            // Its memory is free, and nothing that it had is kept there.
            assert!(is_free());
            assert_eq!(Arc::strong_count(&kept), 1);
        }
    }

    #[test]
    fn what_is_not_ended_is_neither_kept_nor_written_over() {
        let (place, kept) = (AnswerPlace::new(), Arc::new(7));
        let mut one = place.put(answer(kept.clone()));
        let mut other = place.put(async { 8 });
        assert_eq!(polled(&mut one), Poll::Pending);
        assert_eq!(polled(&mut other), Poll::Ready(8));
        assert_eq!(polled(&mut one), Poll::Ready(7));
        // Of another size than what has ended there.
        let mut larger = place.put(async { answer(Arc::new(9)).await + answer(Arc::new(1)).await });
        assert_eq!(polled(&mut larger), Poll::Pending);
        drop(larger);
        assert!(place.0.lock().is_none());
        drop(place.put(answer(kept.clone())));
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
