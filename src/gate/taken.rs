//! What a call has taken, given back in one place on every path. Budgets, claims and leases join here when their steps do.

use crate::model::refusal::Refusal;
use tokio::sync::OwnedSemaphorePermit;

/// Everything a call holds while it runs.
#[derive(Debug, Default)]
pub struct Taken {
    /// Its room among the calls in flight.
    pub slot: Option<OwnedSemaphorePermit>,
}

impl Taken {
    /// What the agent reads when toolgate itself broke: once the call had its slot, it may have been sent.
    pub fn after_panic(&self) -> Refusal {
        if self.slot.is_some() { Refusal::OutcomeUnknown } else { Refusal::InternalError }
    }

    /// Gives everything back. Exhaustive on purpose: a new field does not compile until it is settled here.
    pub fn settle(self) {
        let Self { slot } = self;
        drop(slot);
    }
}
