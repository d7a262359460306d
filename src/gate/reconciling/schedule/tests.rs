//! Looks by a timer: when they are due, and what they come to.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn schedule(max: usize) -> LookSchedule {
    LookSchedule::new(Some(ReconcileTerms {
        max,
        ..ReconcileTerms::default()
    }))
}

/// All that are open.
fn all(ages: &[(ActionId, Duration)]) -> OpenAges {
    OpenAges {
        ages: ages.to_vec(),
        is_all: true,
    }
}

fn look(verdict: ProbeVerdict, seconds: u32) -> CountedLook {
    CountedLook {
        verdict,
        is_listened: false,
        since: SECOND * seconds,
        now: SECOND * seconds,
    }
}

/// guarantees §4: "nothing is there" ends a call only when it was found several times, one after the
/// other, each at its own time and none too early.
#[test]
fn nothing_is_found_several_times_before_it_counts() {
    use ProbeVerdict::{Absent, Found, Unclear, Unsaid};
    let cases: [(&[(ProbeVerdict, u32)], LookSum); 9] = [
        (&[(Found, 0)], LookSum::Done),
        (&[(Absent, 119)], LookSum::Early),
        (&[(Absent, 120)], LookSum::Absent(1, 2)),
        (&[(Absent, 120), (Absent, 180)], LookSum::NotDone),
        // An operator who asks three times at once has asked once.
        (
            &[(Absent, 120), (Absent, 121), (Absent, 179)],
            LookSum::Absent(1, 2),
        ),
        (&[(Absent, 60), (Absent, 120)], LookSum::Absent(1, 2)),
        (
            &[(Absent, 120), (Unclear, 180), (Absent, 240)],
            LookSum::Absent(1, 2),
        ),
        (&[(Absent, 120), (Unsaid, 180)], LookSum::Open),
        (&[(Absent, 120), (Found, 180)], LookSum::Done),
    ];
    for (looks, comes_to) in cases {
        let (schedule, action) = (schedule(20), ActionId::generate());
        let mut sum = None;
        for (verdict, at) in looks {
            sum = Some(schedule.count(action, look(*verdict, *at)));
        }
        assert_eq!(sum, Some(comes_to), "{looks:?}");
    }
}

/// guarantees §4: while its own answer may still come, no call counts as not executed.
#[test]
fn what_may_still_be_answered_is_not_absent() {
    let (schedule, action) = (schedule(20), ActionId::generate());
    for at in [600, 1200, 1800] {
        let listened = CountedLook {
            is_listened: true,
            ..look(ProbeVerdict::Absent, at)
        };
        assert_eq!(schedule.count(action, listened), LookSum::Early);
    }
    let after = look(ProbeVerdict::Absent, 2400);
    assert_eq!(schedule.count(action, after), LookSum::Absent(1, 2));
}

/// Looks become rarer, up to one an hour; where one has found nothing, the next comes soon.
#[test]
fn looks_become_rarer() {
    let (schedule, action) = (schedule(20), ActionId::generate());
    let is_due = |at: u32| {
        let open = all(&[(action, SECOND * at)]);
        schedule.due(&open, SECOND * at) == [action]
    };
    assert!(!is_due(29) && is_due(30));
    let mut at = 30;
    for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
        schedule.count(action, look(ProbeVerdict::Unclear, at));
        assert!(!is_due(at + minutes * 60 - 1), "{minutes}");
        at += minutes * 60;
        assert!(is_due(at), "{minutes}");
    }
    schedule.count(action, look(ProbeVerdict::Absent, at));
    assert!(!is_due(at + 59) && is_due(at + 60));
}

/// threat-model §8: each time so many are looked at, those first that have waited longest; of what is
/// open no more nothing is kept.
#[test]
fn so_many_are_looked_at_each_time() {
    let schedule = schedule(2);
    let [old, new, young] = [(); 3].map(|()| ActionId::generate());
    let open = [(new, SECOND * 40), (old, SECOND * 50), (young, SECOND * 29)];
    assert_eq!(schedule.due(&all(&open), SECOND * 60), [old, new]);
    schedule.count(old, look(ProbeVerdict::Unclear, 60));
    schedule.passed_over(new, SECOND * 61);
    let later = open.map(|(action, unknown)| (action, unknown + SECOND * 70));
    assert_eq!(
        schedule.due(&all(&later), SECOND * 130),
        [young, old],
        "never looked at comes first"
    );
    assert!(schedule.due(&all(&[]), SECOND * 131).is_empty());
    assert!(schedule.known.lock().is_empty());
    for at in 0..=MAX_KNOWN_CALLS {
        let at = u32::try_from(at).unwrap();
        schedule.count(ActionId::generate(), look(ProbeVerdict::Unclear, at));
    }
    assert_eq!(schedule.known.lock().len(), MAX_KNOWN_CALLS);
    let off = LookSchedule::default();
    assert!(off.due(&all(&later), SECOND * 1000).is_empty());
}

/// Of those that a round has not read, what was found is kept: their turn comes in another one.
#[test]
fn what_is_found_in_one_round_counts_in_another() {
    let schedule = schedule(20);
    let [one, other] = [(); 2].map(|()| ActionId::generate());
    let some = |action, seconds: u32| OpenAges {
        ages: vec![(action, SECOND * seconds)],
        is_all: false,
    };
    assert_eq!(schedule.due(&some(one, 120), SECOND * 120), [one]);
    let first = schedule.count(one, look(ProbeVerdict::Absent, 120));
    assert_eq!(first, LookSum::Absent(1, 2));
    assert_eq!(schedule.due(&some(other, 150), SECOND * 150), [other]);
    assert_eq!(schedule.due(&some(one, 180), SECOND * 180), [one]);
    let second = schedule.count(one, look(ProbeVerdict::Absent, 180));
    assert_eq!(second, LookSum::NotDone);
    // Of what is among all that are open no more, nothing is kept.
    assert!(schedule.due(&all(&[]), SECOND * 181).is_empty());
    assert!(schedule.known.lock().is_empty());
}
