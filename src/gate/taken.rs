//! What a call has taken, given back in one place on every path. Budgets, claims and leases join here when their steps do.

use tokio::sync::OwnedSemaphorePermit;

/// Everything a call holds while it runs.
#[derive(Debug, Default)]
pub struct Taken {
    /// Its room among the calls in flight.
    pub slot: Option<OwnedSemaphorePermit>,
}

impl Taken {
    /// Gives everything back. Exhaustive on purpose: a new field does not compile until it is settled here.
    pub fn settle(self) {
        let Self { slot } = self;
        drop(slot);
    }
}
