//! What every store promises of held calls (guarantees §7): counted exactly, decided once, used
//! once, and there again.

#![expect(
    clippy::disallowed_methods,
    reason = "a scenario is no part of toolgate's process"
)]

use super::TestStore;
use crate::model::clock::Clock;
use crate::model::ids::ActionId;
use crate::store::claims::Store;
use crate::store::state::claim::ClaimPhase as Claimed;
use crate::store::state::command::{Decide, HoldBounds, HoldRequest, Intent, StoreCommand};
use crate::store::state::event::StoreEvent;
use crate::store::state::hold::{self, Hold, HoldBound, HoldPhase, Undecided};
use crate::store::state::tests::{ask, intent, named, result, settle, word};
use crate::store::state::{CommandRefusal, StoreKeys};
use std::sync::Arc;

/// Runs scenarios on stores of a kind.
macro_rules! promised_by {
    ($kind:ident: $($name:ident),* $(,)?) => {
        mod $kind {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&super::TestStore::$kind(super::Clock)).await;
            })*
        }
    };
}

promised_by!(memory:
    what_was_allowed_runs_once,
    so_many_wait_and_no_more,
    what_is_decided_makes_room,
    the_first_decision_stands,
    who_waits_for_operators_is_woken,
);

promised_by!(embedded:
    what_was_allowed_runs_once,
    so_many_wait_and_no_more,
    what_is_decided_makes_room,
    the_first_decision_stands,
    who_waits_for_operators_is_woken,
    what_was_decided_is_there_again,
);

type HoldStepResult = Result<StoreEvent, CommandRefusal>;

async fn hold(store: &dyn Store, ask: &HoldRequest) -> HoldStepResult {
    store
        .run(StoreCommand::Hold(Box::new(ask.clone())), None)
        .await
        .unwrap()
}

async fn say(store: &dyn Store, word: Decide) -> HoldStepResult {
    store.run(StoreCommand::Decide(word), None).await.unwrap()
}

async fn begin(store: &dyn Store, intent: Intent) -> HoldStepResult {
    store
        .run(StoreCommand::Begin(Box::new(intent)), None)
        .await
        .unwrap()
}

/// A call of its own key and session, with what was allowed under `key`.
fn call(store: &dyn Store, key: &str) -> Intent {
    let action = ActionId::generate();
    let own = action.to_string();
    Intent {
        action,
        hold: Some(named(key)),
        session: named(&own),
        ..intent(&own, store.token())
    }
}

async fn look(store: &dyn Store, key: &str) -> Option<Hold> {
    store
        .load_view(StoreKeys {
            hold: Some(named(key)),
            ..StoreKeys::default()
        })
        .await
        .unwrap()
        .hold
}

async fn phase(store: &dyn Store, key: &str) -> HoldPhase {
    look(store, key).await.unwrap().phase
}

/// guarantees §1: 100 calls at once with what was allowed: exactly one begins, whatever else is
/// true of them.
async fn what_was_allowed_runs_once(stand: &TestStore) {
    let store = stand.open();
    let ask = ask("key");
    hold(&*store, &ask).await.unwrap();
    assert_eq!(
        begin(&*store, call(&*store, "key")).await,
        Err(CommandRefusal::Held(hold::HoldStatus::Pending))
    );
    say(&*store, word(&ask, "ann", true)).await.unwrap();
    let calls = (0..100).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let call = call(&*store, "key");
            (call.action, begin(&*store, call).await)
        })
    });
    let mut begun = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            (action, Ok(_)) => begun.push(action),
            (_, Err(refused)) => {
                assert_eq!(refused, CommandRefusal::Held(hold::HoldStatus::Absent));
            }
        }
    }
    assert_eq!(begun.len(), 1);
    assert!(
        matches!(phase(&*store, "key").await, HoldPhase::Used { action, .. } if action == begun[0])
    );
    assert_eq!(store.holds(10).await.unwrap(), []);
}

/// How many may wait in all, and of one agent.
const BOUNDS: HoldBounds = HoldBounds {
    all: 50,
    agent: 20,
    caller: 20,
};

/// Those that were held, of many calls of four agents in two tenants at once.
async fn held_at_once(store: &Arc<dyn Store>) -> Vec<HoldRequest> {
    let asks = (0..120).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut ask = HoldRequest {
                bounds: BOUNDS,
                ..ask(&format!("key {n}"))
            };
            ask.question.agent = format!("agent {}", n % 4);
            // The same name in another tenant is another agent.
            ask.question.tenant = (n % 8 < 4).then(|| "t_001".to_owned());
            let asked = hold(&*store, &ask).await;
            (ask, asked)
        })
    });
    let mut waiting = Vec::new();
    for ask in asks.collect::<Vec<_>>() {
        match ask.await.unwrap() {
            (ask, Ok(_)) => waiting.push(ask),
            (_, Err(refused)) => {
                assert!(matches!(refused, CommandRefusal::TooManyHolds(_)));
            }
        }
    }
    waiting
}

