//! guarantees §8: an index that breaks costs no claim, and is made anew from the journal while the
//! store is in use: what has begun is settled meanwhile, nothing is begun, and nothing is decided
//! from less than what is durable.

use super::opening::{ended_read, reads, steer, task};
use super::*;
use crate::store::embedded::index::Index;
use crate::store::embedded::mark::index_path;
use crate::store::embedded::replay::IndexReplay;
use crate::store::read_counts::ReadCounts;
use crate::store::state::budget::{BudgetLimits, Price};
use crate::store::state::command::Reserve;
use crate::store::state::event::TaskAct;
use std::path::PathBuf;
use tempfile::TempDir;

/// More than fit into one segment of the journal of these scenarios.
const CALLS_BEYOND_SEGMENT: usize = 60;

/// Where the index goes when it is set aside; while something else is in the way, no index can be
/// made anew.
fn aside(data: &Path) -> PathBuf {
    data.join("index.aside")
}

/// How an index breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Break {
    /// It cannot be written.
    Frozen,
    /// It cannot be read.
    Away,
}

/// Breaks the index, and waits until that has been noted.
fn breaks(store: &EmbeddedStore, how: Break) {
    let error = StoreError::Broken("as a test wants it".to_owned());
    let lookup = &store.shared.lookup;
    let asked = match how {
        Break::Frozen => lookup.change(|_| Err::<(), _>(error)),
        Break::Away => lookup.ask(|_| Err(error)),
    };
    assert!(matches!(asked, Err(StoreError::Away(_))), "{how:?}");
    assert!(
        matches!(store.refuses(), Some(StoreError::Away(_))),
        "{how:?}"
    );
}

async fn is_noted(store: &EmbeddedStore, data: &Path) {
    store
        .shared
        .pace
        .until(|| !data.join("index.mark").exists() || mark(data).starts_with("broken "))
        .await;
}

async fn is_indexed(store: &EmbeddedStore) {
    store
        .shared
        .pace
        .until(|| store.shared.table.lock().unindexed() == 0)
        .await;
}

async fn healed(store: &EmbeddedStore) {
    store.shared.pace.until(|| store.refuses().is_none()).await;
}

async fn begin(store: &EmbeddedStore, key: &str) -> Result<Intent, StoreError> {
    let begin = Intent {
        fence: store.token(),
        ..intent(key, 1)
    };
    store
        .run(StoreCommand::Begin(Box::new(begin.clone())), None)
        .await
        .map(|begun| begun.map(|_| begin).unwrap())
}

/// A store in which that much has happened, all of it indexed, and `open` is in flight.
async fn used(data: &Path) -> (EmbeddedStore, Intent) {
    let used = store(data);
    for n in 0..CALLS_BEYOND_SEGMENT {
        call(
            &used,
            &format!("key {n}"),
            ClaimPhase::Completed(answer(&used).await),
        )
        .await;
    }
    call(&used, "lost", unknown()).await;
    let open = begin(&used, "open").await.unwrap();
    is_indexed(&used).await;
    (used, open)
}

async fn answer(store: &EmbeddedStore) -> crate::store::state::claim::Stored {
    store
        .keep(false, Bytes::from_static(b"done"))
        .await
        .unwrap()
}

/// Everything that [`used`] did, and the end of the call that was in flight.
async fn is_all_there(store: &EmbeddedStore) {
    let done = ClaimStatus::Ended(answer(store).await);
    for n in 0..CALLS_BEYOND_SEGMENT {
        assert_eq!(stands(store, &format!("key {n}")).await, done, "key {n}");
    }
    assert_eq!(stands(store, "open").await, done);
    assert!(matches!(
        stands(store, "lost").await,
        ClaimStatus::Unknown(_)
    ));
}

fn mark(data: &Path) -> String {
    std::fs::read_to_string(data.join("index.mark")).unwrap()
}

