//! The body of a request to a tool server: its bytes, which leave if the request has not been taken
//! back by then; with fail points in two halves, so that a test can end toolgate between them.

use crate::upstream::departure::{Departure, TakenBack};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

#[cfg(feature = "failpoints")]
use halves::Halves as PayloadBody;

#[cfg(not(feature = "failpoints"))]
type PayloadBody = http_body_util::Full<Bytes>;

/// The body of a request, which is the message. A connection asks for it before it writes anything,
/// over HTTP/2 at times right after the head; a request that has a head only is none.
#[derive(Debug)]
pub struct Payload {
    inside: PayloadBody,
    /// None when nobody takes it back.
    departure: Option<Departure>,
}

/// The body that consists of `bytes`.
pub(super) fn payload(bytes: Bytes, departure: Option<Departure>) -> Payload {
    Payload {
        inside: PayloadBody::new(bytes),
        departure,
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = TakenBack;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TakenBack>>> {
        if let Some(departure) = &self.departure {
            departure.leaves()?;
        }
        Pin::new(&mut self.inside)
            .poll_frame(context)
            .map_err(|never| match never {})
    }

    fn is_end_stream(&self) -> bool {
        self.inside.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inside.size_hint()
    }
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
    const SECOND_HALF_DELAY: Duration = Duration::from_millis(20);

    /// Bytes in two halves; the first is on its way before the second is given out.
    #[derive(Debug)]
    pub(super) struct Halves {
        rest: Bytes,
        first: usize,
        paused: bool,
    }

    impl Halves {
        pub(super) fn new(bytes: Bytes) -> Self {
            Self {
                first: bytes.len() / 2,
                rest: bytes,
                paused: false,
            }
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
                tokio::time::sleep(SECOND_HALF_DELAY).await;
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
