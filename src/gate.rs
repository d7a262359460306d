//! Floor 4: the gate. [`call`] is the pipeline, [`list`] what a caller may see; both ask the same guards.

pub mod call;
pub mod dispatch;
pub mod list;
pub mod placing;
pub mod record;
pub mod taken;
pub mod toolbox;
pub mod trail;

use crate::model::clock::Clock;
use crate::policy::live::Live;
use crate::store::journal::Journal;
use crate::telemetry::metrics::Metrics;
use std::sync::Arc;
use tokio::sync::Semaphore;
use toolbox::Toolbox;

/// Calls in flight at most (SECURITY §8).
pub const IN_FLIGHT: usize = 256;

/// What a call needs beside itself.
pub struct Gate {
    /// The policy, as it stands.
    pub policy: Arc<Live>,
    /// The tools of all servers, as they stand.
    pub tools: Arc<Toolbox>,
    /// Where every judged call is recorded.
    pub journal: Arc<Journal>,
    /// What operators count.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
    /// Listings already made.
    pub listings: list::Listings,
    /// Room for calls.
    pub slots: Arc<Semaphore>,
}
