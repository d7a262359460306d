//! The embedded store, opened, killed and filled as a process would.

use super::*;
use crate::store::journal::Options;
use crate::store::state::claim::{Phase, Standing, standing};
use crate::store::state::tests::{intent, named, settle, unknown};

fn store(data: &Path) -> Embedded {
    let options = Options { gather: Duration::ZERO, reserve_bytes: 0, segment_bytes: 4096, ..Options::default() };
    let journal = Journal::open(data, options).unwrap();
    Embedded::keeping(data, journal, Clock, Duration::ZERO).unwrap()
}

async fn call(store: &Embedded, key: &str, phase: Phase) {
    let begin = Intent { fence: store.token(), ..intent(key, 1) };
    let end = settle(&begin, phase);
    store.run(Command::Begin(Box::new(begin)), None).await.unwrap().unwrap();
    store.run(Command::Settle(end), None).await.unwrap().unwrap();
}

async fn stands(store: &Embedded, key: &str) -> Standing {
    let begin = intent(key, 1);
    let view = store.look(Place { call: Some(begin.key), ..Place::default() }).await.unwrap();
    standing(view.claim.as_ref(), &begin.fingerprint, None, store.now())
}

use crate::store::state::command::Intent;

fn size(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// SEMANTICS §8: old segments are dropped, and neither a restart nor the loss of the index forgets a claim that is replayed,
/// an outcome that is unknown, or the newest token; answers in files stay as long as they can be asked for.
#[tokio::test(flavor = "multi_thread")]
async fn what_old_segments_said_is_carried_on() {
    let temp = tempfile::tempdir().unwrap();
    let first = store(temp.path());
    let long = first.keep(false, Bytes::from(vec![b'7'; INLINE + 1])).await.unwrap();
    call(&first, "long", Phase::Completed(long.clone())).await;
    call(&first, "lost", unknown()).await;
    for n in 0..40 {
        let short = first.keep(false, Bytes::from(format!("answer {n}"))).await.unwrap();
        call(&first, &format!("key {n}"), Phase::Completed(short)).await;
    }
    let before = size(&temp.path().join("journal"));
    first.shared.catch_up().unwrap();
    let shared = first.shared.clone();
    tokio::task::spawn_blocking(move || shared.tidy()).await.unwrap();
    let after = size(&temp.path().join("journal"));
    assert!(before > 4 && after < before, "{before} files, then {after}");
    let token = first.token();
    drop(first);

    for index_is_lost in [false, true] {
        if index_is_lost {
            std::fs::remove_dir_all(temp.path().join("index")).unwrap();
        }
        let again = store(temp.path());
        assert_eq!(stands(&again, "long").await, Standing::Ended(long.clone()));
        assert_eq!(again.body(&long).await.unwrap().len(), INLINE + 1);
        assert!(matches!(stands(&again, "lost").await, Standing::Unknown(_)), "index lost: {index_is_lost}");
        for n in 0..40 {
            let Standing::Ended(stored) = stands(&again, &format!("key {n}")).await else { panic!("key {n} is open") };
            assert_eq!(again.body(&stored).await.unwrap(), format!("answer {n}"));
        }
        assert!(again.token() >= token, "tokens only grow");
        assert!(
            again.look(Place { session: Some(named("none")), ..Place::default() }).await.unwrap().session.is_none()
        );
    }
    let journal = crate::store::journal::verify(temp.path(), None).unwrap();
    assert!(journal.problem.is_none(), "{:?}", journal.problem);
}

mod healing;
mod no_room;
