//! guarantees §8: a store whose index has to be made anew opens beside the reads. Until it has, nothing
//! is decided and nothing is said of what is not known; a kill meanwhile changes nothing.

use super::*;
use crate::model::ids::ToolName;
use crate::model::task::TaskOrigin;
use crate::store::embedded::mark::last_mark;
use crate::store::embedded::opening::OpeningJob;
use crate::store::read_counts::{ReadCounts, Reader};
use crate::store::state::budget::SeenCall;
use crate::store::state::command::SteerTask;
use crate::store::state::event::TaskAct;
use crate::store::state::tally::EndedRead;

/// Opens the store of `data` without its index, up to where that is made anew.
fn without_index(data: &Path) -> (EmbeddedStore, OpeningJob) {
    std::fs::remove_dir_all(data.join("index")).unwrap();
    let options = JournalOptions {
        gather: Duration::ZERO,
        reserve_bytes: 0,
        ..JournalOptions::default()
    };
    let journal = Journal::open(data, options).unwrap();
    let (shared, job) = open::open(data, journal, Clock, None).unwrap();
    let store = EmbeddedStore {
        shared: Arc::new(shared),
        indexer: None,
        content_keys: Arc::default(),
    };
    (store, job)
}

/// A store in which calls have ended, one is held, one may have left and one has not, and an operator
/// has stopped a task; its end.
async fn used(data: &Path) -> HoldRequest {
    let used = store(data);
    let done = used.keep(false, Bytes::from_static(b"done")).await.unwrap();
    call(&used, "done", ClaimPhase::Completed(done)).await;
    call(&used, "lost", unknown()).await;
    let ask = held(&used, "asked", None).await;
    for key in ["left", "stayed"] {
        let begin = Intent {
            fence: used.token(),
            task: named("stopped"),
            ..intent(key, 1)
        };
        let ran = used.run(StoreCommand::Begin(Box::new(begin.clone())), None);
        ran.await.unwrap().unwrap();
        if key == "left" {
            used.sent(begin.action).unwrap();
        }
    }
    used.run(steer(TaskAct::Stop), None).await.unwrap().unwrap();
    ask
}

pub(super) fn steer(act: TaskAct) -> StoreCommand {
    StoreCommand::Steer(SteerTask {
        task: named("stopped"),
        act,
        who: "ann".to_owned(),
        why: "enough".to_owned(),
    })
}

/// What [`used`] did, and what became of the calls that were in flight.
async fn is_all_there(store: &EmbeddedStore, ask: &HoldRequest) {
    assert!(matches!(stands(store, "done").await, ClaimStatus::Ended(_)));
    for key in ["lost", "left"] {
        let stands = stands(store, key).await;
        assert!(
            matches!(stands, ClaimStatus::Unknown(_)),
            "{key}: {stands:?}"
        );
    }
    let stayed = stands(store, "stayed").await;
    assert!(
        matches!(stayed, ClaimStatus::Open { attempt: 2, .. }),
        "{stayed:?}"
    );
    assert_eq!(store.holds(9).await.unwrap()[0].0, ask.key);
    assert!(task(store, "stopped").await.unwrap().stopped.is_some());
    assert_eq!(store.refuses(), None);
}

pub(super) async fn task(store: &dyn Store, name: &str) -> Option<TaskUsage> {
    let place = StoreKeys {
        task: Some(named(name)),
        ..StoreKeys::default()
    };
    store.load_view(place).await.unwrap().task
}

fn is_opening<T: std::fmt::Debug>(asked: &Result<T, StoreError>) {
    assert!(matches!(asked, Err(StoreError::Opening(_))), "{asked:?}");
}

/// A read of the task `name`: what was known of the task before.
pub(super) async fn reads(counts: &ReadCounts, name: &str, call: u64) -> Result<u64, StoreError> {
    let before = counts.usage(named(name)).await?;
    ended_read(counts, name, call).await?;
    Ok(before.map_or(0, |task| task.steps))
}

/// Counts a read of the task `name` that has ended.
pub(super) async fn ended_read(
    counts: &ReadCounts,
    name: &str,
    call: u64,
) -> Result<(), StoreError> {
    let reader = Reader {
        task: named(name),
        idle: None,
        origin: TaskOrigin::default(),
    };
    let read = EndedRead {
        sent: Some((ToolName::new("bank__see"), 1)),
        failed: false,
        seen: SeenCall {
            call,
            outcome: 0,
            refused: false,
            times: 1,
        },
    };
    counts.count(reader, read).await
}

/// 003-02: nothing is begun, held, granted or steered, and nothing is said of what is not known.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_decided_before_the_index_is_there() {
    let temp = tempfile::tempdir().unwrap();
    let ask = used(temp.path()).await;
    let (opening, job) = without_index(temp.path());
    let begin = Intent {
        fence: opening.token(),
        ..intent("later", 1)
    };
    let place = StoreKeys {
        call: Some(begin.key),
        ..StoreKeys::default()
    };
    let before = opening.shared.journal.durable_seq();
    for command in [
        StoreCommand::Begin(Box::new(begin.clone())),
        StoreCommand::Hold(Box::new(super::ask("another"))),
        StoreCommand::Decide(word(&ask, "ann", true)),
        steer(TaskAct::Reset),
    ] {
        is_opening(&opening.run(command, None).await);
    }
    assert_eq!(opening.shared.journal.durable_seq(), before);
    is_opening(&opening.load_view(place).await);
    is_opening(&opening.find(begin.action).await);
    is_opening(&opening.unsettled(9).await);
    is_opening(&opening.held(begin.key).await);
    is_opening(&opening.holds(9).await);
    is_opening(&opening.find_hold(begin.action).await);
    is_opening(&opening.past_holds(None, 9).await);
    is_opening(&opening.grants_of(&ToolName::new("bank__pay")).await);
    is_opening(&opening.grants(9).await);
    is_opening(&opening.tasks(TaskSearch::default(), 9).await);
    assert!(matches!(opening.refuses(), Some(StoreError::Opening(_))));
    assert!(job.run_beside(&opening.shared));
    is_all_there(&opening, &ask).await;
    assert!(opening.token() > begin.fence);
    call(&opening, "later", unknown()).await;
}