/// 001-P4, threat-model §8: asked by many at once, exactly as many wait as may; each of them is
/// listed.
async fn so_many_wait_and_no_more(stand: &TestStore) {
    let store = stand.open();
    let waiting = held_at_once(&store).await;
    assert_eq!(waiting.len(), 50);
    let listed = store.holds(1000).await.unwrap();
    assert_eq!(listed.len(), 50);
    assert!(
        listed.is_sorted_by_key(|(_, hold)| hold.asked),
        "the oldest first"
    );
    let oldest: Vec<_> = store.holds(3).await.unwrap();
    assert_eq!(oldest, listed[..3]);
    for ask in &waiting {
        let (key, hold) = store.find_hold(ask.id).await.unwrap().unwrap();
        assert_eq!((key, hold.question), (ask.key, ask.question.clone()));
    }
    assert_eq!(store.find_hold(ActionId::generate()).await.unwrap(), None);
}

/// 001-P4: what is decided makes room, for as many as it was.
async fn what_is_decided_makes_room(stand: &TestStore) {
    let store = stand.open();
    let waiting = held_at_once(&store).await;
    let more = |n: usize| HoldRequest {
        bounds: BOUNDS,
        ..ask(&format!("more {n}"))
    };
    assert_eq!(
        hold(&*store, &more(0)).await,
        Err(CommandRefusal::TooManyHolds(HoldBound::All))
    );
    for (n, ask) in waiting.iter().take(2).enumerate() {
        say(&*store, word(ask, "ann", n == 0)).await.unwrap();
    }
    hold(&*store, &more(0)).await.unwrap();
    hold(&*store, &more(1)).await.unwrap();
    assert_eq!(
        hold(&*store, &more(2)).await,
        Err(CommandRefusal::TooManyHolds(HoldBound::All))
    );
    let mut last = HoldRequest {
        bounds: HoldBounds {
            all: 1000,
            agent: 3,
            caller: 3,
        },
        ..more(2)
    };
    hold(&*store, &last).await.unwrap();
    (last.key, last.id) = (named("more 3"), ActionId::generate());
    assert_eq!(
        hold(&*store, &last).await,
        Err(CommandRefusal::TooManyHolds(HoldBound::Caller)),
        "three of this agent"
    );
    last.question.tenant = None;
    hold(&*store, &last).await.unwrap();
}

/// 001-A3: operators at once, half of them against it: one decision, and all others are told so.
async fn the_first_decision_stands(stand: &TestStore) {
    let store = stand.open();
    for round in 0..10 {
        let ask = ask(&format!("key {round}"));
        hold(&*store, &ask).await.unwrap();
        let words = (0..10).map(|n| {
            let (store, word) = (
                store.clone(),
                word(&ask, &format!("operator {n}"), n % 2 == 0),
            );
            tokio::spawn(async move { (word.allow, say(&*store, word).await) })
        });
        let mut decided = Vec::new();
        let mut refused = Vec::new();
        for word in words.collect::<Vec<_>>() {
            match word.await.unwrap() {
                (allow, Ok(_)) => decided.push(allow),
                (allow, Err(why)) => refused.push((allow, why)),
            }
        }
        assert_eq!(decided.len(), 1);
        let allowed = decided[0];
        for (allow, why) in refused {
            let why_not = if allow == allowed {
                Undecided::Same
            } else {
                Undecided::Other { allowed }
            };
            assert_eq!(why, CommandRefusal::Undecided(why_not));
        }
        let expected = if allowed {
            HoldPhase::Allowed
        } else {
            HoldPhase::Denied
        };
        assert_eq!(phase(&*store, &format!("key {round}")).await, expected);
    }
}

/// 001-44: no call waits for what is decided, and one that waits hears of it.
async fn who_waits_for_operators_is_woken(stand: &TestStore) {
    let store = stand.open();
    store.decided(named("nothing")).await;
    for allow in [true, false] {
        let ask = ask(&format!("{allow}"));
        hold(&*store, &ask).await.unwrap();
        let waits = async || {
            while look(&*store, &format!("{allow}")).await.unwrap().phase == HoldPhase::Pending {
                store.decided(ask.key).await;
            }
        };
        // They wait before anything is said.
        let ((), (), told) = tokio::join!(waits(), waits(), say(&*store, word(&ask, "ann", allow)));
        told.unwrap();
        store.decided(ask.key).await;
    }
}

