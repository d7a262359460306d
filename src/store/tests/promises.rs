//! One suite for all stores: memory, embedded, and whatever comes. Calls that have not ended are in
//! `unsettled`, what is there after a restart in `restarts`.

#![expect(
    clippy::disallowed_methods,
    reason = "a scenario is no part of toolgate's process"
)]

use super::TestStore;
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::{MAX_INLINE_RESULT_BYTES, Store};
use crate::store::state::budget::{BudgetLimits, Price};
use crate::store::state::claim::{Claim, ClaimPhase, ClaimStatus, claim_status};
use crate::store::state::command::{Intent, Reserve, Settle, StoreCommand};
use crate::store::state::event::StoreEvent;
use crate::store::state::settlement::Evidence;
use crate::store::state::tests::{intent, named, result, settle, unknown};
use crate::store::state::{CommandRefusal, StoreKeys};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    a_hundred_arrivals_are_one_call,
    a_budget_of_ten_lets_ten_through,
    a_stale_holder_begins_nothing,
    an_answer_is_given_again_byte_for_byte,
    other_arguments_are_a_conflict,
);

promised_by!(embedded:
    a_hundred_arrivals_are_one_call,
    a_budget_of_ten_lets_ten_through,
    a_stale_holder_begins_nothing,
    an_answer_is_given_again_byte_for_byte,
    other_arguments_are_a_conflict,
);

pub(super) type PromiseResult = Result<StoreEvent, CommandRefusal>;

pub(super) async fn begin(store: &dyn Store, intent: &Intent) -> PromiseResult {
    let entry = intent.entry.clone();
    store
        .run(StoreCommand::Begin(Box::new(intent.clone())), Some(entry))
        .await
        .unwrap()
}

pub(super) async fn end(store: &dyn Store, settle: Settle) -> PromiseResult {
    store.run(StoreCommand::Settle(settle), None).await.unwrap()
}

/// A call of its own session, so that fences do not order calls.
pub(super) fn call(store: &dyn Store, key: &str) -> Intent {
    let action = ActionId::generate();
    Intent {
        action,
        session: named(&action.to_string()),
        ..intent(key, store.token())
    }
}

pub(super) async fn claim(store: &dyn Store, key: &str) -> Option<Claim> {
    store
        .load_view(StoreKeys {
            call: Some(named(key)),
            ..StoreKeys::default()
        })
        .await
        .unwrap()
        .claim
}

pub(super) async fn stands(store: &dyn Store, key: &str) -> ClaimStatus {
    claim_status(
        claim(store, key).await.as_ref(),
        &named("fingerprint"),
        None,
        store.now(),
    )
}

/// Calls as the gate does: looks, joins, begins, or takes what is there.
async fn arrive(store: Arc<dyn Store>, ran: Arc<AtomicUsize>) -> Bytes {
    let intent = call(&*store, "key");
    loop {
        let mut found = stands(&*store, "key").await;
        if matches!(found, ClaimStatus::Open { .. }) {
            found = match begin(&*store, &intent).await {
                Ok(_) => {
                    ran.fetch_add(1, Ordering::SeqCst);
                    store.sent(intent.action).unwrap();
                    tokio::task::yield_now().await;
                    let stored = store
                        .keep(false, Bytes::from(intent.action.to_string()))
                        .await
                        .unwrap();
                    end(&*store, settle(&intent, ClaimPhase::Completed(stored)))
                        .await
                        .unwrap();
                    continue;
                }
                Err(refused) => {
                    let CommandRefusal::Taken(found) = refused else {
                        panic!("{refused:?}")
                    };
                    found
                }
            };
        }
        if let ClaimStatus::InFlight(action) = found {
            store.wait_ended(intent.key, action).await;
        } else {
            let ClaimStatus::Ended(stored) = found else {
                panic!("{found:?}")
            };
            return store.body(&stored).await.unwrap();
        }
    }
}

