//! A machine that sleeps while a call waits for a person, on paused time (guarantees §7).

use super::*;

/// Timers stand while the machine sleeps, and the clock that decides does not: soon after it wakes the agent reads
/// that nobody has decided in time, and not when as much time has passed again. Nothing has run.
#[test]
fn what_the_machine_slept_through_is_over() {
    play(async |world| {
        let mut request = world.holds_call("give", 0, &meta("agent", Some("p")));
        let sleeps = async {
            sleep(Duration::from_secs(15)).await;
            world.hands.pass(Duration::from_secs(3_590));
        };
        let idle = Duration::from_mins(1);
        let (mut heard, ()) = tokio::join!(heard(&mut request, idle), sleeps);
        let (after, answer) = heard.pop().unwrap();
        assert_eq!(code(&answer), "approval_timeout", "{answer}");
        assert!((15_000..17_000).contains(&after), "{after}");
        assert!(world.book.borrow().done.is_empty());
    });
}

/// A machine that wakes before the time of the call is over leaves its agent waiting for the rest of it.
#[test]
fn a_short_sleep_ends_no_wait() {
    play(async |world| {
        let mut request = world.holds_call("give", 0, &meta("agent", None));
        let sleeps = async {
            sleep(Duration::from_secs(5)).await;
            world.hands.pass(Duration::from_secs(20));
        };
        let idle = Duration::from_mins(1);
        let (mut heard, ()) = tokio::join!(heard(&mut request, idle), sleeps);
        let (after, answer) = heard.pop().unwrap();
        assert_eq!(code(&answer), "approval_pending", "{answer}");
        assert!((25_000..27_000).contains(&after), "{after}");
    });
}
