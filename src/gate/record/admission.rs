//! What step 2 has found for a call that it let pass, for whatever asks again: the same policy finds the
//! same for the same call.

use crate::gate::call::Call;
use crate::guards::allowlist::Admitted;
use std::sync::Arc;

/// A call, and what it was admitted by.
pub struct KnownAdmission<'p> {
    call: Arc<Call>,
    admitted: Admitted<'p>,
}

impl<'p> KnownAdmission<'p> {
    /// `call` was admitted so. Boxed, so that a call in flight keeps less.
    pub(in crate::gate) fn of(call: &Arc<Call>, admitted: &Admitted<'p>) -> Box<Self> {
        let (call, admitted) = (call.clone(), admitted.clone());
        Box::new(Self { call, admitted })
    }

    /// What was found, if it was for this very call: what rewrites a call makes another.
    pub(in crate::gate) fn found_for(&self, call: &Call) -> Option<&Admitted<'p>> {
        std::ptr::eq(&raw const *self.call, call).then_some(&self.admitted)
    }
}
