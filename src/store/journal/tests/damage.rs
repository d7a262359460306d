//! threat-model §3G, G2 and G3: whatever is changed in the files afterwards shows, and a torn end
//! does no harm.

use super::*;
use proptest::prelude::*;

/// Copies the journal of `from` to a new directory.
fn copy(from: &Path) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("journal")).unwrap();
    for segment in segments(from) {
        fs::copy(
            &segment,
            temp.path()
                .join("journal")
                .join(segment.file_name().unwrap()),
        )
        .unwrap();
    }
    temp
}

fn flip(path: &Path, at: usize, mask: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= mask;
    fs::write(path, bytes).unwrap();
}

/// Where the frames of a segment begin, and where the last one ends.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut at = 96;
    let mut found = vec![at];
    while at < bytes.len() {
        at += 76 + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize + 1;
        found.push(at);
    }
    found
}

// G2: one flipped byte anywhere, in headers, checksums, hashes, records or ends, and verify fails
// and says where.
#[tokio::test]
async fn any_flipped_byte_is_found() {
    let temp = tempfile::tempdir().unwrap();
    written(
        temp.path(),
        JournalOptions {
            segment_bytes: 1000,
            ..small()
        },
        3,
        1,
    )
    .await;
    assert!(
        segments(temp.path()).len() > 1,
        "a closed segment is part of this"
    );
    let work = copy(temp.path());
    let mut flipped = 0;
    for segment in segments(work.path()) {
        let sound = fs::read(&segment).unwrap();
        let starts = frames(&sound);
        for at in 0..sound.len() {
            fs::write(&segment, &sound).unwrap();
            flip(&segment, at, 1 << (at % 8));
            let problem = look(work.path()).expect("a flipped byte was not found");
            let begins = starts
                .iter()
                .rev()
                .find(|start| **start <= at)
                .copied()
                .unwrap_or(0);
            assert_eq!(
                problem.segment,
                segment.file_name().unwrap().to_str().unwrap(),
                "byte {at}: {problem}"
            );
            assert_eq!(problem.offset, begins as u64, "byte {at}: {problem}");
            flipped += 1;
        }
        fs::write(&segment, sound).unwrap();
    }
    assert!(flipped > 2500);
    assert_eq!(look(work.path()), None);
}

/// What verify finds, without the pauses it makes for a writer that might be at it.
fn look(data: &Path) -> Option<JournalDamage> {
    walk::without_pauses(|| verify(data, None).unwrap().problem)
}

// A writer killed at any byte of its last batch, with reserved space behind it or not: what was
// there before stays, the rest is cut, and the chain goes on.
#[tokio::test]
async fn a_torn_batch_is_cut_and_the_chain_goes_on() {
    let temp = tempfile::tempdir().unwrap();
    written(temp.path(), small(), 2, 1).await;
    let whole = fs::read(&segments(temp.path())[0]).unwrap();
    let last = frames(&whole)[1];
    let work = copy(temp.path());
    let segment = segments(work.path()).remove(0);
    for (length, reserved) in (last..whole.len()).flat_map(|length| [(length, 0), (length, 500)]) {
        let mut torn = whole[..length].to_vec();
        torn.resize(length + reserved, 0);
        fs::write(&segment, torn).unwrap();
        let report = verify(work.path(), None).unwrap();
        assert_eq!(
            (report.problem, report.records),
            (None, 1),
            "{length} bytes"
        );
        let begun = report.unfinished.map(|begun| begun.offset);
        assert_eq!(
            begun,
            (length > last).then_some(last as u64),
            "{length} bytes"
        );
        assert_eq!(read(work.path()).unwrap().len(), 1);
        if length % 97 == 0 || length + 2 > whole.len() {
            let head = written(work.path(), small(), 1, 1).await;
            assert_eq!(
                (head.seq, verify(work.path(), Some(head)).unwrap().problem),
                (2, None)
            );
            let kept = segment.with_extension(format!("cut-{last}"));
            assert_eq!(
                fs::remove_file(kept).is_ok(),
                length > last,
                "what was cut is kept"
            );
        }
    }
}

