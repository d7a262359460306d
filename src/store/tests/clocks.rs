//! SECURITY §12, clock: wall time jumps by ten years, back, and stands still; nothing is revived,
//! and nothing outlives its time to live by more than a second of steady time.

use super::Stand;
use crate::model::clock::hands::Hands;
use crate::model::ids::ActionId;
use crate::store::claims::Store;
use crate::store::state::claim::{Phase, Standing, standing};
use crate::store::state::command::{Ask, Command, Intent, Settle};
use crate::store::state::event::Evidence;
use crate::store::state::hold::{self, GRACE, Undecided};
use crate::store::state::tests::{HOUR, ask, intent, named, result, settle, unknown, word};
use crate::store::state::{Millis, Place, Refused};
use std::sync::Arc;
use std::time::Duration;

const YEARS: i64 = 10 * 365 * 24 * 3600;
/// How long a claim is replayed here, and how long its key is remembered after that.
const TTL: u64 = 60_000;
const KEEP: u64 = 30_000;

/// What is done to the clock, and to the store.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Jump(i64),
    Freeze(bool),
    Reopen,
}

const TURNS: &[&[Turn]] = &[
    &[],
    &[Turn::Reopen],
    &[Turn::Jump(YEARS)],
    &[Turn::Jump(-YEARS)],
    &[Turn::Jump(YEARS), Turn::Reopen],
    &[Turn::Jump(-YEARS), Turn::Reopen],
    &[
        Turn::Jump(YEARS),
        Turn::Reopen,
        Turn::Jump(-YEARS),
        Turn::Reopen,
    ],
    &[
        Turn::Jump(-YEARS),
        Turn::Reopen,
        Turn::Jump(2 * YEARS),
        Turn::Reopen,
        Turn::Jump(-YEARS),
    ],
    &[Turn::Freeze(true)],
    &[Turn::Freeze(true), Turn::Reopen, Turn::Freeze(false)],
    &[Turn::Jump(1), Turn::Reopen, Turn::Jump(-1), Turn::Reopen],
];

/// What `turn` makes of `store`.
fn turned(stand: &Stand, hands: &Hands, turn: Turn, store: Arc<dyn Store>) -> Arc<dyn Store> {
    match turn {
        Turn::Jump(seconds) => hands.jump(seconds),
        Turn::Freeze(is_frozen) => hands.freeze(is_frozen),
        Turn::Reopen if stand.lasts() => {
            drop(store);
            return stand.open();
        }
        Turn::Reopen => {}
    }
    store
}

async fn complete(store: &dyn Store, key: &str, (ttl, keep): (u64, u64)) {
    let call = Intent {
        ttl,
        keep,
        session: named(key),
        ..intent(key, store.token())
    };
    store
        .run(Command::Begin(Box::new(call.clone())), None)
        .await
        .unwrap()
        .unwrap();
    store
        .run(
            Command::Settle(settle(&call, Phase::Completed(result("paid")))),
            None,
        )
        .await
        .unwrap()
        .unwrap();
}

async fn found(store: &dyn Store, key: &str) -> &'static str {
    let view = store
        .look(Place {
            call: Some(named(key)),
            ..Place::default()
        })
        .await
        .unwrap();
    match standing(
        view.claim.as_ref(),
        &named("fingerprint"),
        None,
        store.now(),
    ) {
        Standing::Ended(_) => "ended",
        Standing::Expired => "expired",
        Standing::Open { .. } => "open",
        Standing::Unknown(_) => "unknown",
        Standing::Asked(_) | Standing::InFlight(_) | Standing::Conflict => "else",
    }
}

async fn lives_as_long_as_it_should(stand: &Stand, hands: &Hands, turns: &[Turn]) {
    let mut store = stand.open();
    complete(&*store, "explicit", (TTL, KEEP)).await;
    complete(&*store, "derived", (TTL, 0)).await;
    let lost = intent("lost", store.token());
    store
        .run(Command::Begin(Box::new(lost.clone())), None)
        .await
        .unwrap()
        .unwrap();
    store
        .run(Command::Settle(settle(&lost, unknown())), None)
        .await
        .unwrap()
        .unwrap();

    let mut left = turns.iter();
    for passed in [10_000, 40_000, 9_999, 1_001, 28_998, 1_001]
        .into_iter()
        .scan(0, |sum: &mut Millis, step| {
            *sum += step;
            Some((step, *sum))
        })
    {
        let (step, sum) = passed;
        if let Some(turn) = left.next() {
            store = turned(stand, hands, *turn, store);
        }
        hands.pass(Duration::from_millis(step));
        let explicit = if sum < TTL {
            "ended"
        } else if sum < TTL + KEEP {
            "expired"
        } else {
            "open"
        };
        assert_eq!(
            found(&*store, "explicit").await,
            explicit,
            "{sum} ms, {turns:?}"
        );
        assert_eq!(
            found(&*store, "derived").await,
            if sum < TTL { "ended" } else { "open" },
            "{sum} ms, {turns:?}"
        );
        assert_eq!(
            found(&*store, "lost").await,
            "unknown",
            "{sum} ms, {turns:?}"
        );
    }
    // However long it takes, only evidence ends it.
    hands.pass(Duration::from_millis(1000 * HOUR));
    assert_eq!(found(&*store, "lost").await, "unknown");
    let late = Settle {
        evidence: Evidence::Late,
        ..settle(&lost, Phase::Completed(result("paid")))
    };
    store
        .run(Command::Settle(late), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found(&*store, "lost").await, "ended");
}

#[tokio::test]
async fn claims_in_memory_live_by_steady_time() {
    for turns in TURNS {
        let hands = Hands::new();
        lives_as_long_as_it_should(&Stand::memory(hands.clock()), hands, turns).await;
    }
}

