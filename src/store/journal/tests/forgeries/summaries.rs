//! A forged summary of what was dropped.

use super::*;
use crate::store::journal::frame::SUMMARY_SEAL_RECORD;
use crate::store::journal::item::RecordGroup;
use crate::store::journal::summary::Summary;

async fn compacted(data: &Path, keys: &SealingKeys) -> DroppedSegments {
    let journal = Journal::open_sealed(
        data,
        JournalOptions {
            segment_bytes: 600,
            ..small()
        },
        keys.clone(),
    )
    .unwrap();
    for n in 1..=24 {
        let event = Item::Event(format!("event {n}").into_bytes());
        journal
            .append(vec![event])
            .unwrap()
            .durable()
            .await
            .unwrap();
    }
    let retention = Retention {
        upto: 16,
        age: Duration::ZERO,
        archive: None,
    };
    let state = (0..3).map(|n| Ok(format!("state {n}").into_bytes()));
    let dropped = journal.compact(retention, state).await.unwrap().unwrap();
    journal.close().await.unwrap();
    dropped
}

/// A copy of the journal in `dir`, to be forged.
fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let to = copy.path().join("journal");
    fs::create_dir(&to).unwrap();
    for file in fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    copy
}

/// The forger appends the record that vouches for the summary, in a batch of his. Gives how many
/// cases that were.
fn forged_records_are_found(data: &Path, seal: &[u8], against: &VerifyOptions) -> usize {
    let path = segments(data).pop().unwrap();
    let mut walk = JournalWalk::begin(data).unwrap();
    while !matches!(walk.step().unwrap(), WalkStep::End { .. }) {}
    let part = ForgedBatch {
        payload: RecordGroup::of(SUMMARY_SEAL_RECORD, seal).bytes,
        count: 1,
        epoch: 1,
        synced: walk.head.seq,
        trailer: Some(vec![0; 40]),
    };
    let hands = [
        SealForgery::Strips,
        SealForgery::Reseals,
        SealForgery::Leaves,
    ];
    for hand in hands {
        let frame = frame_of(&part, (walk.head.seq, walk.head.hash), hand, true);
        let sound = fs::read(&path).unwrap();
        fs::write(&path, [sound.as_slice(), &frame].concat()).unwrap();
        assert!(finds(data, against).is_some(), "{hand:?}");
        fs::write(&path, sound).unwrap();
    }
    hands.len()
}

// A summary is vouched for by a sealed record, and sealed itself: neither a forged one nor the
// record alone is taken.
#[tokio::test]
async fn a_forged_summary_is_found() {
    let temp = tempfile::tempdir().unwrap();
    let keys = keys("k");
    let dropped = compacted(temp.path(), &keys).await;
    let dir = temp.path().join("journal");
    let against = VerifyOptions {
        keys,
        ..VerifyOptions::default()
    };
    assert_eq!(finds(temp.path(), &against), None);
    let own = Summary::open(&dir).unwrap().unwrap().header;
    assert!(own.sealed && own.last == dropped.last);
    let mut cases = 0;
    for forger in [None, Some(key("forger"))] {
        for with_record in [false, true] {
            let work = copy_of(&dir);
            let to = work.path().join("journal");
            let seal = summary::prepare(
                &to,
                &own,
                forger.as_ref(),
                std::iter::once(Ok(b"forged".to_vec())),
            )
            .unwrap();
            summary::publish(&to, &own).unwrap();
            if with_record {
                cases += forged_records_are_found(work.path(), &seal, &against);
            }
            let problem = finds(work.path(), &against).expect("a forged summary");
            assert!(
                problem.what.contains("vouches") || problem.what.contains("seal"),
                "{problem}"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 10);
}
