//! guarantees §4 as far as the state machine decides it: how a key stands for the call that names
//! it. 004-18, 004-24, 004-30, 004-35, 004-37, 004-43, 004-45.

use super::super::claim::claim_status;
use super::*;

/// How the key stands, in a word with the numbers that matter.
fn word(standing: ClaimStatus) -> String {
    match standing {
        ClaimStatus::Open { attempt, round } => format!("open {attempt}.{round}"),
        ClaimStatus::Ended(stored) => format!("ended {}", String::from_utf8_lossy(&stored.body)),
        ClaimStatus::Asked(stored) => format!("asked {}", String::from_utf8_lossy(&stored.body)),
        ClaimStatus::InFlight(_) => "in flight".to_owned(),
        ClaimStatus::Unknown(_) => "unknown".to_owned(),
        ClaimStatus::Conflict => "conflict".to_owned(),
        ClaimStatus::Expired => "expired".to_owned(),
    }
}

fn stands(view: &StoreView, fingerprint: &str, now: Millis) -> String {
    word(claim_status(
        view.claim.as_ref(),
        &named(fingerprint),
        None,
        now,
    ))
}

/// 004-18, 004-24, 004-30, 004-35, 004-37: an answer is told again for its time to live, a definite
/// failure frees the key, and an unknown outcome keeps it.
#[test]
fn a_key_stands_as_its_call_ended_and_as_long_ago() {
    let failed = |answer, again| Some(ClaimPhase::Failed { answer, again });
    let asked = Some(ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("which?"),
    });
    let done = Some(ClaimPhase::Completed(result("paid")));
    // Phase; at once; at once with other arguments; the last moment of its life; a tombstone;
    // forgotten.
    for (phase, expected) in [
        (
            None,
            [
                "in flight",
                "conflict",
                "in flight",
                "in flight",
                "in flight",
            ],
        ),
        (
            asked,
            [
                "asked which?",
                "conflict",
                "asked which?",
                "asked which?",
                "asked which?",
            ],
        ),
        (
            done,
            [
                "ended paid",
                "conflict",
                "ended paid",
                "expired",
                "open 1.0",
            ],
        ),
        (
            failed(Some(result("no")), false),
            ["ended no", "conflict", "ended no", "expired", "open 1.0"],
        ),
        (failed(Some(result("busy")), true), ["open 2.0"; 5]),
        (failed(None, true), ["open 2.0"; 5]),
        (failed(None, false), ["open 2.0"; 5]),
        (Some(ClaimPhase::NotSent), ["open 2.0"; 5]),
        (
            Some(unknown()),
            ["unknown", "conflict", "unknown", "unknown", "unknown"],
        ),
        (
            Some(ClaimPhase::Abandoned),
            ["unknown", "conflict", "unknown", "unknown", "unknown"],
        ),
    ] {
        let explicit = Intent {
            keep: 10 * HOUR_MS,
            ..intent("key", 1)
        };
        let view = after(&explicit, phase.clone());
        let seen = [
            stands(&view, "fingerprint", START_MS),
            stands(&view, "other", START_MS),
            stands(&view, "fingerprint", START_MS + HOUR_MS - 1),
            stands(&view, "fingerprint", START_MS + HOUR_MS),
            stands(&view, "fingerprint", START_MS + 11 * HOUR_MS),
        ];
        assert_eq!(seen, expected, "{phase:?}");
        // A derived key leaves no tombstone.
        let derived = after(&intent("key", 1), phase);
        assert_eq!(
            stands(&derived, "fingerprint", START_MS + HOUR_MS),
            expected[4]
        );
        assert_eq!(stands(&derived, "fingerprint", Millis::MAX), expected[4]);
    }
    assert_eq!(
        stands(&StoreView::default(), "fingerprint", START_MS),
        "open 1.0"
    );
}

#[test]
fn a_tombstone_says_nothing_of_the_arguments() {
    let view = after(
        &Intent {
            keep: HOUR_MS,
            ..intent("key", 1)
        },
        Some(ClaimPhase::Completed(result("paid"))),
    );
    assert_eq!(stands(&view, "other", START_MS + HOUR_MS), "expired");
}

