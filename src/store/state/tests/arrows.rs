//! guarantees §3: from which phase to which, and on whose word. 004-13, 004-37, 004-44.

use super::*;

const AFTER_ANSWER: &[&str] = &["awaiting_input", "completed", "failed", "not_sent"];
const AFTER_EXCHANGE: &[&str] = &[
    "awaiting_input",
    "completed",
    "failed",
    "not_sent",
    "unknown",
];
const END_STATES: &[&str] = &["completed", "failed", "not_sent", "abandoned"];

/// All arrows there are: whatever is not here is refused.
const ALLOWED_TRANSITIONS: &[(&str, &str, &[&str])] = &[
    ("dispatching", "exchange", AFTER_EXCHANGE),
    ("dispatching", "late", AFTER_EXCHANGE),
    ("dispatching", "restart", &["not_sent", "unknown"]),
    ("unknown", "exchange", AFTER_ANSWER),
    ("unknown", "late", AFTER_ANSWER),
    ("unknown", "upstream_key", AFTER_ANSWER),
    ("unknown", "probe", &["completed", "not_sent"]),
    ("unknown", "operator", END_STATES),
    ("abandoned", "operator", &["completed", "not_sent"]),
    ("awaiting_input", "operator", END_STATES),
    ("awaiting_input", "late", &["completed", "unknown"]),
];

fn words() -> Vec<(&'static str, Evidence)> {
    vec![
        ("exchange", Evidence::Exchange),
        ("late", Evidence::Late),
        ("upstream_key", Evidence::UpstreamKey),
        ("restart", Evidence::Restart),
        ("probe", Evidence::Probe),
        ("operator", operator()),
    ]
}

/// 004-13: from one phase to the next only on its evidence.
#[test]
fn every_arrow_has_its_evidence_and_no_other_is_taken() {
    let call = intent("key", 1);
    let mut taken = 0;
    for from in phases() {
        for (word, evidence) in words() {
            for to in phases() {
                let mut view = after(&call, from.clone());
                let before = view.clone();
                let phase = to.unwrap_or(ClaimPhase::Dispatching);
                let (start, end) = (before.claim.as_ref().unwrap().phase.word(), phase.word());
                let expected = ALLOWED_TRANSITIONS
                    .iter()
                    .any(|arrow| arrow.0 == start && arrow.1 == word && arrow.2.contains(&end));
                let settle = Settle {
                    evidence: evidence.clone(),
                    ..settle(&call, phase.clone())
                };
                let decided = run(&mut view, &StoreCommand::Settle(settle), START_MS + 5);
                assert_eq!(decided.is_ok(), expected, "{start} to {end} by {word}");
                if expected {
                    let claim = view.claim.unwrap();
                    assert_eq!(
                        (claim.phase, claim.changed),
                        (phase, START_MS + 5),
                        "{start} to {end} by {word}"
                    );
                    taken += 1;
                } else {
                    assert_eq!(decided.unwrap_err(), CommandRefusal::Settled);
                    assert_eq!(view, before, "a refusal changes nothing");
                }
            }
        }
    }
    assert_eq!(
        taken,
        ALLOWED_TRANSITIONS
            .iter()
            .map(|arrow| arrow.2.len())
            .sum::<usize>(),
        "an arrow of the table was not seen"
    );
}

