//! What is noted of a call that has begun, for the calls that come after it.

use super::Live;
use crate::gate::case::Subject;
use crate::gate::effects::progress::place_at;
use crate::gate::effects::taken::AwaitedAnswer;
use crate::guards::idempotency::{Keyed, Regime};

impl Live<'_> {
    /// Notes at its place that it has begun; the read of its answer counts where equal calls are told apart by
    /// that.
    pub(super) fn follow(&mut self, subject: &Subject<'_>, keyed: &Keyed) {
        let server = &subject.tool.server.settings.name;
        let place = place_at(keyed.place(), server);
        (self.gate.effects.progress).begun(place, self.found.key.shown());
        if let (Regime::Reissue { .. }, Some(held)) = (keyed.regime(), &mut self.taken.claim) {
            let receipt = subject.call.receipt();
            let caller = subject.call.origin.caller.clone();
            held.answer = Some(AwaitedAnswer {
                place,
                caller,
                receipt,
            });
        }
    }
}
