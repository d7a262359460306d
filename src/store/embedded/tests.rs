//! The embedded store, opened, killed and filled as a process would.

use super::*;
use crate::store::claims::MAX_INLINE_RESULT_BYTES;
use crate::store::journal::JournalOptions;
use crate::store::state::claim::{ClaimPhase, ClaimStatus, Stored, claim_status};
use crate::store::state::command::{HoldRequest, Intent};
use crate::store::state::tests::{ask, intent, named, settle, unknown, word};

fn store(data: &Path) -> EmbeddedStore {
    let options = JournalOptions {
        gather: Duration::ZERO,
        reserve_bytes: 0,
        segment_bytes: 4096,
        ..JournalOptions::default()
    };
    let journal = Journal::open(data, options).unwrap();
    EmbeddedStore::keeping(
        data,
        journal,
        Clock,
        SegmentRetention {
            age: Duration::ZERO,
            archive: None,
        },
    )
    .unwrap()
}

async fn call(store: &EmbeddedStore, key: &str, phase: ClaimPhase) {
    let begin = Intent {
        fence: store.token(),
        ..intent(key, 1)
    };
    let end = settle(&begin, phase);
    store
        .run(StoreCommand::Begin(Box::new(begin)), None)
        .await
        .unwrap()
        .unwrap();
    store
        .run(StoreCommand::Settle(end), None)
        .await
        .unwrap()
        .unwrap();
}

async fn stands(store: &EmbeddedStore, key: &str) -> ClaimStatus {
    let begin = intent(key, 1);
    let view = store
        .load_view(StoreKeys {
            call: Some(begin.key),
            ..StoreKeys::default()
        })
        .await
        .unwrap();
    claim_status(view.claim.as_ref(), &begin.fingerprint, None, store.now())
}

/// A call held under `key`, and what an operator says of it.
async fn held(store: &EmbeddedStore, key: &str, said: Option<bool>) -> HoldRequest {
    let ask = HoldRequest {
        execute_for: 600_000,
        ..ask(key)
    };
    store
        .run(StoreCommand::Hold(Box::new(ask.clone())), None)
        .await
        .unwrap()
        .unwrap();
    if let Some(allow) = said {
        store
            .run(StoreCommand::Decide(word(&ask, "ann", allow)), None)
            .await
            .unwrap()
            .unwrap();
    }
    ask
}

async fn holds(store: &EmbeddedStore, asks: &[HoldRequest]) -> Vec<Option<Hold>> {
    let mut holds = Vec::new();
    for ask in asks {
        let view = store
            .load_view(StoreKeys {
                hold: Some(ask.key),
                ..StoreKeys::default()
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

/// Short calls, enough for old segments to be dropped.
const SHORT_CALLS: usize = 40;

/// What has happened in a store.
struct History {
    /// The answer that has a file of its own.
    long: Stored,
    asks: Vec<HoldRequest>,
    holds: Vec<Option<Hold>>,
}

impl History {
    async fn of(store: &EmbeddedStore) -> Self {
        let long = store
            .keep(false, Bytes::from(vec![b'7'; MAX_INLINE_RESULT_BYTES + 1]))
            .await
            .unwrap();
        call(store, "long", ClaimPhase::Completed(long.clone())).await;
        call(store, "lost", unknown()).await;
        let mut asks = Vec::new();
        for (key, said) in [
            ("pending", None),
            ("allowed", Some(true)),
            ("denied", Some(false)),
            ("used", Some(true)),
        ] {
            asks.push(held(store, key, said).await);
        }
        let begin = Intent {
            fence: store.token(),
            hold: Some(asks[3].key),
            ..intent("used", 1)
        };
        let end = settle(&begin, ClaimPhase::NotSent);
        for command in [
            StoreCommand::Begin(Box::new(begin)),
            StoreCommand::Settle(end),
        ] {
            store.run(command, None).await.unwrap().unwrap();
        }
        let holds = holds(store, &asks).await;
        for n in 0..SHORT_CALLS {
            let short = store
                .keep(false, Bytes::from(format!("answer {n}")))
                .await
                .unwrap();
            call(store, &format!("key {n}"), ClaimPhase::Completed(short)).await;
        }
        Self { long, asks, holds }
    }

    async fn is_carried_on(&self, again: &EmbeddedStore, index_is_lost: bool) {
        assert_eq!(
            stands(again, "long").await,
            ClaimStatus::Ended(self.long.clone())
        );
        assert_eq!(
            again.body(&self.long).await.unwrap().len(),
            MAX_INLINE_RESULT_BYTES + 1
        );
        assert!(
            matches!(stands(again, "lost").await, ClaimStatus::Unknown(_)),
            "index lost: {index_is_lost}"
        );
        for n in 0..SHORT_CALLS {
            let ClaimStatus::Ended(stored) = stands(again, &format!("key {n}")).await else {
                panic!("key {n} is open")
            };
            assert_eq!(again.body(&stored).await.unwrap(), format!("answer {n}"));
        }
        assert_eq!(
            holds(again, &self.asks).await,
            self.holds,
            "index lost: {index_is_lost}"
        );
        assert_eq!(
            again.holds(9).await.unwrap().len(),
            2,
            "one waits, and one may run"
        );
        let none = StoreKeys {
            session: Some(named("none")),
            ..StoreKeys::default()
        };
        assert!(again.load_view(none).await.unwrap().session.is_none());
    }
}

/// guarantees §8: old segments are dropped, and neither a restart nor the loss of the index forgets
/// a claim that is replayed, an outcome that is unknown, a call that is held, what was decided of
/// it, or the newest token; answers in files stay as long as they can be asked for.
#[tokio::test(flavor = "multi_thread")]
async fn what_old_segments_said_is_carried_on() {
    let temp = tempfile::tempdir().unwrap();
    let first = store(temp.path());
    let history = Box::pin(History::of(&first)).await;
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
        history.is_carried_on(&again, index_is_lost).await;
        assert!(again.token() >= token, "tokens only grow");
    }
    let journal = crate::store::journal::verify(temp.path(), None).unwrap();
    assert!(journal.problem.is_none(), "{:?}", journal.problem);
}

/// guarantees §5: the counter of fencing tokens only grows, also when its sessions are forgotten,
/// the intents that took tokens are dropped, and the index is lost.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_only_grow_whatever_is_forgotten() {
    let temp = tempfile::tempdir().unwrap();
    let first = store(temp.path());
    for n in 0..10 {
        call(&first, &format!("key {n}"), ClaimPhase::NotSent).await;
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
            .load_view(StoreKeys {
                session: Some(session),
                ..StoreKeys::default()
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
    let (mut failing, mut now, mut waits) = (indexer::DropRetry::default(), 1_000_000, Vec::new());
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
mod opening;
mod reads_ahead;
