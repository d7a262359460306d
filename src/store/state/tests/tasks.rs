//! Where a task is, and what it has done: 003-73 … 003-77.

use super::super::budget::MAX_EVIDENCE_CALLS;
use super::*;
use crate::model::task::TaskState::{self, Collect, Execute, Plan, Summarize};

fn enter(view: &mut StoreView, state: TaskState) -> Result<StoreEvent, CommandRefusal> {
    run(
        view,
        &StoreCommand::Enter(EnterState {
            task: named("task"),
            state,
            idle: None,
            origin: None,
        }),
        START_MS,
    )
}

/// A task that is there; none: it has not begun.
fn at(state: Option<TaskState>) -> StoreView {
    let mut view = StoreView::default();
    if state.is_some() {
        apply(
            &StoreEvent::Reserved(BudgetReserved {
                account: None,
                task: named("task"),
                tool: ToolName::new("t"),
                cost: 0,
                rate: 0,
                window: None,
                begins: None,
                hold: None,
                at: START_MS,
            }),
            &mut view,
        );
        view.task.as_mut().unwrap().state = state;
    }
    view
}

/// From each state, and from none, to those that may follow it and to no other.
#[test]
fn a_task_goes_where_it_may_only() {
    for (before, may) in [
        (None, vec![Collect, Plan]),
        (Some(Collect), vec![Collect, Plan]),
        (Some(Plan), vec![Collect, Plan, Execute]),
        (Some(Execute), TaskState::ALL.to_vec()),
        (Some(Summarize), vec![Collect, Plan, Summarize]),
    ] {
        for state in TaskState::ALL {
            let mut view = at(before);
            let entered = enter(&mut view, state);
            assert_eq!(
                entered.is_ok(),
                may.contains(&state),
                "{before:?} to {state:?}"
            );
            if let Err(refused) = entered {
                assert_eq!(refused, CommandRefusal::State { before });
            }
            let now = view.task.and_then(|task| task.state);
            assert_eq!(
                now,
                if may.contains(&state) {
                    Some(state)
                } else {
                    before
                },
                "{before:?} to {state:?}"
            );
            assert_eq!(TaskState::read(state.word()), Some(state));
        }
    }
    assert_eq!(TaskState::read("Plan"), None);
}

/// What has side effects is executed wherever the task is; what only reads changes nothing.
#[test]
fn what_is_done_is_executed() {
    for (word, after) in [("execute", Execute), ("collect", Summarize)] {
        let mut view = at(Some(Summarize));
        let call = intent("a", 1);
        let entry = Entry {
            state: word.to_owned(),
            ..call.entry.clone()
        };
        begin(&mut view, &Intent { entry, ..call }, START_MS).unwrap();
        assert_eq!(view.task.unwrap().state, Some(after), "{word}");
    }
}

/// The evidence of a task is what ran or may have, each call once, and not without bound.
#[test]
fn a_task_knows_what_it_has_done() {
    for phase in phases() {
        let call = intent("a", 1);
        let view = after(&call, phase.clone());
        let counts = matches!(
            phase,
            Some(ClaimPhase::Completed(_) | ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned)
        );
        assert_eq!(
            view.task.unwrap().evidence,
            if counts { vec![call.action] } else { vec![] },
            "{phase:?}"
        );
    }
    let call = intent("a", 1);
    let mut view = after(&call, Some(unknown()));
    let not_sent = Settle {
        evidence: operator(),
        ..settle(&call, ClaimPhase::NotSent)
    };
    run(&mut view, &StoreCommand::Settle(not_sent), START_MS).unwrap();
    assert_eq!(view.task.as_ref().unwrap().evidence, []);
    let mut done = Vec::new();
    for number in 0..MAX_EVIDENCE_CALLS + 5 {
        let call = intent(&number.to_string(), 1);
        (view.claim, view.session) = (None, None);
        begin(&mut view, &call, START_MS).unwrap();
        run(
            &mut view,
            &StoreCommand::Settle(settle(&call, ClaimPhase::Completed(result("paid")))),
            START_MS,
        )
        .unwrap();
        done.push(call.action);
    }
    assert_eq!(view.task.unwrap().evidence, done[5..]);
}