/// 004-02, 004-16, 004-28, 004-40.
async fn a_hundred_arrivals_are_one_call(stand: &TestStore) {
    let (store, ran) = (stand.open(), Arc::new(AtomicUsize::new(0)));
    let calls: Vec<_> = (0..100)
        .map(|_| tokio::spawn(arrive(store.clone(), ran.clone())))
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert!(
        answers
            .iter()
            .all(|answer| *answer == answers[0] && !answer.is_empty()),
        "all got the one result"
    );
    assert_eq!(arrive(store, ran.clone()).await, answers[0]);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

/// 003-27, 003-89; threat-model §12: 1 000 calls against a budget of 10. With and without claims,
/// of one task.
async fn a_budget_of_ten_lets_ten_through(stand: &TestStore) {
    let store = stand.open();
    let limits = BudgetLimits {
        tool_calls: Some(10),
        ..BudgetLimits::default()
    };
    let calls = (0..1000).map(|n| {
        let (store, limits) = (store.clone(), limits.clone());
        tokio::spawn(async move {
            let command = if n % 2 == 0 {
                StoreCommand::Begin(Box::new(Intent {
                    limits,
                    ..call(&*store, &format!("key {n}"))
                }))
            } else {
                let price = Price {
                    tool: ToolName::new("bank__see"),
                    cost: 1,
                };
                StoreCommand::Reserve(Reserve {
                    account: None,
                    task: named("task"),
                    limits,
                    price,
                    origin: None,
                    hold: None,
                    edited: None,
                })
            };
            match store.run(command, None).await.unwrap() {
                Ok(_) => 1,
                Err(CommandRefusal::Budget(_)) => 0,
                Err(other) => panic!("{other:?}"),
            }
        })
    });
    let mut passed = 0;
    for call in calls.collect::<Vec<_>>() {
        passed += call.await.unwrap();
    }
    assert_eq!(passed, 10);
    let task = store
        .load_view(StoreKeys {
            task: Some(named("task")),
            ..StoreKeys::default()
        })
        .await
        .unwrap()
        .task
        .unwrap();
    assert_eq!((task.calls, task.steps), (10, 10));
}

/// 004-17, 004-25; threat-model §12: two epochs.
async fn a_stale_holder_begins_nothing(stand: &TestStore) {
    let store = stand.open();
    let (old, new) = (store.token(), store.token());
    assert!(old < new);
    let first = intent("first", old);
    begin(&*store, &first).await.unwrap();
    let (slow, fast) = (intent("slow", store.token()), intent("fast", store.token()));
    begin(&*store, &fast).await.unwrap();
    assert_eq!(
        begin(&*store, &slow).await,
        Err(CommandRefusal::Fenced {
            current: fast.fence
        })
    );
    assert_eq!(
        claim(&*store, "slow").await,
        None,
        "a refusal claims nothing"
    );
    // What it began while it was valid, it may finish.
    end(
        &*store,
        settle(&first, ClaimPhase::Completed(result("paid"))),
    )
    .await
    .unwrap();
    let fence = StoreCommand::Fence {
        session: named("session"),
        token: store.token(),
    };
    store.run(fence.clone(), None).await.unwrap().unwrap();
    assert!(matches!(
        store.run(fence, None).await.unwrap(),
        Err(CommandRefusal::Fenced { .. })
    ));
    begin(
        &*store,
        &Intent {
            fence: store.token(),
            ..slow
        },
    )
    .await
    .unwrap();
    let newest = store.token();
    drop(store);
    if stand.lasts() {
        let again = stand.open();
        assert!(again.token() >= newest, "a token was given out twice");
        assert_eq!(
            begin(&*again, &intent("late", new)).await.unwrap_err(),
            CommandRefusal::Fenced {
                current: newest - 1
            }
        );
    }
}

fn bodies() -> Vec<Bytes> {
    let noise = |size: usize| {
        let bytes = (0_u32..).map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]);
        Bytes::from(bytes.take(size).collect::<Vec<u8>>())
    };
    let sizes = [
        1,
        MAX_INLINE_RESULT_BYTES - 1,
        MAX_INLINE_RESULT_BYTES,
        MAX_INLINE_RESULT_BYTES + 1,
        1 << 20,
    ]
    .map(noise);
    let texts = [&b""[..], b"\n", b"{\"a\":\n1}\n\n", &[0, 10, 255, 13]].map(Bytes::from_static);
    sizes.into_iter().chain(texts).collect()
}

/// 004-30, 004-41, 004-60; guarantees §4: byte for byte.
async fn an_answer_is_given_again_byte_for_byte(stand: &TestStore) {
    let mut store = stand.open();
    let mut kept = Vec::new();
    for (n, body) in bodies().into_iter().enumerate() {
        let key = format!("key {n}");
        let call = call(&*store, &key);
        begin(&*store, &call).await.unwrap();
        let stored = store.keep(n % 2 == 0, body.clone()).await.unwrap();
        assert_eq!(
            (stored.size, stored.digest, stored.is_error),
            (body.len() as u64, Digest::of(&body), n % 2 == 0)
        );
        end(
            &*store,
            settle(&call, ClaimPhase::Completed(stored.clone())),
        )
        .await
        .unwrap();
        kept.push((key, stored, body));
    }
    for round in 0..3 {
        for (key, stored, body) in &kept {
            let ClaimStatus::Ended(found) = stands(&*store, key).await else {
                panic!("{key} has not ended")
            };
            assert_eq!(&found, stored, "{key}, round {round}");
            assert_eq!(
                &store.body(&found).await.unwrap(),
                body,
                "{key}, round {round}"
            );
        }
        if stand.lasts() {
            drop(store);
            store = stand.open();
        }
    }
}

/// 004-24: guarantees §4, same key, other fingerprint.
async fn other_arguments_are_a_conflict(stand: &TestStore) {
    let store = stand.open();
    let first = call(&*store, "key");
    begin(&*store, &first).await.unwrap();
    let other = Intent {
        fingerprint: named("other"),
        ..call(&*store, "key")
    };
    for phase in [
        None,
        Some(unknown()),
        Some(ClaimPhase::Completed(result("paid"))),
    ] {
        let evidence = if phase.is_none() {
            Evidence::Exchange
        } else {
            Evidence::Late
        };
        if let Some(phase) = phase {
            end(
                &*store,
                Settle {
                    evidence,
                    ..settle(&first, phase)
                },
            )
            .await
            .unwrap();
        }
        assert_eq!(
            begin(&*store, &other).await,
            Err(CommandRefusal::Taken(ClaimStatus::Conflict))
        );
    }
}
