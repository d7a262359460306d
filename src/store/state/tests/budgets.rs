//! SEMANTICS §6: what a task may use. 003-27, 003-40, 003-86 … 003-89, 003-92, 003-93.

use super::super::budget::{Dimension, HISTORY, Rate, Seen};
use super::super::command::{Reserve, Spend};
use super::*;

fn price(tool: &str, cost: u64) -> Price {
    Price {
        tool: ToolName::new(tool),
        cost,
    }
}

fn reserve(limits: &Limits, tool: &str, cost: u64) -> Command {
    Command::Reserve(Reserve {
        task: named("task"),
        limits: limits.clone(),
        price: price(tool, cost),
    })
}

fn spend(tool: &str, charge: Option<(u64, Charge)>, failed: bool) -> Command {
    Command::Spend(Spend {
        task: named("task"),
        tool: ToolName::new(tool),
        charge,
        failed,
        seen: None,
    })
}

/// Which dimension one more call of `bank__pay` at a cost of 2 exceeds.
fn exceeded(limits: &Limits, view: &View, now: Millis) -> Option<Dimension> {
    match decide(&reserve(limits, "bank__pay", 2), view, now) {
        Ok(_) => None,
        Err(Refused::Budget(exceeded)) => Some(exceeded.dimension),
        Err(other) => panic!("{other:?}"),
    }
}

/// A task an hour old: two calls of `bank__pay` at 2 each, one of `bank__see`, one failure.
fn used() -> View {
    let mut view = View::default();
    for tool in ["bank__pay", "bank__pay", "bank__see"] {
        run(&mut view, &reserve(&Limits::default(), tool, 2), START).unwrap();
    }
    run(
        &mut view,
        &spend("bank__see", Some((2, Charge::Release)), true),
        START,
    )
    .unwrap();
    view
}

#[test]
fn one_more_passes_up_to_each_limit_and_none_beyond() {
    let none = Limits::default();
    let now = START + HOUR;
    // Steps were taken by the released call, too; calls were not.
    for (dimension, enough, short) in [
        (
            Dimension::Steps,
            Limits {
                steps: Some(4),
                ..none.clone()
            },
            Limits {
                steps: Some(3),
                ..none.clone()
            },
        ),
        (
            Dimension::ToolCalls,
            Limits {
                tool_calls: Some(3),
                ..none.clone()
            },
            Limits {
                tool_calls: Some(2),
                ..none.clone()
            },
        ),
        (
            Dimension::Cost,
            Limits {
                cost: Some(6),
                ..none.clone()
            },
            Limits {
                cost: Some(5),
                ..none.clone()
            },
        ),
        (
            Dimension::Duration,
            Limits {
                duration: Some(HOUR + 1),
                ..none.clone()
            },
            Limits {
                duration: Some(HOUR),
                ..none.clone()
            },
        ),
        (
            Dimension::Failures,
            Limits {
                failures: Some(2),
                ..none.clone()
            },
            Limits {
                failures: Some(1),
                ..none.clone()
            },
        ),
        (
            Dimension::CallsPerTool,
            Limits {
                calls_per_tool: Some(3),
                ..none.clone()
            },
            Limits {
                calls_per_tool: Some(2),
                ..none.clone()
            },
        ),
    ] {
        assert_eq!(exceeded(&enough, &used(), now), None, "{dimension:?}");
        assert_eq!(exceeded(&short, &used(), now), Some(dimension));
    }
}

#[test]
fn dimensions_are_asked_in_the_order_of_the_gate() {
    let view = used();
    let mut limits = Limits {
        steps: Some(0),
        tool_calls: Some(0),
        cost: Some(0),
        duration: Some(0),
        failures: Some(0),
        failures_in_a_row: Some(0),
        calls_per_tool: Some(0),
        rate: Some(Rate {
            calls: 1,
            per: 10 * HOUR,
        }),
    };
    let mut now = START;
    let mut next = |limits: &Limits| exceeded(limits, &view, std::mem::replace(&mut now, START));
    assert_eq!(next(&limits), Some(Dimension::Steps));
    limits.steps = None;
    assert_eq!(next(&limits), Some(Dimension::ToolCalls));
    limits.tool_calls = None;
    assert_eq!(next(&limits), Some(Dimension::CallsPerTool));
    limits.calls_per_tool = None;
    assert_eq!(next(&limits), Some(Dimension::Cost));
    limits.cost = None;
    assert_eq!(next(&limits), Some(Dimension::Duration));
    limits.duration = None;
    assert_eq!(next(&limits), Some(Dimension::Failures));
    limits.failures = None;
    assert_eq!(next(&limits), Some(Dimension::FailuresInARow));
    limits.failures_in_a_row = None;
    assert_eq!(
        next(&limits),
        None,
        "the rate was not in force when the calls before were made"
    );
}