/// guarantees §4, column `budget`: what becomes of the 7 that were reserved, and of the call that
/// was counted.
#[test]
fn what_becomes_of_a_reservation_depends_on_what_became_of_the_call() {
    let call = Intent {
        price: Price {
            tool: ToolName::new("bank__pay"),
            cost: 7,
        },
        ..intent("key", 1)
    };
    let failed = |again| ClaimPhase::Failed {
        answer: None,
        again,
    };
    let asked = ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("?"),
        is_task: false,
    };
    for (phase, cost, expected) in [
        (ClaimPhase::Completed(result("paid")), None, (7, 1)),
        (ClaimPhase::Completed(result("paid")), Some(3), (3, 1)),
        (ClaimPhase::Completed(result("paid")), Some(9), (9, 1)),
        (ClaimPhase::NotSent, Some(3), (0, 0)),
        (failed(false), None, (0, 0)),
        (failed(true), None, (0, 0)),
        (unknown(), Some(3), (7, 1)),
        (asked, None, (7, 1)),
    ] {
        let mut view = after(&call, None);
        let counted = |view: &StoreView| {
            let task = view.task.as_ref().unwrap();
            assert_eq!(task.calls, task.tools["bank__pay"].calls);
            assert_eq!(task.steps, task.calls, "what was not sent takes nothing");
            (task.cost, task.calls)
        };
        assert_eq!(counted(&view), (7, 1));
        let word = phase.word();
        run(
            &mut view,
            &StoreCommand::Settle(Settle {
                cost,
                ..settle(&call, phase)
            }),
            START_MS,
        )
        .unwrap();
        assert_eq!(counted(&view), expected, "{word} with {cost:?}");
    }
    // Abandoned: it may have run, so it is paid.
    let mut view = after(&call, Some(ClaimPhase::Abandoned));
    assert_eq!(view.task.as_ref().unwrap().cost, 7);
    assert_eq!(
        run(
            &mut view,
            &StoreCommand::Settle(settle(&call, ClaimPhase::NotSent)),
            START_MS
        ),
        Err(CommandRefusal::Settled),
        "its exchange says nothing any more"
    );
}

#[test]
fn an_unknown_outcome_counts_as_a_failure_once() {
    let call = intent("key", 1);
    let mut view = after(&call, Some(unknown()));
    assert_eq!(view.task.as_ref().unwrap().failures, 1);
    let late = Settle {
        evidence: Evidence::Late,
        failed: true,
        ..settle(&call, ClaimPhase::Completed(result("isError")))
    };
    run(&mut view, &StoreCommand::Settle(late), START_MS).unwrap();
    assert_eq!(view.task.unwrap().failures, 1);
}

#[test]
fn only_the_call_that_holds_a_claim_settles_it() {
    let call = intent("key", 1);
    let mut view = after(&call, None);
    let other = Settle {
        action: ActionId::generate(),
        ..settle(&call, ClaimPhase::NotSent)
    };
    assert_eq!(
        run(&mut view, &StoreCommand::Settle(other.clone()), START_MS),
        Err(CommandRefusal::Settled)
    );
    assert_eq!(
        decide(
            &StoreCommand::Settle(other),
            &StoreView::default(),
            START_MS
        ),
        Err(CommandRefusal::Settled)
    );
    // 004-17: whichever agent holds the fence by now, what an older call says of itself is the
    // truth.
    let mut newer = StoreView {
        claim: None,
        ..view.clone()
    };
    begin(&mut newer, &intent("other", 2), START_MS).unwrap();
    let mut late = StoreView {
        claim: view.claim,
        ..newer
    };
    run(
        &mut late,
        &StoreCommand::Settle(settle(&call, ClaimPhase::Completed(result("paid")))),
        START_MS,
    )
    .unwrap();
    assert_eq!(late.session.unwrap().token, 2);
}

/// 004-13: an operator who learns it after all may say so, and nothing is paid for what was not done.
#[test]
fn what_was_given_up_may_be_known_after_all() {
    let mut call = intent("key", 1);
    call.price.cost = 7;
    let mut view = after(&call, Some(ClaimPhase::Abandoned));
    let paid = view.task.as_ref().unwrap().cost;
    let mut learnt = settle(&call, ClaimPhase::NotSent);
    learnt.evidence = operator();
    run(&mut view, &StoreCommand::Settle(learnt), START_MS).unwrap();
    let left = view.task.as_ref().unwrap().cost;
    assert!(paid > 0 && left == 0, "{paid} {left}");
}
