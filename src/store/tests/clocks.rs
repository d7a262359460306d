//! threat-model §12, clock: wall time jumps by ten years, back, and stands still; nothing is
//! revived, and nothing outlives its time to live by more than a second of steady time.

use super::TestStore;
use crate::model::clock::hands::TestClock;
use crate::model::refusal::people::EXPIRED_HOLD_GRACE_MS;
use crate::store::claims::Store;
use crate::store::state::claim::{ClaimPhase, ClaimStatus, claim_status};
use crate::store::state::command::{HoldRequest, Intent, Settle, StoreCommand};
use crate::store::state::hold::{self, Undecided};
use crate::store::state::settlement::Evidence;
use crate::store::state::tests::{HOUR_MS, ask, intent, named, result, settle, unknown, word};
use crate::store::state::{CommandRefusal, Millis, StoreKeys};
use std::sync::Arc;
use std::time::Duration;

const TEN_YEARS_SECONDS: i64 = 10 * 365 * 24 * 3600;
/// How long a claim is replayed here, and how long its key is remembered after that.
const CLAIM_TTL_MS: u64 = 60_000;
const KEY_RETENTION_MS: u64 = 30_000;

/// What is done to the clock, and to the store.
#[derive(Debug, Clone, Copy)]
enum ClockTurn {
    Jump(i64),
    Freeze(bool),
    Reopen,
}

const CLOCK_TURNS: &[&[ClockTurn]] = &[
    &[],
    &[ClockTurn::Reopen],
    &[ClockTurn::Jump(TEN_YEARS_SECONDS)],
    &[ClockTurn::Jump(-TEN_YEARS_SECONDS)],
    &[ClockTurn::Jump(TEN_YEARS_SECONDS), ClockTurn::Reopen],
    &[ClockTurn::Jump(-TEN_YEARS_SECONDS), ClockTurn::Reopen],
    &[
        ClockTurn::Jump(TEN_YEARS_SECONDS),
        ClockTurn::Reopen,
        ClockTurn::Jump(-TEN_YEARS_SECONDS),
        ClockTurn::Reopen,
    ],
    &[
        ClockTurn::Jump(-TEN_YEARS_SECONDS),
        ClockTurn::Reopen,
        ClockTurn::Jump(2 * TEN_YEARS_SECONDS),
        ClockTurn::Reopen,
        ClockTurn::Jump(-TEN_YEARS_SECONDS),
    ],
    &[ClockTurn::Freeze(true)],
    &[
        ClockTurn::Freeze(true),
        ClockTurn::Reopen,
        ClockTurn::Freeze(false),
    ],
    &[
        ClockTurn::Jump(1),
        ClockTurn::Reopen,
        ClockTurn::Jump(-1),
        ClockTurn::Reopen,
    ],
];

/// What `turn` makes of `store`.
fn turned(
    stand: &TestStore,
    hands: &TestClock,
    turn: ClockTurn,
    store: Arc<dyn Store>,
) -> Arc<dyn Store> {
    match turn {
        ClockTurn::Jump(seconds) => hands.jump(seconds),
        ClockTurn::Freeze(is_frozen) => hands.freeze(is_frozen),
        ClockTurn::Reopen if stand.lasts() => {
            drop(store);
            return stand.open();
        }
        ClockTurn::Reopen => {}
    }
    store
}

async fn run(store: &dyn Store, command: StoreCommand) {
    store.run(command, None).await.unwrap().unwrap();
}

async fn complete(store: &dyn Store, key: &str, (ttl, keep): (u64, u64)) {
    let call = Intent {
        ttl,
        keep,
        session: named(key),
        ..intent(key, store.token())
    };
    run(store, StoreCommand::Begin(Box::new(call.clone()))).await;
    run(
        store,
        StoreCommand::Settle(settle(&call, ClaimPhase::Completed(result("paid")))),
    )
    .await;
}

