//! Held calls as tasks, on paused time (guarantees §7).

use super::*;
use crate::gate::own_tasks::{OwnTaskId, TaskLook};
use crate::side::task_news::TaskNews as _;
use crate::store::state::command::ExtendHold;

mod too_late;

/// The task that a call becomes whose agent knows tasks.
async fn task(world: &Rc<SimulatedWorld>) -> OwnTaskId {
    task_of(world, 0).await
}

/// The same of the call for this deed.
async fn task_of(world: &Rc<SimulatedWorld>, deed: u64) -> OwnTaskId {
    let mut meta = meta("agent", Some("p"));
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let mut request = world.holds_call("give", deed, &meta);
    let heard = heard(&mut request, Duration::from_mins(1)).await;
    let (after, handle) = heard.last().unwrap();
    assert!(*after < 1_000, "at once: {after}");
    assert_eq!(handle["resultType"], "task", "{handle}");
    let gate = world.gate().unwrap();
    let id = Text::string(handle["taskId"].as_str().unwrap());
    gate.own_task_id(&world.ground.caller, &id).unwrap()
}

/// What is told of a task.
async fn told(world: &Rc<SimulatedWorld>, id: &OwnTaskId) -> Value {
    match world.gate().unwrap().look_at_task(id).await.unwrap() {
        TaskLook::Told(told) => told.body.unwrap().value(),
        TaskLook::Unsent(_) | TaskLook::Unknown => panic!("its call is not sent"),
    }
}

/// More time is in the life of a task from the first: the same call is the same task, and its agent was told
/// for how long there is one.
#[test]
fn more_time_makes_no_other_task() {
    play(async |world| {
        let id = task(world).await;
        let before = told(world, &id).await["ttlMs"].as_u64().unwrap();
        let store = world.gate().unwrap().effects.store.clone();
        let (key, hold) = store.holds(9).await.unwrap().pop().unwrap();
        let mut changes = world.gate().unwrap().changes();
        let extend = ExtendHold {
            key,
            id: hold.id,
            who: "ann".to_owned(),
            roles: vec!["finance".to_owned()],
            why: None,
        };
        let extended = store.run(StoreCommand::Extend(extend), None);
        extended.await.unwrap().unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(
            &*changes.try_recv().unwrap(),
            id.text(),
            "subscriptions hear of it"
        );
        assert!(changes.try_recv().is_err(), "once");
        assert_eq!(task(world).await, id);
        sleep(Duration::from_mins(119)).await;
        let waits = told(world, &id).await;
        assert_eq!(
            (&waits["status"], &waits["ttlMs"]),
            (&json!("working"), &json!(before))
        );
        assert!(before > 2 * 3_600_000, "{before}");
    });
}

/// A task waits as long as people may take, and runs once they have decided, though its agent does not
/// ask after it.
#[test]
fn a_task_waits_and_runs_without_its_agent() {
    play(async |world| {
        let id = task(world).await;
        sleep(Duration::from_mins(55)).await;
        assert_eq!(told(world, &id).await["status"], "working");
        world.allows().await;
        sleep(Duration::from_secs(2)).await;
        assert_eq!(world.book.borrow().done.len(), 1);
        let ended = told(world, &id).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        assert!(
            ended["result"]["structuredContent"]["receipt"].is_string(),
            "{ended}"
        );
    });
}

/// Nobody decides: the task says that the tool did not run.
#[test]
fn a_task_that_nobody_decides_has_not_run() {
    play(async |world| {
        let id = task(world).await;
        sleep(Duration::from_secs(3_601)).await;
        let ended = told(world, &id).await;
        assert_eq!(code(&ended["result"]), "approval_timeout", "{ended}");
        assert!(world.book.borrow().done.is_empty());
    });
}

/// Cancelled and allowed at once, a task has run and says with what, or has not and says so.
#[test]
fn a_task_is_cancelled_or_runs() {
    let (mut ran, mut cancelled) = (0, 0);
    for seed in 0..60 {
        let outcome = Rc::new(std::cell::Cell::new(false));
        let seen = outcome.clone();
        play_by(seed, async move |world| {
            let id = task(world).await;
            let allows = async {
                sleep(Duration::from_millis(10)).await;
                world.allows().await;
            };
            let cancels = async {
                sleep(Duration::from_millis(10 + seed % 4)).await;
                let gate = world.gate().unwrap();
                gate.cancel_task(&id, &world.ground.caller).await;
            };
            tokio::join!(allows, cancels);
            sleep(Duration::from_secs(5)).await;
            let ended = told(world, &id).await;
            let has_run = ended["status"] == "completed";
            assert!(has_run || ended["status"] == "cancelled", "{ended}");
            assert_eq!(
                world.book.borrow().done.len(),
                usize::from(has_run),
                "{ended}"
            );
            seen.set(has_run);
        });
        let counted = if outcome.get() {
            &mut ran
        } else {
            &mut cancelled
        };
        *counted += 1;
    }
    assert!(
        ran > 0 && cancelled > 0,
        "{ran} ran, {cancelled} were cancelled"
    );
}

/// An agent that cancels what it asks has no more room than one that lets it wait, for an hour.
#[test]
fn what_was_cancelled_takes_room_for_an_hour() {
    play(async |world| {
        let gate = world.gate().unwrap();
        for deed in 0..128 {
            let id = task_of(world, deed).await;
            gate.cancel_task(&id, &world.ground.caller).await;
        }
        let asks = async || {
            let mut request = world.holds_call("now", 200, &meta("agent", None));
            let heard = heard(&mut request, Duration::from_mins(1)).await;
            heard.last().unwrap().1.clone()
        };
        let refused = asks().await;
        assert_eq!(code(&refused), "approval_queue_full", "{refused}");
        let words = refused["content"][0]["text"].as_str().unwrap();
        assert!(
            words.contains("that it has cancelled within an hour"),
            "{words}"
        );
        sleep(Duration::from_hours(1)).await;
        assert_eq!(code(&asks().await), "approval_pending");
        assert!(world.book.borrow().done.is_empty());
    });
}

/// A call that is cancelled while it is held has not run, and says so.
#[test]
fn a_cancelled_call_says_that_it_did_not_run() {
    let refusal = crate::model::refusal::Refusal::CancelledUnsent { hold: None };
    assert!(!refusal.may_have_run());
    assert!(refusal.words().contains("The tool did not run."));
}
