//! The calls of several ledgers as those of one: by their times, each with the server it is of.

use super::LedgerLocation;
use super::calls::{LedgerCall, LedgerCalls};
use super::resolved::ResolvedCalls;
use crate::store::journal::JournalError;
use jiff::Timestamp;

/// A ledger to read, and the server it is of where there are others beside it.
pub(super) struct NamedLedger<'l> {
    pub(super) server: Option<&'l str>,
    pub(super) place: LedgerLocation<'l>,
}

/// A ledger that is read.
pub(super) struct MergedLedger<'l> {
    pub(super) server: Option<&'l str>,
    /// How calls were resolved.
    pub(super) known: ResolvedCalls,
    calls: LedgerCalls,
    next: Option<Result<LedgerCall, JournalError>>,
    /// When the next call was; none goes first.
    time: Option<Timestamp>,
}

/// A call, and the ledger it is of.
pub(super) struct MergedCall<'m, 'l> {
    pub(super) ledger: &'m MergedLedger<'l>,
    pub(super) call: Result<LedgerCall, JournalError>,
}

/// Reads several ledgers. Of the calls that come next in each, the oldest is first, so that those of one
/// ledger stay in the order in which they ended.
#[derive(Default)]
pub(super) struct MergedCalls<'l>(Vec<MergedLedger<'l>>);

impl<'l> MergedLedger<'l> {
    fn of(ledger: &NamedLedger<'l>) -> Result<Self, JournalError> {
        let LedgerLocation { data, archive, .. } = ledger.place;
        let mut open = Self {
            server: ledger.server,
            known: ResolvedCalls::read(data, archive)?,
            calls: LedgerCalls::open_in(data, archive)?.and_messages(),
            next: None,
            time: None,
        };
        open.advance();
        Ok(open)
    }

    /// Gives the next call, and looks at the one behind it.
    fn advance(&mut self) -> Option<Result<LedgerCall, JournalError>> {
        let given = self.next.take();
        // Behind what cannot be read on, nothing can be read.
        let is_over = |error: &JournalError| !matches!(error, JournalError::Unreadable { .. });
        if !matches!(&given, Some(Err(error)) if is_over(error)) {
            self.next = self.calls.next();
        }
        self.time = match &self.next {
            Some(Ok(call)) => call.entry.time.parse().ok(),
            Some(Err(_)) | None => None,
        };
        given
    }
}

impl<'l> MergedCalls<'l> {
    /// Reads `ledger`, too.
    ///
    /// # Errors
    /// It cannot be read; the others can.
    pub(super) fn add(&mut self, ledger: &NamedLedger<'l>) -> Result<(), JournalError> {
        self.0.push(MergedLedger::of(ledger)?);
        Ok(())
    }

    /// The next call of all; none at the end.
    pub(super) fn next(&mut self) -> Option<MergedCall<'_, 'l>> {
        let open = self.0.iter_mut().filter(|ledger| ledger.next.is_some());
        let oldest = open.min_by_key(|ledger| ledger.time)?;
        let call = oldest.advance()?;
        Some(MergedCall {
            ledger: oldest,
            call,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::configured::DataArgs;
    use crate::cli::ledger::tests::entry;
    use crate::cli::terminal::Terminal;
    use crate::config::DataPlace;
    use crate::store::journal::{Journal, JournalOptions};
    use serde_json::json;

    /// A ledger with a call in each of these minutes.
    async fn ledger(minutes: [u64; 3]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        let journal = Journal::open(temp.path(), JournalOptions::default()).unwrap();
        for minute in minutes {
            journal.record(entry(minute, &json!({}))).unwrap();
        }
        journal.close().await.unwrap();
        temp
    }

    #[tokio::test]
    async fn calls_of_several_ledgers_come_by_their_times() {
        let (one, other) = (ledger([1, 4, 5]).await, ledger([2, 3, 6]).await);
        let (named, found) = (DataArgs::default(), DataPlace::default());
        let ledgers = [("one", &one), ("other", &other)].map(|(server, kept)| NamedLedger {
            server: Some(server),
            place: LedgerLocation {
                data: kept.path(),
                archive: None,
                named: &named,
                place: &found,
                terminal: Terminal::of(None, "2026-07-28T09:10:00Z"),
            },
        });
        let mut calls = MergedCalls::default();
        for ledger in &ledgers {
            calls.add(ledger).unwrap();
        }
        let mut told = Vec::new();
        while let Some(MergedCall { ledger, call }) = calls.next() {
            let time = call.unwrap().entry.time;
            told.push(format!("{} {}", ledger.server.unwrap(), &time[14..16]));
        }
        let expected = [
            "one 01", "other 02", "other 03", "one 04", "one 05", "other 06",
        ];
        assert_eq!(told, expected);
    }
}
