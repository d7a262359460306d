//! guarantees §6: what a task may use. 003-27, 003-40, 003-86 … 003-89, 003-92, 003-93. Rates and
//! failures in a row have files of their own.

use super::super::budget::{
    Dimension, MAX_PLANNED_CALLS, MAX_SEEN_CALLS, Rate, SeenCall, TaskUsage,
};
use super::super::command::{Reserve, Spend};
use super::*;

mod anew;
mod failures;
mod rates;
mod tallies;

fn price(tool: &str, cost: u64) -> Price {
    Price {
        tool: ToolName::new(tool),
        cost,
    }
}

fn reserve(limits: &BudgetLimits, tool: &str, cost: u64) -> StoreCommand {
    StoreCommand::Reserve(Reserve {
        account: None,
        task: named("task"),
        limits: limits.clone(),
        price: price(tool, cost),
        origin: None,
        hold: None,
        edited: None,
    })
}

fn spend(tool: &str, charge: Option<(u64, Charge)>, failed: bool) -> StoreCommand {
    StoreCommand::Spend(Spend {
        account: None,
        task: named("task"),
        tool: ToolName::new(tool),
        charge,
        failed,
        seen: None,
        since: None,
        is_refused: false,
        is_past: false,
    })
}

/// Which dimension one more call of `bank__pay` at a cost of 2 exceeds.
fn exceeded(limits: &BudgetLimits, view: &StoreView, now: Millis) -> Option<Dimension> {
    match decide(&reserve(limits, "bank__pay", 2), view, now) {
        Ok(_) => None,
        Err(CommandRefusal::Budget(exceeded)) => Some(exceeded.dimension),
        Err(other) => panic!("{other:?}"),
    }
}

/// A task an hour old: two calls of `bank__pay` at 2 each, of which one failed, and one of `bank__see`
/// that was not sent.
fn used() -> StoreView {
    let mut view = StoreView::default();
    for tool in ["bank__pay", "bank__pay", "bank__see"] {
        run(
            &mut view,
            &reserve(&BudgetLimits::default(), tool, 2),
            START_MS,
        )
        .unwrap();
    }
    for (tool, charge, failed) in [
        ("bank__see", Charge::Release, true),
        ("bank__pay", Charge::Hold, true),
    ] {
        run(&mut view, &spend(tool, Some((2, charge)), failed), START_MS).unwrap();
    }
    view
}

/// A dimension, how its limit is set, and the least under which one more call fits in [`used`].
type LimitCase = (Dimension, fn(&mut BudgetLimits, u64), u64);

/// The released call took nothing.
const LIMIT_CASES: [LimitCase; 6] = [
    (
        Dimension::Steps,
        |limits, most| limits.steps = Some(most),
        3,
    ),
    (
        Dimension::ToolCalls,
        |limits, most| limits.tool_calls = Some(most),
        3,
    ),
    (Dimension::Cost, |limits, most| limits.cost = Some(most), 6),
    (
        Dimension::Duration,
        |limits, most| limits.duration = Some(most),
        HOUR_MS + 1,
    ),
    (
        Dimension::Failures,
        |limits, most| limits.failures = Some(most),
        2,
    ),
    (
        Dimension::CallsPerTool,
        |limits, most| limits.calls_per_tool = Some(most),
        3,
    ),
];

/// 003-16, 003-27, 003-40, 003-86, 003-87, 003-89, 003-92: calls, cost and time, and whatever else
/// has a limit.
#[test]
fn one_more_passes_up_to_each_limit_and_none_beyond() {
    let now = START_MS + HOUR_MS;
    for (dimension, set, enough) in LIMIT_CASES {
        let found = |most| {
            let mut limits = BudgetLimits::default();
            set(&mut limits, most);
            exceeded(&limits, &used(), now)
        };
        assert_eq!(found(enough), None, "{dimension:?}");
        assert_eq!(found(enough - 1), Some(dimension));
    }
}

#[test]
fn dimensions_are_asked_in_the_order_of_the_gate() {
    let view = used();
    let mut limits = BudgetLimits {
        steps: Some(0),
        tool_calls: Some(0),
        cost: Some(0),
        duration: Some(0),
        failures: Some(0),
        failures_in_a_row: Some(0),
        calls_per_tool: Some(0),
        rate: Some(Rate {
            calls: 1,
            per: 10 * HOUR_MS,
        }),
        ..BudgetLimits::default()
    };
    let mut now = START_MS;
    let mut next =
        |limits: &BudgetLimits| exceeded(limits, &view, std::mem::replace(&mut now, START_MS));
    assert_eq!(next(&limits), Some(Dimension::Steps));
    limits.steps = None;
    assert_eq!(next(&limits), Some(Dimension::ToolCalls));
    limits.tool_calls = None;
    assert_eq!(next(&limits), Some(Dimension::Duration));
    limits.duration = None;
    assert_eq!(next(&limits), Some(Dimension::Failures));
    limits.failures = None;
    assert_eq!(next(&limits), Some(Dimension::FailuresInARow));
    limits.failures_in_a_row = None;
    assert_eq!(next(&limits), Some(Dimension::CallsPerTool));
    limits.calls_per_tool = None;
    assert_eq!(next(&limits), Some(Dimension::Cost));
    limits.cost = None;
    assert_eq!(
        next(&limits),
        None,
        "the rate was not in force when the calls before were made"
    );
}

