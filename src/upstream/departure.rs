//! Whether a request has left. Who waits for it and who writes it agree on that, on whichever
//! threads they are: a request that is taken back in time never leaves, and one that is not is
//! unknown until it is answered (guarantees §4).

use crate::model::ids::ActionId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const STATE_WAITING: u8 = 0;
const STATE_LEFT: u8 = 1;
const STATE_TAKEN_BACK: u8 = 2;

/// Whether one request has left, of which a second one would be a second call. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Departure(Arc<DepartingRequest>);

#[derive(Debug, Default)]
struct DepartingRequest {
    state: AtomicU8,
    action: Option<ActionId>,
}

/// The request was taken back before any byte of it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was taken back")]
pub struct TakenBack;

impl Departure {
    /// The request of this action, of which nobody knows what became of it if it is not answered; none
    /// for any other request.
    pub fn of(action: Option<ActionId>) -> Self {
        let state = AtomicU8::default();
        Self(Arc::new(DepartingRequest { state, action }))
    }

    /// Which action it is.
    pub fn action(&self) -> Option<ActionId> {
        self.0.action
    }

    /// Asked by who writes it, right before its first byte; from then on it may have left.
    pub fn leaves(&self) -> Result<(), TakenBack> {
        if self.becomes(STATE_LEFT) {
            Ok(())
        } else {
            Err(TakenBack)
        }
    }

    /// Takes it back: from now on no byte of it leaves. False when one may have left.
    pub fn take_back(&self) -> bool {
        self.becomes(STATE_TAKEN_BACK)
    }

    fn becomes(&self, last: u8) -> bool {
        let before =
            self.0
                .state
                .compare_exchange(STATE_WAITING, last, Ordering::AcqRel, Ordering::Acquire);
        before.is_ok() || before == Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// guarantees §4: one of both wins, and what is decided stays.
    #[test]
    fn a_request_leaves_or_is_taken_back() {
        let left = Departure::default();
        assert_eq!(
            (left.leaves(), left.take_back(), left.clone().leaves()),
            (Ok(()), false, Ok(()))
        );
        let back = Departure::default();
        assert_eq!(
            (back.take_back(), back.leaves(), back.clone().take_back()),
            (true, Err(TakenBack), true)
        );
    }

    #[test]
    fn two_threads_never_both_win() {
        for _ in 0..1000 {
            let one = Departure::default();
            let (left, back) = std::thread::scope(|scope| {
                let leaves = scope.spawn(|| one.leaves().is_ok());
                let back = scope.spawn(|| one.take_back());
                (
                    leaves.join().is_ok_and(|left| left),
                    back.join().is_ok_and(|back| back),
                )
            });
            assert!(left != back, "left: {left}, taken back: {back}");
        }
    }
}