/// 003-115: reads pass meanwhile, but of a task that an operator may have stopped; they are counted once
/// the store can.
#[tokio::test(flavor = "multi_thread")]
async fn reads_pass_meanwhile_and_are_counted_afterwards() {
    let temp = tempfile::tempdir().unwrap();
    let ask = used(temp.path()).await;
    let (opening, job) = without_index(temp.path());
    let opening = Arc::new(opening);
    let counts = ReadCounts::new(opening.clone());
    let of_before = 2;
    for call in 0..3 {
        assert_eq!(reads(&counts, "task", call).await, Ok(call));
        // A task is not forgotten because it is time to write.
        counts.write_all().await;
    }
    is_opening(&reads(&counts, "stopped", 1).await);
    assert!(job.run_beside(&opening.shared));
    assert_eq!(reads(&counts, "task", 3).await, Ok(of_before + 3));
    counts.write_all().await;
    let counted = task(&*opening, "task").await.unwrap();
    assert_eq!(counted.steps, of_before + 4);
    let stopped = counts.usage(named("stopped")).await.unwrap().unwrap();
    assert!(stopped.stopped.is_some());
    is_all_there(&opening, &ask).await;
}

/// guarantees §4: a process that ends while it opens leaves to the next what it found.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_meanwhile_changes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let ask = used(temp.path()).await;
    for _ in 0..2 {
        let (killed, job) = without_index(temp.path());
        drop((job, killed));
    }
    let (opening, job) = without_index(temp.path());
    assert!(job.run_beside(&opening.shared));
    is_all_there(&opening, &ask).await;
    drop(opening);
    is_all_there(&store(temp.path()), &ask).await;
}

/// Who is stopped is known from the mark; where that says nothing, it is from the index, and noted.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_stopped_is_noted_beside_the_index() {
    let temp = tempfile::tempdir().unwrap();
    used(temp.path()).await;
    let mark = temp.path().join("index.mark");
    let may_be_stopped = |name: &str| {
        let mark = last_mark(temp.path()).unwrap();
        mark.stopped.may_hold(&named(name))
    };
    assert!(may_be_stopped("stopped") && !may_be_stopped("task"));
    let noted = std::fs::read_to_string(&mark).unwrap();
    let (first, _) = noted.split_once('\n').unwrap();
    std::fs::write(&mark, format!("{first}\n")).unwrap();
    assert!(may_be_stopped("task"), "as an older toolgate wrote it");
    let (opening, job) = without_index(temp.path());
    let counts = ReadCounts::new(Arc::new(opening));
    is_opening(&reads(&counts, "task", 1).await);
    drop((counts, job));
    let store = store(temp.path());
    assert!(may_be_stopped("stopped") && !may_be_stopped("task"));
    // It goes on; the next start asks its index, and notes it no more.
    store
        .run(steer(TaskAct::Reset), None)
        .await
        .unwrap()
        .unwrap();
    drop(store);
    drop(super::store(temp.path()));
    assert!(!may_be_stopped("stopped"));
}

/// A store that cannot be opened says so, lets no read pass any more and never opens.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_said() {
    let temp = tempfile::tempdir().unwrap();
    let ask = used(temp.path()).await;
    let (opening, job) = without_index(temp.path());
    // Where the rows of the new index would gather.
    let in_the_way = temp.path().join("index/run.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let opening = Arc::new(opening);
    let counts = ReadCounts::new(opening.clone());
    assert_eq!(reads(&counts, "task", 1).await, Ok(0));
    assert!(!job.run_beside(&opening.shared));
    let told = opening.opening().unwrap();
    let why = told.failed().await;
    assert!(why.contains("cannot be made anew"), "{why}");
    let refused = reads(&counts, "task", 2).await;
    assert_eq!(refused, Err(StoreError::Broken(why.to_owned())));
    assert_eq!(opening.refuses(), Some(StoreError::Broken(why.to_owned())));
    drop((opening, counts));
    is_all_there(&store(temp.path()), &ask).await;
}

/// Issue 17 "progress bars": of an index that is made anew the rows are told, too, and only once all records
/// are read.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_told_after_the_records() {
    let temp = tempfile::tempdir().unwrap();
    let used = store(temp.path());
    // Each leaves two rows at least, and 1024 come at once.
    let keys: Vec<String> = (0..600).map(|n| format!("key {n}")).collect();
    let calls = keys.iter().map(|key| call(&used, key, unknown()));
    futures_util::future::join_all(calls).await;
    drop(used);
    let (opening, job) = without_index(temp.path());
    let mut told = Vec::new();
    let shared = &opening.shared;
    let brought = shared.bring_up(&job.index, job.applied, |reach| told.push(reach));
    let upto = brought.unwrap().applied().seq;
    assert_eq!(upto, shared.journal.durable_seq());
    assert!(told.is_sorted_by_key(|reach| reach.rows.is_some()));
    let rows = told.iter().filter_map(|reach| {
        let rows = reach.rows?;
        assert_eq!(reach.read, upto, "all records are read");
        Some(rows)
    });
    let rows: Vec<_> = rows.collect();
    assert!(!rows.is_empty(), "{told:?}");
    assert!(
        rows.iter().all(|(came, all)| *came > 0 && came <= all),
        "{rows:?}"
    );
}
