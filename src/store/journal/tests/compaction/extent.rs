//! How large the journal may become before anything goes, and what goes then.

use super::*;

/// Without a size nothing goes, however large it is, and what makes no promise is summed up from
/// some size on.
#[tokio::test]
async fn without_a_size_nothing_is_too_much() {
    let temp = tempfile::tempdir().unwrap();
    let options = JournalOptions {
        segment_bytes: 400,
        reserve_bytes: 0,
        sizes: Sizes {
            lean: 2_000,
            ..Sizes::UNLIMITED
        },
        ..small()
    };
    let journal = Journal::open(temp.path(), options).unwrap();
    assert_eq!(journal.measure().unwrap(), Extent::Within);
    add(&journal, (1..=40).map(|n| vec![n; 80])).await;
    assert_eq!(journal.measure().unwrap(), Extent::Lean);
    let young = Retention {
        upto: 40,
        age: Duration::from_hours(1),
        archive: None,
    };
    assert_eq!(journal.compact(young, none()).await.unwrap(), None);
}

/// From seven eighths of its size on a journal is lean, beyond it and a quarter beyond it more than
/// that.
#[test]
fn a_journal_is_lean_before_anything_goes() {
    let sizes = Sizes {
        lean: 3_500,
        most: 4_000,
    };
    let found = [3_499, 3_500, 4_000, 4_001, 5_000, 5_001].map(|bytes| Extent::of(bytes, sizes));
    let [before, lean, full, more, most, far] = found;
    assert_eq!(
        (before, lean, full),
        (Extent::Within, Extent::Lean, Extent::Lean)
    );
    assert_eq!(
        (more, most, far),
        (Extent::Beyond, Extent::Beyond, Extent::FarBeyond)
    );
    assert_eq!(
        Extent::of(
            u64::MAX - 1,
            Sizes {
                lean: 1,
                ..Sizes::UNLIMITED
            }
        ),
        Extent::Lean
    );
}

/// threat-model §3G G7: beyond its size the journal drops its oldest segments, however young, and
/// no more than it has to; what cannot be dropped is known.
#[tokio::test]
async fn what_is_too_much_is_dropped_however_young() {
    let temp = tempfile::tempdir().unwrap();
    let most = 4_000;
    let options = JournalOptions {
        segment_bytes: 400,
        reserve_bytes: 0,
        sizes: Sizes {
            lean: most - most / 8,
            most,
        },
        ..small()
    };
    let journal = Journal::open(temp.path(), options).unwrap();
    let young = |upto| Retention {
        upto,
        age: Duration::from_hours(1),
        archive: None,
    };
    add(&journal, (1..=40).map(|n| vec![n; 80])).await;
    let before = journal.measure().unwrap();
    assert_eq!((before, journal.extent()), (Extent::FarBeyond, before));
    assert_eq!(
        journal.compact(young(0), none()).await.unwrap(),
        None,
        "all of it is needed"
    );
    assert_eq!(journal.measure().unwrap(), Extent::FarBeyond);
    let dropped = journal.compact(young(40), none()).await.unwrap().unwrap();
    assert!(dropped.last < 39, "{dropped:?}");
    assert!(
        dropped.early == dropped.last && journal.health().dropped_early == dropped.early,
        "{dropped:?}"
    );
    assert!(journal.measure().unwrap() <= Extent::Lean);
    assert_eq!(
        journal.compact(young(40), none()).await.unwrap(),
        None,
        "no more than has to be"
    );
    journal.close().await.unwrap();
    assert_eq!(verify(temp.path(), None).unwrap().problem, None);
}
