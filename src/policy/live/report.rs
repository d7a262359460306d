//! What there is to tell of a reload.

use super::{LiveStatus, ReloadOutcome};
use crate::model::diagnostic::Severity;

/// What became of a reload that changed something, for who keeps a record of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadReport {
    /// What became of it.
    pub outcome: ReloadOutcome,
    /// The version that was in force.
    pub before: String,
    /// The version in force.
    pub version: String,
    /// Errors in the files.
    pub errors: usize,
    /// Whether the files had errors before.
    pub was_stale: bool,
    /// Whether what takes effect with a policy is other now.
    pub is_beside: bool,
}

impl ReloadReport {
    /// Of a reload between these two; nothing where all is as it was.
    pub(super) fn of(
        outcome: ReloadOutcome,
        before: &LiveStatus,
        now: &LiveStatus,
    ) -> Option<Self> {
        let errors = now
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error);
        let was_stale = before.stale();
        let is_mended = was_stale && !now.stale();
        let is_beside = before.beside != now.beside;
        (outcome != ReloadOutcome::Unchanged || is_mended || is_beside).then(|| Self {
            outcome,
            before: before.version.clone(),
            version: now.version.clone(),
            errors: errors.count(),
            was_stale,
            is_beside,
        })
    }
}
