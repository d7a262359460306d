//! Reads that are counted in memory: what callers and operators are told of them meanwhile, and
//! what becomes of them when the store cannot write.

use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::model::task::TaskOrigin;
use crate::store::claims::{Store, TaskSearch};
use crate::store::memory::MemoryStore;
use crate::store::read_counts::{MAX_COUNTED_TASKS, ReadCounts, Reader};
use crate::store::state::StoreKeys;
use crate::store::state::budget::{SeenCall, TaskUsage};
use crate::store::state::command::{SteerTask, StoreCommand};
use crate::store::state::event::TaskAct;
use crate::store::state::tally::EndedRead;
use crate::store::state::tests::named;
use crate::store::tests::troubled_store::TroubledStore;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn reader(task: Digest) -> Reader {
    Reader {
        task,
        idle: None,
        origin: TaskOrigin::default(),
    }
}

fn read(call: u64) -> EndedRead {
    EndedRead {
        sent: Some((ToolName::new("bank__see"), 1)),
        failed: false,
        seen: SeenCall {
            call,
            outcome: 0,
            refused: false,
            times: 1,
        },
    }
}

/// The counts over a store that is asked beside them.
fn counts() -> (ReadCounts, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new(Clock::default()));
    (ReadCounts::new(store.clone()), store)
}

/// As a gate does: looks, then counts.
async fn reads(counts: &ReadCounts, task: Digest, call: u64) -> Option<Arc<TaskUsage>> {
    let before = counts.usage(task).await.unwrap();
    counts.count(reader(task), read(call)).await.unwrap();
    before
}

async fn known(store: &dyn Store, task: Digest) -> Option<TaskUsage> {
    let place = StoreKeys {
        task: Some(task),
        ..StoreKeys::default()
    };
    store.load_view(place).await.unwrap().task
}

fn steer(act: TaskAct) -> StoreCommand {
    StoreCommand::Steer(SteerTask {
        task: named("task"),
        act,
        who: "ann".to_owned(),
        why: "it is due".to_owned(),
    })
}

/// 003-115: a task is told of at once, by whomever it is asked for; its store is told when it is time,
/// and of each read once.
#[tokio::test]
async fn reads_are_known_before_they_are_written() {
    let (counts, store) = counts();
    let task = named("task");
    for call in 0..5 {
        let before = reads(&counts, task, call).await;
        assert_eq!(before.map_or(0, |task| task.steps), call);
    }
    assert_eq!(known(&*store, task).await, None);
    assert_eq!(known(&counts, task).await.unwrap().steps, 5);
    let listed = counts.tasks(TaskSearch::default(), 9).await.unwrap();
    assert_eq!(listed[0].1.steps, 5);
    for _ in 0..3 {
        counts.write_all().await;
    }
    let written = known(&*store, task).await.unwrap();
    assert_eq!(
        (written.steps, written.cost, written.history.len()),
        (5, 5, 5)
    );
    let before = reads(&counts, task, 9).await;
    assert_eq!(before.as_deref(), Some(&written));
}

/// guarantees §6: what an operator does to a task, and what changes it otherwise, comes after its reads
/// and is seen by the next one.
#[tokio::test]
async fn what_changes_a_task_is_seen_by_its_next_read() {
    let (counts, store) = counts();
    let task = named("task");
    reads(&counts, task, 1).await;
    counts
        .run(steer(TaskAct::Stop), None)
        .await
        .unwrap()
        .unwrap();
    let stopped = reads(&counts, task, 1).await.unwrap();
    assert!(stopped.stopped.is_some() && stopped.steps == 1);
    counts
        .run(steer(TaskAct::Reset), None)
        .await
        .unwrap()
        .unwrap();
    let anew = reads(&counts, task, 1).await.unwrap();
    assert_eq!((anew.stopped.is_some(), anew.steps), (false, 0));
    assert_eq!(known(&*store, task).await.unwrap().steps, 0);
    assert_eq!(known(&counts, task).await.unwrap().steps, 1);
}

/// 003-115: reads that are all different are seen by the loop detector like any others: before one
/// would be forgotten, the store knows of them.
#[tokio::test]
async fn no_row_is_lost_between_two_writes() {
    let (counts, store) = counts();
    let task = named("task");
    let polled = |outcome: u64| {
        let mut read = read(7);
        read.seen.outcome = outcome;
        read
    };
    for outcome in 0..300 {
        counts.usage(task).await.unwrap();
        counts.count(reader(task), polled(outcome)).await.unwrap();
    }
    assert!(known(&*store, task).await.unwrap().steps >= 256);
    let known = known(&counts, task).await.unwrap();
    assert_eq!((known.steps, known.equal_calls), (300, 300));
}

/// guarantees §8: a store that cannot write refuses no read; what is counted is written when it can.
#[tokio::test]
async fn a_store_that_cannot_write_holds_no_read_up() {
    let store = Arc::new(TroubledStore::with(None));
    let counts = ReadCounts::new(store.clone());
    let task = named("task");
    reads(&counts, task, 1).await;
    store.is_full.store(true, Ordering::SeqCst);
    counts.write_all().await;
    for call in 0..100 {
        let before = counts.usage(task).await.unwrap();
        drop(counts.count(reader(task), read(call)).await);
        assert_eq!(before.unwrap().steps, call + 1);
    }
    store.is_full.store(false, Ordering::SeqCst);
    counts.write_all().await;
    assert_eq!(known(&*store, task).await.unwrap().steps, 101);
}

/// threat-model §12: what is kept of tasks is bounded; the reads of one more are counted all the same.
#[tokio::test]
async fn one_task_too_many_is_counted_by_its_store() {
    let (counts, store) = counts();
    let task = |n: usize| Digest::of_parts("task", &[&n.to_le_bytes()]);
    for n in 0..MAX_COUNTED_TASKS {
        reads(&counts, task(n), 1).await;
    }
    let more = task(MAX_COUNTED_TASKS);
    reads(&counts, more, 1).await;
    assert_eq!(known(&*store, more).await.unwrap().steps, 1);
    assert_eq!(counts.counted(), MAX_COUNTED_TASKS);
    assert_eq!(reads(&counts, more, 1).await.unwrap().steps, 1);
    counts.write_all().await;
    counts.write_all().await;
    assert_eq!(
        counts.counted(),
        0,
        "nothing is kept of tasks that read no more"
    );
    assert_eq!(known(&*store, more).await.unwrap().steps, 2);
}
