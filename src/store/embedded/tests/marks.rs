//! guarantees §4: that a mark is missing proves that nothing was sent, so a file of marks that
//! isn't whole proves nothing.

use super::*;
use crate::store::sent_flags::SentFlags;
use crate::store::tests::copy_all;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

/// What is done to the file `sent` between a kill and the next start.
type Damage = (&'static str, fn(&Path));

const FLAG_FILE_BYTES: u64 = 4096 * 32;

fn open(path: &Path) -> std::fs::File {
    OpenOptions::new().write(true).open(path).unwrap()
}

const DAMAGES: &[Damage] = &[
    ("removed", |path| std::fs::remove_file(path).unwrap()),
    ("emptied", |path| open(path).set_len(0).unwrap()),
    ("cut", |path| {
        open(path).set_len(FLAG_FILE_BYTES - 32).unwrap();
    }),
    ("longer", |path| {
        open(path).set_len(FLAG_FILE_BYTES + 32).unwrap();
    }),
    ("zeroed", |path| {
        open(path).write_all_at(&[0; 4096 * 32], 0).unwrap();
    }),
    ("its first block zeroed", |path| {
        open(path).write_all_at(&[0; 512], 0).unwrap();
    }),
    ("its last block zeroed", |path| {
        open(path)
            .write_all_at(&[0; 512], FLAG_FILE_BYTES - 512)
            .unwrap();
    }),
    ("one byte", |path| open(path).write_all_at(b"x", 3).unwrap()),
    ("as it was before it had slots", |path| {
        std::fs::write(path, [7; 16]).unwrap();
    }),
    ("removed, and killed while it started", |path| {
        std::fs::remove_file(path).unwrap();
        let (_marks, left) = SentFlags::open(path.parent().unwrap()).unwrap();
        assert_eq!(left, None);
    }),
    ("removed, and half of a new one", |path| {
        std::fs::remove_file(path).unwrap();
        std::fs::write(path.with_extension("new"), [0; 100]).unwrap();
    }),
];

/// A process with one call that has left and one that has not is killed.
async fn in_flight(data: &Path) {
    let store = store(data);
    for key in ["left", "stayed"] {
        let begin = Intent {
            fence: store.token(),
            ..intent(key, 1)
        };
        store
            .run(StoreCommand::Begin(Box::new(begin.clone())), None)
            .await
            .unwrap()
            .unwrap();
        if key == "left" {
            store.sent(begin.action).unwrap();
        }
    }
}

/// How both stand at the next start.
async fn after(data: &Path) -> (ClaimStatus, ClaimStatus) {
    let next = store(data);
    (stands(&next, "left").await, stands(&next, "stayed").await)
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_that_are_not_whole_prove_nothing() {
    let temp = tempfile::tempdir().unwrap();
    in_flight(temp.path()).await;
    let killed = || {
        let copy = tempfile::tempdir().unwrap();
        copy_all(temp.path(), copy.path());
        copy
    };
    let whole = killed();
    let (left, stayed) = after(whole.path()).await;
    assert!(matches!(left, ClaimStatus::Unknown(_)), "{left:?}");
    assert!(
        matches!(stayed, ClaimStatus::Open { attempt: 2, .. }),
        "{stayed:?}"
    );
    for (what, damage) in DAMAGES {
        let killed = killed();
        damage(&killed.path().join("sent"));
        let (left, stayed) = after(killed.path()).await;
        assert!(
            matches!(
                (&left, &stayed),
                (ClaimStatus::Unknown(_), ClaimStatus::Unknown(_))
            ),
            "{what}: {left:?}, {stayed:?}"
        );
        assert_eq!(
            std::fs::metadata(killed.path().join("sent")).unwrap().len(),
            FLAG_FILE_BYTES,
            "{what}"
        );
    }
}

/// A file that was made anew proves as much as the one before it.
#[tokio::test(flavor = "multi_thread")]
async fn new_marks_prove_again() {
    let temp = tempfile::tempdir().unwrap();
    drop(store(temp.path()));
    std::fs::remove_file(temp.path().join("sent")).unwrap();
    in_flight(temp.path()).await;
    let (left, stayed) = after(temp.path()).await;
    assert!(matches!(left, ClaimStatus::Unknown(_)), "{left:?}");
    assert!(
        matches!(stayed, ClaimStatus::Open { attempt: 2, .. }),
        "{stayed:?}"
    );
}