/// Nothing is begun, and what cannot be looked up is not guessed.
async fn nothing_is_guessed(broken: &EmbeddedStore, open: &Intent, how: Break) {
    assert!(
        matches!(begin(broken, "later").await, Err(StoreError::Away(_))),
        "{how:?}"
    );
    let known = StoreKeys {
        call: Some(intent("key 1", 1).key),
        ..StoreKeys::default()
    };
    let looked = broken
        .load_view(known)
        .await
        .map(|view| view.claim.is_some());
    let price = Price {
        tool: open.price.tool.clone(),
        cost: 0,
    };
    let reserve = Reserve {
        account: None,
        task: named("another task"),
        limits: BudgetLimits::default(),
        price,
        origin: None,
        hold: None,
        edited: None,
    };
    let reserved = broken
        .run(StoreCommand::Reserve(reserve), None)
        .await
        .map(|reserved| reserved.is_ok());
    match how {
        Break::Frozen => assert_eq!((looked, reserved), (Ok(true), Ok(true)), "reads go on"),
        Break::Away => assert!(matches!(
            (&looked, &reserved),
            (Err(StoreError::Away(_)), Err(StoreError::Away(_)))
        )),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_index_heals_while_the_store_is_used() {
    for how in [Break::Frozen, Break::Away] {
        let temp = tempfile::tempdir().unwrap();
        let (broken, open) = used(temp.path()).await;
        std::fs::write(aside(temp.path()), "in the way").unwrap();
        breaks(&broken, how);
        is_noted(&broken, temp.path()).await;
        nothing_is_guessed(&broken, &open, how).await;
        // What has begun is settled.
        let end = settle(&open, ClaimPhase::Completed(answer(&broken).await));
        broken
            .run(StoreCommand::Settle(end), None)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            stands(&broken, "open").await,
            ClaimStatus::Ended(answer(&broken).await),
            "{how:?}"
        );

        std::fs::remove_file(aside(temp.path())).unwrap();
        healed(&broken).await;
        assert!(
            mark(temp.path()).starts_with("running "),
            "{}",
            mark(temp.path())
        );
        assert!(aside(temp.path()).is_dir(), "the old one is set aside");
        is_all_there(&broken).await;
        call(
            &broken,
            "later",
            ClaimPhase::Completed(answer(&broken).await),
        )
        .await;
        drop(broken);
        assert!(
            mark(temp.path()).starts_with("clean "),
            "it is whole: {}",
            mark(temp.path())
        );
        std::fs::remove_dir_all(aside(temp.path())).unwrap();
        is_all_there(&store(temp.path())).await;
        assert!(
            !aside(temp.path()).exists(),
            "the index that was made anew is trusted"
        );
    }
}

/// guarantees §8: reads that are only counted pass while the index cannot even be read, but of a task
/// that an operator has stopped; they are counted once it is made anew.
#[tokio::test(flavor = "multi_thread")]
async fn reads_pass_while_the_index_is_away() {
    let temp = tempfile::tempdir().unwrap();
    let (broken, _) = used(temp.path()).await;
    let broken = Arc::new(broken);
    let counts = ReadCounts::new(broken.clone());
    for name in ["stopped", "reader"] {
        assert_eq!(reads(&counts, name, 0).await, Ok(0));
    }
    counts.write_all().await;
    let stopped = counts.run(steer(TaskAct::Stop), None).await;
    stopped.unwrap().unwrap();
    is_indexed(&broken).await;
    std::fs::write(aside(temp.path()), "in the way").unwrap();
    breaks(&broken, Break::Away);
    is_noted(&broken, temp.path()).await;
    // The read before is not known now.
    for call in 0..3 {
        assert_eq!(reads(&counts, "reader", call).await, Ok(call));
        // A task is not forgotten because it is time to write, and that failed.
        counts.write_all().await;
    }
    // Nor is a read that began before its task was forgotten.
    assert_eq!(counts.usage(named("forgotten")).await, Ok(None));
    counts.write_all().await;
    ended_read(&counts, "forgotten", 0).await.unwrap();
    let stopped = reads(&counts, "stopped", 1).await;
    assert!(matches!(stopped, Err(StoreError::Away(_))), "{stopped:?}");
    std::fs::remove_file(aside(temp.path())).unwrap();
    healed(&broken).await;
    counts.write_all().await;
    assert_eq!(task(&*broken, "reader").await.unwrap().steps, 4);
    assert_eq!(task(&*broken, "forgotten").await.unwrap().steps, 1);
    let stopped = counts.usage(named("stopped")).await.unwrap().unwrap();
    assert!(stopped.stopped.is_some());
}

/// A call that uses what is held under `key`.
fn using(store: &EmbeddedStore, key: &str) -> StoreCommand {
    let call = Intent {
        fence: store.token(),
        hold: Some(named(key)),
        session: named(key),
        ..intent(key, 1)
    };
    StoreCommand::Begin(Box::new(Intent {
        key: named(&call.action.to_string()),
        ..call
    }))
}

/// What operators are asked meanwhile is answered, nothing new is held, and nothing that was
/// allowed runs twice.
#[tokio::test(flavor = "multi_thread")]
async fn held_calls_outlive_a_broken_index() {
    for how in [Break::Frozen, Break::Away] {
        let temp = tempfile::tempdir().unwrap();
        let (broken, _) = used(temp.path()).await;
        let mut asks = vec![held(&broken, "used", Some(true)).await];
        broken
            .run(using(&broken, "used"), None)
            .await
            .unwrap()
            .unwrap();
        asks.extend([
            held(&broken, "pending", None).await,
            held(&broken, "half", None).await,
        ]);
        is_indexed(&broken).await;
        std::fs::write(aside(temp.path()), "in the way").unwrap();
        breaks(&broken, how);
        is_noted(&broken, temp.path()).await;
        let new = StoreCommand::Hold(Box::new(ask("new")));
        assert!(
            matches!(broken.run(new, None).await, Err(StoreError::Away(_))),
            "what cannot run is not asked: {how:?}"
        );
        broken
            .run(StoreCommand::Decide(word(&asks[2], "ann", true)), None)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(broken.holds(9).await.unwrap().len(), 2, "{how:?}");

        std::fs::remove_file(aside(temp.path())).unwrap();
        healed(&broken).await;
        let before = holds(&broken, &asks).await;
        assert!(
            broken
                .run(using(&broken, "used"), None)
                .await
                .unwrap()
                .is_err(),
            "once: {how:?}"
        );
        is_indexed(&broken).await;
        drop(broken);
        let again = store(temp.path());
        assert_eq!(holds(&again, &asks).await, before, "{how:?}");
        again
            .run(using(&again, "half"), None)
            .await
            .unwrap()
            .unwrap();
        assert!(
            again
                .run(using(&again, "half"), None)
                .await
                .unwrap()
                .is_err()
        );
    }
}

/// Budgets are as exact afterwards as before: what was spent while the index was broken counts, and
/// what it knew counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_the_same_in_the_new_index() {
    let temp = tempfile::tempdir().unwrap();
    let (broken, open) = used(temp.path()).await;
    let task = StoreKeys {
        task: Some(open.task),
        ..StoreKeys::default()
    };
    let before = broken.load_view(task).await.unwrap().task.unwrap();
    breaks(&broken, Break::Frozen);
    let end = settle(&open, ClaimPhase::Completed(answer(&broken).await));
    broken
        .run(StoreCommand::Settle(end), None)
        .await
        .unwrap()
        .unwrap();
    let settled = broken.load_view(task).await.unwrap().task.unwrap();
    assert_ne!(before, settled);
    healed(&broken).await;
    assert_eq!(broken.load_view(task).await.unwrap().task.unwrap(), settled);
    is_indexed(&broken).await;
    broken.shared.table.lock().tasks.clear();
    assert_eq!(
        broken.load_view(task).await.unwrap().task.unwrap(),
        settled,
        "as the index has it"
    );
}