// A batch that was synced and then damaged is no torn batch: what follows it must not be thrown
// away.
#[tokio::test]
async fn a_damaged_journal_is_not_written_to() {
    let temp = tempfile::tempdir().unwrap();
    written(
        temp.path(),
        JournalOptions {
            segment_bytes: 1 << 20,
            ..small()
        },
        3,
        2,
    )
    .await;
    let segment = segments(temp.path()).remove(0);
    let sound = fs::read(&segment).unwrap();
    flip(&segment, frames(&sound)[1] + 200, 0x10);
    let damaged = fs::read(&segment).unwrap();
    let error = Journal::open(temp.path(), small())
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("record 3") && error.contains("toolgate ledger verify"),
        "{error}"
    );
    assert_eq!(fs::read(&segment).unwrap(), damaged, "nothing was touched");
}

// Without a sync between them, a later batch may reach the disk and an earlier one not. Nobody was
// told of either.
#[tokio::test]
async fn unsynced_batches_that_arrived_out_of_order_are_cut() {
    let temp = tempfile::tempdir().unwrap();
    let never = Duration::from_hours(1);
    let options = JournalOptions {
        sync_every: never,
        gather: Duration::ZERO,
        ..small()
    };
    let journal = Journal::open(temp.path(), options).unwrap();
    for n in 1..=3 {
        journal.record(entry(n)).unwrap();
        let deadline = crate::model::clock::Clock.steady() + Duration::from_secs(10);
        while journal.health().batches < n {
            assert!(crate::model::clock::Clock.steady() < deadline);
            tokio::task::yield_now().await;
        }
    }
    journal.close().await.unwrap();
    let segment = segments(temp.path()).remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    let starts = frames(&bytes);
    bytes[starts[1]..starts[2]].fill(0);
    fs::write(&segment, bytes).unwrap();
    let problem = verify(temp.path(), None).unwrap().problem.unwrap();
    assert_eq!(
        (problem.seq, problem.offset),
        (2, starts[1] as u64),
        "before it is cut, it shows"
    );
    let head = written(temp.path(), small(), 1, 1).await;
    assert_eq!((head.seq, look(temp.path())), (2, None));
}

// G3: a removed tail is a sound journal, except for who kept the head.
#[tokio::test]
async fn a_removed_tail_is_found_with_the_head_kept_elsewhere() {
    let temp = tempfile::tempdir().unwrap();
    let early = written(
        temp.path(),
        JournalOptions {
            segment_bytes: 1 << 20,
            ..small()
        },
        2,
        2,
    )
    .await;
    let head = written(
        temp.path(),
        JournalOptions {
            segment_bytes: 1 << 20,
            ..small()
        },
        2,
        2,
    )
    .await;
    assert_eq!(
        verify(temp.path(), Some(early)).unwrap().problem,
        None,
        "an old head is still in the chain"
    );
    let segment = segments(temp.path()).remove(0);
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..frames(&bytes)[3]]).unwrap();
    assert_eq!(look(temp.path()), None);
    let problem = verify(temp.path(), Some(head)).unwrap().problem.unwrap();
    assert_eq!(problem.seq, 7);
    assert!(
        problem.what.contains("records 7 to 8 were removed"),
        "{problem}"
    );
}

// G3: whole files replaced by those of another journal, or by ones written anew.
#[tokio::test]
async fn a_replaced_journal_is_found_with_the_head_kept_elsewhere() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let head = written(one.path(), small(), 2, 2).await;
    written(other.path(), small(), 3, 2).await;
    let problem = verify(other.path(), Some(head)).unwrap().problem.unwrap();
    assert!(
        problem
            .what
            .contains("the expected head is not in this journal"),
        "{problem}"
    );
}

