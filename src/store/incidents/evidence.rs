//! What there is about an incident, for who finds out why: the ledger and the files, as far as they may leave
//! this machine. Made by who can read both.

use super::record::Incident;
use crate::model::entry::Entry;
use jiff::{SignedDuration, Timestamp};
use std::io::Write;

/// How long before an incident was opened its rows begin, unless that is said.
const BEFORE: SignedDuration = SignedDuration::from_hours(24);

/// From when to when rows of the ledger are wanted, where that is said.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BundleSpan {
    /// From then on; none: a day before the incident was opened.
    pub since: Option<Timestamp>,
    /// Up to then; none: until it was closed, or now.
    pub until: Option<Timestamp>,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BundleCount {
    /// Rows of the ledger.
    pub rows: usize,
    /// Older rows that there are beside them.
    pub left_out: usize,
    /// Records of that time or before that were dropped, and are in no archive that could be read: nobody knows
    /// which of them were about the tools.
    pub missing: u64,
    /// Files of the configuration.
    pub files: usize,
}

/// Reads what there is. Every method blocks.
pub(crate) trait IncidentEvidence: Send + Sync {
    /// Writes all of it line by line, within bounds, and never more of a secret than the ledger has in the
    /// open. In words, why it is not whole.
    fn bundle(
        &self,
        incident: &Incident,
        span: BundleSpan,
        out: &mut dyn Write,
    ) -> Result<BundleCount, String>;
    /// The recorded call whose action id begins or ends with `id`, as it stands in the ledger; in words, why
    /// there is none.
    fn call(&self, id: &str) -> Result<Entry, String>;
}

impl BundleSpan {
    /// From when to when rows of `incident` are wanted, if it is `now`; in words, why that cannot be.
    pub(crate) fn of(
        self,
        incident: &Incident,
        now: Timestamp,
    ) -> Result<(Timestamp, Timestamp), String> {
        let closed = incident.closed.as_ref();
        let closed = closed.and_then(|end| end.at.parse().ok());
        let opened = incident.opened.parse().ok();
        let usual = opened.and_then(|opened: Timestamp| opened.saturating_sub(BEFORE).ok());
        let since = self.since.or(usual).unwrap_or(Timestamp::MIN);
        let until = self.until.or(closed).unwrap_or(now);
        if until < since {
            return Err("the end is before the beginning: correct `until` or `since`".to_owned());
        }
        Ok((since, until))
    }
}
