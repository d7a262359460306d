//! guarantees §8: nothing is answered before it is on the disk, and nothing that need not be waits
//! for it.

use crate::model::clock::Clock;
use crate::store::claims::Store;
use crate::store::embedded::EmbeddedStore;
use crate::store::journal::{Journal, JournalOptions};
use crate::store::state::StoreKeys;
use crate::store::state::budget::{BudgetLimits, Price};
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{Reserve, StoreCommand};
use crate::store::state::tests::{ask, intent, named, result, settle, word};
use std::time::Duration;

/// A journal that takes its time: what does not wait for it is there long before it.
fn slow() -> JournalOptions {
    let time = Duration::from_millis(200);
    JournalOptions {
        gather: time,
        sync_every: time,
        ..JournalOptions::default()
    }
}

/// 003-18: nobody hears of what a power cut could take back.
#[tokio::test]
async fn what_was_begun_ended_held_decided_or_fenced_is_on_disk_when_its_caller_hears_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), slow()).unwrap();
    let store = EmbeddedStore::open(temp.path(), journal.clone(), Clock).unwrap();
    let call = intent("key", store.token());
    let price = Price {
        tool: call.price.tool.clone(),
        cost: 0,
    };
    let reserve = StoreCommand::Reserve(Reserve {
        account: None,
        task: named("task"),
        limits: BudgetLimits::default(),
        price,
        origin: None,
        hold: None,
        edited: None,
    });
    let ask = ask("hold");
    for (command, waits) in [
        (StoreCommand::Begin(Box::new(call.clone())), true),
        (
            StoreCommand::Settle(settle(&call, ClaimPhase::Completed(result("paid")))),
            true,
        ),
        (reserve, false),
        (StoreCommand::Hold(Box::new(ask.clone())), true),
        (StoreCommand::Decide(word(&ask, "ann", true)), true),
        (
            StoreCommand::Fence {
                session: named("session"),
                token: store.token(),
            },
            true,
        ),
    ] {
        let before = journal.durable_seq();
        store.run(command.clone(), None).await.unwrap().unwrap();
        assert_eq!(journal.durable_seq() > before, waits, "{command:?}");
    }
    // An outcome that is not on disk is shown to nobody.
    let other = intent("other", store.token());
    store
        .run(StoreCommand::Begin(Box::new(other.clone())), None)
        .await
        .unwrap()
        .unwrap();
    let before = journal.durable_seq();
    let end = StoreCommand::Settle(settle(&other, ClaimPhase::Completed(result("paid"))));
    let (ended, seen) = tokio::join!(store.run(end, None), async {
        let view = store
            .load_view(StoreKeys {
                call: Some(other.key),
                ..StoreKeys::default()
            })
            .await
            .unwrap();
        (view.claim.unwrap().phase, journal.durable_seq() > before)
    });
    ended.unwrap().unwrap();
    assert_eq!(seen, (ClaimPhase::Completed(result("paid")), true));
}