async fn found(store: &dyn Store, key: &str) -> &'static str {
    let view = store
        .load_view(StoreKeys {
            call: Some(named(key)),
            ..StoreKeys::default()
        })
        .await
        .unwrap();
    match claim_status(
        view.claim.as_ref(),
        &named("fingerprint"),
        None,
        store.now(),
    ) {
        ClaimStatus::Ended(_) => "ended",
        ClaimStatus::Expired => "expired",
        ClaimStatus::Open { .. } => "open",
        ClaimStatus::Unknown(_) => "unknown",
        ClaimStatus::Asked(_) | ClaimStatus::InFlight(_) | ClaimStatus::Conflict => "else",
    }
}

async fn lives_as_long_as_it_should(stand: &TestStore, hands: &TestClock, turns: &[ClockTurn]) {
    let mut store = stand.open();
    complete(&*store, "explicit", (CLAIM_TTL_MS, KEY_RETENTION_MS)).await;
    complete(&*store, "derived", (CLAIM_TTL_MS, 0)).await;
    let lost = intent("lost", store.token());
    run(&*store, StoreCommand::Begin(Box::new(lost.clone()))).await;
    run(&*store, StoreCommand::Settle(settle(&lost, unknown()))).await;

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
        let explicit = if sum < CLAIM_TTL_MS {
            "ended"
        } else if sum < CLAIM_TTL_MS + KEY_RETENTION_MS {
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
            if sum < CLAIM_TTL_MS { "ended" } else { "open" },
            "{sum} ms, {turns:?}"
        );
        assert_eq!(
            found(&*store, "lost").await,
            "unknown",
            "{sum} ms, {turns:?}"
        );
    }
    // However long it takes, only evidence ends it.
    hands.pass(Duration::from_millis(1000 * HOUR_MS));
    assert_eq!(found(&*store, "lost").await, "unknown");
    let late = Settle {
        evidence: Evidence::Late,
        ..settle(&lost, ClaimPhase::Completed(result("paid")))
    };
    run(&*store, StoreCommand::Settle(late)).await;
    assert_eq!(found(&*store, "lost").await, "ended");
}

#[tokio::test]
async fn claims_in_memory_live_by_steady_time() {
    for turns in CLOCK_TURNS {
        let hands = TestClock::new();
        Box::pin(lives_as_long_as_it_should(
            &TestStore::memory(hands.clock()),
            hands,
            turns,
        ))
        .await;
    }
}

#[tokio::test]
async fn claims_on_disk_live_by_steady_time() {
    for turns in CLOCK_TURNS {
        let hands = TestClock::new();
        Box::pin(lives_as_long_as_it_should(
            &TestStore::embedded(hands.clock()),
            hands,
            turns,
        ))
        .await;
    }
}

fn hourly(key: &str, store: &dyn Store) -> Intent {
    Intent {
        ttl: HOUR_MS,
        keep: 0,
        session: named(key),
        ..intent(key, store.token())
    }
}

async fn began(key: &str, store: &dyn Store) -> bool {
    store
        .run(StoreCommand::Begin(Box::new(hourly(key, store))), None)
        .await
        .unwrap()
        .is_ok()
}