async fn phases(store: &dyn Store) -> Vec<String> {
    let mut phases = Vec::new();
    for key in ["pending", "half", "allowed", "denied", "used"] {
        phases.push(format!("{:?}", look(store, key).await.unwrap()));
    }
    phases
}

/// Calls that are held, and decided or not: a crash right after each word takes nothing back.
async fn what_was_told_outlives_a_crash(stand: &TestStore, store: &dyn Store) {
    for (key, said) in [
        ("pending", vec![]),
        ("half", vec!["ann"]),
        ("allowed", vec!["ann"]),
        ("denied", vec![]),
    ] {
        let ask = HoldRequest {
            needed: if key == "half" { 2 } else { 1 },
            execute_for: 600_000,
            ..ask(key)
        };
        hold(store, &ask).await.unwrap();
        assert_eq!(
            phase(&*stand.killed().open(), key).await,
            HoldPhase::Pending,
            "it was told to its agent: {key}"
        );
        for who in said {
            say(store, word(&ask, who, true)).await.unwrap();
        }
        if key == "denied" {
            say(store, word(&ask, "ann", false)).await.unwrap();
        }
        let is_decided = ["allowed", "denied"].contains(&key);
        let crashed = phase(&*stand.killed().open(), key).await;
        assert_eq!(
            crashed != HoldPhase::Pending,
            is_decided,
            "it was told to its operator: {key}, {crashed:?}"
        );
    }
}

/// A held call that was used, also where a crash kept it from being sent.
async fn what_was_used_is_used_after_a_crash(stand: &TestStore, store: &dyn Store) -> HoldRequest {
    let used = HoldRequest {
        execute_for: 600_000,
        ..ask("used")
    };
    hold(store, &used).await.unwrap();
    say(store, word(&used, "ann", true)).await.unwrap();
    let begun = call(store, "used");
    begin(store, begun.clone()).await.unwrap();
    let crashed = stand.killed().open();
    assert!(
        matches!(phase(&*crashed, "used").await, HoldPhase::Used { action, .. } if action == begun.action)
    );
    let not_sent = crashed.find(begun.action).await.unwrap().unwrap().1;
    assert_eq!(not_sent.phase, Claimed::NotSent);
    let again = Intent {
        fence: crashed.token(),
        action: ActionId::generate(),
        ..begun.clone()
    };
    assert_eq!(
        begin(&*crashed, again).await,
        Err(CommandRefusal::Held(hold::HoldStatus::Absent)),
        "each is asked for on its own"
    );
    drop(crashed);
    let end = settle(&begun, Claimed::Completed(result("paid")));
    store
        .run(StoreCommand::Settle(end), None)
        .await
        .unwrap()
        .unwrap();
    used
}

/// 001-41, 001-48, 001-P1, guarantees §7, restart: what waits still waits, what was decided is
/// decided, what was used is used; also after a crash right after each of them, and however often
/// it is opened.
async fn what_was_decided_is_there_again(stand: &TestStore) {
    let mut store = stand.open();
    what_was_told_outlives_a_crash(stand, &*store).await;
    let used = Box::pin(what_was_used_is_used_after_a_crash(stand, &*store)).await;
    let (before, listed) = (phases(&*store).await, store.holds(10).await.unwrap());
    assert_eq!(listed.len(), 3);
    for _ in 0..3 {
        drop(store);
        store = stand.open();
        assert_eq!(phases(&*store).await, before);
        assert_eq!(store.holds(10).await.unwrap(), listed);
        for (key, held) in &listed {
            assert_eq!(
                store.find_hold(held.id).await.unwrap(),
                Some((*key, held.clone()))
            );
        }
        let is_used = store.find_hold(used.id).await.unwrap().map(|(key, _)| key);
        assert_eq!(is_used, Some(used.key), "what is over is found, too");
        let full = HoldRequest {
            bounds: HoldBounds {
                all: 2,
                agent: 20,
                caller: 20,
            },
            ..ask("more")
        };
        assert_eq!(
            hold(&*store, &full).await,
            Err(CommandRefusal::TooManyHolds(HoldBound::All)),
            "what waits counts"
        );
    }
    let half = HoldRequest {
        id: listed[1].1.id,
        ..ask("half")
    };
    assert_eq!(
        say(&*store, word(&half, "ann", true)).await,
        Err(CommandRefusal::Undecided(Undecided::Same))
    );
    say(&*store, word(&half, "bob", true)).await.unwrap();
    for key in ["half", "allowed"] {
        begin(&*store, call(&*store, key)).await.unwrap();
    }
    assert_eq!(
        begin(&*store, call(&*store, "used")).await,
        Err(CommandRefusal::Held(hold::HoldStatus::Absent))
    );
}
