//! Which calls of unknown outcome a round of the timer looks at. Of many calls that no probe can ask about,
//! those behind them are found all the same: a round reads so many, and the next one goes on where it stopped,
//! and from the first on again.

use super::claims::{ClaimPage, Store, StoreError};
use super::operator::MAX_CLAIMS_LISTED;
use super::state::claim::Claim;
use crate::model::digest::Digest;
use parking_lot::Mutex;

/// Pages of claims that a round reads at most.
const MAX_PAGES: usize = 8;
/// Calls that a round chooses among at most.
const MAX_OPEN: usize = MAX_CLAIMS_LISTED;

/// How far the rounds have come.
#[derive(Debug, Default)]
pub(crate) struct LookWindow {
    /// Behind this claim the next round begins; none: at the first.
    after: Mutex<Option<Digest>>,
}

/// What a round chooses among.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    /// In the order of their keys.
    pub(crate) calls: Vec<Claim>,
    /// Whether these are all that there are.
    pub(crate) is_all: bool,
}

impl LookWindow {
    /// The next calls that `can_be_asked` about.
    ///
    /// # Errors
    /// The store cannot be read; the next round begins where this one did.
    pub(crate) async fn next(
        &self,
        store: &dyn Store,
        can_be_asked: impl Fn(&Claim) -> bool,
    ) -> Result<OpenCalls, StoreError> {
        let begin = *self.after.lock();
        let (mut after, mut calls) = (begin, Vec::new());
        let mut is_over = false;
        for _ in 0..MAX_PAGES {
            let most = MAX_CLAIMS_LISTED;
            let page = store.unsettled_in(ClaimPage { after, most }).await?;
            let is_last = page.len() < most;
            let mut rest = page.into_iter();
            for (key, claim) in rest.by_ref() {
                after = Some(key);
                if can_be_asked(&claim) {
                    calls.push(claim);
                }
                if calls.len() >= MAX_OPEN {
                    break;
                }
            }
            is_over = is_last && rest.len() == 0;
            if is_over || calls.len() >= MAX_OPEN {
                break;
            }
        }
        *self.after.lock() = after.filter(|_| !is_over);
        Ok(OpenCalls {
            calls,
            is_all: is_over && begin.is_none(),
        })
    }
}

#[cfg(test)]
mod tests;
