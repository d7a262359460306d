//! threat-model §3G, G7: the journal does not grow for ever; what is dropped leaves a seal, and the
//! chain stays whole across it. How large it may become is tested in `extent`.

use super::*;
use crate::model::long_work::{self, WorkUnderWay, WorkUnit};
use crate::store::journal::summary::Summary;

mod extent;

/// The state after some record, as events.
fn state(after: u64) -> impl Iterator<Item = Result<Vec<u8>, JournalError>> {
    (0..3).map(move |n| Ok(format!("state {n} after {after}").into_bytes()))
}

fn none() -> impl Iterator<Item = Result<Vec<u8>, JournalError>> {
    std::iter::empty()
}

fn now(upto: u64) -> Retention<'static> {
    Retention {
        upto,
        age: Duration::ZERO,
        archive: None,
    }
}

/// Options under which a segment holds a few events.
fn tiny() -> JournalOptions {
    JournalOptions {
        segment_bytes: 400,
        ..small()
    }
}

async fn add(journal: &Journal, events: impl Iterator<Item = impl Into<Vec<u8>>>) {
    for event in events {
        journal
            .append(vec![Item::Event(event.into())])
            .unwrap()
            .durable()
            .await
            .unwrap();
    }
}

/// A journal of 24 events in several segments, compacted up to record 12 or a little before.
async fn compacted(data: &Path) -> (DroppedSegments, Head) {
    let journal = Journal::open(data, tiny()).unwrap();
    add(&journal, (1..=24).map(|n| format!("event {n}"))).await;
    let dropped = journal.compact(now(12), state(12)).await.unwrap().unwrap();
    (dropped, journal.close().await.unwrap())
}

fn words(data: &Path, after: u64) -> (bool, Vec<(u64, String)>) {
    let reader = JournalReader::replay(data, after).unwrap();
    let anew = reader.is_anew();
    let records = reader
        .map(Result::unwrap)
        .filter(|record| record.event().is_some());
    (
        anew,
        records
            .map(|record| {
                (
                    record.seq,
                    String::from_utf8_lossy(&record.bytes).into_owned(),
                )
            })
            .collect(),
    )
}

fn files(data: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(data.join("journal"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Issue 17: while segments are dropped, operators can see that it is so, and how far it is.
#[tokio::test]
async fn how_far_it_is_can_be_seen_meanwhile() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), tiny()).unwrap();
    add(&journal, (1..=24).map(|n| format!("event {n}"))).await;
    let mut seen = Vec::new();
    // Asked for once all that is to go was read.
    let carried = state(12).inspect(|_| seen.extend(long_work::under_way()));
    let dropped = journal.compact(now(12), carried).await.unwrap().unwrap();
    let is_it = |one: &WorkUnderWay| {
        let step = one.step;
        step.is_behind && step.unit == WorkUnit::Bytes && (1..=step.all).contains(&step.done)
    };
    assert!(dropped.bytes > 0 && seen.iter().any(is_it), "{seen:?}");
    journal.close().await.unwrap();
}

/// What is missing is not begun anew: a journal that lacks a segment or its summary is not opened,
/// compacted or not.
#[tokio::test]
async fn a_journal_that_lacks_a_part_is_not_opened() {
    let mut cases = 0;
    for is_compacted in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        if is_compacted {
            compacted(temp.path()).await;
        } else {
            written(temp.path(), tiny(), 12, 1).await;
        }
        let parts = files(temp.path());
        let is_part = |file: &&PathBuf| {
            file.extension()
                .is_some_and(|kind| kind == "journal" || kind == "summary")
        };
        let newest = segments(temp.path()).pop().unwrap();
        for part in parts.iter().filter(is_part).filter(|part| **part != newest) {
            let bytes = fs::read(part).unwrap();
            fs::remove_file(part).unwrap();
            let error = Journal::open(temp.path(), small())
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(error.contains("are missing"), "{}: {error}", part.display());
            fs::write(part, bytes).unwrap();
            cases += 1;
        }
        Journal::open(temp.path(), small())
            .unwrap()
            .close()
            .await
            .unwrap();
    }
    assert!(cases >= 5, "{cases}");
}