/// 003-92: failures in a row are counted anew after a success, and after nothing else.
#[test]
fn a_success_ends_a_row_of_failures() {
    let limits = Limits {
        failures_in_a_row: Some(2),
        ..Limits::default()
    };
    let refused = Seen {
        call: 1,
        outcome: 1,
        refused: true,
    };
    let spent = |failed, seen| {
        let (task, tool, charge) = (
            named("task"),
            ToolName::new("bank__see"),
            Some((0, Charge::Settle(0))),
        );
        Command::Spend(Spend {
            task,
            tool,
            charge,
            failed,
            seen,
        })
    };
    let done = || Phase::Completed(result("paid"));
    let settled = |phase: Phase, failed, evidence| {
        let call = intent("a", 1);
        let settle = Settle {
            evidence,
            failed,
            ..settle(&call, phase)
        };
        (call, settle)
    };
    for (what, then, expected) in [
        ("a read that was answered", Ok(spent(false, None)), None),
        (
            "a read that was refused on the way",
            Ok(spent(false, Some(refused))),
            Some(Dimension::FailuresInARow),
        ),
        (
            "a read that failed",
            Ok(spent(true, None)),
            Some(Dimension::FailuresInARow),
        ),
        (
            "a call that was answered",
            Err(settled(done(), false, Evidence::Exchange)),
            None,
        ),
        (
            "an isError",
            Err(settled(done(), true, Evidence::Exchange)),
            Some(Dimension::FailuresInARow),
        ),
        (
            "not sent",
            Err(settled(Phase::NotSent, true, Evidence::Exchange)),
            Some(Dimension::FailuresInARow),
        ),
        (
            "unknown",
            Err(settled(unknown(), true, Evidence::Exchange)),
            Some(Dimension::FailuresInARow),
        ),
    ] {
        let mut view = View::default();
        run(&mut view, &spent(true, None), START).unwrap();
        assert_eq!(exceeded(&limits, &view, START), None);
        run(&mut view, &spent(true, None), START).unwrap();
        assert_eq!(
            exceeded(&limits, &view, START),
            Some(Dimension::FailuresInARow)
        );
        match then {
            Ok(spent) => drop(run(&mut view, &spent, START).unwrap()),
            Err((call, settle)) => {
                begin(&mut view, &call, START).unwrap();
                run(&mut view, &Command::Settle(settle), START).unwrap();
            }
        }
        assert_eq!(exceeded(&limits, &view, START), expected, "{what}");
    }
    // A late answer to what was unknown says nothing of now.
    let call = intent("a", 1);
    let mut view = after(&call, Some(unknown()));
    run(&mut view, &spent(true, None), START).unwrap();
    let late = Settle {
        evidence: Evidence::Late,
        failed: true,
        ..settle(&call, done())
    };
    run(&mut view, &Command::Settle(late), START).unwrap();
    assert_eq!(
        exceeded(&limits, &view, START),
        Some(Dimension::FailuresInARow)
    );
}

/// 003-88: what is left in all dimensions stands in the refusal.
#[test]
fn a_refusal_says_what_is_left() {
    let limits = Limits {
        tool_calls: Some(2),
        cost: Some(10),
        duration: Some(2 * HOUR),
        ..Limits::default()
    };
    let Err(Refused::Budget(exceeded)) =
        decide(&reserve(&limits, "bank__pay", 2), &used(), START + HOUR)
    else {
        panic!("it passed")
    };
    let left = exceeded.remaining;
    assert_eq!(
        (left.tool_calls, left.cost, left.duration),
        (Some(0), Some(6), Some(HOUR))
    );
    assert_eq!(
        (
            left.steps,
            left.failures,
            left.calls_per_tool,
            exceeded.after
        ),
        (None, None, None, None)
    );
}

#[test]
fn a_rate_lets_a_burst_through_and_then_one_after_another() {
    // Not a divisor of a minute: rounding never lets more through than it says.
    let limits = Limits {
        rate: Some(Rate {
            calls: 7,
            per: 60_000,
        }),
        ..Limits::default()
    };
    let mut view = View::default();
    let passed = |view: &mut View, now| run(view, &reserve(&limits, "bank__pay", 0), now).is_ok();
    assert_eq!(
        (0..20).filter(|_| passed(&mut view, START)).count(),
        7,
        "the burst"
    );
    let Err(Refused::Budget(exceeded)) =
        decide(&reserve(&limits, "bank__pay", 0), &view, START + 1)
    else {
        panic!("it passed")
    };
    let wait = exceeded.after.unwrap();
    assert_eq!((exceeded.dimension, wait), (Dimension::Rate, 8572 - 1));
    assert!(!passed(&mut view, START + wait), "a millisecond early");
    assert!(passed(&mut view, START + 1 + wait), "as it said");
    let minute = (1..=60_000)
        .filter(|ms| passed(&mut view, START + 8572 + ms))
        .count();
    assert!(minute <= 7, "{minute} in a minute that follows a burst");
    // Another tool has its own rate, and a pause gives the burst back, no more.
    assert!(run(&mut view, &reserve(&limits, "bank__see", 0), START + 8572).is_ok());
    assert_eq!(
        (0..20)
            .filter(|_| passed(&mut view, START + 24 * HOUR))
            .count(),
        7
    );
}

