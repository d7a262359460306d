//! What calls show of each other, without a socket.

use super::*;
use crate::outlet::receipt::AnswerWire;
use std::time::Duration;

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
    let progress = Progress::default();
    let (one, two, late) = (call("one"), call("two"), call("late"));
    remembers(&progress, place(), one, &written(1));
    remembers(&progress, place(), two, &written(2));
    remembers(&progress, place(), late, &written(9));
    let shown = progress.shown(place(), two.key, at(5));
    assert_eq!(shown, [one]);
    assert!(!progress.has_gone_on(place(), one));
    progress.go_on(place(), &shown);
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
    let progress = Progress::default();
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
    assert_eq!(
        progress.shown(place(), Digest::of(b"other"), at(5)),
        [first]
    );
}
