//! Compressed segments that are dropped or archived.

use super::*;

fn state() -> impl Iterator<Item = Result<Vec<u8>, JournalError>> {
    std::iter::once(Ok(b"state".to_vec()))
}

fn retention(upto: u64, archive: Option<&Path>) -> Retention<'_> {
    Retention {
        upto,
        age: Duration::ZERO,
        archive,
    }
}

/// Segments go in the form that they have, into an archive or for good, and the chain runs through.
#[tokio::test]
async fn compressed_segments_are_dropped_and_archived_as_others_are() {
    for is_archived in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let (data, archive) = (temp.path().join("data"), temp.path().join("archive"));
        let to = is_archived.then_some(archive.as_path());
        let head = written(&data, small(), 16, 3).await;
        let records = read(&data).unwrap();
        // The first as it is, the others compressed.
        for first in &closed(&data)[1..] {
            compress_one(&data, *first);
        }
        let before = forms(&data);
        let journal = Journal::open(&data, small()).unwrap();
        let dropped = journal
            .compact(retention(40, to), state())
            .await
            .unwrap()
            .unwrap();
        assert!(dropped.segments >= 2, "{dropped:?}");
        let last = journal.close().await.unwrap();
        assert!(last.seq > head.seq);
        let against = VerifyOptions {
            archive: to.map(Path::to_owned),
            expected: Some(last),
            ..VerifyOptions::default()
        };
        let report = check(&data, &against).unwrap();
        assert_eq!((report.problem, report.dropped), (None, dropped.last));
        let gone = usize::try_from(dropped.segments).unwrap();
        assert_eq!(forms(&data)[..before.len() - gone], before[gone..]);
        if is_archived {
            let read = JournalReader::after_in(&data, Some(&archive), 0).unwrap();
            let read: Vec<_> = read.map(Result::unwrap).take(records.len()).collect();
            assert_eq!(read, records);
            let second = archive.join(segment::name(closed_in(&archive)[1]));
            let file = fs::File::open(second).unwrap();
            let (_, form) = segment::read_header(&file).unwrap().unwrap();
            assert_eq!(form, SegmentForm::Compressed);
        }
    }
}

fn closed_in(archive: &Path) -> Vec<u64> {
    segment::every(archive).unwrap()
}

/// What a crash left in the archive is the same, though the journal's was compressed since; and what is not the same
/// is still found.
#[tokio::test]
async fn an_archived_segment_is_the_same_in_either_form() {
    let temp = tempfile::tempdir().unwrap();
    let (data, archive) = (temp.path().join("data"), temp.path().join("archive"));
    written(&data, small(), 16, 3).await;
    fs::create_dir(&archive).unwrap();
    let first = segments(&data).remove(0);
    let there = archive.join(first.file_name().unwrap());
    let plain = fs::read(&first).unwrap();
    compress_closed(&data);
    let journal = Journal::open(&data, small()).unwrap();
    let mut changed = plain.clone();
    let last = changed.len() - 30;
    changed[last] ^= 1;
    for other in [
        changed.as_slice(),
        &plain[..plain.len() - 1],
        b"something else",
    ] {
        fs::write(&there, other).unwrap();
        let failed = journal
            .compact(retention(40, Some(&archive)), state())
            .await
            .unwrap_err();
        assert!(
            failed.to_string().contains("another segment of that name"),
            "{failed}"
        );
    }
    fs::write(&there, &plain).unwrap();
    journal
        .compact(retention(40, Some(&archive)), state())
        .await
        .unwrap()
        .unwrap();
    journal.close().await.unwrap();
    assert_eq!(
        fs::read(&there).unwrap(),
        plain,
        "evidence is not written over"
    );
    let against = VerifyOptions {
        archive: Some(archive),
        ..VerifyOptions::default()
    };
    assert_eq!(check(&data, &against).unwrap().problem, None);
}
