//! So many calls in so much time.

use super::*;

#[test]
fn a_rate_lets_a_burst_through_and_then_one_after_another() {
    // Not a divisor of a minute: rounding never lets more through than it says.
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
    assert_eq!(
        (0..20).filter(|_| passed(&mut view, START_MS)).count(),
        7,
        "the burst"
    );
    let Err(CommandRefusal::Budget(exceeded)) =
        decide(&reserve(&limits, "bank__pay", 0), &view, START_MS + 1)
    else {
        panic!("it passed")
    };
    let wait = exceeded.after.unwrap();
    assert_eq!((exceeded.dimension, wait), (Dimension::Rate, 8572 - 1));
    assert!(!passed(&mut view, START_MS + wait), "a millisecond early");
    assert!(passed(&mut view, START_MS + 1 + wait), "as it said");
    let minute = (1..=60_000)
        .filter(|ms| passed(&mut view, START_MS + 8572 + ms))
        .count();
    assert!(minute <= 7, "{minute} in a minute that follows a burst");
    // Another tool has its own rate, and a pause gives the burst back, no more.
    assert!(
        run(
            &mut view,
            &reserve(&limits, "bank__see", 0),
            START_MS + 8572
        )
        .is_ok()
    );
    assert_eq!(
        (0..20)
            .filter(|_| passed(&mut view, START_MS + 24 * HOUR_MS))
            .count(),
        7
    );
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
    // Five calls at half a minute each, two of them at once.
    assert_eq!(
        exceeded(&rate, &view, START_MS + 119_999),
        Some(Dimension::Rate)
    );
    assert_eq!(exceeded(&rate, &view, START_MS + 120_000), None);
}
