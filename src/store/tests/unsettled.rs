//! Calls that have not ended stay until evidence or an operator ends them (guarantees §4).

use super::TestStore;
use super::promises::{begin, call, end};
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::claims::{ClaimPage, Store};
use crate::store::state::CommandRefusal;
use crate::store::state::claim::{Claim, ClaimPhase};
use crate::store::state::command::{Intent, Settle};
use crate::store::state::tests::{operator, result, settle, unknown};

/// A store of each kind.
fn kinds() -> [TestStore; 2] {
    [TestStore::memory(Clock), TestStore::embedded(Clock)]
}

/// Eight calls: unknown, not sent, completed, asked, and four in flight.
async fn in_each_phase(store: &dyn Store) -> Vec<Intent> {
    let mut calls = Vec::new();
    for n in 0..8 {
        let call = call(store, &format!("key {n}"));
        begin(store, &call).await.unwrap();
        calls.push(call);
    }
    let asked = ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("which?"),
        is_task: false,
    };
    let phases = [
        unknown(),
        ClaimPhase::NotSent,
        ClaimPhase::Completed(result("paid")),
        asked,
    ];
    for (call, phase) in calls.iter().zip(phases) {
        end(store, settle(call, phase)).await.unwrap();
    }
    calls
}

/// guarantees §4: both evidence and operators find what has not ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_not_ended_is_found() {
    for stand in kinds() {
        let store = stand.open();
        let calls = in_each_phase(&*store).await;
        let keys = |mut found: Vec<(Digest, Claim)>| {
            found.sort_by_key(|(_, claim)| claim.action);
            found.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        let mut open = vec![calls[0].clone()];
        open.extend_from_slice(&calls[3..]);
        open.sort_by_key(|call| call.action);
        let expected: Vec<_> = open.iter().map(|call| call.key).collect();
        assert_eq!(keys(store.unsettled(100).await.unwrap()), expected);
        assert_eq!(store.unsettled(2).await.unwrap().len(), 2);
        for call in &calls {
            let (key, claim) = store.find(call.action).await.unwrap().unwrap();
            assert_eq!(
                (key, claim.action, claim.agent.as_str()),
                (call.key, call.action, "billing-agent")
            );
        }
        assert_eq!(store.find(ActionId::generate()).await.unwrap(), None);
    }
}

/// Page by page all are found, each once, also while those of before come to an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_have_each_once() {
    for stand in kinds() {
        let store = stand.open();
        let calls = in_each_phase(&*store).await;
        let mut expected: Vec<Digest> = calls.iter().map(|call| call.key).collect();
        expected.retain(|key| ![calls[1].key, calls[2].key].contains(key));
        expected.sort();
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = ClaimPage { after, most: 2 };
            let page = store.unsettled_in(page).await.unwrap();
            found.extend(page.iter().map(|(key, _)| *key));
            let Some((last, claim)) = page.last().filter(|_| page.len() == 2) else {
                break;
            };
            after = Some(*last);
            let ended = calls.iter().find(|call| call.action == claim.action);
            let applied = Settle {
                evidence: operator(),
                ..settle(ended.unwrap(), ClaimPhase::NotSent)
            };
            // One that is in flight stays, which is as good.
            drop(end(&*store, applied).await);
        }
        assert_eq!(found, expected);
        let none = ClaimPage { after, most: 0 };
        assert!(store.unsettled_in(none).await.unwrap().is_empty());
    }
}

/// 003-81: an operator ends it; then it is not found among the open ones, and says what he said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_ends_what_has_not_ended() {
    for stand in kinds() {
        let store = stand.open();
        let calls = in_each_phase(&*store).await;
        let decided = Settle {
            evidence: operator(),
            ..settle(
                &calls[0],
                ClaimPhase::Completed(result("paid, says the bank")),
            )
        };
        end(&*store, decided.clone()).await.unwrap();
        assert_eq!(
            end(&*store, decided).await,
            Err(CommandRefusal::Settled),
            "once"
        );
        let hasty = Settle {
            evidence: operator(),
            ..settle(&calls[4], ClaimPhase::NotSent)
        };
        assert_eq!(
            end(&*store, hasty).await,
            Err(CommandRefusal::Settled),
            "it still runs"
        );
        assert_eq!(store.unsettled(100).await.unwrap().len(), 5);
        // Claimed again: the older call is not found under the new one's key.
        let again = call(&*store, "key 1");
        begin(&*store, &again).await.unwrap();
        assert_eq!(
            store.find(again.action).await.unwrap().unwrap().0,
            again.key
        );
        assert_eq!(store.find(calls[1].action).await.unwrap(), None);
    }
}