/// 003-87, 003-93: what was charged beyond what was reserved counts in full, and nothing more fits, what
/// costs nothing neither; a task that has spent just what it may calls what is free.
#[test]
fn an_overspent_task_calls_nothing() {
    let limits = BudgetLimits {
        cost: Some(10),
        ..BudgetLimits::default()
    };
    for (cost, expected) in [(10, None), (11, Some(Dimension::Cost))] {
        let mut view = StoreView::default();
        run(&mut view, &reserve(&limits, "bank__pay", 1), START_MS).unwrap();
        let spent = spend("bank__pay", Some((1, Charge::Settle(cost))), false);
        run(&mut view, &spent, START_MS).unwrap();
        let free = limits.admit(view.task.as_ref(), &price("bank__see", 0), START_MS);
        assert_eq!(free.err().map(|exceeded| exceeded.dimension), expected);
    }
}

/// 003-88: what is left in all dimensions stands in the refusal.
#[test]
fn a_refusal_says_what_is_left() {
    let limits = BudgetLimits {
        tool_calls: Some(2),
        cost: Some(10),
        duration: Some(2 * HOUR_MS),
        ..BudgetLimits::default()
    };
    let Err(CommandRefusal::Budget(exceeded)) = decide(
        &reserve(&limits, "bank__pay", 2),
        &used(),
        START_MS + HOUR_MS,
    ) else {
        panic!("it passed")
    };
    let left = exceeded.remaining;
    assert_eq!(
        (left.tool_calls, left.cost, left.duration),
        (Some(0), Some(6), Some(HOUR_MS))
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
fn the_most_extreme_limits_neither_overflow_nor_let_all_through() {
    let most = BudgetLimits {
        rate: Some(Rate {
            calls: u64::MAX,
            per: 1,
        }),
        cost: Some(u64::MAX),
        ..BudgetLimits::default()
    };
    let mut view = StoreView::default();
    for _ in 0..3 {
        run(
            &mut view,
            &reserve(&most, "bank__pay", u64::MAX / 2),
            Millis::MAX - 1,
        )
        .ok();
    }
    assert_eq!(view.task.unwrap().calls, 2);
    let never = BudgetLimits {
        rate: Some(Rate { calls: 0, per: 0 }),
        ..BudgetLimits::default()
    };
    let mut view = StoreView::default();
    run(&mut view, &reserve(&never, "bank__pay", 0), START_MS).unwrap();
    assert_eq!(exceeded(&never, &view, START_MS), Some(Dimension::Rate));
    run(
        &mut view,
        &spend(
            "bank__pay",
            Some((u64::MAX, Charge::Settle(u64::MAX))),
            true,
        ),
        START_MS,
    )
    .unwrap();
    run(
        &mut view,
        &spend("bank__pay", Some((9, Charge::Release)), true),
        START_MS,
    )
    .unwrap();
    run(
        &mut view,
        &spend("bank__pay", Some((9, Charge::Release)), true),
        START_MS,
    )
    .unwrap();
    assert_eq!(view.task.unwrap().calls, 0);
}

/// Agents choose which tools they name: what a task remembers of them is bounded, and still
/// counted.
#[test]
fn tools_beyond_the_bound_share_one_count() {
    let limits = BudgetLimits {
        calls_per_tool: Some(1),
        ..BudgetLimits::default()
    };
    let mut view = StoreView::default();
    let passed = (0..1000)
        .filter(|n| {
            run(
                &mut view,
                &reserve(&limits, &format!("s__t{n}"), 0),
                START_MS,
            )
            .is_ok()
        })
        .count();
    let task = view.task.as_ref().unwrap();
    assert_eq!((passed, task.tools.len()), (257, 257));
    assert_eq!(task.used(&ToolName::new("s__t3")).calls, 1);
    assert_eq!(task.used(&ToolName::new("s__t999")).calls, 1);
    run(
        &mut view,
        &spend("s__t256", Some((0, Charge::Release)), false),
        START_MS,
    )
    .unwrap();
    assert_eq!(exceeded(&limits, &view, START_MS), None);
}

#[test]
fn a_task_remembers_its_last_calls() {
    let mut view = StoreView::default();
    let seen = |n| SeenCall {
        call: n,
        outcome: 0,
        refused: true,
        times: 1,
    };
    for n in 0..100 {
        let spend = Spend {
            account: None,
            task: named("task"),
            tool: ToolName::new("t"),
            charge: None,
            failed: false,
            seen: Some(seen(n)),
            since: None,
            is_refused: false,
            is_past: false,
        };
        run(&mut view, &StoreCommand::Spend(spend), START_MS + n).unwrap();
    }
    let task = view.task.unwrap();
    assert_eq!(
        task.history,
        (100 - MAX_SEEN_CALLS as u64..100)
            .map(seen)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        (task.began, task.last, task.steps, task.calls),
        (START_MS, START_MS + 99, 0, 0)
    );
}
