//! Where a task is, and what it has done: 003-73 … 003-77.

use super::super::budget::EVIDENCE;
use super::*;
use crate::model::task::State::{self, Collect, Execute, Plan, Summarize};

fn enter(view: &mut View, state: State) -> Result<Event, Refused> {
    run(
        view,
        &Command::Enter {
            task: named("task"),
            state,
        },
        START,
    )
}

/// A task that is there; none: it has not begun.
fn at(state: Option<State>) -> View {
    let mut view = View::default();
    if state.is_some() {
        apply(
            &Event::Reserved(Reserved {
                task: named("task"),
                tool: ToolName::new("t"),
                cost: 0,
                rate: 0,
                at: START,
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
        (Some(Execute), State::ALL.to_vec()),
        (Some(Summarize), vec![Collect, Plan, Summarize]),
    ] {
        for state in State::ALL {
            let mut view = at(before);
            let entered = enter(&mut view, state);
            assert_eq!(
                entered.is_ok(),
                may.contains(&state),
                "{before:?} to {state:?}"
            );
            if let Err(refused) = entered {
                assert_eq!(refused, Refused::State { before });
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
            assert_eq!(State::read(state.word()), Some(state));
        }
    }
    assert_eq!(State::read("Plan"), None);
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
        begin(&mut view, &Intent { entry, ..call }, START).unwrap();
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
            Some(Phase::Completed(_) | Phase::Unknown { .. } | Phase::Abandoned)
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
        ..settle(&call, Phase::NotSent)
    };
    run(&mut view, &Command::Settle(not_sent), START).unwrap();
    assert_eq!(view.task.as_ref().unwrap().evidence, []);
    let mut done = Vec::new();
    for number in 0..EVIDENCE + 5 {
        let call = intent(&number.to_string(), 1);
        (view.claim, view.session) = (None, None);
        begin(&mut view, &call, START).unwrap();
        run(
            &mut view,
            &Command::Settle(settle(&call, Phase::Completed(result("paid")))),
            START,
        )
        .unwrap();
        done.push(call.action);
    }
    assert_eq!(view.task.unwrap().evidence, done[5..]);
}
