//! What the pages of operators rest on, in every store: more time, what was decided, what happens, and
//! that a used hold is known for a while although the same call is held anew.

use super::TestStore;
use crate::model::clock::hands::TestClock;
use crate::model::ids::ActionId;
use crate::model::refusal::people::EXPIRED_HOLD_GRACE_MS;
use crate::store::claims::Store;
use crate::store::state::command::{ExtendHold, HoldRequest, Intent, StoreCommand};
use crate::store::state::hold::{HoldPhase, Undecided, hold_kind};
use crate::store::state::tests::{ask, intent, word};
use crate::store::state::{CommandRefusal, Millis};
use std::time::Duration;

/// Runs a scenario on each kind of store.
macro_rules! in_each_store {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let hands = super::TestClock::new();
                super::$name(&super::TestStore::memory(hands.clock()), hands).await;
            })*
        }
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let hands = super::TestClock::new();
                super::$name(&super::TestStore::embedded(hands.clock()), hands).await;
            })*
        }
    };
}

in_each_store!(
    more_time_is_given_once,
    past_calls_are_found_by_their_kind,
    who_looks_on_is_told_and_what_was_used_is_known_for_a_while,
);

async fn hold(store: &dyn Store, ask: &HoldRequest) {
    let held = store
        .run(StoreCommand::Hold(Box::new(ask.clone())), None)
        .await;
    held.unwrap().unwrap();
}

async fn say(store: &dyn Store, ask: &HoldRequest, allow: bool) {
    let said = StoreCommand::Decide(word(ask, "ann", allow));
    store.run(said, None).await.unwrap().unwrap();
}

async fn extend(store: &dyn Store, ask: &HoldRequest, who: &str, role: &str) -> Option<Undecided> {
    let extend = ExtendHold {
        key: ask.key,
        id: ask.id,
        who: who.to_owned(),
        roles: vec![role.to_owned()],
        why: Some("bob is at lunch".to_owned()),
    };
    match store.run(StoreCommand::Extend(extend), None).await.unwrap() {
        Ok(_) => None,
        Err(CommandRefusal::Undecided(why)) => Some(why),
        Err(other) => panic!("{other:?}"),
    }
}

async fn approve_by(store: &dyn Store, id: ActionId) -> Millis {
    store.find_hold(id).await.unwrap().unwrap().1.approve_by
}

/// 001-A3: an operator who may decide gives a call as much time again, once; it lasts over a restart.
async fn more_time_is_given_once(stand: &TestStore, hands: &'static TestClock) {
    let store = stand.open();
    let ask = ask("key");
    hold(&*store, &ask).await;
    let before = approve_by(&*store, ask.id).await;
    assert_eq!(
        extend(&*store, &ask, "eve", "teller").await,
        Some(Undecided::NotYours)
    );
    assert_eq!(
        extend(&*store, &ask, "billing-agent", "approver").await,
        Some(Undecided::NotYours)
    );
    assert_eq!(extend(&*store, &ask, "ann", "approver").await, None);
    assert_eq!(
        extend(&*store, &ask, "bob", "approver").await,
        Some(Undecided::Same)
    );
    // What is in memory only ends with its process.
    let store = if stand.lasts() {
        drop(store);
        stand.open()
    } else {
        store
    };
    assert_eq!(approve_by(&*store, ask.id).await, before + ask.approve_for);
    hands.pass(Duration::from_millis(ask.approve_for + 1));
    say(&*store, &ask, true).await;
    assert_eq!(
        extend(&*store, &ask, "ann", "approver").await,
        Some(Undecided::Gone)
    );
}

/// A page tells of some calls like its own: the newest that are over, in memory or not, and no others.
async fn past_calls_are_found_by_their_kind(stand: &TestStore, hands: &'static TestClock) {
    let mut store = stand.open();
    let asked = |nth: usize, agent: &str| {
        let mut asked = ask(&format!("key {nth}"));
        asked.question.agent = agent.to_owned();
        asked
    };
    let mut ids = Vec::new();
    for (nth, agent) in ["one", "other", "one", "one"].into_iter().enumerate() {
        let asked = asked(nth, agent);
        hold(&*store, &asked).await;
        say(&*store, &asked, false).await;
        hands.pass(Duration::from_secs(1));
        ids.push(asked.id);
    }
    let open = asked(9, "one");
    hold(&*store, &open).await;
    let question = &open.question;
    let kind = hold_kind(question.tool.as_str(), "one", question.tenant.as_deref());
    for _ in 0..2 {
        let of_kind = store.past_holds(Some(kind), 2).await.unwrap();
        let of_kind: Vec<_> = of_kind.iter().map(|(_, hold)| hold.id).collect();
        assert_eq!(of_kind, [ids[3], ids[2]]);
        let all = store.past_holds(None, 3).await.unwrap();
        let all: Vec<_> = all.iter().map(|(_, hold)| hold.id).collect();
        assert_eq!(all, [ids[3], ids[2], ids[1]]);
        if stand.lasts() {
            drop(store);
            store = stand.open();
        }
    }
}

/// 001-45, 001-49, 001-A4, guarantees §7: late questions about a decided id are answered for 15 s, also where the same call has
/// asked anew meanwhile; and who looks on is told of each step.
async fn who_looks_on_is_told_and_what_was_used_is_known_for_a_while(
    stand: &TestStore,
    hands: &'static TestClock,
) {
    let store = stand.open();
    let mut news = store.look_on();
    let first = ask("key");
    hold(&*store, &first).await;
    say(&*store, &first, true).await;
    let call = Intent {
        hold: Some(first.key),
        ..intent("call", store.token())
    };
    store
        .run(StoreCommand::Begin(Box::new(call)), None)
        .await
        .unwrap()
        .unwrap();
    let again = HoldRequest {
        id: ActionId::generate(),
        ..first.clone()
    };
    hold(&*store, &again).await;
    let mut told = Vec::new();
    while let Ok(one) = news.try_recv() {
        told.push((one.id, one.phase.word(), one.is_new));
    }
    let expected = [
        (first.id, "pending", true),
        (first.id, "allowed", false),
        (first.id, "used", false),
        (again.id, "pending", true),
    ];
    assert_eq!(told, expected);
    let known = async |id| store.find_hold(id).await.unwrap().map(|(_, hold)| hold);
    let used = known(first.id).await.unwrap();
    assert!(matches!(used.phase, HoldPhase::Used { .. }), "{used:?}");
    hands.pass(Duration::from_millis(EXPIRED_HOLD_GRACE_MS));
    assert_eq!(known(first.id).await, None);
    assert_eq!(known(again.id).await.unwrap().phase, HoldPhase::Pending);
    say(&*store, &again, false).await;
    hands.pass(Duration::from_millis(again.approve_for));
    let past = store.past_holds(None, 10).await.unwrap();
    let past: Vec<_> = past
        .iter()
        .map(|(_, hold)| (hold.id, hold.phase.word()))
        .collect();
    assert_eq!(past, [(again.id, "denied")]);
}