/// Sent again 31, 60 and 89 s after calls that ended each in its way.
async fn is_the_same_within_the_retry_horizon(stand: &TestStore, hands: &TestClock) {
    let mut store = stand.open();
    complete(&*store, "done", (HOUR_MS, 0)).await;
    let lost = hourly("lost", &*store);
    run(&*store, StoreCommand::Begin(Box::new(lost.clone()))).await;
    run(&*store, StoreCommand::Settle(settle(&lost, unknown()))).await;
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

/// 004-01, 004-13, 004-18: what is sent again 31, 60 and 89 s later is the same call, whatever
/// became of the first by then, and however often the store was opened in between; with a new key
/// it is a new one (004-08).
#[tokio::test]
async fn a_call_sent_again_is_the_same_within_the_retry_horizon() {
    let hands = TestClock::new();
    Box::pin(is_the_same_within_the_retry_horizon(
        &TestStore::memory(hands.clock()),
        hands,
    ))
    .await;
    let hands = TestClock::new();
    Box::pin(is_the_same_within_the_retry_horizon(
        &TestStore::embedded(hands.clock()),
        hands,
    ))
    .await;
}

/// Held calls that are decided too late, at the last moment, and early.
struct TimedHolds {
    late: HoldRequest,
    decided: HoldRequest,
    allowed: HoldRequest,
}

impl TimedHolds {
    async fn held(store: &dyn Store) -> Self {
        let [late, decided, allowed] = ["late", "decided", "allowed"].map(|key| HoldRequest {
            approve_for: 60_000,
            execute_for: 30_000,
            ..ask(key)
        });
        for ask in [&late, &decided, &allowed] {
            run(store, StoreCommand::Hold(Box::new(ask.clone()))).await;
        }
        Self {
            late,
            decided,
            allowed,
        }
    }

    /// Says what operators say at that time, and whether that counts.
    async fn are_decided(&self, store: &dyn Store, sum: Millis, turns: &[ClockTurn]) {
        let (ask, is_in_time) = match sum {
            30_000 => (&self.allowed, true),
            59_999 => (&self.decided, true),
            60_000 => (&self.late, false),
            _ => return,
        };
        let told = store
            .run(StoreCommand::Decide(word(ask, "ann", true)), None)
            .await
            .unwrap();
        assert_eq!(told.is_ok(), is_in_time, "{sum} ms, {turns:?}");
        assert!(is_in_time || told == Err(CommandRefusal::Undecided(Undecided::Gone)));
    }

    async fn stand(&self, store: &dyn Store) -> Vec<String> {
        let mut words = Vec::new();
        for ask in [&self.late, &self.decided, &self.allowed] {
            let view = store
                .load_view(StoreKeys {
                    hold: Some(ask.key),
                    ..StoreKeys::default()
                })
                .await
                .unwrap();
            let stands = hold::hold_status(view.hold.as_ref(), store.now());
            let stands = format!("{stands:?}");
            words.extend(stands.split(' ').next().map(str::to_owned));
        }
        words
    }
}

/// guarantees §7: both clocks of a held call are steady time's; a moment before its deadline it can
/// be decided and can run, at its deadline it cannot.
async fn is_decided_and_runs_in_time(stand: &TestStore, hands: &TestClock, turns: &[ClockTurn]) {
    let mut store = stand.open();
    let holds = Box::pin(TimedHolds::held(&*store)).await;
    let mut left = turns.iter();
    for (step, sum) in [
        (29_999, 29_999),
        (1, 30_000),
        (29_999, 59_999),
        (1, 60_000),
        (EXPIRED_HOLD_GRACE_MS, 60_000 + EXPIRED_HOLD_GRACE_MS),
    ] {
        if let Some(turn) = left.next() {
            store = turned(stand, hands, *turn, store);
        }
        hands.pass(Duration::from_millis(step));
        holds.are_decided(&*store, sum, turns).await;
        let expected = match sum {
            29_999 => ["Pending", "Pending", "Pending"],
            30_000 => ["Pending", "Pending", "Allowed"],
            59_999 => ["Pending", "Allowed", "Allowed"],
            60_000 => ["TimedOut", "Allowed", "Lapsed"],
            _ => ["Absent", "Allowed", "Absent"],
        };
        assert_eq!(holds.stand(&*store).await, expected, "{sum} ms, {turns:?}");
        let using = |key: &str| {
            StoreCommand::Begin(Box::new(Intent {
                hold: Some(named(key)),
                ..hourly(key, &*store)
            }))
        };
        if sum == 60_000 {
            let begun = store.run(using("allowed"), None).await.unwrap();
            assert!(begun.is_err(), "{turns:?}");
        }
        if sum > 60_000 {
            run(&*store, using("decided")).await;
        }
    }
}

/// 001-57: a decision outlives the deadline that it was made before, whatever the clock does.
#[tokio::test]
async fn held_calls_live_by_steady_time() {
    for turns in CLOCK_TURNS {
        let hands = TestClock::new();
        let stand = TestStore::memory(hands.clock());
        Box::pin(is_decided_and_runs_in_time(&stand, hands, turns)).await;
        let hands = TestClock::new();
        let stand = TestStore::embedded(hands.clock());
        Box::pin(is_decided_and_runs_in_time(&stand, hands, turns)).await;
    }
}