/// As `kill -9` leaves the disk.
fn killed(data: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    crate::store::tests::copy_all(data, copy.path());
    copy
}

/// A crash at any moment of it forgets nothing: what is not whole is not trusted.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_while_the_index_is_healed_forgets_nothing() {
    for carried in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let (broken, open) = used(temp.path()).await;
        let end = settle(&open, ClaimPhase::Completed(answer(&broken).await));
        broken
            .run(StoreCommand::Settle(end), None)
            .await
            .unwrap()
            .unwrap();
        if carried {
            is_indexed(&broken).await;
            let shared = broken.shared.clone();
            tokio::task::spawn_blocking(move || shared.tidy())
                .await
                .unwrap();
        }
        std::fs::write(aside(temp.path()), "in the way").unwrap();
        breaks(&broken, Break::Frozen);
        is_noted(&broken, temp.path()).await;
        let mut crashes = vec![killed(temp.path())];
        // Nobody heals it but this test.
        drop(broken);
        for steps in 0..8 {
            std::fs::remove_dir_all(index_path(temp.path())).unwrap();
            crashes.push(killed(temp.path()));
            let (index, applied) = Index::open(&index_path(temp.path())).unwrap();
            let mut replay = IndexReplay::begin(temp.path(), &index, applied)
                .unwrap()
                .unwrap()
                .by(CALLS_BEYOND_SEGMENT / 12);
            assert!(
                (0..steps).all(|_| replay.step(u64::MAX).unwrap()),
                "there is more"
            );
            drop(replay);
            index.checkpoint().unwrap();
            crashes.push(killed(temp.path()));
            index.close();
        }
        for (crash, trusted) in crashes
            .iter()
            .flat_map(|crash| [(crash, false), (crash, true)])
        {
            let crash = killed(crash.path());
            std::fs::remove_file(aside(crash.path())).unwrap();
            // Half of an index says truly how much of it there is, also to who trusts it.
            if trusted {
                let mark = mark(crash.path()).replace("broken", "running");
                std::fs::write(crash.path().join("index.mark"), mark).unwrap();
            }
            is_all_there(&store(crash.path())).await;
        }
    }
}

/// A full disk takes no mark; without one the index is not trusted either.
#[tokio::test(flavor = "multi_thread")]
async fn a_break_that_cannot_be_noted_is_noticed_all_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let (broken, _) = used(temp.path()).await;
    std::fs::create_dir(temp.path().join("index.new")).unwrap();
    std::fs::write(aside(temp.path()), "in the way").unwrap();
    breaks(&broken, Break::Frozen);
    is_noted(&broken, temp.path()).await;
    assert!(!temp.path().join("index.mark").exists());
    let crash = killed(temp.path());
    std::fs::remove_file(aside(crash.path())).unwrap();
    std::fs::remove_dir(crash.path().join("index.new")).unwrap();
    let again = store(crash.path());
    assert!(aside(crash.path()).is_dir(), "it is made anew");
    assert!(matches!(
        stands(&again, "lost").await,
        ClaimStatus::Unknown(_)
    ));
}
