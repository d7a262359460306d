//! What the log says while the store cannot write: a line a minute, since it could be one for each call.

use crate::model::clock::Clock;
use crate::telemetry::paced_log::PacedLog;
use std::fmt::Display;

static REFUSED_LINES: PacedLog = PacedLog::new();
static UNNOTED_LINES: PacedLog = PacedLog::new();

/// A call is refused because of `why`.
pub(in crate::gate) fn store_refuses(why: &str) {
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
