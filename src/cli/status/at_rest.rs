//! What can be read of a data directory while no toolgate tells.

use crate::admin::status::DiskStatus;
use crate::model::disabled::{Disabled, FrozenScope};
use crate::store::disabling;
use crate::store::disk_space::DiskSpace;
use crate::store::incidents;
use crate::store::journal;
use serde::Serialize;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What stands there.
#[derive(Debug, Serialize)]
pub(super) struct AtRest {
    /// Where.
    pub data: PathBuf,
    /// Bytes of the ledger; none where there is none, or it cannot be read.
    pub ledger_bytes: Option<u64>,
    /// Why the directory, or its ledger, cannot be read, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
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
        let ledger_bytes = journal::bytes_in(data).ok();
        let unread = ledger_bytes.is_none().then(|| unread(data)).flatten();
        Self {
            data: data.to_owned(),
            ledger_bytes,
            unread,
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

/// Why no ledger can be seen in `data`; none: there is none.
fn unread(data: &Path) -> Option<String> {
    let looked = fs::read_dir(data).and_then(|_| journal::is_in(data));
    match looked {
        Ok(true) => Some("its ledger cannot be read".to_owned()),
        Ok(false) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Some("it is no directory".to_owned())
        }
        Err(error) => Some(format!("it cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no data directory, and what cannot be read of one, is not told to have no ledger yet.
    #[test]
    fn a_ledger_that_is_not_seen_is_not_said_to_be_none() {
        let place = tempfile::tempdir().unwrap();
        let seen = |name: &str| {
            let seen = AtRest::of(&place.path().join(name));
            assert_eq!(seen.ledger_bytes, None, "{name}");
            seen.unread
        };
        for name in ["file", "broken/journal"] {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::create_dir(place.path().join("empty")).unwrap();
        assert_eq!((seen("none"), seen("empty")), (None, None));
        assert_eq!(seen("file").as_deref(), Some("it is no directory"));
        assert_eq!(seen("broken").as_deref(), Some("its ledger cannot be read"));
    }
}
