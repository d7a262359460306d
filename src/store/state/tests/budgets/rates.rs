//! So many calls in so much time.

use super::*;
use crate::store::state::command::SteerTask;
use crate::store::state::event::TaskAct;

/// guarantees §6: exactly as many as it says pass in any span of time; the first after it left the
/// window, and not earlier.
#[test]
fn a_rate_lets_as_many_through_as_it_says() {
    let limits = BudgetLimits {
        rate: Some(Rate {
            calls: 7,
            per: 60_000,
        }),
        ..BudgetLimits::default()
    };
    let mut view = StoreView::default();
    let passed =
        |view: &mut StoreView, now| run(view, &reserve(&limits, "bank__pay", 0), now).is_ok();
    let burst = (0..20).filter(|_| passed(&mut view, START_MS)).count();
    assert_eq!(burst, 7, "all at once");
    let refused = decide(&reserve(&limits, "bank__pay", 0), &view, START_MS + 1);
    let Err(CommandRefusal::Budget(exceeded)) = refused else {
        panic!("it passed")
    };
    let wait = exceeded.after.unwrap();
    assert_eq!((exceeded.dimension, wait), (Dimension::Rate, 60_000 - 1));
    assert!(!passed(&mut view, START_MS + wait), "a millisecond early");
    let minute: Vec<u64> = (1..60_000)
        .filter(|ms| passed(&mut view, START_MS + 60_000 + ms * 10))
        .collect();
    for (first, from) in minute.iter().enumerate() {
        let within = minute[first..].iter().take_while(|ms| **ms < from + 6_000);
        assert!(within.count() <= 7, "in the minute from {from}");
    }
    assert_eq!(minute.len(), 7 * 10, "and no fewer");
    // Another tool has its own rate.
    assert!(
        run(
            &mut view,
            &reserve(&limits, "bank__see", 0),
            START_MS + 660_000
        )
        .is_ok()
    );
}

/// A task as the release before kept it: what was used of its rate is still used.
#[test]
fn what_was_used_before_windows_is_still_used() {
    let limits = BudgetLimits {
        rate: Some(Rate {
            calls: 4,
            per: 60_000,
        }),
        ..BudgetLimits::default()
    };
    let kept = serde_json::json!({
        "began": START_MS, "last": START_MS, "steps": 3, "calls": 3, "cost": 0, "failures": 0,
        "tools": { "bank__pay": { "calls": 3, "due": START_MS + 45_000 } }, "history": [],
    });
    let task: TaskUsage = serde_json::from_value(kept).unwrap();
    let mut view = StoreView {
        task: Some(task),
        ..StoreView::default()
    };
    let passed =
        |view: &mut StoreView, now| run(view, &reserve(&limits, "bank__pay", 0), now).is_ok();
    assert!(passed(&mut view, START_MS), "one of four is left");
    assert!(!passed(&mut view, START_MS + 59_999));
    assert!((0..4).all(|_| passed(&mut view, START_MS + 60_000)));
    assert!(!passed(&mut view, START_MS + 60_000));
}

/// Where nothing is enforced, calls are counted at their pace and always fit.
#[test]
fn what_is_only_counted_keeps_its_pace() {
    let rate = BudgetLimits {
        rate: Some(Rate {
            calls: 2,
            per: 60_000,
        }),
        ..BudgetLimits::default()
    };
    let limits = BudgetLimits {
        steps: Some(1),
        ..rate.clone()
    };
    let mut view = StoreView::default();
    for _ in 0..5 {
        run(
            &mut view,
            &reserve(&limits.only_counted(), "bank__pay", 2),
            START_MS,
        )
        .unwrap();
    }
    assert_eq!(exceeded(&limits, &view, START_MS), Some(Dimension::Steps));
    assert_eq!(
        exceeded(&rate, &view, START_MS + 59_999),
        Some(Dimension::Rate)
    );
    assert_eq!(exceeded(&rate, &view, START_MS + 60_000), None);
}