/// 004-45: a call that takes longer than the time to live is still one call, and is replayed for
/// all of it afterwards.
#[test]
fn time_to_live_counts_from_the_end() {
    let call = intent("key", 1);
    let mut view = after(&call, None);
    assert_eq!(
        stands(&view, "fingerprint", START_MS + 9 * HOUR_MS),
        "in flight"
    );
    run(
        &mut view,
        &StoreCommand::Settle(settle(&call, unknown())),
        START_MS + 10 * HOUR_MS,
    )
    .unwrap();
    assert_eq!(
        stands(&view, "fingerprint", START_MS + 90_000 * HOUR_MS),
        "unknown"
    );
    let late = Settle {
        evidence: Evidence::Late,
        ..settle(&call, ClaimPhase::Completed(result("paid")))
    };
    run(
        &mut view,
        &StoreCommand::Settle(late),
        START_MS + 90_000 * HOUR_MS,
    )
    .unwrap();
    assert_eq!(
        stands(&view, "fingerprint", START_MS + 90_001 * HOUR_MS - 1),
        "ended paid"
    );
    assert_eq!(
        stands(&view, "fingerprint", START_MS + 90_001 * HOUR_MS),
        "open 1.0"
    );
}

#[test]
fn an_attempt_follows_a_proof_that_nothing_ran() {
    let mut view = StoreView::default();
    for attempt in 1..=4 {
        let call = intent("key", u64::from(attempt));
        let StoreEvent::Intended(intended) = begin(&mut view, &call, START_MS).unwrap() else {
            panic!("not an intent")
        };
        assert_eq!(intended.attempt, attempt);
        assert!(matches!(
            begin(&mut view, &intent("key", 99), START_MS),
            Err(CommandRefusal::Taken(ClaimStatus::InFlight(_)))
        ));
        run(
            &mut view,
            &StoreCommand::Settle(settle(&call, ClaimPhase::NotSent)),
            START_MS,
        )
        .unwrap();
    }
    assert_eq!(view.task.unwrap().calls, 0);
}

/// guarantees §4, `input_required`: each round is sent once, base arguments match, and one
/// reservation pays for all.
#[test]
fn each_round_of_input_is_sent_once() {
    let first = Intent {
        price: Price {
            tool: ToolName::new("bank__pay"),
            cost: 7,
        },
        ..intent("key", 1)
    };
    let asks = |round, text| ClaimPhase::AwaitingInput {
        round,
        asked: result(text),
    };
    let mut view = after(&first, Some(asks(1, "which account?")));
    let round = |brought: &str, fence| Intent {
        round: Some(named(brought)),
        fence,
        ..intent("key", fence)
    };
    let stands = |view: &StoreView, brought: Option<&str>| {
        let brought = brought.map(named);
        word(claim_status(
            view.claim.as_ref(),
            &named("fingerprint"),
            brought.as_ref(),
            START_MS,
        ))
    };
    assert_eq!(stands(&view, None), "asked which account?");
    assert_eq!(stands(&view, Some("savings")), "open 1.1");
    let changed = Intent {
        fingerprint: named("other"),
        ..round("savings", 2)
    };
    assert_eq!(
        begin(&mut view, &changed, START_MS),
        Err(CommandRefusal::Taken(ClaimStatus::Conflict))
    );

    // The round comes from another task; the first one goes on paying.
    let elsewhere = named("elsewhere");
    let second = Intent {
        task: elsewhere,
        limits: BudgetLimits {
            steps: Some(0),
            ..BudgetLimits::default()
        },
        ..round("savings", 2)
    };
    let paying = view.task.take();
    begin(&mut view, &second, START_MS).unwrap();
    assert_eq!(view.task, None, "nothing is paid twice");
    view.task = paying;
    assert_eq!(
        (
            view.claim.as_ref().unwrap().task,
            view.claim.as_ref().unwrap().reserved
        ),
        (named("task"), 7)
    );
    assert_eq!(stands(&view, Some("savings")), "in flight");
    assert_eq!(
        run(
            &mut view,
            &StoreCommand::Settle(settle(&first, ClaimPhase::NotSent)),
            START_MS
        ),
        Err(CommandRefusal::Settled)
    );
    run(
        &mut view,
        &StoreCommand::Settle(settle(&second, asks(2, "sure?"))),
        START_MS,
    )
    .unwrap();

    // The same answers again get the question they got; new ones are a new round.
    assert_eq!(stands(&view, Some("savings")), "asked sure?");
    assert_eq!(stands(&view, Some("yes")), "open 1.2");
    // A retry of an earlier round that comes late gets the question, too: its answers were taken.
    let third = round("yes", 3);
    begin(&mut view, &third, START_MS).unwrap();
    run(
        &mut view,
        &StoreCommand::Settle(settle(&third, asks(3, "really?"))),
        START_MS,
    )
    .unwrap();
    for brought in [None, Some("savings"), Some("yes")] {
        assert_eq!(stands(&view, brought), "asked really?", "{brought:?}");
    }
    // A round that did not run says nothing of those before it.
    let fourth = round("no", 4);
    begin(&mut view, &fourth, START_MS).unwrap();
    run(
        &mut view,
        &StoreCommand::Settle(settle(&fourth, ClaimPhase::NotSent)),
        START_MS,
    )
    .unwrap();
    for brought in [None, Some("savings"), Some("yes")] {
        assert_eq!(stands(&view, brought), "unknown", "{brought:?}");
    }
    assert_eq!(stands(&view, Some("no")), "open 2.0");
    let other = Intent {
        fingerprint: named("other"),
        ..round("no", 5)
    };
    assert_eq!(
        begin(&mut view, &other, START_MS),
        Err(CommandRefusal::Taken(ClaimStatus::Conflict))
    );

    let last = round("maybe", 6);
    begin(&mut view, &last, START_MS).unwrap();
    run(
        &mut view,
        &StoreCommand::Settle(settle(&last, ClaimPhase::Completed(result("paid")))),
        START_MS,
    )
    .unwrap();
    for brought in [None, Some("savings"), Some("yes"), Some("maybe")] {
        assert_eq!(stands(&view, brought), "ended paid", "{brought:?}");
    }
    let task = view.task.unwrap();
    assert_eq!(
        (task.steps, task.calls),
        (2, 1),
        "a round that did not run was a step, too"
    );
}

