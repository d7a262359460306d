//! What the same files say that is no policy: what they take away holds at once, whatever becomes of the policy, and
//! what they give takes effect with it. Where the policy is refused, as when its packs fail, that is not in force either.
//! A reading changes nothing: a reload does.

use std::fmt;

type TakeAway = dyn FnOnce() + Send + Sync;
type TakeEffect = dyn FnOnce() -> bool + Send + Sync;

/// It, once. The default: there is nothing.
#[derive(Default)]
pub struct AlongWithPolicy {
    at_once: Option<Box<TakeAway>>,
    later: Option<Box<TakeEffect>>,
}

impl AlongWithPolicy {
    /// What `at_once` takes away, and what `take_effect` does, which says whether it has changed anything.
    pub fn new(
        at_once: impl FnOnce() + Send + Sync + 'static,
        take_effect: impl FnOnce() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            at_once: Some(Box::new(at_once)),
            later: Some(Box::new(take_effect)),
        }
    }

    /// From now on what is taken away is gone.
    pub(super) fn takes_away(&mut self) {
        if let Some(take_away) = self.at_once.take() {
            take_away();
        }
    }

    /// From now on all of it is in force; whether that changes anything.
    pub(super) fn takes_effect(mut self) -> bool {
        self.takes_away();
        self.later.is_some_and(|take_effect| take_effect())
    }
}

impl fmt::Debug for AlongWithPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = self.later.is_some();
        f.debug_tuple("AlongWithPolicy").field(&is_there).finish()
    }
}