#[tokio::test]
async fn claims_on_disk_live_by_steady_time() {
    for turns in TURNS {
        let hands = Hands::new();
        lives_as_long_as_it_should(&Stand::embedded(hands.clock()), hands, turns).await;
    }
}

fn hourly(key: &str, store: &dyn Store) -> Intent {
    Intent {
        ttl: HOUR,
        keep: 0,
        session: named(key),
        ..intent(key, store.token())
    }
}

async fn began(key: &str, store: &dyn Store) -> bool {
    store
        .run(Command::Begin(Box::new(hourly(key, store))), None)
        .await
        .unwrap()
        .is_ok()
}

/// 004-01, 004-13, 004-18: what is sent again 31, 60 and 89 s later is the same call, whatever
/// became of the first by then, and however often the store was opened in between; with a new key
/// it is a new one (004-08).
async fn is_the_same_within_the_retry_horizon(stand: &Stand, hands: &Hands) {
    let mut store = stand.open();
    complete(&*store, "done", (HOUR, 0)).await;
    let lost = hourly("lost", &*store);
    store
        .run(Command::Begin(Box::new(lost.clone())), None)
        .await
        .unwrap()
        .unwrap();
    store
        .run(Command::Settle(settle(&lost, unknown())), None)
        .await
        .unwrap()
        .unwrap();
    let mut passed = 0;
    for after in [31, 60, 89] {
        hands.pass(Duration::from_secs(after - passed));
        passed = after;
        if stand.lasts() {
            drop(store);
            store = stand.open();
        }
        for key in ["done", "lost"] {
            assert!(
                !began(key, &*store).await,
                "{key} began a second time after {after} s"
            );
        }
        assert_eq!(found(&*store, "done").await, "ended", "{after} s");
        assert_eq!(found(&*store, "lost").await, "unknown", "{after} s");
        assert!(began(&format!("intended {after}"), &*store).await);
    }
}

#[tokio::test]
async fn a_call_sent_again_is_the_same_within_the_retry_horizon() {
    let hands = Hands::new();
    is_the_same_within_the_retry_horizon(&Stand::memory(hands.clock()), hands).await;
    let hands = Hands::new();
    is_the_same_within_the_retry_horizon(&Stand::embedded(hands.clock()), hands).await;
}

/// SEMANTICS §7: both clocks of a held call are steady time's; a moment before its deadline it can
/// be decided and can run, at its deadline it cannot.
async fn is_decided_and_runs_in_time(stand: &Stand, hands: &Hands, turns: &[Turn]) {
    let mut store = stand.open();
    let minute = Ask {
        approve_for: 60_000,
        execute_for: 30_000,
        ..ask("late")
    };
    let asks = ["late", "decided", "allowed"].map(|key| Ask {
        key: named(key),
        id: ActionId::generate(),
        ..minute.clone()
    });
    for ask in &asks {
        store
            .run(Command::Hold(Box::new(ask.clone())), None)
            .await
            .unwrap()
            .unwrap();
    }
    let [late, decided, allowed] = &asks;
    let mut left = turns.iter();
    for (step, sum) in [
        (29_999, 29_999),
        (1, 30_000),
        (29_999, 59_999),
        (1, 60_000),
        (GRACE, 60_000 + GRACE),
    ] {
        if let Some(turn) = left.next() {
            store = turned(stand, hands, *turn, store);
        }
        hands.pass(Duration::from_millis(step));
        let said = match sum {
            30_000 => Some((allowed, true)),
            59_999 => Some((decided, true)),
            60_000 => Some((late, false)),
            _ => None,
        };
        if let Some((ask, is_in_time)) = said {
            let told = store
                .run(Command::Decide(word(ask, "ann", true)), None)
                .await
                .unwrap();
            assert_eq!(told.is_ok(), is_in_time, "{sum} ms, {turns:?}");
            assert!(is_in_time || told == Err(Refused::Undecided(Undecided::Gone)));
        }
        let mut words = Vec::new();
        for ask in &asks {
            let view = store
                .look(Place {
                    hold: Some(ask.key),
                    ..Place::default()
                })
                .await
                .unwrap();
            words.push(format!(
                "{:?}",
                hold::stand(view.hold.as_ref(), store.now())
            ));
        }
        let expected = match sum {
            29_999 => ["Pending", "Pending", "Pending"],
            30_000 => ["Pending", "Pending", "Allowed"],
            59_999 => ["Pending", "Allowed", "Allowed"],
            60_000 => ["TimedOut", "Allowed", "Absent"],
            _ => ["Absent", "Allowed", "Absent"],
        };
        assert_eq!(words, expected, "{sum} ms, {turns:?}");
        let runs = |key: &str| Intent {
            hold: Some(named(key)),
            ..hourly(key, &*store)
        };
        if sum == 60_000 {
            assert!(
                store
                    .run(Command::Begin(Box::new(runs("allowed"))), None)
                    .await
                    .unwrap()
                    .is_err(),
                "{turns:?}"
            );
        }
        if sum > 60_000 {
            store
                .run(Command::Begin(Box::new(runs("decided"))), None)
                .await
                .unwrap()
                .unwrap();
        }
    }
}

#[tokio::test]
async fn held_calls_live_by_steady_time() {
    for turns in TURNS {
        let hands = Hands::new();
        is_decided_and_runs_in_time(&Stand::memory(hands.clock()), hands, turns).await;
        let hands = Hands::new();
        is_decided_and_runs_in_time(&Stand::embedded(hands.clock()), hands, turns).await;
    }
}
