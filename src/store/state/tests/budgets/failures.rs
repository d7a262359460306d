//! Failures in a row, and what ends them.

use super::*;

const IN_A_ROW: Option<Dimension> = Some(Dimension::FailuresInARow);

fn two_in_a_row() -> BudgetLimits {
    BudgetLimits {
        failures_in_a_row: Some(2),
        ..BudgetLimits::default()
    }
}

fn spent(failed: bool, seen: Option<SeenCall>) -> StoreCommand {
    StoreCommand::Spend(Spend {
        account: None,
        task: named("task"),
        tool: ToolName::new("bank__see"),
        charge: Some((0, Charge::Settle(0))),
        failed,
        seen,
        since: None,
        is_refused: false,
        is_past: false,
    })
}

/// A task whose last two calls failed.
fn failed_twice() -> StoreView {
    let limits = two_in_a_row();
    let mut view = StoreView::default();
    run(&mut view, &spent(true, None), START_MS).unwrap();
    assert_eq!(exceeded(&limits, &view, START_MS), None);
    run(&mut view, &spent(true, None), START_MS).unwrap();
    assert_eq!(exceeded(&limits, &view, START_MS), IN_A_ROW);
    view
}

/// 003-92: failures in a row are counted anew after a read that succeeded, and after nothing else.
#[test]
fn a_read_that_was_answered_ends_a_row_of_failures() {
    let refused = SeenCall {
        call: 1,
        outcome: 1,
        refused: true,
        times: 1,
    };
    for (what, then, expected) in [
        ("a read that was answered", spent(false, None), None),
        (
            "a read that was refused on the way",
            spent(false, Some(refused)),
            IN_A_ROW,
        ),
        ("a read that failed", spent(true, None), IN_A_ROW),
    ] {
        let mut view = failed_twice();
        run(&mut view, &then, START_MS).unwrap();
        assert_eq!(
            exceeded(&two_in_a_row(), &view, START_MS),
            expected,
            "{what}"
        );
    }
}

/// 003-92: the same of a call with a claim.
#[test]
fn a_call_that_was_answered_ends_a_row_of_failures() {
    let done = || ClaimPhase::Completed(result("paid"));
    for (what, phase, failed, expected) in [
        ("a call that was answered", done(), false, None),
        ("an isError", done(), true, IN_A_ROW),
        ("not sent", ClaimPhase::NotSent, true, IN_A_ROW),
        ("unknown", unknown(), true, IN_A_ROW),
    ] {
        let mut view = failed_twice();
        let call = intent("a", 1);
        let settle = Settle {
            evidence: Evidence::Exchange,
            failed,
            ..settle(&call, phase)
        };
        begin(&mut view, &call, START_MS).unwrap();
        run(&mut view, &StoreCommand::Settle(settle), START_MS).unwrap();
        assert_eq!(
            exceeded(&two_in_a_row(), &view, START_MS),
            expected,
            "{what}"
        );
    }
}

/// 003-92: failures of one tool in a row are its own: they are counted anew after a call of it that
/// succeeded, whatever other tools do, and no other tool is refused for them.
#[test]
fn the_failures_of_a_tool_are_its_own() {
    let limits = BudgetLimits {
        tool_failures: Some(2),
        ..BudgetLimits::default()
    };
    let of = |tool: &str, failed: bool| {
        let mut spent = spent(failed, None);
        if let StoreCommand::Spend(spend) = &mut spent {
            spend.tool = ToolName::new(tool);
        }
        spent
    };
    let asked = |view: &StoreView, tool: &str| {
        let price = Price {
            tool: ToolName::new(tool),
            cost: 0,
        };
        let admitted = limits.admit(view.task.as_ref(), &price, START_MS);
        admitted.err().map(|exceeded| exceeded.dimension)
    };
    let open = Some(Dimension::ToolFailures);
    for (calls, one, other) in [
        (&[("bank__one", true)][..], None, None),
        (&[("bank__one", true), ("bank__other", true)], None, None),
        (
            &[
                ("bank__one", true),
                ("bank__other", false),
                ("bank__one", true),
            ],
            open,
            None,
        ),
        (
            &[
                ("bank__one", true),
                ("bank__one", false),
                ("bank__one", true),
            ],
            None,
            None,
        ),
        (
            &[
                ("bank__one", true),
                ("bank__one", true),
                ("bank__one", false),
            ],
            None,
            None,
        ),
    ] {
        let mut view = StoreView::default();
        for (tool, failed) in calls {
            run(&mut view, &of(tool, *failed), START_MS).unwrap();
        }
        let found = (asked(&view, "bank__one"), asked(&view, "bank__other"));
        assert_eq!(found, (one, other), "{calls:?}");
    }
}

/// A late answer to what was unknown says nothing of now.
#[test]
fn a_late_answer_ends_no_row_of_failures() {
    let call = intent("a", 1);
    let mut view = after(&call, Some(unknown()));
    run(&mut view, &spent(true, None), START_MS).unwrap();
    let late = Settle {
        evidence: Evidence::Late,
        failed: true,
        ..settle(&call, ClaimPhase::Completed(result("paid")))
    };
    run(&mut view, &StoreCommand::Settle(late), START_MS).unwrap();
    assert_eq!(exceeded(&two_in_a_row(), &view, START_MS), IN_A_ROW);
}
