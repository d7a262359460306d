//! What a task that ended idle, or was reset by an operator, passes on to the one that begins.

use super::*;
use crate::store::state::command::{EnterState, PlanCall, SteerTask};
use crate::store::state::event::TaskAct;

const IDLE_MS: u64 = 3_600_000;

fn limits() -> BudgetLimits {
    BudgetLimits {
        cost: Some(100),
        rate: Some(Rate {
            calls: 1,
            per: 24 * IDLE_MS,
        }),
        idle: Some(IDLE_MS),
        ..BudgetLimits::default()
    }
}

fn steer(act: TaskAct) -> StoreCommand {
    StoreCommand::Steer(SteerTask {
        task: named("task"),
        act,
        who: "ann".to_owned(),
        why: "it is due".to_owned(),
    })
}

/// guarantees §6: a rate is over time, and neither an idle hour nor an operator gives its calls back.
#[test]
fn a_rate_outlives_its_task() {
    let mut idle = StoreView::default();
    run(&mut idle, &reserve(&limits(), "bank__pay", 2), START_MS).unwrap();
    let mut reset = idle.clone();
    run(&mut reset, &steer(TaskAct::Reset), START_MS + 1).unwrap();
    for view in [&mut idle, &mut reset] {
        let later = START_MS + 2 * IDLE_MS;
        assert_eq!(exceeded(&limits(), view, later), Some(Dimension::Rate));
        run(view, &reserve(&limits(), "bank__see", 2), later).unwrap();
        let task = view.task.as_ref().unwrap();
        assert_eq!((task.began, task.cost), (later, 2), "another task");
        assert_eq!(exceeded(&limits(), view, later), Some(Dimension::Rate));
        assert_eq!(exceeded(&limits(), view, START_MS + 25 * IDLE_MS), None);
    }
}

/// guarantees §6: what was reserved before a task began anew is not given back to the new one.
#[test]
fn an_old_reservation_is_no_part_of_a_new_budget() {
    for (at, release) in [(START_MS, false), (START_MS + 20, true)] {
        let mut view = StoreView::default();
        run(&mut view, &reserve(&limits(), "bank__pay", 90), START_MS).unwrap();
        run(&mut view, &steer(TaskAct::Reset), START_MS + 10).unwrap();
        run(
            &mut view,
            &reserve(&limits(), "bank__see", 90),
            START_MS + 20,
        )
        .unwrap();
        let spend = StoreCommand::Spend(Spend {
            account: None,
            task: named("task"),
            tool: ToolName::new("bank__see"),
            charge: Some((90, Charge::Release)),
            failed: true,
            seen: None,
            since: Some(at),
            is_refused: false,
            is_past: false,
        });
        run(&mut view, &spend, START_MS + 30).unwrap();
        let task = view.task.unwrap();
        let expected = if release { (0, 0, 0) } else { (90, 1, 0) };
        assert_eq!((task.cost, task.calls, task.failures), expected, "{at}");
    }
    // The same of a call with a claim, whose outcome an operator names afterwards.
    let mut view = StoreView::default();
    let old = Intent {
        limits: limits(),
        price: price("bank__pay", 90),
        ..intent("key", 1)
    };
    begin(&mut view, &old, START_MS).unwrap();
    run(&mut view, &steer(TaskAct::Reset), START_MS + 10).unwrap();
    run(
        &mut view,
        &reserve(&limits(), "bank__see", 90),
        START_MS + 20,
    )
    .unwrap();
    let ended = settle(&old, ClaimPhase::NotSent);
    run(&mut view, &StoreCommand::Settle(ended), START_MS + 30).unwrap();
    assert_eq!(view.task.unwrap().cost, 90);
}

/// 003-119: a task that goes on asking is not idle, though it gets nothing; nothing else of it changes.
#[test]
fn what_is_refused_is_not_idle() {
    let mut view = used();
    let before = view.task.clone().unwrap();
    let at = START_MS + IDLE_MS / 2;
    let refused = StoreCommand::Spend(Spend {
        account: None,
        task: named("task"),
        tool: ToolName::new("bank__pay"),
        charge: None,
        failed: false,
        seen: None,
        since: None,
        is_refused: true,
        is_past: false,
    });
    run(&mut view, &refused, at).unwrap();
    let task = view.task.clone().unwrap();
    assert_eq!(task, TaskUsage { last: at, ..before });
    let goes_on = |now| limits().current(view.task.as_ref(), now).is_some();
    assert!(goes_on(START_MS + IDLE_MS) && !goes_on(at + IDLE_MS));
}

/// 003-11: a plan binds until another is made, or its task has reported and asks again; it has room for
/// 64 calls, and says so.
#[test]
fn a_plan_binds_until_it_is_over() {
    let enter = |state| {
        StoreCommand::Enter(EnterState {
            task: named("task"),
            state,
            idle: None,
            origin: None,
        })
    };
    let plan = |call: &str| {
        StoreCommand::Plan(PlanCall {
            task: named("task"),
            call: named(call),
            idle: None,
            origin: None,
        })
    };
    let mut view = StoreView::default();
    let planned = |view: &StoreView| {
        let task = view.task.as_ref().unwrap();
        (task.is_planned, task.plan.len())
    };
    run(&mut view, &enter(TaskState::Collect), START_MS).unwrap();
    assert_eq!(planned(&view), (false, 0));
    for number in 0..MAX_PLANNED_CALLS {
        run(&mut view, &plan(&number.to_string()), START_MS).unwrap();
    }
    let task = view.task.as_ref().unwrap();
    assert_eq!(task.state, Some(TaskState::Plan));
    let full = decide(&plan("one more"), &view, START_MS);
    assert_eq!(full, Err(CommandRefusal::PlanFull));
    run(&mut view, &plan("0"), START_MS).unwrap();
    assert_eq!(planned(&view), (true, MAX_PLANNED_CALLS));
    // A step that was refused takes the task back to asking.
    run(&mut view, &enter(TaskState::Collect), START_MS).unwrap();
    assert_eq!(planned(&view), (true, MAX_PLANNED_CALLS));
    run(&mut view, &plan("one more"), START_MS).unwrap();
    assert_eq!(planned(&view), (true, 1), "anew");
    for state in [TaskState::Execute, TaskState::Summarize] {
        run(&mut view, &enter(state), START_MS).unwrap();
        assert_eq!(planned(&view), (true, 1));
    }
    run(&mut view, &enter(TaskState::Collect), START_MS).unwrap();
    assert_eq!(planned(&view), (false, 0), "it has reported");
}

/// 003-09: a stop holds in the transaction that would begin a call, whatever was seen before it, until
/// a reset; what nothing is enforced for is counted.
#[test]
fn a_stop_holds_where_a_call_begins() {
    let mut view = used();
    run(&mut view, &steer(TaskAct::Stop), START_MS).unwrap();
    let limits = limits();
    let read = reserve(&limits, "bank__see", 0);
    let write = StoreCommand::Begin(Box::new(Intent {
        limits: limits.clone(),
        ..intent("key", 1)
    }));
    let later = START_MS + 2 * IDLE_MS;
    for command in [&read, &write] {
        let refused = decide(command, &view, later);
        assert!(
            matches!(&refused, Err(CommandRefusal::Stopped(stopped)) if stopped.who == "ann"),
            "{refused:?}"
        );
    }
    let counted = reserve(&limits.only_counted(), "bank__see", 0);
    assert!(decide(&counted, &view, later).is_ok());
    run(&mut view, &steer(TaskAct::Reset), later).unwrap();
    assert!(decide(&write, &view, later).is_ok());
}
