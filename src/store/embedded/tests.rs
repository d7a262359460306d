//! The embedded store, opened, killed and filled as a process would.

use super::*;
use crate::store::journal::Options;
use crate::store::state::claim::{Phase, Standing, standing};
use crate::store::state::command::{Ask, Intent};
use crate::store::state::tests::{ask, intent, named, settle, unknown, word};

fn store(data: &Path) -> Embedded {
    let options = Options {
        gather: Duration::ZERO,
        reserve_bytes: 0,
        segment_bytes: 4096,
        ..Options::default()
    };
    let journal = Journal::open(data, options).unwrap();
    Embedded::keeping(
        data,
        journal,
        Clock,
        Keeping {
            age: Duration::ZERO,
            archive: None,
        },
    )
    .unwrap()
}

async fn call(store: &Embedded, key: &str, phase: Phase) {
    let begin = Intent {
        fence: store.token(),
        ..intent(key, 1)
    };
    let end = settle(&begin, phase);
    store
        .run(Command::Begin(Box::new(begin)), None)
        .await
        .unwrap()
        .unwrap();
    store
        .run(Command::Settle(end), None)
        .await
        .unwrap()
        .unwrap();
}

async fn stands(store: &Embedded, key: &str) -> Standing {
    let begin = intent(key, 1);
    let view = store
        .look(Place {
            call: Some(begin.key),
            ..Place::default()
        })
        .await
        .unwrap();
    standing(view.claim.as_ref(), &begin.fingerprint, None, store.now())
}

/// A call held under `key`, and what an operator says of it.
async fn held(store: &Embedded, key: &str, said: Option<bool>) -> Ask {
    let ask = Ask {
        execute_for: 600_000,
        ..ask(key)
    };
    store
        .run(Command::Hold(Box::new(ask.clone())), None)
        .await
        .unwrap()
        .unwrap();
    if let Some(allow) = said {
        store
            .run(Command::Decide(word(&ask, "ann", allow)), None)
            .await
            .unwrap()
            .unwrap();
    }
    ask
}

async fn holds(store: &Embedded, asks: &[Ask]) -> Vec<Option<Hold>> {
    let mut holds = Vec::new();
    for ask in asks {
        let view = store
            .look(Place {
                hold: Some(ask.key),
                ..Place::default()
            })
            .await
            .unwrap();
        holds.push(view.hold);
    }
    holds
}

fn size(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// SEMANTICS §8: old segments are dropped, and neither a restart nor the loss of the index forgets
/// a claim that is replayed, an outcome that is unknown, a call that is held, what was decided of
/// it, or the newest token; answers in files stay as long as they can be asked for.
#[tokio::test(flavor = "multi_thread")]
async fn what_old_segments_said_is_carried_on() {
    let temp = tempfile::tempdir().unwrap();
    let first = store(temp.path());
    let long = first
        .keep(false, Bytes::from(vec![b'7'; INLINE + 1]))
        .await
        .unwrap();
    call(&first, "long", Phase::Completed(long.clone())).await;
    call(&first, "lost", unknown()).await;
    let mut asks = Vec::new();
    for (key, said) in [
        ("pending", None),
        ("allowed", Some(true)),
        ("denied", Some(false)),
        ("used", Some(true)),
    ] {
        asks.push(held(&first, key, said).await);
    }
    let begin = Intent {
        fence: first.token(),
        hold: Some(asks[3].key),
        ..intent("used", 1)
    };
    let end = settle(&begin, Phase::NotSent);
    first
        .run(Command::Begin(Box::new(begin)), None)
        .await
        .unwrap()
        .unwrap();
    first
        .run(Command::Settle(end), None)
        .await
        .unwrap()
        .unwrap();
    let kept = holds(&first, &asks).await;
    for n in 0..40 {
        let short = first
            .keep(false, Bytes::from(format!("answer {n}")))
            .await
            .unwrap();
        call(&first, &format!("key {n}"), Phase::Completed(short)).await;
    }
    let before = size(&temp.path().join("journal"));
    first.shared.catch_up().unwrap();
    let shared = first.shared.clone();
    tokio::task::spawn_blocking(move || shared.tidy())
        .await
        .unwrap();
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
        assert!(
            matches!(stands(&again, "lost").await, Standing::Unknown(_)),
            "index lost: {index_is_lost}"
        );
        for n in 0..40 {
            let Standing::Ended(stored) = stands(&again, &format!("key {n}")).await else {
                panic!("key {n} is open")
            };
            assert_eq!(again.body(&stored).await.unwrap(), format!("answer {n}"));
        }
        assert_eq!(
            holds(&again, &asks).await,
            kept,
            "index lost: {index_is_lost}"
        );
        assert_eq!(
            again.holds(9).await.unwrap().len(),
            2,
            "one waits, and one may run"
        );
        assert!(again.token() >= token, "tokens only grow");
        assert!(
            again
                .look(Place {
                    session: Some(named("none")),
                    ..Place::default()
                })
                .await
                .unwrap()
                .session
                .is_none()
        );
    }
    let journal = crate::store::journal::verify(temp.path(), None).unwrap();
    assert!(journal.problem.is_none(), "{:?}", journal.problem);
}

/// SEMANTICS §5: the counter of fencing tokens only grows, also when its sessions are forgotten,
/// the intents that took tokens are dropped, and the index is lost.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_only_grow_whatever_is_forgotten() {
    let temp = tempfile::tempdir().unwrap();
    let first = store(temp.path());
    for n in 0..10 {
        call(&first, &format!("key {n}"), Phase::NotSent).await;
    }
    let token = first.token();
    first.shared.catch_up().unwrap();
    let later = first.now() + Millis::try_from(Duration::from_hours(24 * 400).as_millis()).unwrap();
    while first
        .shared
        .lookup
        .change(|index| index.sweep(later, |_| false))
        .unwrap()
    {}
    for _ in 0..40 {
        let entry = Entry {
            tool: "t".repeat(1_000),
            ..Entry::default()
        };
        first.shared.journal.record(entry).unwrap();
        first.shared.journal.flush().await.unwrap();
    }
    let shared = first.shared.clone();
    tokio::task::spawn_blocking(move || shared.tidy())
        .await
        .unwrap();
    drop(first);
    for again in 1..=2 {
        std::fs::remove_dir_all(temp.path().join("index")).unwrap();
        let next = store(temp.path());
        let session = intent("key 0", 1).session;
        let view = next
            .look(Place {
                session: Some(session),
                ..Place::default()
            })
            .await
            .unwrap();
        assert!(view.session.is_none(), "the session is forgotten");
        let now = next.token();
        assert!(now > token, "after {token} comes {now}, {again}");
        let shared = next.shared.clone();
        tokio::task::spawn_blocking(move || shared.tidy())
            .await
            .unwrap();
    }
}

/// What could not be dropped is not read again and again: each time it is left alone for twice as
/// long.
#[test]
fn what_cannot_be_dropped_is_left_alone_for_longer_and_longer() {
    let (mut failing, mut now, mut waits) = (indexer::Failing::default(), 1_000_000, Vec::new());
    for _ in 0..12 {
        assert!(failing.is_over(now));
        failing.tried(false, now);
        let wait = (0..=600_000)
            .find(|wait| failing.is_over(now + wait))
            .unwrap();
        waits.push(wait);
        now += wait;
    }
    assert!(
        waits[0] == 4_000
            && waits
                .windows(2)
                .all(|pair| pair[1] == (pair[0] * 2).min(600_000)),
        "{waits:?}"
    );
    failing.tried(true, now);
    assert!(failing.is_over(now));
}

mod healing;
mod marks;
mod no_room;
