//! Held calls: for how long, and that what was allowed runs once (guarantees §7). Who may decide is
//! in `decisions`, whatever may happen to them in `random`.

use super::super::command::{Decide, HoldBounds, HoldRequest};
use super::super::hold::{HoldPhase as Held, UsedClaim, hold_status};
use super::*;
use crate::model::refusal::people::EXPIRED_HOLD_GRACE_MS;
use crate::store::state::event::Carried;

mod decisions;
mod edits;
mod random;

/// For how long scenarios let operators decide, and the call run after that.
const APPROVE_MS: u64 = 600_000;
const EXECUTE_MS: u64 = 60_000;

fn hold(
    view: &mut StoreView,
    ask: &HoldRequest,
    now: Millis,
) -> Result<StoreEvent, CommandRefusal> {
    run(view, &StoreCommand::Hold(Box::new(ask.clone())), now)
}

fn say(view: &mut StoreView, said: Decide, now: Millis) -> Result<StoreEvent, CommandRefusal> {
    run(view, &StoreCommand::Decide(said), now)
}

fn undecided(why: Undecided) -> Result<StoreEvent, CommandRefusal> {
    Err(CommandRefusal::Undecided(why))
}

/// A call that was held at [`START`], and decided then by each of these.
fn held(ask: &HoldRequest, said: &[(&str, bool)]) -> StoreView {
    let mut view = StoreView::default();
    hold(&mut view, ask, START_MS).unwrap();
    for (who, allow) in said {
        say(&mut view, word(ask, who, *allow), START_MS).unwrap();
    }
    view
}

fn stands(view: &StoreView, now: Millis) -> HoldStatus {
    hold_status(view.hold.as_ref(), now)
}

fn denied() -> HoldStatus {
    HoldStatus::Denied {
        who: "ann".to_owned(),
        why: "because".to_owned(),
    }
}

/// How a call stands that was allowed, and did not run in time.
fn lapsed() -> HoldStatus {
    HoldStatus::Lapsed {
        by: vec!["ann".to_owned()],
        until: START_MS + EXECUTE_MS,
    }
}

/// 001-58: every deadline: a moment before it, and at it (`now == deadline` is expired).
#[test]
fn a_hold_stands_until_its_deadline_and_not_a_moment_longer() {
    let ask = ask("key");
    let used = |mut view: StoreView| {
        begin(
            &mut view,
            &Intent {
                hold: Some(ask.key),
                ..intent("call", 1)
            },
            START_MS,
        )
        .unwrap();
        view
    };
    let (pending, allowed) = (|| held(&ask, &[]), || held(&ask, &[("ann", true)]));
    let cases = vec![
        (
            pending(),
            APPROVE_MS,
            HoldStatus::Pending,
            HoldStatus::TimedOut,
        ),
        (
            pending(),
            APPROVE_MS + EXPIRED_HOLD_GRACE_MS,
            HoldStatus::TimedOut,
            HoldStatus::Absent,
        ),
        (allowed(), EXECUTE_MS, HoldStatus::Allowed, lapsed()),
        (
            allowed(),
            EXECUTE_MS + EXPIRED_HOLD_GRACE_MS,
            lapsed(),
            HoldStatus::Absent,
        ),
        (
            held(&ask, &[("ann", false)]),
            APPROVE_MS,
            denied(),
            HoldStatus::Absent,
        ),
        (used(allowed()), 1, HoldStatus::Absent, HoldStatus::Absent),
    ];
    for (view, at, before, after) in cases {
        assert_eq!(stands(&view, START_MS + at - 1), before, "{at}");
        assert_eq!(stands(&view, START_MS + at), after, "{at}");
        assert_eq!(stands(&view, Millis::MAX), HoldStatus::Absent, "{at}");
        assert_eq!(
            stands(&view, 0),
            stands(&view, START_MS),
            "no clock that was set back revives or ends it"
        );
    }
    assert_eq!(hold_status(None, START_MS), HoldStatus::Absent);
}

/// 001-56, 001-A1: a call that asks is held once: what stands is told, what is over is asked anew,
/// under its own id.
#[test]
fn what_is_held_is_not_asked_again() {
    let first = ask("key");
    let again = HoldRequest {
        id: ActionId::generate(),
        ..first.clone()
    };
    for (said, until) in [
        (vec![], APPROVE_MS + EXPIRED_HOLD_GRACE_MS),
        (vec![("ann", true)], EXECUTE_MS + EXPIRED_HOLD_GRACE_MS),
        (vec![("ann", false)], APPROVE_MS),
    ] {
        let mut view = held(&first, &said);
        let last = START_MS + until - 1;
        assert_eq!(
            hold(&mut view, &again, last),
            Err(CommandRefusal::Held(stands(&view, last)))
        );
        hold(&mut view, &again, last + 1).unwrap();
        let anew = view.hold.clone().unwrap();
        assert_eq!(
            (anew.id, anew.asked, anew.decisions.len(), &anew.phase),
            (again.id, last + 1, 0, &Held::Pending)
        );
        assert_eq!(
            say(&mut view, word(&first, "ann", true), last + 1),
            undecided(Undecided::Gone),
            "the old id"
        );
    }
}

