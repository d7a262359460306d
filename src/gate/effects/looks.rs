//! What a call shows of the answers before it: which of them its agent had read when it sent the
//! call. An agent's kernel may acknowledge an answer some 40 ms after it came, and the agent's next
//! call comes on another connection meanwhile: so the kernel here is asked again for a short time.

use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::outlet::receipt::{LaterCall, Receipt};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Between one question to the kernel and the next.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// A call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) struct DoneCall {
    pub(in crate::gate) key: Digest,
    pub(in crate::gate) action: ActionId,
}

/// What one call shows of those before it.
#[derive(Default)]
pub(in crate::gate) struct ShownCalls {
    /// The calls whose answers its agent had read.
    pub(super) read: Vec<DoneCall>,
    /// The calls of which that is not known yet.
    pub(super) awaited: Option<Arc<AwaitedLook>>,
}

impl ShownCalls {
    /// Whether it shows nothing, and will not.
    pub(in crate::gate) fn is_empty(&self) -> bool {
        self.read.is_empty() && self.awaited.is_none()
    }
}

/// A call and the answers to others of which the kernel has yet to say whether they had been read when
/// the call came.
pub(in crate::gate) struct AwaitedLook {
    pub(super) place: Digest,
    later: LaterCall,
    answers: Vec<(DoneCall, Arc<Receipt>)>,
    state: Mutex<LookState>,
    /// Cancelled once the kernel has said all that it will be asked.
    over: CancellationToken,
}

#[derive(Default)]
struct LookState {
    is_begun: bool,
    /// What had been read; none before that is known.
    read: Option<Vec<DoneCall>>,
}

impl AwaitedLook {
    /// Of `later`, at `place`, for `answers`.
    pub(super) fn new(
        place: Digest,
        later: LaterCall,
        answers: Vec<(DoneCall, Arc<Receipt>)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            place,
            later,
            answers,
            state: Mutex::default(),
            over: CancellationToken::new(),
        })
    }

    /// Whether it looks for the answer to `call`.
    pub(super) fn is_for(&self, call: DoneCall) -> bool {
        self.answers.iter().any(|(known, _)| *known == call)
    }

    /// Asks the kernel until it has said all or what it says counts no more.
    pub(super) async fn ask(&self, clock: Clock) {
        let (began, mut paused) = (clock.steady(), Duration::ZERO);
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            paused += LOOK_PAUSE;
            let elapsed = clock.steady().saturating_sub(began);
            let later = LaterCall {
                now: self.later.now + elapsed.max(paused),
                ..self.later
            };
            let asked = self.answers.iter();
            let said = asked.map(|(call, receipt)| (*call, receipt.asked_before(later)));
            let said: Vec<(DoneCall, Option<bool>)> = said.collect();
            if said.iter().all(|(_, is_read)| is_read.is_some()) {
                let read = said.iter().filter(|(_, is_read)| *is_read == Some(true));
                self.state.lock().read = Some(read.map(|(call, _)| *call).collect());
                return;
            }
        }
    }

    /// The call is begun; gives what is known by now to have been read before it.
    pub(super) fn begins(&self) -> Vec<DoneCall> {
        let mut state = self.state.lock();
        state.is_begun = true;
        state.read.clone().unwrap_or_default()
    }

    /// What had been read, once that is known and the call is begun.
    pub(super) fn found(&self) -> Vec<DoneCall> {
        let state = self.state.lock();
        let read = state.read.as_ref().filter(|_| state.is_begun);
        read.cloned().unwrap_or_default()
    }

    /// Ends it when it is dropped: nobody need wait for it any more.
    pub(super) fn guard(&self) -> DropGuard {
        self.over.clone().drop_guard()
    }

    /// Once it has ended.
    pub(super) async fn ended(&self) {
        self.over.cancelled().await;
    }
}
