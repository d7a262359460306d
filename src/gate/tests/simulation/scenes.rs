//! What the simulation has found once, with nothing left to chance.

use super::agents::{Asked, Told};
use super::bank::Fate;
use super::{Kind, OUTSIDE, SimulatedDisk, SimulatedWorld, TASKS, TestClock, on_stage};
use crate::store::tests::simulated_store::SimulatedSpace;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(100);
/// One for each tool.
const PAY: Asked = Asked::of(0);
const TRANSFER: Asked = Asked::of(TASKS);
const ORDER: Asked = Asked::of(2 * TASKS);

/// Plays `scene`, with these fates of the calls that reach the bank.
fn play(fates: &[Fate], scene: impl AsyncFnOnce(&Rc<SimulatedWorld>) + 'static) {
    let script: VecDeque<Fate> = fates.iter().copied().collect();
    on_stage(
        (0, TestClock::new(), Kind::Paper(SimulatedDisk::new(0))),
        move |world| {
            world.script.replace(script);
            let world = world.clone();
            world.schedule.clone().spawn(OUTSIDE, async move {
                scene(&world).await;
                world.schedule.kill(world.group.get());
            });
        },
    );
}

async fn told(world: &Rc<SimulatedWorld>, asked: &Asked) -> Told {
    let mut request = world.ask(asked).unwrap();
    world.hear_of(&mut request, LONG).await.unwrap()
}

async fn until_held(world: &SimulatedWorld, deed: u64) {
    while !world.is_held(deed) {
        sleep(Duration::from_millis(10)).await;
    }
}

fn done(replayed: bool) -> Told {
    Told::Done {
        receipt: Some("receipt 0".to_owned()),
        replayed,
    }
}

fn refused(code: &str) -> Told {
    Told::Refused(code.to_owned())
}

/// guarantees §3: a second sending that did not run proves nothing of the first.
#[test]
fn what_an_attempt_proves_it_proves_of_itself_only() {
    for last in [Fate::Busy, Fate::Invalid] {
        play(&[Fate::Broken, last, last], async move |world| {
            assert_eq!(
                told(world, &TRANSFER).await,
                refused("outcome_unknown"),
                "{last:?}"
            );
            assert_eq!(
                told(world, &TRANSFER).await,
                refused("outcome_unknown"),
                "{last:?}"
            );
            assert_eq!(world.book.borrow().done.len(), 1, "{last:?}");
        });
    }
    // The server that knows the key gives the answer that got lost.
    play(&[Fate::Broken, Fate::Busy, Fate::Done], async |world| {
        assert_eq!(told(world, &TRANSFER).await, done(false));
    });
}

/// guarantees §4, I9: what is cancelled before it leaves has not run, and its key is free.
#[test]
fn a_call_that_is_cancelled_between_two_attempts_holds_no_key() {
    play(&[Fate::Busy, Fate::Done], async |world| {
        let mut request = world.ask(&PAY).unwrap();
        until_held(world, PAY.deed).await;
        while world.is_held(PAY.deed) {
            sleep(Duration::from_millis(10)).await;
        }
        request.cancel();
        assert_eq!(
            world.hear_of(&mut request, LONG).await,
            None,
            "who has cancelled hears nothing"
        );
        assert_eq!(told(world, &PAY).await, done(false));
    });
}

/// guarantees §4, §8: an answer that finds no room is given, and said to be nobody's knowledge yet;
/// with room, it is.
#[test]
fn a_full_disk_is_no_reason_to_run_twice() {
    play(&[Fate::Done], async |world| {
        let Kind::Paper(disk) = &world.kind else {
            return;
        };
        let mut request = world.ask(&PAY).unwrap();
        until_held(world, PAY.deed).await;
        disk.set_room(SimulatedSpace::None);
        assert_eq!(
            world.hear_of(&mut request, LONG).await,
            Some(refused("executed_but_not_recorded"))
        );
        assert_eq!(told(world, &TRANSFER).await, refused("store_unavailable"));
        disk.set_room(SimulatedSpace::Enough);
        assert_eq!(told(world, &PAY).await, done(true));
    });
}

/// guarantees §4: a duplicate waits for the call in flight, and not for ever.
#[test]
fn a_duplicate_does_not_wait_for_ever() {
    play(&[Fate::Silent], async |world| {
        let mut first = world.ask(&ORDER).unwrap();
        until_held(world, ORDER.deed).await;
        assert_eq!(told(world, &ORDER).await, refused("duplicate_in_flight"));
        assert_eq!(
            world.hear_of(&mut first, LONG).await,
            Some(refused("outcome_unknown"))
        );
    });
}
