//! What the same files say that is no policy, and takes effect with it: where the policy is refused, as when its
//! packs fail, that is not in force either.

use std::fmt;

type TakeEffect = dyn FnOnce() -> bool + Send + Sync;

/// It, once. The default: there is nothing.
#[derive(Default)]
pub struct AlongWithPolicy(Option<Box<TakeEffect>>);

impl AlongWithPolicy {
    /// What `take_effect` does, which says whether it has changed anything.
    pub fn new(take_effect: impl FnOnce() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(take_effect)))
    }

    /// From now on it is in force; whether that changes anything.
    pub(super) fn takes_effect(self) -> bool {
        self.0.is_some_and(|take_effect| take_effect())
    }
}

impl fmt::Debug for AlongWithPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = self.0.is_some();
        f.debug_tuple("AlongWithPolicy").field(&is_there).finish()
    }
}
