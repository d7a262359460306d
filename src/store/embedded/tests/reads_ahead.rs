//! What is read ahead of an index that is made anew is what the journal holds, and no more than it
//! may know.

use super::*;
use crate::store::embedded::decoded::{DecodeAhead, DecodedRecord};
use crate::store::journal::{Item, JournalReader};

/// More than wait to be applied at once.
const RECORDS: u64 = 5000;

/// A journal of that many records, each an event that names its number.
async fn journal_of_events(data: &Path) {
    let journal = Journal::open(data, JournalOptions::default()).unwrap();
    for token in 1..=RECORDS {
        let event = StoreEvent::Fenced {
            session: named("session"),
            token,
            at: token,
        };
        drop(
            journal
                .append(vec![Item::Event(event.encode().unwrap())])
                .unwrap(),
        );
    }
    journal.close().await.unwrap();
}

fn token(record: &DecodedRecord) -> u64 {
    if let Some(StoreEvent::Fenced { token, .. }) = &record.event {
        *token
    } else {
        0
    }
}

#[tokio::test]
async fn records_are_read_ahead_in_order_and_not_beyond_the_last() {
    let temp = tempfile::tempdir().unwrap();
    journal_of_events(temp.path()).await;
    for last in [0, 1, 511, 512, 1300, RECORDS, u64::MAX] {
        let reader = JournalReader::open(temp.path()).unwrap();
        let mut ahead = DecodeAhead::begin(reader, last).unwrap();
        let mut found = Vec::new();
        while let Some(record) = ahead.next_record() {
            let record = record.unwrap();
            assert_eq!((token(&record), record.carrying), (record.seq, false));
            found.push(record.seq);
        }
        let most = last.saturating_add(1).min(RECORDS);
        assert_eq!(found, (1..=most).collect::<Vec<_>>(), "{last}");
        let mut reader = ahead.end().unwrap();
        let next = DecodedRecord::next(&mut reader).map(|record| record.unwrap().seq);
        assert_eq!(next, (most < RECORDS).then_some(most + 1), "{last}");
    }
    // Nobody wants the rest: the thread does not wait for that.
    let reader = JournalReader::open(temp.path()).unwrap();
    let mut ahead = DecodeAhead::begin(reader, u64::MAX).unwrap();
    assert_eq!(ahead.next_record().unwrap().unwrap().seq, 1);
    drop(ahead.end().unwrap());
}

#[tokio::test]
async fn what_cannot_be_decoded_ends_the_way() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), JournalOptions::default()).unwrap();
    for bytes in ["{\"fenced\":", "{}"] {
        drop(journal.append(vec![Item::Event(bytes.into())]).unwrap());
    }
    journal.close().await.unwrap();
    let reader = JournalReader::open(temp.path()).unwrap();
    let mut ahead = DecodeAhead::begin(reader, u64::MAX).unwrap();
    let error = ahead.next_record().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("record 1 of the journal cannot be read"),
        "{error}"
    );
    assert!(ahead.next_record().is_none());
}
