//! Closed segments that are compressed: what is read, proved and dropped stays what it was, and whatever is wrong with
//! them is found.

use super::compress::SegmentRewrite;
use super::forger::keys;
use super::*;
use crate::model::clock::Clock;
use crate::store::journal::segment::SegmentForm;
use sha2::{Digest as _, Sha256};

mod background;
mod blocks;
mod moved;

/// The form of each segment, oldest first.
fn forms(data: &Path) -> Vec<SegmentForm> {
    let form = |path: &PathBuf| {
        let file = fs::File::open(path).unwrap();
        segment::read_header(&file).unwrap().unwrap().1
    };
    segments(data).iter().map(form).collect()
}

/// Compresses the segment that begins with `first`, and gives its sizes before and after.
fn compress_one(data: &Path, first: u64) -> (u64, u64) {
    let mut rewrite = SegmentRewrite::begin(&data_dir::journal_dir(data), first)
        .unwrap()
        .unwrap();
    while rewrite.step().unwrap() {}
    rewrite.publish().unwrap()
}

/// The first records of all segments but the newest.
fn closed(data: &Path) -> Vec<u64> {
    let mut listed = segment::list(&data_dir::journal_dir(data)).unwrap();
    listed.pop();
    listed
}

/// Compresses all closed segments.
fn compress_closed(data: &Path) {
    for first in closed(data) {
        compress_one(data, first);
    }
}

fn look(data: &Path) -> Option<JournalDamage> {
    walk::without_pauses(|| verify(data, None).unwrap().problem)
}

/// Issue 18: entries take a fraction of the room, and nothing else is different: the head, every record, from wherever
/// it is read, and how the journal goes on.
#[tokio::test]
async fn a_compressed_segment_reads_as_it_was_written() {
    for keys in [SealingKeys::default(), keys("k")] {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path();
        let options = JournalOptions {
            segment_bytes: 600 << 10,
            ..small()
        };
        let journal = Journal::open_sealed(data, options, keys.clone()).unwrap();
        for n in 1..=2000 {
            journal.record(entry(n)).unwrap();
            if n % 30 == 0 {
                journal.flush().await.unwrap();
            }
        }
        let head = journal.close().await.unwrap();
        let against = VerifyOptions {
            keys: keys.clone(),
            expected: Some(head),
            ..VerifyOptions::default()
        };
        let (before, records) = (check(data, &against).unwrap(), read(data).unwrap());
        let written = written_bytes(data).unwrap();
        let closed = closed(data);
        assert!(closed.len() >= 2, "{closed:?}");
        for first in closed {
            let path = data_dir::journal_dir(data).join(segment::name(first));
            let (was, age) = (
                mode(&path),
                fs::metadata(&path).unwrap().modified().unwrap(),
            );
            let (plain, packed) = compress_one(data, first);
            assert!(plain > 2 * (256 << 10), "several blocks: {plain}");
            assert!(packed < plain / 4, "{packed} of {plain} bytes");
            assert_eq!(fs::metadata(&path).unwrap().len(), packed);
            assert_eq!(mode(&path), was);
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            assert_eq!(modified, age, "it is as old as it was");
        }
        assert_eq!(check(data, &against).unwrap(), before);
        assert_eq!(before.problem, None);
        assert_eq!(written_bytes(data).unwrap(), written);
        assert!(bytes_in(data).unwrap() < written);
        assert_eq!(read(data).unwrap(), records);
        for after in [0, 1, 299, 700, 1999, 2000] {
            let read = JournalReader::after(data, after).unwrap();
            let read: Vec<_> = read.map(Result::unwrap).collect();
            assert_eq!(read, records[usize::try_from(after).unwrap()..]);
        }
        let journal = Journal::open_sealed(data, options, keys.clone()).unwrap();
        journal.record(entry(2001)).unwrap();
        let head = journal.close().await.unwrap();
        let against = VerifyOptions {
            expected: Some(head),
            ..against
        };
        let report = check(data, &against).unwrap();
        assert_eq!(report.problem, None);
        assert_eq!(report.records, records.len() as u64 + 1);
    }
}