// G2: batches exchanged or left out, each whole in itself.
#[tokio::test]
async fn reordered_and_removed_batches_are_found() {
    let temp = tempfile::tempdir().unwrap();
    written(
        temp.path(),
        JournalOptions {
            segment_bytes: 1 << 20,
            ..small()
        },
        4,
        1,
    )
    .await;
    let segment = segments(temp.path()).remove(0);
    let sound = fs::read(&segment).unwrap();
    let at = frames(&sound);
    let exchanged = [
        &sound[..at[1]],
        &sound[at[2]..at[3]],
        &sound[at[1]..at[2]],
        &sound[at[3]..],
    ]
    .concat();
    let removed = [&sound[..at[1]], &sound[at[2]..]].concat();
    let doubled = [&sound[..at[2]], &sound[at[1]..at[2]], &sound[at[2]..]].concat();
    for (bytes, seq, offset) in [
        (exchanged, 2, at[1]),
        (removed, 2, at[1]),
        (doubled, 3, at[2]),
    ] {
        fs::write(&segment, bytes).unwrap();
        let problem = look(temp.path()).unwrap();
        assert_eq!(
            (problem.seq, problem.offset),
            (seq, offset as u64),
            "{problem}"
        );
    }
}

// G2: a record changed by a forger who also mends the checksums, but not every hash after it.
#[tokio::test]
async fn a_changed_record_with_mended_checksums_breaks_the_chain() {
    let temp = tempfile::tempdir().unwrap();
    written(
        temp.path(),
        JournalOptions {
            segment_bytes: 1 << 20,
            ..small()
        },
        2,
        1,
    )
    .await;
    let segment = segments(temp.path()).remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    let (start, end) = (frames(&bytes)[0], frames(&bytes)[1]);
    let text = String::from_utf8_lossy(&bytes[start + 76..end]).into_owned();
    let name = start
        + 76
        + bytes[start + 76..end]
            .windows(13)
            .position(|part| part == b"billing-agent")
            .unwrap();
    assert!(text.contains("billing-agent"));
    bytes[name..name + 13].copy_from_slice(b"somebody-else");
    let crc = crc32c::crc32c(&bytes[start + 76..end - 1]).to_le_bytes();
    bytes[start + 4..start + 8].copy_from_slice(&crc);
    let crc = crc32c::crc32c(&bytes[start..start + 72]).to_le_bytes();
    bytes[start + 72..start + 76].copy_from_slice(&crc);
    fs::write(&segment, bytes).unwrap();
    let problem = look(temp.path()).unwrap();
    assert_eq!((problem.seq, problem.offset), (2, end as u64), "{problem}");
    assert!(problem.what.contains("not chained"), "{problem}");
}

#[tokio::test]
async fn missing_segments_are_found() {
    let temp = tempfile::tempdir().unwrap();
    written(
        temp.path(),
        JournalOptions {
            segment_bytes: 1000,
            ..small()
        },
        6,
        1,
    )
    .await;
    let count = segments(temp.path()).len();
    assert!(count >= 3);
    for missing in 0..count - 1 {
        let work = copy(temp.path());
        fs::remove_file(&segments(work.path())[missing]).unwrap();
        let problem = look(work.path()).unwrap();
        assert!(problem.what.contains("missing"), "{problem}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Whatever is written over a part of the journal, nothing panics, and no changed record is read as a sound one.
    #[test]
    fn no_garbage_is_read_as_a_record(at in 0_usize..4000, garbage in prop::collection::vec(any::<u8>(), 1..200)) {
        let temp = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(written(temp.path(), small(), 3, 1));
        let segment = segments(temp.path()).remove(0);
        let sound = fs::read(&segment).unwrap();
        let mut bytes = sound.clone();
        let at = at % bytes.len();
        bytes.truncate(bytes.len().max(at + garbage.len()));
        let end = (at + garbage.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&garbage[..end - at]);
        fs::write(&segment, &bytes).unwrap();
        let (records, report) = walk::without_pauses(|| {
            let records: Vec<_> = JournalReader::open(temp.path()).unwrap().map_while(Result::ok).collect();
            (records, verify(temp.path(), None).unwrap())
        });
        for record in &records {
            prop_assert_eq!(record.entry().unwrap().unwrap(), entry(record.seq));
        }
        if bytes != sound {
            prop_assert!(report.problem.is_some() || report.unfinished.is_some());
        }
    }
}
