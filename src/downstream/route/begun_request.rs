//! A request that has begun: who does its work, and what its agent reads first.

use crate::downstream::patience::SharedPatience;
use crate::mcp::sse::SseComment;
use crate::outlet::{Inlet, Outgoing};
use crate::telemetry::tasks::DetachOnDrop;
use std::sync::Arc;

/// A request under way.
pub(in crate::downstream) struct BegunRequest {
    /// What the agent reads. Dropping it says that the agent left.
    pub(in crate::downstream) inlet: Inlet,
    /// What is left to do; none when the answer is there already.
    pub(in crate::downstream) work: Option<DetachOnDrop>,
    pub(super) patience: Arc<SharedPatience>,
}

impl BegunRequest {
    /// The first that the agent reads: within 200 ms the answer, or what comes before it, so that a
    /// quick answer is plain JSON under its own status; else a sign that it is waited for. When it is not the answer, or the agent leaves, the work goes on
    /// in a task.
    pub(in crate::downstream) async fn first(self) -> (Option<Outgoing>, Inlet) {
        let Self {
            mut inlet,
            work,
            patience,
        } = self;
        let silent = || Some(Outgoing::Comment(SseComment::default()));
        let first = match work {
            None => inlet.recv().await,
            Some(mut work) => tokio::select! {
                biased;
                () = &mut work => inlet.recv().await,
                first = inlet.recv() => first,
                () = patience.ends() => silent(),
            },
        };
        (first, inlet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::downstream::patience::FIRST_WORD_TIMEOUT;
    use crate::mcp::json::Text;
    use crate::mcp::message::Message;
    use crate::outlet::{Outlet, way_back};
    use std::time::Duration;

    /// A request that panics where nothing of the gate catches it has no answer, and the connection
    /// that waits goes on.
    #[tokio::test]
    async fn a_request_that_panics_has_no_answer() {
        let (outlet, inlet) = way_back();
        let work = DetachOnDrop::new("request", async move {
            let _outlet: Outlet = outlet;
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "it panics");
        });
        assert!(
            BegunRequest {
                inlet,
                work: Some(work),
                patience: Arc::default(),
            }
            .first()
            .await
            .0
            .is_none()
        );
    }

    /// An agent of a tool server that says nothing has its head after 200 ms, and the answer when
    /// it comes.
    #[tokio::test(start_paused = true)]
    async fn a_silent_server_leaves_nobody_without_a_head() {
        for (silent_ms, is_answer) in [(199, true), (201, false), (3_600_000, false)] {
            let (outlet, inlet) = way_back();
            let work = DetachOnDrop::new("request", async move {
                tokio::time::sleep(Duration::from_millis(silent_ms)).await;
                let answer = Message::response(None, Text::bool(true), false);
                outlet.answer(answer);
            });
            let began = tokio::time::Instant::now();
            let request = BegunRequest {
                inlet,
                work: Some(work),
                patience: Arc::default(),
            };
            let (first, mut inlet) = request.first().await;
            assert!(began.elapsed() <= FIRST_WORD_TIMEOUT + Duration::from_millis(1));
            assert_eq!(matches!(first, Some(Outgoing::Last(_))), is_answer);
            let last = if is_answer { first } else { inlet.recv().await };
            assert!(matches!(last, Some(Outgoing::Last(_))), "{silent_ms}");
        }
    }

    /// What an agent has not read yet when the work ends is still there, in order; when more
    /// follows, the work goes on.
    #[tokio::test]
    async fn the_first_word_is_read_first() {
        for pauses in [true, false] {
            let (outlet, inlet) = way_back();
            let work = DetachOnDrop::new("request", async move {
                for retry in 0..3 {
                    outlet.say(Outgoing::Interrupted(retry)).await.unwrap();
                    if pauses {
                        tokio::task::yield_now().await;
                    }
                }
            });
            let (first, mut inlet) = BegunRequest {
                inlet,
                work: Some(work),
                patience: Arc::default(),
            }
            .first()
            .await;
            let mut read = vec![first];
            while let Some(next) = inlet.recv().await {
                read.push(Some(next));
            }
            let read: Vec<_> = read.into_iter().map(|read| format!("{read:?}")).collect();
            assert_eq!(
                read,
                [
                    "Some(Interrupted(0))",
                    "Some(Interrupted(1))",
                    "Some(Interrupted(2))"
                ],
                "{pauses}"
            );
        }
    }
}
