//! What the log says while the store cannot write: a line a minute, since it could be one for each call.

use crate::model::clock::Clock;
use crate::model::refusal::Refusal;
use crate::store::claims::StoreError;
use crate::telemetry::paced_log::PacedLog;
use std::fmt::Display;

static REFUSED_LINES: PacedLog = PacedLog::new();
static UNNOTED_LINES: PacedLog = PacedLog::new();

/// What the agent reads of a call that is refused because of `error`.
pub(in crate::gate) fn refused(error: StoreError) -> Refusal {
    match error {
        StoreError::Opening(percent) => {
            store_refuses(&error.to_string());
            Refusal::StoreOpening { percent }
        }
        StoreError::Full(why) | StoreError::Broken(why) | StoreError::Away(why) => {
            store_refuses(&why);
            Refusal::StoreUnavailable
        }
    }
}

/// A call is refused because of `why`.
fn store_refuses(why: &str) {
    if let Some(calls) = REFUSED_LINES.count(Clock.steady()) {
        tracing::warn!(
            why,
            calls,
            "the store refuses side effects; said once a minute, for so many calls"
        );
    }
}

/// Something beside the outcome of a call was not recorded, which `what` says.
pub(in crate::gate) fn unnoted(error: &dyn Display, what: &str) {
    if let Some(times) = UNNOTED_LINES.count(Clock.steady()) {
        tracing::warn!(%error, times, "{what}; said once a minute, for whatever is not noted");
    }
}
