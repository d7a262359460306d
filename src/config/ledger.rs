//! How the record of calls is kept.

use super::settings::LedgerSettings;
use crate::model::diagnostic::Problems;
use crate::model::times::between;
use std::time::Duration;

/// How long closed segments are kept: usual, least, most.
const KEEP: Duration = Duration::from_hours(24 * 90);
const KEEPS: (Duration, Duration) = (Duration::from_hours(1), Duration::from_hours(24 * 36_500));

/// How the record of calls is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// How long closed segments are kept after their last entry.
    pub keep: Duration,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { keep: KEEP }
    }
}

pub(super) fn compile(written: &LedgerSettings, problems: &mut Problems) -> Ledger {
    let LedgerSettings { keep } = written;
    Ledger { keep: between("keep", keep.as_deref(), KEEPS, problems).unwrap_or(KEEP) }
}
