//! What a store on a disk has when it is opened again (guarantees §8).

use super::TestStore;
use super::promises::{begin, call, end, stands};
use crate::model::clock::Clock;
use crate::model::ids::ToolName;
use crate::store::claims::Store;
use crate::store::state::budget::{BudgetLimits, Price};
use crate::store::state::claim::{ClaimPhase, ClaimStatus, Stored};
use crate::store::state::command::{Intent, Reserve, Spend, StoreCommand};
use crate::store::state::settlement::Charge;
use crate::store::state::tests::{named, result, settle, unknown};
use crate::store::state::undo::OpenUndo;
use crate::store::state::{StoreKeys, StoreView};

/// Everything that can be known, in many states.
async fn lived(store: &dyn Store) -> Vec<Intent> {
    let mut calls = Vec::new();
    let asked = ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("which?"),
        is_task: false,
    };
    let failed = |again| ClaimPhase::Failed {
        answer: Some(result("no")),
        again,
    };
    let ends = [
        unknown(),
        ClaimPhase::NotSent,
        ClaimPhase::Completed(result("paid")),
        asked,
        failed(true),
        failed(false),
    ];
    for (n, phase) in ends.into_iter().enumerate() {
        let price = Price {
            tool: ToolName::new("bank__pay"),
            cost: 3,
        };
        let call = Intent {
            keep: 1000,
            price,
            ..call(store, &format!("key {n}"))
        };
        begin(store, &call).await.unwrap();
        store.sent(call.action).unwrap();
        end(store, settle(&call, phase)).await.unwrap();
        calls.push(call);
    }
    read(store).await;
    // Written behind: what is durable after them is durable with them.
    let fence = StoreCommand::Fence {
        session: named("legacy"),
        token: store.token(),
    };
    store.run(fence, None).await.unwrap().unwrap();
    calls
}

/// A call without a claim, which failed.
async fn read(store: &dyn Store) {
    let (task, tool) = (named("reader"), ToolName::new("bank__see"));
    let price = Price {
        tool: tool.clone(),
        cost: 2,
    };
    let reserve = Reserve {
        account: None,
        task,
        limits: BudgetLimits::default(),
        price,
        origin: None,
        hold: None,
        edited: None,
    };
    store
        .run(StoreCommand::Reserve(reserve), None)
        .await
        .unwrap()
        .unwrap();
    let spend = Spend {
        account: None,
        task,
        tool,
        charge: Some((2, Charge::Settle(1))),
        failed: true,
        seen: None,
        since: None,
        is_refused: false,
        is_past: false,
    };
    store
        .run(StoreCommand::Spend(spend), None)
        .await
        .unwrap()
        .unwrap();
}

async fn all(store: &dyn Store, calls: &[Intent]) -> Vec<StoreView> {
    let mut views = Vec::new();
    for call in calls {
        let (key, task, session) = (Some(call.key), Some(call.task), Some(call.session));
        let place = StoreKeys {
            account: None,
            call: key,
            task,
            session,
            hold: call.hold,
            grant: call.grant.map(|used| used.key),
            undo: call.undoes.map(OpenUndo::key_of),
        };
        views.push(store.load_view(place).await.unwrap());
    }
    let rest = StoreKeys {
        task: Some(named("reader")),
        session: Some(named("legacy")),
        ..StoreKeys::default()
    };
    views.push(store.load_view(rest).await.unwrap());
    views
}

/// guarantees §8: everything acknowledged is there again, and in the same state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    let stand = TestStore::embedded(Clock);
    let mut store = stand.open();
    let calls = lived(&*store).await;
    let before = all(&*store, &calls).await;
    assert!(
        before
            .iter()
            .take(calls.len())
            .all(|view| view.claim.is_some() && view.session.is_some())
    );
    let reader = before.last().unwrap().task.as_ref().unwrap();
    assert_eq!((reader.calls, reader.cost, reader.failures), (1, 1, 1));
    for _ in 0..3 {
        let time = store.now();
        drop(store);
        store = stand.open();
        assert!(store.now() >= time, "time went back");
        assert_eq!(all(&*store, &calls).await, before);
    }
    let stored: Option<&Stored> = before[2].claim.as_ref().unwrap().phase.stored();
    assert_eq!(&store.body(stored.unwrap()).await.unwrap()[..], b"paid");
}

/// 004-44; guarantees §4, crash while dispatching: not marked, not sent; marked, unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_leaves_what_it_was_told() {
    let stand = TestStore::embedded(Clock);
    let store = stand.open();
    let calls = lived(&*store).await;
    let (unmarked, marked) = (call(&*store, "unmarked"), call(&*store, "marked"));
    begin(&*store, &unmarked).await.unwrap();
    begin(&*store, &marked).await.unwrap();
    store.sent(marked.action).unwrap();
    let before = all(&*store, &calls).await;
    let killed = stand.killed();
    drop(store);
    for _ in 0..2 {
        let again = killed.open();
        let mut after = all(&*again, &calls).await;
        // One task pays for all: the two calls that were in flight changed it. The one that was not sent
        // did not fail.
        let task = after[0].task.clone().unwrap();
        assert_eq!(
            (task.calls, task.failures),
            (before[0].task.as_ref().unwrap().calls - 1, 4)
        );
        for (after, before) in after.iter_mut().zip(&before).take(calls.len()) {
            after.task.clone_from(&before.task);
        }
        assert_eq!(after, before);
        assert!(matches!(
            stands(&*again, "unmarked").await,
            ClaimStatus::Open { attempt: 2, .. }
        ));
        assert!(
            matches!(stands(&*again, "marked").await, ClaimStatus::Unknown(action) if action == marked.action)
        );
    }
}