#[tokio::test]
async fn what_is_dropped_is_carried() {
    let temp = tempfile::tempdir().unwrap();
    let (dropped, head) = compacted(temp.path()).await;
    assert!(
        (5..=12).contains(&dropped.last) && dropped.segments >= 2 && dropped.bytes > 500,
        "{dropped:?}"
    );
    let report = verify(temp.path(), Some(head)).unwrap();
    assert_eq!((report.problem, report.dropped), (None, dropped.last));
    // Who reads the history finds what is left of it; who wants the state gets it whole.
    let first = read(temp.path()).unwrap()[0].seq;
    assert_eq!(first, dropped.last + 1);
    let after = |seq: u64| (seq + 1..=24).map(|n| (n, format!("event {n}")));
    let carried = state(12).map(|event| (12, String::from_utf8(event.unwrap()).unwrap()));
    assert_eq!(
        words(temp.path(), 0),
        (true, carried.chain(after(12)).collect())
    );
    assert_eq!(
        words(temp.path(), dropped.last),
        (false, after(dropped.last).collect())
    );
    assert_eq!(words(temp.path(), 20), (false, after(20).collect()));
    assert!(files(temp.path()).iter().all(|file| mode(file) == 0o600));
}

// Again and again, over restarts; and there is one summary, of all that is gone.
#[tokio::test]
async fn a_summary_takes_in_the_one_before() {
    let temp = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 1..=4_u64 {
        let journal = Journal::open(temp.path(), tiny()).unwrap();
        add(&journal, (1..=12_u8).map(|n| vec![n; 40])).await;
        let upto = journal.durable_seq();
        let dropped = journal
            .compact(now(upto), state(upto))
            .await
            .unwrap()
            .unwrap();
        assert!(dropped.last > last);
        last = dropped.last;
        assert_eq!(
            journal.compact(now(last), none()).await.unwrap(),
            None,
            "round {round}"
        );
        let head = journal.close().await.unwrap();
        assert_eq!(verify(temp.path(), Some(head)).unwrap().problem, None);
        assert_eq!(summary::list(&temp.path().join("journal")).unwrap(), [last]);
        assert_eq!(
            words(temp.path(), 0).1[0],
            (upto, format!("state 0 after {upto}"))
        );
    }
}

#[tokio::test]
async fn what_is_needed_is_kept() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), tiny()).unwrap();
    add(&journal, (1..=12).map(|n| vec![n; 40])).await;
    let young = Retention {
        upto: 12,
        age: Duration::from_hours(1),
        archive: None,
    };
    assert_eq!(
        journal.compact(young, none()).await.unwrap(),
        None,
        "all of it is young"
    );
    assert_eq!(
        journal.compact(now(1), none()).await.unwrap(),
        None,
        "all of it is needed"
    );
    let large = std::iter::once(Ok(vec![0; MAX_EVENT_BYTES + 1]));
    assert!(matches!(
        journal.compact(now(12), large).await,
        Err(JournalError::TooLarge { .. })
    ));
    assert_eq!(read(temp.path()).unwrap().len(), 12);
    // A damaged segment is evidence.
    let segment = segments(temp.path()).remove(0);
    let sound = fs::read(&segment).unwrap();
    let mut bytes = sound.clone();
    bytes[200] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert!(matches!(
        journal.compact(now(12), none()).await,
        Err(JournalError::Damaged(_))
    ));
    fs::write(&segment, sound).unwrap();
    assert!(journal.compact(now(12), none()).await.unwrap().is_some());
    journal.close().await.unwrap();
    assert_eq!(verify(temp.path(), None).unwrap().problem, None);
}

// G2: one flipped byte in the summary or in what is left, and verify fails and says where.
#[tokio::test]
async fn any_flipped_byte_is_found_across_a_summary() {
    let temp = tempfile::tempdir().unwrap();
    let (_, head) = compacted(temp.path()).await;
    for file in files(temp.path()) {
        let sound = fs::read(&file).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&file, bytes).unwrap();
            let problem = walk::without_pauses(|| verify(temp.path(), Some(head)).unwrap().problem);
            let problem = problem.unwrap_or_else(|| panic!("byte {at} of {}", file.display()));
            assert_eq!(
                problem.segment,
                file.file_name().unwrap().to_str().unwrap(),
                "byte {at}: {problem}"
            );
        }
        for cut in [0, 1, sound.len() / 2, sound.len() - 1] {
            fs::write(&file, &sound[..cut]).unwrap();
            assert!(
                walk::without_pauses(|| verify(temp.path(), Some(head)).unwrap().problem).is_some(),
                "{cut}"
            );
        }
        fs::write(&file, sound).unwrap();
    }
    assert_eq!(verify(temp.path(), Some(head)).unwrap().problem, None);
}

