//! What goes on beside the calls only where agents are served, and not where doctor looks.

use super::{background, milestones, notices, rollbacks};
use crate::config::Config;
use crate::gate::Gate;
use crate::store::disk_space::DiskSpace;
use crate::telemetry::tasks;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The disk of the data directory, as it was looked at last.
pub(super) type SeenDisk = Arc<Mutex<Option<DiskSpace>>>;

/// Begins all of it, until `stop`; what is seen of the disk. Nothing of it where nobody is served.
pub(super) fn begin(
    config: &Config,
    gate: &Arc<Gate>,
    is_serving: bool,
    stop: &CancellationToken,
) -> anyhow::Result<SeenDisk> {
    let disk = SeenDisk::default();
    if is_serving {
        notices::start(config, gate, stop)?;
        milestones::started(gate);
        let (data, metrics) = (config.data.clone(), gate.metrics.clone());
        tasks::spawn("rollbacks", rollbacks::record(gate.clone(), data.clone()));
        let looks = background::watch_disk(data, disk.clone(), metrics, stop.clone());
        tasks::spawn("disk", looks);
    }
    Ok(disk)
}
