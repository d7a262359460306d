//! Cancellations that come too late: what the tool server has done is never told as not done.

use super::*;
use std::cell::Cell;

/// How a bank goes on that does what it is asked for: it answers, after its time, with noise, for nobody, or hangs up.
const FATES: [Fate; 5] = [
    Fate::Done,
    Fate::Slow,
    Fate::Garbage,
    Fate::Stray,
    Fate::LostAfter,
];
const SEEDS: u64 = 8;

/// Plays `scene` with each of these fates, and several orders of who goes on. What is slow may come when nobody
/// listens any more; all else happens.
fn play_each(scene: impl AsyncFn(&Rc<SimulatedWorld>) + Copy + 'static) {
    let happened = Rc::new(Cell::new(0));
    for (seed, fate) in (0..SEEDS).flat_map(|seed| FATES.map(|fate| (seed, fate))) {
        let happened = happened.clone();
        play_by(seed, async move |world| {
            world.script.replace([fate].into());
            scene(world).await;
            happened.set(happened.get() + world.book.borrow().done.len());
        });
    }
    let swift = FATES.len() * usize::try_from(SEEDS).unwrap() * 4 / 5;
    assert!(happened.get() > swift, "{} of {swift}", happened.get());
}

/// Whether the bank does it, as soon as it has: before it answers, or soon after.
async fn happens(world: &SimulatedWorld) -> bool {
    for _ in 0..50_000 {
        if !world.book.borrow().done.is_empty() {
            return true;
        }
        sleep(Duration::from_millis(10)).await;
    }
    false
}

/// Whether an agent would take it that nothing has happened.
fn denies(told: &Value) -> bool {
    let words = told.to_string().replace("did not run again", "");
    told["status"] == "cancelled" || words.contains("did not run")
}

/// A task that is cancelled when its call has run says what came of it, or that nobody knows, at whatever time its
/// agent asks.
#[test]
fn a_cancelled_task_that_has_run_does_not_deny_it() {
    play_each(async |world| {
        let id = task(world).await;
        world.allows().await;
        if !happens(world).await {
            return;
        }
        let gate = world.gate().unwrap();
        gate.cancel_task(&id, &world.ground.caller).await;
        // Often at first, and until after the deadline of two minutes.
        for look in 0..80 {
            let told = told(world, &id).await;
            assert!(!denies(&told), "{told}");
            sleep(Duration::from_millis(50 * look)).await;
        }
        assert_eq!(told(world, &id).await["status"], "completed");
    });
}

/// An agent that hangs up when its call has run, and calls again, reads the receipt or that nobody knows.
#[test]
fn an_agent_that_hung_up_too_late_is_told_the_truth() {
    play_each(async |world| {
        let meta = meta("agent", None);
        let request = world.holds_call("give", 0, &meta);
        sleep(Duration::from_secs(1)).await;
        world.allows().await;
        if !happens(world).await {
            return;
        }
        drop(request);
        for _ in 0..20 {
            let mut again = world.holds_call("give", 0, &meta);
            let heard = heard(&mut again, Duration::from_mins(20)).await;
            let (_, answer) = heard.last().unwrap();
            assert!(!denies(answer), "{answer}");
            let has_receipt = answer["structuredContent"]["receipt"].is_string();
            if has_receipt || code(answer) == "outcome_unknown" {
                return;
            }
            sleep(Duration::from_secs(10)).await;
        }
        panic!("the agent never learns what came of it");
    });
}
