//! SEMANTICS §8: nothing is answered before it is on the disk, and nothing that need not be waits
//! for it.

use crate::model::clock::Clock;
use crate::store::claims::Store;
use crate::store::embedded::Embedded;
use crate::store::journal::{Journal, Options};
use crate::store::state::Place;
use crate::store::state::budget::{Limits, Price};
use crate::store::state::claim::Phase;
use crate::store::state::command::{Command, Reserve};
use crate::store::state::tests::{ask, intent, named, result, settle, word};
use std::time::Duration;

/// A journal that takes its time: what does not wait for it is there long before it.
fn slow() -> Options {
    let time = Duration::from_millis(200);
    Options {
        gather: time,
        sync_every: time,
        ..Options::default()
    }
}

#[tokio::test]
async fn what_was_begun_ended_held_decided_or_fenced_is_on_disk_when_its_caller_hears_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), slow()).unwrap();
    let store = Embedded::open(temp.path(), journal.clone(), Clock).unwrap();
    let call = intent("key", store.token());
    let price = Price {
        tool: call.price.tool.clone(),
        cost: 0,
    };
    let reserve = Command::Reserve(Reserve {
        task: named("task"),
        limits: Limits::default(),
        price,
    });
    let ask = ask("hold");
    for (command, waits) in [
        (Command::Begin(Box::new(call.clone())), true),
        (
            Command::Settle(settle(&call, Phase::Completed(result("paid")))),
            true,
        ),
        (reserve, false),
        (Command::Hold(Box::new(ask.clone())), true),
        (Command::Decide(word(&ask, "ann", true)), true),
        (
            Command::Fence {
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
        .run(Command::Begin(Box::new(other.clone())), None)
        .await
        .unwrap()
        .unwrap();
    let before = journal.durable_seq();
    let end = Command::Settle(settle(&other, Phase::Completed(result("paid"))));
    let (ended, seen) = tokio::join!(store.run(end, None), async {
        let view = store
            .look(Place {
                call: Some(other.key),
                ..Place::default()
            })
            .await
            .unwrap();
        (view.claim.unwrap().phase, journal.durable_seq() > before)
    });
    ended.unwrap().unwrap();
    assert_eq!(seen, (Phase::Completed(result("paid")), true));
}