// G3: a summary of another journal, an older head, a removed segment, a removed end.
#[tokio::test]
async fn what_was_exchanged_or_removed_around_a_summary_is_found() {
    let look =
        |data: &Path, head| walk::without_pauses(|| verify(data, head).unwrap().problem.unwrap());
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dropped, head) = compacted(one.path()).await;
    compacted(other.path()).await;
    let problem = look(one.path(), Some(Head { seq: 1, ..head }));
    assert!(problem.what.contains("were dropped"), "{problem}");
    let summary = one.path().join("journal").join(summary::name(dropped.last));
    let sound = fs::read(&summary).unwrap();
    fs::copy(
        other
            .path()
            .join("journal")
            .join(summary::name(dropped.last)),
        &summary,
    )
    .unwrap();
    look(one.path(), None);
    // One that fits, and carries something else.
    let header = Summary::open(&one.path().join("journal")).map(|found| found.unwrap().header);
    fs::write(&summary, &sound).unwrap();
    let own = Summary::open(&one.path().join("journal"))
        .unwrap()
        .unwrap()
        .header;
    assert_ne!(header.unwrap().after, own.after);
    summary::prepare(
        &one.path().join("journal"),
        &own,
        None,
        std::iter::once(Ok(b"forged".to_vec())),
    )
    .unwrap();
    summary::publish(&one.path().join("journal"), &own).unwrap();
    let problem = look(one.path(), None);
    assert!(problem.what.contains("vouches"), "{problem}");
    fs::write(&summary, &sound).unwrap();
    let segments = segments(one.path());
    for segment in [&segments[0], &segments[1], &segments[segments.len() - 1]] {
        let kept = fs::read(segment).unwrap();
        fs::remove_file(segment).unwrap();
        look(one.path(), Some(head));
        fs::write(segment, kept).unwrap();
    }
    assert_eq!(verify(one.path(), Some(head)).unwrap().problem, None);
    for segment in &segments {
        fs::remove_file(segment).unwrap();
    }
    assert!(
        matches!(
            Journal::open(one.path(), small()),
            Err(JournalError::Damaged(_))
        ),
        "it does not begin anew"
    );
}

fn put_back(file: &Path, data: &Path) {
    let back = data.join("journal").join(file.file_name().unwrap());
    if !back.exists() {
        fs::copy(file, &back).unwrap();
    }
}

// A crash in the middle leaves the old state or the new one, and the next start tidies up.
#[tokio::test]
async fn a_crash_leaves_the_old_or_the_new() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path();
    let before = tempfile::tempdir().unwrap();
    {
        let journal = Journal::open(data, tiny()).unwrap();
        add(&journal, (1..=12).map(|n| vec![n; 40])).await;
        for file in files(data) {
            fs::copy(&file, before.path().join(file.file_name().unwrap())).unwrap();
        }
        journal.compact(now(12), state(12)).await.unwrap().unwrap();
        journal.close().await.unwrap();
    }
    let summary = files(data)
        .into_iter()
        .find(|file| file.extension().unwrap() == "summary")
        .unwrap();
    let new: Vec<_> = read(data).unwrap();
    // It had its name; what it stands for was not removed, or in part.
    let old: Vec<_> = fs::read_dir(before.path())
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    for file in &old {
        put_back(file, data);
        assert_eq!(
            (read(data).unwrap(), verify(data, None).unwrap().problem),
            (new.clone(), None)
        );
    }
    written(data, small(), 0, 0).await;
    assert!(files(data).len() < old.len(), "what was left is removed");
    assert_eq!(
        (read(data).unwrap(), verify(data, None).unwrap().problem),
        (new, None)
    );
    // It did not have its name yet.
    for file in &old {
        put_back(file, data);
    }
    fs::rename(&summary, summary.with_extension("new")).unwrap();
    assert_eq!(verify(data, None).unwrap().problem, None);
    written(data, small(), 0, 0).await;
    assert!(!summary.with_extension("new").exists());
    let records = read(data).unwrap();
    assert_eq!(
        (records[0].seq, verify(data, None).unwrap().problem),
        (1, None)
    );
}