/// An operator speaks of the call: once it did not run, none of its rounds did. A server that says
/// so speaks of the round.
#[test]
fn an_operator_frees_all_rounds() {
    for (evidence, expected) in [(operator(), "open 2.0"), (Evidence::UpstreamKey, "unknown")] {
        let first = intent("key", 1);
        let mut view = after(
            &first,
            Some(ClaimPhase::AwaitingInput {
                round: 1,
                asked: result("which account?"),
            }),
        );
        let second = Intent {
            round: Some(named("savings")),
            ..intent("key", 2)
        };
        begin(&mut view, &second, START_MS).unwrap();
        run(
            &mut view,
            &StoreCommand::Settle(settle(&second, unknown())),
            START_MS,
        )
        .unwrap();
        run(
            &mut view,
            &StoreCommand::Settle(Settle {
                evidence,
                ..settle(&second, ClaimPhase::NotSent)
            }),
            START_MS,
        )
        .unwrap();
        assert_eq!(
            word(claim_status(
                view.claim.as_ref(),
                &named("fingerprint"),
                None,
                START_MS
            )),
            expected
        );
    }
}

/// guarantees §2: for two simultaneous faults the earlier step's code is returned, always.
#[test]
fn the_earlier_step_wins() {
    let done = after(
        &intent("key", 5),
        Some(ClaimPhase::Completed(result("paid"))),
    );
    let nothing = BudgetLimits {
        steps: Some(1),
        ..BudgetLimits::default()
    };
    let wrong = Intent {
        limits: nothing,
        ..intent("key", 5)
    };
    let refused = |view: &StoreView, intent: &Intent| {
        decide(
            &StoreCommand::Begin(Box::new(intent.clone())),
            view,
            START_MS,
        )
        .unwrap_err()
    };
    assert!(
        matches!(
            refused(&done, &wrong),
            CommandRefusal::Taken(ClaimStatus::Ended(_))
        ),
        "step 8"
    );
    let free = StoreView {
        claim: None,
        ..done
    };
    assert!(
        matches!(refused(&free, &wrong), CommandRefusal::Budget(_)),
        "step 9"
    );
    let within = Intent {
        limits: BudgetLimits::default(),
        ..wrong
    };
    assert_eq!(
        refused(&free, &within),
        CommandRefusal::Fenced { current: 5 },
        "step 11"
    );
}

/// 004-17, 004-25: only a newer token begins anything, and fencing makes older ones stale.
#[test]
fn a_stale_token_begins_nothing() {
    let mut view = after(&intent("key", 5), Some(ClaimPhase::NotSent));
    for stale in [0, 4, 5] {
        assert_eq!(
            begin(&mut view, &intent("key", stale), START_MS),
            Err(CommandRefusal::Fenced { current: 5 })
        );
    }
    let fence = |token| StoreCommand::Fence {
        session: named("session"),
        token,
    };
    assert_eq!(
        run(&mut view, &fence(5), START_MS),
        Err(CommandRefusal::Fenced { current: 5 })
    );
    run(&mut view, &fence(8), START_MS).unwrap();
    assert_eq!(
        begin(&mut view, &intent("key", 8), START_MS),
        Err(CommandRefusal::Fenced { current: 8 })
    );
    begin(&mut view, &intent("key", 9), START_MS).unwrap();
}
