//! How long servers are waited for, and what a signal ends.

use super::*;
use rustix::process::{Signal as SignalSent, getpid, kill_process};
use std::cell::Cell;

/// Issue 17 D9: the wait is as long as the operator says, and what has said nothing is named on the way.
#[tokio::test(start_paused = true)]
async fn servers_are_waited_for_as_long_as_the_operator_says() {
    for (bound, is_told) in [(1, false), (10, false), (20, true), (600, true)] {
        let (bound, told) = (Duration::from_secs(bound), Cell::new(None));
        let began = tokio::time::Instant::now();
        waited(bound, || told.set(Some(began.elapsed()))).await;
        assert_eq!(began.elapsed(), bound);
        assert_eq!(told.get(), is_told.then_some(PATIENCE), "{bound:?}");
    }
}

/// Issue 17 "Ctrl-C": one that comes after the servers were asked is no less an end.
#[test]
fn a_signal_is_heard_until_files_are_written() {
    let mut runtime = InterruptibleRuntime::new().unwrap();
    runtime.not_interrupted().unwrap();
    kill_process(getpid(), SignalSent::INT).unwrap();
    // The signal reaches the process at once, and the runtime when it looks.
    let (began, mut error) = (Clock.steady(), None);
    while error.is_none() && Clock.steady().saturating_sub(began) < Duration::from_secs(20) {
        error = runtime.not_interrupted().err();
    }
    let why = error.map(|error| error.to_string());
    assert_eq!(why.as_deref(), Some("interrupted: nothing was written"));
}
