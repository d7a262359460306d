//! Waiting on a thread of one's own, which does nothing else meanwhile.

use crate::model::clock::Clock;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    match future.poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Waits for as long as it takes.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(output) = poll(future.as_mut()) {
            return output;
        }
        std::thread::park();
    }
}

/// Waits for `longest`; none when that was not enough.
pub(super) fn block_on_for<F: Future>(future: F, longest: Duration) -> Option<F::Output> {
    let until = Clock.steady() + longest;
    let mut future = pin!(future);
    loop {
        if let Some(output) = poll(future.as_mut()) {
            return Some(output);
        }
        let left = until.saturating_sub(Clock.steady());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}
