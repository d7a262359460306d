//! What calls show of each other, without a socket.

use super::*;
use crate::model::clock::hands::TestClock;
use crate::model::ids::ActionId;
use crate::outlet::receipt::{Acknowledges, AgentConnection, AnswerWire};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A clock that stands still: time passes by the runtime's paused one alone, however slow the machine
/// is.
fn still() -> Clock {
    TestClock::new().clock()
}

fn call(name: &str) -> DoneCall {
    DoneCall {
        key: Digest::of(name.as_bytes()),
        action: ActionId::generate(),
    }
}

fn place() -> Digest {
    Digest::of(b"place")
}

/// A receipt that was written after so many seconds; a pipe's, which the next request proves.
fn written(seconds: u64) -> Arc<Receipt> {
    let receipt = Receipt::new(false);
    receipt.written(Duration::from_secs(seconds), &AnswerWire::pipe());
    receipt
}

fn remembers(progress: &Progress, place: Digest, call: DoneCall, receipt: &Arc<Receipt>) {
    let caller = &Caller::named("bot");
    progress.remember(EndedAt { place, caller }, call, receipt);
}

fn at(seconds: u64) -> LaterCall {
    LaterCall {
        arrived: Duration::from_secs(seconds),
        is_named: false,
        now: Duration::from_secs(seconds),
    }
}

/// 004-08: a call shows what was written before it came, of other keys than its own, and nothing
/// before it is begun.
#[test]
fn a_call_shows_what_was_written_before_it_came() {
    let progress = Arc::new(Progress::default());
    let (one, two, late) = (call("one"), call("two"), call("late"));
    remembers(&progress, place(), one, &written(1));
    remembers(&progress, place(), two, &written(2));
    remembers(&progress, place(), late, &written(9));
    let shown = progress.shown(place(), two.key, at(5), still());
    assert_eq!(shown.read, [one]);
    assert!(shown.awaited.is_none());
    assert!(!progress.has_gone_on(place(), one));
    progress.begun(place(), Some(&shown));
    assert!(progress.has_gone_on(place(), one) && !progress.has_gone_on(place(), two));
    // A new call of that key begins anew.
    let again = call("one");
    remembers(&progress, place(), again, &written(10));
    assert!(!progress.has_gone_on(place(), one) && !progress.has_gone_on(place(), again));
}

/// threat-model §8: what is known is bounded, and what was gone on from stays known longest.
#[test]
fn what_is_known_is_bounded() {
    let progress = Progress::default();
    let first = call("first");
    remembers(&progress, place(), first, &written(1));
    progress.go_on(place(), &[first]);
    for number in 0..2 * MAX_CALLS_PER_PLACE {
        remembers(&progress, place(), call(&number.to_string()), &written(2));
    }
    assert!(progress.has_gone_on(place(), first));
    assert_eq!(
        progress.places.lock()[&place()].answered.len(),
        MAX_CALLS_PER_PLACE
    );
    for number in 0..MAX_PLACES {
        let other = Digest::of(&number.to_le_bytes());
        progress.remember(
            EndedAt {
                place: other,
                caller: &Caller::named(&(number / MAX_PLACES_PER_CALLER).to_string()),
            },
            first,
            &written(1),
        );
    }
    assert_eq!(progress.places.lock().len(), MAX_PLACES);
    assert!(!progress.has_gone_on(place(), first), "the oldest place");
}

/// threat-model §8: an agent with many tasks pushes out its own places, and nobody else's; and what it
/// did first is not hidden by what it did since.
#[test]
fn an_agent_pushes_out_its_own_places() {
    let progress = Arc::new(Progress::default());
    let first = call("first");
    remembers(&progress, place(), first, &written(1));
    let many = Caller::named("many");
    for number in 0..2 * MAX_PLACES_PER_CALLER {
        let place = Digest::of(&number.to_le_bytes());
        let at = EndedAt {
            place,
            caller: &many,
        };
        progress.remember(at, first, &written(1));
    }
    assert_eq!(progress.places.lock().len(), MAX_PLACES_PER_CALLER + 1);
    for number in 0..2 * MAX_LOOKS {
        let receipt = Receipt::new(false);
        remembers(&progress, place(), call(&number.to_string()), &receipt);
    }
    let shown = progress.shown(place(), Digest::of(b"other"), at(5), still());
    assert_eq!(shown.read, [first]);
}

/// A kernel of which a test says what was acknowledged.
#[derive(Clone, Default)]
struct ToldKernel(Arc<AtomicBool>);

impl Acknowledges for ToldKernel {
    fn is_acknowledged(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether an agent has gone on from an answer that its kernel acknowledges so many milliseconds after
/// its next call came on another connection, and that is begun so many after that.
async fn went_on(acknowledged_after: u64, begun_after: Option<u64>) -> bool {
    let progress = Arc::new(Progress::default());
    let (kernel, one, two) = (ToldKernel::default(), call("one"), call("two"));
    let connection = AgentConnection::new(Box::new(kernel.clone()));
    let receipt = Receipt::new(false);
    connection.ends(receipt.clone());
    connection.flushed(Duration::from_secs(1), false);
    remembers(&progress, place(), one, &receipt);
    let shown = progress.shown(place(), two.key, at(5), still());
    assert!(shown.read.is_empty() && shown.awaited.is_some());
    let acknowledges = async {
        tokio::time::sleep(Duration::from_millis(acknowledged_after)).await;
        kernel.0.store(true, Ordering::Relaxed);
    };
    let begins = async {
        if let Some(after) = begun_after {
            tokio::time::sleep(Duration::from_millis(after)).await;
            progress.begun(place(), Some(&shown));
        }
    };
    tokio::join!(acknowledges, begins, progress.looked(place(), one));
    assert!(progress.places.lock()[&place()].looks.is_empty());
    progress.has_gone_on(place(), one)
}

/// An agent's kernel acknowledges an answer up to 40 ms after the agent read it: what comes within a
/// moment counts, for a call that is begun, before or after that is known.
#[tokio::test(start_paused = true)]
async fn an_answer_may_be_acknowledged_a_moment_later() {
    for acknowledged in [1, 40, 85] {
        for begun in [0, 45, 3000] {
            assert!(went_on(acknowledged, Some(begun)).await, "{acknowledged}");
        }
        assert!(!went_on(acknowledged, None).await, "{acknowledged}");
    }
    for acknowledged in [120, 10_000] {
        assert!(!went_on(acknowledged, Some(0)).await, "{acknowledged}");
    }
}

/// threat-model §8: an agent cannot have many look.
#[tokio::test(start_paused = true)]
async fn few_calls_of_a_place_look_again() {
    let progress = Arc::new(Progress::default());
    let connection = AgentConnection::new(Box::new(ToldKernel::default()));
    let receipt = Receipt::new(false);
    connection.ends(receipt.clone());
    connection.flushed(Duration::from_secs(1), false);
    remembers(&progress, place(), call("one"), &receipt);
    let looks = |_| progress.shown(place(), Digest::of(b"two"), at(5), still());
    let shown: Vec<_> = (0..2 * MAX_AWAITED_LOOKS).map(looks).collect();
    let awaited = shown.iter().filter(|shown| shown.awaited.is_some());
    assert_eq!(awaited.count(), MAX_AWAITED_LOOKS);
    for shown in &shown {
        progress.begun(place(), Some(shown));
    }
}
