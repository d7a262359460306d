//! guarantees §4 as far as the state machine decides it: how a key stands for the call that names
//! it. 004-18, 004-24, 004-30, 004-35, 004-37, 004-43, 004-45. Rounds of input are in `rounds`.

use super::super::claim::claim_status;
use super::*;

mod rounds;

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

/// How a call ended, and how its key stands: at once; at once with other arguments; at the last
/// moment of its life; as a tombstone; forgotten.
fn ends() -> Vec<(Option<ClaimPhase>, [&'static str; 5])> {
    let failed = |answer, again| Some(ClaimPhase::Failed { answer, again });
    let asked = Some(ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("which?"),
        is_task: false,
    });
    let done = Some(ClaimPhase::Completed(result("paid")));
    vec![
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
    ]
}

/// 004-18, 004-24, 004-30, 004-35, 004-37: an answer is told again for its time to live, a definite
/// failure frees the key, and an unknown outcome keeps it.
#[test]
fn a_key_stands_as_its_call_ended_and_as_long_ago() {
    for (phase, expected) in ends() {
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
