//! What a ledger has from some time on, whatever becomes of its oldest segments meanwhile: they may be in
//! the archive, or dropped. How much is nowhere any more is known at the end.

use super::scoped::time_of;
use crate::store::journal::{JournalError, JournalReader, JournalRecord};
use jiff::Timestamp;
use std::path::Path;

/// The records that there are.
pub(in crate::cli) struct RemainingRecords<'a> {
    data: &'a Path,
    /// The archive, where segments are read from it as well.
    archive: Option<&'a Path>,
    /// How else it can be read, with the archive or without; the last is tried first.
    others: Vec<Option<&'a Path>>,
    reader: JournalReader,
    /// The last record that was read, or that is known to be missing.
    passed: u64,
    missing: u64,
}

impl<'a> RemainingRecords<'a> {
    /// Those of the data directory `data`, and of the `archive` where the others begin after `since`. What
    /// is in an archive that cannot be read is missing.
    pub(in crate::cli) fn since(
        data: &'a Path,
        archive: Option<&'a Path>,
        since: Timestamp,
    ) -> Result<Self, JournalError> {
        let mut found = Self::read(data, None, since)?;
        if archive.is_none() {
            return Ok(found);
        }
        // Segments may go there while they are read here.
        found.others = vec![None, archive];
        if found.missing > 0
            && let Ok(with) = Self::read(data, archive, since)
        {
            found = with;
            found.others = vec![None];
        }
        Ok(found)
    }

    fn read(
        data: &'a Path,
        archive: Option<&'a Path>,
        since: Timestamp,
    ) -> Result<Self, JournalError> {
        let reader = JournalReader::after_in(data, archive, 0)?;
        let gone = reader.missing();
        let is_whole = gone == 0 || begins_before(data, archive, since);
        Ok(Self {
            data,
            archive,
            others: Vec::new(),
            reader,
            passed: gone,
            missing: if is_whole { 0 } else { gone },
        })
    }

    /// How many records are nowhere, of which nobody can say what they were about. Known once all others are
    /// read.
    pub(in crate::cli) fn missing(&self) -> u64 {
        self.missing
    }

    /// The archive, where it is read.
    pub(in crate::cli) fn archive(&self) -> Option<&'a Path> {
        self.archive
    }

    /// Goes on with what there is, where what would come next is gone or cannot be read; whether there is
    /// anything.
    fn goes_on(&mut self) -> bool {
        loop {
            let other = self.others.pop();
            self.archive = other.unwrap_or(self.archive);
            if let Ok(reader) = JournalReader::after_in(self.data, self.archive, self.passed)
                && (other.is_some() || reader.missing() > 0)
            {
                self.missing += reader.missing();
                self.passed += reader.missing();
                self.reader = reader;
                return true;
            }
            if other.is_none() {
                return false;
            }
        }
    }
}

impl Iterator for RemainingRecords<'_> {
    type Item = Result<JournalRecord, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.next()? {
                Ok(record) => {
                    self.passed = record.seq;
                    return Some(Ok(record));
                }
                Err(_) if self.goes_on() => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Whether the first record whose time is known is of before `since`. One that cannot be read is not.
fn begins_before(data: &Path, archive: Option<&Path>, since: Timestamp) -> bool {
    let Ok(records) = JournalReader::after_in(data, archive, 0) else {
        return false;
    };
    for record in records {
        let Ok(time) = record.and_then(|record| time_of(&record)) else {
            return false;
        };
        if let Some(time) = time {
            return time < since;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tests::entry;
    use super::*;
    use crate::store::journal::{Journal, JournalOptions, Retention};
    use serde_json::json;
    use std::time::Duration;

    /// Calls that are recorded, one in each minute.
    const CALLS: u64 = 12;

    async fn written(data: &Path) -> Journal {
        let options = JournalOptions {
            segment_bytes: 400,
            reserve_bytes: 0,
            ..JournalOptions::default()
        };
        let journal = Journal::open(data, options).unwrap();
        for number in 1..=CALLS {
            journal.record(entry(number, &json!({}))).unwrap();
            journal.flush().await.unwrap();
        }
        journal
    }

    /// Drops what is up to record `upto`, into the `archive` if there is one.
    async fn drop_up_to(journal: &Journal, upto: u64, archive: Option<&Path>) {
        let retention = Retention {
            upto,
            age: Duration::ZERO,
            archive,
        };
        let dropped = journal.compact(retention, std::iter::empty()).await;
        assert!(dropped.unwrap().is_some());
    }

    fn minute(number: u64) -> Timestamp {
        format!("2026-07-28T09:{number:02}:00Z").parse().unwrap()
    }

    /// The calls that are read from `since` on, and how many records are missing.
    fn read(data: &Path, archive: Option<&Path>, since: Timestamp) -> (Vec<u64>, u64) {
        let mut records = RemainingRecords::since(data, archive, since).unwrap();
        let calls = numbers(&mut records);
        (calls, records.missing())
    }

    fn numbers(records: &mut RemainingRecords<'_>) -> Vec<u64> {
        let entries = records.map(|record| record.unwrap().entry().unwrap());
        let numbers = entries.flatten().map(|entry| entry.request_id.parse());
        numbers.map(Result::unwrap).collect()
    }

    /// 003-41: archived records are read where they are needed, and what is nowhere is counted.
    #[tokio::test]
    async fn what_is_archived_is_read_and_what_is_gone_is_counted() {
        let (data, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let journal = written(data.path()).await;
        drop_up_to(&journal, CALLS / 2, Some(archive.path())).await;
        journal.close().await.unwrap();
        let all: Vec<u64> = (1..=CALLS).collect();
        let with = |since| read(data.path(), Some(archive.path()), since);
        assert_eq!(with(minute(1)), (all, 0));
        let (late, missing) = with(minute(CALLS));
        assert!(late.len() < 10 && missing == 0, "{late:?}: {missing}");
        let (there, missing) = read(data.path(), None, minute(1));
        assert_eq!((there.clone(), missing), (late, there[0] - 1));
        let (there, missing) = read(data.path(), None, minute(CALLS));
        assert!(there.contains(&CALLS) && missing == 0, "{missing}");
        // A segment of the archive is not what it was.
        let mut segments: Vec<_> = std::fs::read_dir(archive.path())
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        segments.sort();
        std::fs::remove_file(&segments[1]).unwrap();
        let (there, missing) = with(minute(1));
        assert_eq!(there[0], 1);
        assert_eq!(there.len() as u64 + missing, CALLS, "{there:?}");
        std::fs::write(&segments[0], "damaged").unwrap();
        let (there, missing) = with(minute(1));
        assert_eq!(missing, there[0] - 1);
    }

    /// Segments that are dropped while they are read end nothing.
    #[tokio::test]
    async fn segments_that_go_meanwhile_are_passed_over() {
        let data = tempfile::tempdir().unwrap();
        let journal = written(data.path()).await;
        let mut records = RemainingRecords::since(data.path(), None, minute(1)).unwrap();
        assert!(records.next().unwrap().is_ok());
        drop_up_to(&journal, CALLS / 2, None).await;
        let rest = numbers(&mut records);
        assert_eq!(rest.last(), Some(&CALLS));
        assert_eq!(rest.len() as u64 + records.missing(), CALLS - 1, "{rest:?}");
        journal.close().await.unwrap();
    }
}
