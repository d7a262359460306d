//! What a connection knows of the requests that come on it.

use crate::telemetry::tasks::WorkPlace;
use std::time::Duration;

/// Where a request comes from.
#[derive(Clone, Default)]
pub(super) struct RequestOrigin {
    /// Where it is worked on, if its connection has a place for that.
    pub(super) place: Option<WorkPlace>,
    /// When its first byte was read, in steady time; [`Duration::ZERO`] where it was sent before its
    /// agent had the answer to the last.
    pub(super) arrived: Duration,
    /// Something stands between agent and toolgate, and reads for it.
    pub(super) is_relayed: bool,
}
