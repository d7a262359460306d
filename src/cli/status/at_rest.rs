//! What can be read of a data directory while no toolgate tells.

use crate::admin::status::DiskStatus;
use crate::model::disabled::{Disabled, FrozenScope};
use crate::store::disabling;
use crate::store::disk_space::DiskSpace;
use crate::store::incidents;
use crate::store::journal;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What stands there.
#[derive(Debug, Serialize)]
pub(super) struct AtRest {
    /// Where.
    pub data: PathBuf,
    /// Bytes of the ledger; none where there is none, or it cannot be read.
    pub ledger_bytes: Option<u64>,
    /// Tools that operators have taken away.
    pub disabled: Disabled,
    /// What open incidents freeze.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<FrozenScope>,
    /// Its disk.
    pub disk: Option<DiskStatus>,
}

impl AtRest {
    /// Of the data directory `data`.
    pub(super) fn of(data: &Path) -> Self {
        let disk = DiskSpace::of(data).ok();
        Self {
            data: data.to_owned(),
            ledger_bytes: journal::bytes_in(data).ok(),
            disabled: disabling::read(data).unwrap_or_default(),
            frozen: incidents::frozen(data).unwrap_or_default(),
            disk: disk.map(|disk| DiskStatus {
                free_bytes: disk.free,
                total_bytes: disk.total,
                low: disk.is_low(),
            }),
        }
    }
}
