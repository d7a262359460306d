//! The thread that compresses, and what a process that ends at it leaves.

use super::*;

fn compressing() -> JournalOptions {
    JournalOptions {
        compress: true,
        ..small()
    }
}

/// Waits until every closed segment is compressed.
async fn all_compressed(data: &Path) {
    let deadline = Clock.steady() + Duration::from_mins(1);
    let is_done = || {
        let forms = forms(data);
        let (newest, closed) = forms.split_last().unwrap();
        *newest == SegmentForm::Plain && closed.iter().all(|form| *form == SegmentForm::Compressed)
    };
    while !is_done() {
        assert!(Clock.steady() < deadline, "{:?}", forms(data));
        tokio::task::yield_now().await;
    }
}

/// Names in the journal's directory that are no segment's.
fn others(data: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(data.join("journal")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let is_other = |path: &PathBuf| path.extension().is_none_or(|kind| kind != "journal");
    paths.filter(is_other).collect()
}

/// Segments that are closed while it runs are compressed while it runs, and those of before with them; the newest never
/// is. Without the word for it, none is.
#[tokio::test]
async fn closed_segments_are_compressed_while_the_writer_goes_on() {
    let temp = tempfile::tempdir().unwrap();
    written(temp.path(), small(), 12, 3).await;
    assert!(
        forms(temp.path())
            .iter()
            .all(|form| *form == SegmentForm::Plain)
    );
    let journal = Journal::open(temp.path(), compressing()).unwrap();
    for n in 37..=72 {
        journal.record(entry(n)).unwrap();
        if n % 3 == 0 {
            journal.flush().await.unwrap();
        }
    }
    all_compressed(temp.path()).await;
    let head = journal.close().await.unwrap();
    assert_eq!(others(temp.path()), Vec::<PathBuf>::new());
    assert_eq!(verify(temp.path(), Some(head)).unwrap().problem, None);
    for (record, n) in read(temp.path()).unwrap().iter().zip(1..) {
        assert_eq!(
            (record.seq, record.entry().unwrap().unwrap()),
            (n, entry(n))
        );
    }
    assert_eq!(read(temp.path()).unwrap().len(), 72);
}

/// A process that ends while it compresses leaves the segment as it was, and something under a name that nobody reads,
/// which the next start removes.
#[tokio::test]
async fn what_is_half_compressed_is_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let head = written(temp.path(), small(), 12, 3).await;
    let sound: Vec<_> = segments(temp.path())
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    let dir = data_dir::journal_dir(temp.path());
    for steps in 0..3 {
        let mut rewrite = SegmentRewrite::begin(&dir, 1).unwrap().unwrap();
        for _ in 0..steps {
            assert!(rewrite.step().unwrap());
        }
        // As a kill would leave it.
        std::mem::forget(rewrite);
        assert_eq!(others(temp.path()).len(), 1, "{steps}");
        assert_eq!(verify(temp.path(), Some(head)).unwrap().problem, None);
        Journal::open(temp.path(), small())
            .unwrap()
            .close()
            .await
            .unwrap();
        assert_eq!(others(temp.path()), Vec::<PathBuf>::new());
        let left: Vec<_> = segments(temp.path())
            .iter()
            .map(|path| fs::read(path).unwrap())
            .collect();
        assert_eq!(left, sound);
    }
}

/// What is broken off in good order leaves nothing at all, and what was dropped meanwhile does not come back.
#[tokio::test]
async fn a_segment_that_is_dropped_meanwhile_stays_so() {
    let temp = tempfile::tempdir().unwrap();
    written(temp.path(), small(), 12, 3).await;
    let dir = data_dir::journal_dir(temp.path());
    let mut rewrite = SegmentRewrite::begin(&dir, 1).unwrap().unwrap();
    assert!(rewrite.step().unwrap());
    drop(rewrite);
    assert_eq!(others(temp.path()), Vec::<PathBuf>::new());
    let mut rewrite = SegmentRewrite::begin(&dir, 1).unwrap().unwrap();
    while rewrite.step().unwrap() {}
    fs::remove_file(dir.join(segment::name(1))).unwrap();
    let failed = rewrite.publish().unwrap_err();
    assert_eq!(failed.kind(), std::io::ErrorKind::NotFound);
    assert!(!dir.join(segment::name(1)).exists());
    assert_eq!(others(temp.path()), Vec::<PathBuf>::new());
}

/// A segment that changes under the hand that compresses it is not replaced.
#[tokio::test]
async fn what_does_not_read_as_it_was_written_is_not_published() {
    let temp = tempfile::tempdir().unwrap();
    written(temp.path(), small(), 12, 3).await;
    let dir = data_dir::journal_dir(temp.path());
    let path = dir.join(segment::name(1));
    let mut rewrite = SegmentRewrite::begin(&dir, 1).unwrap().unwrap();
    assert!(rewrite.step().unwrap(), "its one block is written");
    let mut bytes = fs::read(&path).unwrap();
    bytes[200] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let failed = rewrite.step().unwrap_err();
    assert!(
        failed
            .to_string()
            .contains("does not read as what was written"),
        "{failed}"
    );
    drop(rewrite);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(others(temp.path()), Vec::<PathBuf>::new());
}
