//! The body of a request to a tool server: its bytes; with fail points in two halves, so that a test can end toolgate
//! between them.

use bytes::Bytes;

/// The body of a request.
#[cfg(not(feature = "failpoints"))]
pub type Payload = http_body_util::Full<Bytes>;

/// The body of a request.
#[cfg(feature = "failpoints")]
pub type Payload = halves::Halves;

/// The body that consists of `bytes`.
pub(super) fn payload(bytes: Bytes) -> Payload {
    Payload::new(bytes)
}

#[cfg(feature = "failpoints")]
mod halves {
    use crate::failpoint;
    use crate::telemetry::tasks;
    use bytes::Bytes;
    use http_body::{Body, Frame, SizeHint};
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    /// The last half has left by then, and no server that a test makes slow has answered.
    const GONE: Duration = Duration::from_millis(20);

    /// Bytes in two halves; the first is on its way before the second is given out.
    #[derive(Debug)]
    pub struct Halves {
        rest: Bytes,
        first: usize,
        paused: bool,
    }

    impl Halves {
        pub(super) fn new(bytes: Bytes) -> Self {
            Self { first: bytes.len() / 2, rest: bytes, paused: false }
        }
    }

    impl Body for Halves {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.rest.is_empty() {
                return Poll::Ready(None);
            }
            if self.first > 0 {
                let first = std::mem::take(&mut self.first);
                return Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(first)))));
            }
            // What was given out is written while this waits.
            if !self.paused {
                self.paused = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            failpoint::reached("mid-send");
            tasks::spawn("failpoint", async {
                tokio::time::sleep(GONE).await;
                failpoint::reached("after-send");
            });
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.rest)))))
        }

        fn is_end_stream(&self) -> bool {
            self.rest.is_empty()
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.rest.len() as u64)
        }
    }
}