/// What does not become shorter is kept as it is, in the same form, so that it is not tried again.
#[tokio::test]
async fn what_does_not_become_shorter_is_kept() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path();
    let options = JournalOptions {
        segment_bytes: 40_000,
        ..small()
    };
    let journal = Journal::open(data, options).unwrap();
    let mut words = Sha256::digest("noise").to_vec();
    for _ in 0..3 {
        let noise = (0..1000).flat_map(|_| {
            words = Sha256::digest(&words).to_vec();
            words.clone()
        });
        let noise: Vec<u8> = noise.collect();
        journal
            .append(vec![Item::Content(noise)])
            .unwrap()
            .durable()
            .await
            .unwrap();
    }
    journal.close().await.unwrap();
    let records = read(data).unwrap();
    let (plain, packed) = compress_one(data, 1);
    assert!(
        (plain - 200..plain + 200).contains(&packed),
        "{packed} of {plain} bytes"
    );
    assert_eq!(forms(data)[0], SegmentForm::Compressed);
    assert_eq!((read(data).unwrap(), look(data)), (records, None));
    assert!(
        SegmentRewrite::begin(&data_dir::journal_dir(data), 1)
            .unwrap()
            .is_none()
    );
}

/// A reader that is in the midst of a segment goes on in what it has open, and into what is compressed after it.
#[tokio::test]
async fn a_reader_goes_on_while_segments_are_compressed() {
    let temp = tempfile::tempdir().unwrap();
    written(temp.path(), small(), 12, 3).await;
    let records = read(temp.path()).unwrap();
    for begun in [0, 1, 5, 20] {
        let work = tempfile::tempdir().unwrap();
        fs::create_dir(work.path().join("journal")).unwrap();
        for path in segments(temp.path()) {
            let to = work.path().join("journal").join(path.file_name().unwrap());
            fs::copy(path, to).unwrap();
        }
        let mut reader = JournalReader::open(work.path()).unwrap();
        let mut seen: Vec<_> = reader.by_ref().take(begun).map(Result::unwrap).collect();
        compress_closed(work.path());
        seen.extend(reader.map(Result::unwrap));
        assert_eq!(seen, records, "{begun}");
    }
}

/// One flipped byte anywhere, in header, blocks, table or what follows it, and verify names the segment.
#[tokio::test]
async fn any_flipped_byte_of_a_compressed_segment_is_found() {
    let temp = tempfile::tempdir().unwrap();
    let options = JournalOptions {
        segment_bytes: 1000,
        ..small()
    };
    written(temp.path(), options, 3, 1).await;
    compress_closed(temp.path());
    let mut flipped = 0;
    let all = segments(temp.path());
    for path in &all[..all.len() - 1] {
        let sound = fs::read(path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(path, bytes).unwrap();
            let problem = look(temp.path()).unwrap_or_else(|| panic!("byte {at} was not found"));
            assert_eq!(
                problem.segment,
                path.file_name().unwrap().to_str().unwrap(),
                "{problem}"
            );
            assert!(
                problem.offset == 0 || problem.offset == 96,
                "byte {at}: {problem}"
            );
            flipped += 1;
        }
        for length in 0..sound.len() {
            fs::write(path, &sound[..length]).unwrap();
            assert!(look(temp.path()).is_some(), "cut to {length} bytes");
        }
        fs::write(path, sound).unwrap();
    }
    assert!(flipped > 600, "{flipped}");
    assert_eq!(look(temp.path()), None);
}

/// Nothing is compressed that no segment follows: where the newest is compressed, what was after it is missing, and
/// the journal is not gone on with.
#[tokio::test]
async fn a_journal_that_ends_compressed_lacks_its_end() {
    let temp = tempfile::tempdir().unwrap();
    written(temp.path(), small(), 12, 3).await;
    compress_closed(temp.path());
    fs::remove_file(segments(temp.path()).pop().unwrap()).unwrap();
    let refused = Journal::open(temp.path(), small()).err().unwrap();
    assert!(
        refused
            .to_string()
            .contains("segments after this one are missing"),
        "{refused}"
    );
    assert_eq!(
        look(temp.path()),
        None,
        "what is there is as it was written"
    );
}