/// threat-model §8: no more are held than operators can look at.
#[test]
fn only_so_many_wait() {
    for (all, agent, caller, fits) in [
        (4, 2, 1, true),
        (5, 1, 1, false),
        (4, 3, 1, false),
        (4, 2, 2, false),
        (5, 3, 2, false),
        (0, 0, 0, true),
    ] {
        let mut view = StoreView {
            waiting: WaitingHolds { all, agent, caller },
            ..StoreView::default()
        };
        let asked = hold(
            &mut view,
            &HoldRequest {
                bounds: HoldBounds {
                    all: 5,
                    agent: 3,
                    caller: 2,
                },
                ..ask("key")
            },
            START_MS,
        );
        assert_eq!(
            asked.is_ok(),
            fits,
            "{all} of 5, {agent} of 3, {caller} of 2"
        );
        let is_full = matches!(asked, Err(CommandRefusal::TooManyHolds(_)));
        assert!(fits || is_full);
    }
}

/// A call under `key` that uses what is held.
fn using_hold(key: &str, fence: u64) -> Intent {
    Intent {
        hold: Some(named("key")),
        ..intent(key, fence)
    }
}

/// guarantees §2, step 12: a call that nobody has allowed is refused behind the budget and before
/// the fence.
#[test]
fn what_was_not_allowed_is_refused_in_its_turn() {
    let ask = ask("key");
    for (view, stands) in [
        (StoreView::default(), HoldStatus::Absent),
        (held(&ask, &[]), HoldStatus::Pending),
        (held(&ask, &[("ann", false)]), denied()),
    ] {
        let mut view = StoreView {
            session: Some(SessionFence {
                token: 9,
                at: START_MS,
            }),
            ..view
        };
        let was = view.clone();
        let refused = begin(&mut view, &using_hold("call", 5), START_MS);
        assert_eq!(
            (refused, &view),
            (Err(CommandRefusal::Held(stands)), &was),
            "before the fence"
        );
        let broke = Intent {
            limits: BudgetLimits {
                steps: Some(0),
                ..BudgetLimits::default()
            },
            ..using_hold("call", 5)
        };
        assert!(
            matches!(
                begin(&mut view, &broke, START_MS),
                Err(CommandRefusal::Budget(_))
            ),
            "the budget comes first"
        );
    }
}

/// guarantees §1: once, in time.
#[test]
fn what_was_allowed_is_used_up_by_one_intent() {
    let ask = ask("key");
    let mut view = held(&ask, &[("ann", true)]);
    assert_eq!(
        begin(
            &mut view.clone(),
            &using_hold("late", 1),
            START_MS + EXECUTE_MS
        ),
        Err(CommandRefusal::Held(stands(&view, START_MS + EXECUTE_MS)))
    );
    let first = using_hold("call", 1);
    begin(&mut view, &first, START_MS + 1).unwrap();
    assert_eq!(
        view.hold.as_ref().unwrap().phase,
        Held::Used {
            action: first.action,
            at: START_MS + 1,
            claim: UsedClaim::Key(first.key),
        }
    );
    // Records of before don't say where the call's outcome stands.
    let old = json!({ "used": { "action": first.action, "at": START_MS + 1 } });
    let old: Held = serde_json::from_value(old).unwrap();
    assert!(
        matches!(
            old,
            Held::Used {
                claim: UsedClaim::Unsaid,
                ..
            }
        ),
        "{old:?}"
    );
    view.claim = None;
    assert_eq!(
        begin(&mut view, &using_hold("other", 2), START_MS + 1),
        Err(CommandRefusal::Held(HoldStatus::Absent))
    );
    // A call that needs nobody uses nothing.
    let mut view = held(&ask, &[("ann", true)]);
    begin(&mut view, &intent("free", 3), START_MS).unwrap();
    assert_eq!(stands(&view, START_MS), HoldStatus::Allowed);
}

/// Journals from before there were held calls are read as they were meant.
#[test]
fn an_older_intent_is_read() {
    let mut view = StoreView::default();
    let event = begin(&mut view, &intent("key", 1), START_MS).unwrap();
    let text = String::from_utf8(event.encode().unwrap()).unwrap();
    assert!(
        !text.contains("\"hold\""),
        "an intent of a call that was not held is written as it always was: {text}"
    );
    assert_eq!(StoreEvent::decode(&Bytes::from(text)).unwrap(), event);
}

/// guarantees §8: the largest that can be held is a value that the index syncs, and an event of the
/// journal.
#[test]
fn the_largest_hold_has_room() {
    let long = |bytes: usize| "\"".repeat(bytes / 2);
    let mut largest = HoldRequest {
        needed: 5,
        ..ask("key")
    };
    largest.question.arguments =
        json!({ "text": long(super::super::hold::MAX_HELD_ARGUMENTS_BYTES - 16) });
    assert_eq!(
        serde_json::to_vec(&largest.question.arguments)
            .unwrap()
            .len(),
        super::super::hold::MAX_HELD_ARGUMENTS_BYTES - 5
    );
    let request = "x".repeat(super::super::hold::MAX_KEPT_REQUEST_BYTES - 2);
    largest.question.request = Some(json!(request));
    largest.question.purpose = "p".repeat(2000);
    largest.question.not_for = Some("n".repeat(2000));
    let mut view = held(&largest, &[]);
    for who in ["ann", "bob", "cyd", "dan", "eve"] {
        let said = Decide {
            why: "\"".repeat(super::super::hold::MAX_DECISION_REASON_BYTES),
            ..word(&largest, who, true)
        };
        say(&mut view, said, START_MS).unwrap();
    }
    assert_eq!(stands(&view, START_MS), HoldStatus::Allowed);
    let carried = StoreEvent::Carried(Carried::Hold(largest.key, Box::new(view.hold.unwrap())))
        .encode()
        .unwrap();
    assert!(carried.len() <= 32 << 10, "{} bytes", carried.len());
    let head = carried.split(|byte| *byte == b'\n').next().unwrap();
    assert!(head.len() < 16 << 10, "who reads events reads no arguments");
}