#[test]
fn the_most_extreme_limits_neither_overflow_nor_let_all_through() {
    let most = Limits {
        rate: Some(Rate {
            calls: u64::MAX,
            per: 1,
        }),
        cost: Some(u64::MAX),
        ..Limits::default()
    };
    let mut view = View::default();
    for _ in 0..3 {
        run(
            &mut view,
            &reserve(&most, "bank__pay", u64::MAX / 2),
            Millis::MAX - 1,
        )
        .ok();
    }
    assert_eq!(view.task.unwrap().calls, 2);
    let never = Limits {
        rate: Some(Rate { calls: 0, per: 0 }),
        ..Limits::default()
    };
    let mut view = View::default();
    run(&mut view, &reserve(&never, "bank__pay", 0), START).unwrap();
    assert_eq!(exceeded(&never, &view, START), Some(Dimension::Rate));
    run(
        &mut view,
        &spend(
            "bank__pay",
            Some((u64::MAX, Charge::Settle(u64::MAX))),
            true,
        ),
        START,
    )
    .unwrap();
    run(
        &mut view,
        &spend("bank__pay", Some((9, Charge::Release)), true),
        START,
    )
    .unwrap();
    run(
        &mut view,
        &spend("bank__pay", Some((9, Charge::Release)), true),
        START,
    )
    .unwrap();
    assert_eq!(view.task.unwrap().calls, 0);
}

/// Agents choose which tools they name: what a task remembers of them is bounded, and still
/// counted.
#[test]
fn tools_beyond_the_bound_share_one_count() {
    let limits = Limits {
        calls_per_tool: Some(1),
        ..Limits::default()
    };
    let mut view = View::default();
    let passed = (0..1000)
        .filter(|n| run(&mut view, &reserve(&limits, &format!("s__t{n}"), 0), START).is_ok())
        .count();
    let task = view.task.as_ref().unwrap();
    assert_eq!((passed, task.tools.len()), (257, 257));
    assert_eq!(task.used(&ToolName::new("s__t3")).calls, 1);
    assert_eq!(task.used(&ToolName::new("s__t999")).calls, 1);
    run(
        &mut view,
        &spend("s__t256", Some((0, Charge::Release)), false),
        START,
    )
    .unwrap();
    assert_eq!(exceeded(&limits, &view, START), None);
}

#[test]
fn a_task_remembers_its_last_calls() {
    let mut view = View::default();
    let seen = |n| Seen {
        call: n,
        outcome: 0,
        refused: true,
    };
    for n in 0..100 {
        let spend = Spend {
            task: named("task"),
            tool: ToolName::new("t"),
            charge: None,
            failed: false,
            seen: Some(seen(n)),
        };
        run(&mut view, &Command::Spend(spend), START + n).unwrap();
    }
    let task = view.task.unwrap();
    assert_eq!(
        task.history,
        (100 - HISTORY as u64..100).map(seen).collect::<Vec<_>>()
    );
    assert_eq!(
        (task.began, task.last, task.steps, task.calls),
        (START, START + 99, 0, 0)
    );
}

/// Where nothing is enforced, calls are counted at their pace and always fit.
#[test]
fn what_is_only_counted_keeps_its_pace() {
    let rate = Limits {
        rate: Some(Rate {
            calls: 2,
            per: 60_000,
        }),
        ..Limits::default()
    };
    let limits = Limits {
        steps: Some(1),
        ..rate.clone()
    };
    let mut view = View::default();
    for _ in 0..5 {
        run(
            &mut view,
            &reserve(&limits.only_counted(), "bank__pay", 2),
            START,
        )
        .unwrap();
    }
    assert_eq!(exceeded(&limits, &view, START), Some(Dimension::Steps));
    // Five calls at half a minute each, two of them at once.
    assert_eq!(
        exceeded(&rate, &view, START + 119_999),
        Some(Dimension::Rate)
    );
    assert_eq!(exceeded(&rate, &view, START + 120_000), None);
}