/// 003-93: what an operator or a probe says of a call is that it did not run: its server was asked.
#[test]
fn what_others_say_gives_no_place_of_a_rate_back() {
    let (limits, later) = (one_a_minute(), START_MS + 10);
    for (evidence, expected) in [
        (operator(), Some(Dimension::Rate)),
        (Evidence::Probe, Some(Dimension::Rate)),
        (Evidence::Restart, None),
    ] {
        let call = Intent {
            limits: limits.clone(),
            ..intent("key", 1)
        };
        let mut view = StoreView::default();
        begin(&mut view, &call, START_MS).unwrap();
        if evidence != Evidence::Restart {
            let lost = StoreCommand::Settle(settle(&call, unknown()));
            run(&mut view, &lost, START_MS + 1).unwrap();
        }
        let said = Settle {
            evidence: evidence.clone(),
            ..settle(&call, ClaimPhase::NotSent)
        };
        run(&mut view, &StoreCommand::Settle(said), START_MS + 5).unwrap();
        assert_eq!(exceeded(&limits, &view, later), expected, "{evidence:?}");
    }
}

fn one_a_minute() -> BudgetLimits {
    BudgetLimits {
        rate: Some(Rate {
            calls: 1,
            per: 60_000,
        }),
        ..BudgetLimits::default()
    }
}

/// 003-93: a read that was proven not to be sent was no call; one that was sent was.
#[test]
fn a_read_that_was_not_sent_counts_for_no_rate() {
    let (limits, later) = (one_a_minute(), START_MS + 10);
    let now = |view: &StoreView| exceeded(&limits, view, later);
    let spent = |charge| {
        StoreCommand::Spend(Spend {
            charge: Some((0, charge)),
            since: Some(START_MS),
            ..Spend::nothing(named("task"), ToolName::new("bank__pay"))
        })
    };
    for (charge, expected) in [
        (Charge::Release, None),
        (Charge::Hold, Some(Dimension::Rate)),
        (Charge::Settle(0), Some(Dimension::Rate)),
    ] {
        let mut view = StoreView::default();
        run(&mut view, &reserve(&limits, "bank__pay", 0), START_MS).unwrap();
        assert_eq!(now(&view), Some(Dimension::Rate));
        run(&mut view, &spent(charge), START_MS + 5).unwrap();
        assert_eq!(now(&view), expected, "{charge:?}");
    }
}

/// 003-93: the same of a call with side effects, also once its task has begun anew; what was sent and not
/// run was one.
#[test]
fn a_write_that_was_not_sent_counts_for_no_rate() {
    let (limits, later) = (one_a_minute(), START_MS + 10);
    let call = Intent {
        limits: limits.clone(),
        ..intent("key", 1)
    };
    let not_run = ClaimPhase::Failed {
        answer: None,
        again: true,
    };
    for (phase, expected) in [
        (ClaimPhase::NotSent, None),
        (not_run, Some(Dimension::Rate)),
        (unknown(), Some(Dimension::Rate)),
    ] {
        for is_anew in [false, true] {
            let mut view = StoreView::default();
            begin(&mut view, &call, START_MS).unwrap();
            if is_anew {
                let reset = StoreCommand::Steer(SteerTask {
                    task: named("task"),
                    act: TaskAct::Reset,
                    who: "ann".to_owned(),
                    why: "it is due".to_owned(),
                });
                run(&mut view, &reset, START_MS + 1).unwrap();
            }
            let ended = StoreCommand::Settle(settle(&call, phase.clone()));
            run(&mut view, &ended, START_MS + 5).unwrap();
            let of_call = Price {
                cost: 0,
                ..call.price.clone()
            };
            let next = limits.admit(view.task.as_ref(), &of_call, later);
            let found = next.err().map(|exceeded| exceeded.dimension);
            assert_eq!(found, expected, "{phase:?} {is_anew}");
        }
    }
}
