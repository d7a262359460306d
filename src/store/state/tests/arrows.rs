//! SEMANTICS §3: from which phase to which, and on whose word. 004-13, 004-37, 004-44.

use super::*;

const ANSWERED: &[&str] = &["awaiting_input", "completed", "failed", "not_sent"];
const EXCHANGED: &[&str] = &[
    "awaiting_input",
    "completed",
    "failed",
    "not_sent",
    "unknown",
];
const ENDED: &[&str] = &["completed", "failed", "not_sent", "abandoned"];

/// All arrows there are: whatever is not here is refused.
const ARROWS: &[(&str, &str, &[&str])] = &[
    ("dispatching", "exchange", EXCHANGED),
    ("dispatching", "late", EXCHANGED),
    ("dispatching", "restart", &["not_sent", "unknown"]),
    ("unknown", "exchange", ANSWERED),
    ("unknown", "late", ANSWERED),
    ("unknown", "upstream_key", ANSWERED),
    ("unknown", "probe", &["completed", "not_sent"]),
    ("unknown", "operator", ENDED),
    ("awaiting_input", "operator", ENDED),
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

#[test]
fn every_arrow_has_its_evidence_and_no_other_is_taken() {
    let call = intent("key", 1);
    let mut taken = 0;
    for from in phases() {
        for (word, evidence) in words() {
            for to in phases() {
                let mut view = after(&call, from.clone());
                let before = view.clone();
                let phase = to.unwrap_or(Phase::Dispatching);
                let (start, end) = (before.claim.as_ref().unwrap().phase.word(), phase.word());
                let expected = ARROWS
                    .iter()
                    .any(|arrow| arrow.0 == start && arrow.1 == word && arrow.2.contains(&end));
                let settle = Settle {
                    evidence: evidence.clone(),
                    ..settle(&call, phase.clone())
                };
                let decided = run(&mut view, &Command::Settle(settle), START + 5);
                assert_eq!(decided.is_ok(), expected, "{start} to {end} by {word}");
                if expected {
                    let claim = view.claim.unwrap();
                    assert_eq!(
                        (claim.phase, claim.changed),
                        (phase, START + 5),
                        "{start} to {end} by {word}"
                    );
                    taken += 1;
                } else {
                    assert_eq!(decided.unwrap_err(), Refused::Settled);
                    assert_eq!(view, before, "a refusal changes nothing");
                }
            }
        }
    }
    assert_eq!(
        taken,
        ARROWS.iter().map(|arrow| arrow.2.len()).sum::<usize>(),
        "an arrow of the table was not seen"
    );
}

/// SEMANTICS §4, column `budget`: what becomes of the 7 that were reserved, and of the call that
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
    let failed = |again| Phase::Failed {
        answer: None,
        again,
    };
    let asked = Phase::AwaitingInput {
        round: 1,
        asked: result("?"),
    };
    for (phase, cost, expected) in [
        (Phase::Completed(result("paid")), None, (7, 1)),
        (Phase::Completed(result("paid")), Some(3), (3, 1)),
        (Phase::Completed(result("paid")), Some(9), (9, 1)),
        (Phase::NotSent, Some(3), (0, 0)),
        (failed(false), None, (0, 0)),
        (failed(true), None, (0, 0)),
        (unknown(), Some(3), (7, 1)),
        (asked, None, (7, 1)),
    ] {
        let mut view = after(&call, None);
        let counted = |view: &View| {
            let task = view.task.as_ref().unwrap();
            assert_eq!(task.calls, task.tools["bank__pay"].calls);
            assert_eq!(task.steps, 1, "a step was taken, whatever became of it");
            (task.cost, task.calls)
        };
        assert_eq!(counted(&view), (7, 1));
        let word = phase.word();
        run(
            &mut view,
            &Command::Settle(Settle {
                cost,
                ..settle(&call, phase)
            }),
            START,
        )
        .unwrap();
        assert_eq!(counted(&view), expected, "{word} with {cost:?}");
    }
    // Abandoned: it may have run, so it is paid.
    let mut view = after(&call, Some(Phase::Abandoned));
    assert_eq!(view.task.as_ref().unwrap().cost, 7);
    assert_eq!(
        run(
            &mut view,
            &Command::Settle(settle(&call, Phase::NotSent)),
            START
        ),
        Err(Refused::Settled),
        "an end is an end"
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
        ..settle(&call, Phase::Completed(result("isError")))
    };
    run(&mut view, &Command::Settle(late), START).unwrap();
    assert_eq!(view.task.unwrap().failures, 1);
}

#[test]
fn only_the_call_that_holds_a_claim_settles_it() {
    let call = intent("key", 1);
    let mut view = after(&call, None);
    let other = Settle {
        action: ActionId::generate(),
        ..settle(&call, Phase::NotSent)
    };
    assert_eq!(
        run(&mut view, &Command::Settle(other.clone()), START),
        Err(Refused::Settled)
    );
    assert_eq!(
        decide(&Command::Settle(other), &View::default(), START),
        Err(Refused::Settled)
    );
    // 004-17: whichever agent holds the fence by now, what an older call says of itself is the
    // truth.
    let mut newer = View {
        claim: None,
        ..view.clone()
    };
    begin(&mut newer, &intent("other", 2), START).unwrap();
    let mut late = View {
        claim: view.claim,
        ..newer
    };
    run(
        &mut late,
        &Command::Settle(settle(&call, Phase::Completed(result("paid")))),
        START,
    )
    .unwrap();
    assert_eq!(late.session.unwrap().token, 2);
}
