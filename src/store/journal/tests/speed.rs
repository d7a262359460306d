//! Many entries: nothing grows with them, and recording one costs the caller next to nothing.

use super::*;
use crate::model::clock::Clock;

#[expect(
    clippy::print_stderr,
    reason = "the numbers are of interest when asked for"
)]
#[tokio::test]
async fn a_hundred_thousand_entries_stream() {
    const RECORD_COUNT: u64 = 100_000;
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(
        temp.path(),
        JournalOptions {
            segment_bytes: 16 << 20,
            ..JournalOptions::default()
        },
    )
    .unwrap();
    let sample = entry(1);
    let mut spent = Duration::ZERO;
    let start = Clock.steady();
    for n in 1..=RECORD_COUNT {
        let next = Entry {
            request_id: n.to_string(),
            ..sample.clone()
        };
        let before = Clock.steady();
        let taken = journal.record(next);
        spent += Clock.steady().saturating_sub(before);
        taken.unwrap();
        if n % 2000 == 0 {
            journal.flush().await.unwrap();
        }
    }
    let health = journal.health();
    let head = journal.close().await.unwrap();
    let wrote = Clock.steady().saturating_sub(start);
    let start = Clock.steady();
    let mut next = 1;
    for record in JournalReader::open(temp.path()).unwrap() {
        let record = record.unwrap();
        assert_eq!(record.seq, next);
        if next % 1000 == 0 {
            assert_eq!(
                record.entry().unwrap().unwrap().request_id,
                next.to_string()
            );
        }
        next += 1;
    }
    let took = Clock.steady().saturating_sub(start);
    assert_eq!(next, RECORD_COUNT + 1);
    let start = Clock.steady();
    let report = verify(temp.path(), Some(head)).unwrap();
    assert_eq!((report.problem, report.records), (None, RECORD_COUNT));
    assert!(report.segments >= 4);
    let nanoseconds = u64::try_from(spent.as_nanos()).unwrap() / RECORD_COUNT;
    eprintln!(
        "{nanoseconds} ns per record, {} bytes per entry, {} batches, {} syncs of {:?}; \
         wrote in {wrote:?}, read in {took:?}, verified in {:?}",
        report.bytes / RECORD_COUNT,
        health.batches,
        health.syncs,
        health.sync_time / u32::try_from(health.syncs).unwrap(),
        Clock.steady().saturating_sub(start),
    );
}
