//! Calls of several rounds: the server asks, and the agent sends its answers with the same key
//! (guarantees §4, `input_required`).

use super::*;

fn asks(round: u32, text: &str) -> ClaimPhase {
    ClaimPhase::AwaitingInput {
        round,
        asked: result(text),
        is_task: false,
    }
}

/// The call that brings these answers.
fn round(brought: &str, fence: u64) -> Intent {
    Intent {
        round: Some(named(brought)),
        fence,
        ..intent("key", fence)
    }
}

/// A call that the server has answered by asking.
struct AskedCall {
    view: StoreView,
    first: Intent,
}

impl AskedCall {
    fn new() -> Self {
        let first = Intent {
            price: Price {
                tool: ToolName::new("bank__pay"),
                cost: 7,
            },
            ..intent("key", 1)
        };
        Self {
            view: after(&first, Some(asks(1, "which account?"))),
            first,
        }
    }

    /// The same after two rounds, each answered by asking again.
    fn asked_thrice() -> Self {
        let mut call = Self::new();
        call.is_answered(&round("savings", 2), asks(2, "sure?"));
        call.is_answered(&round("yes", 3), asks(3, "really?"));
        call
    }

    fn begin(&mut self, intent: &Intent) -> Result<StoreEvent, CommandRefusal> {
        begin(&mut self.view, intent, START_MS)
    }

    fn settle(&mut self, intent: &Intent, phase: ClaimPhase) -> Result<StoreEvent, CommandRefusal> {
        run(
            &mut self.view,
            &StoreCommand::Settle(settle(intent, phase)),
            START_MS,
        )
    }

    fn is_answered(&mut self, intent: &Intent, phase: ClaimPhase) {
        self.begin(intent).unwrap();
        self.settle(intent, phase).unwrap();
    }

    fn stands(&self, brought: Option<&str>) -> String {
        let brought = brought.map(named);
        word(claim_status(
            self.view.claim.as_ref(),
            &named("fingerprint"),
            brought.as_ref(),
            START_MS,
        ))
    }
}

/// A round is open until it is sent; its base arguments are those of the call.
#[test]
fn a_round_belongs_to_its_call() {
    let mut call = AskedCall::new();
    assert_eq!(call.stands(None), "asked which account?");
    assert_eq!(call.stands(Some("savings")), "open 1.1");
    let changed = Intent {
        fingerprint: named("other"),
        ..round("savings", 2)
    };
    assert_eq!(
        call.begin(&changed),
        Err(CommandRefusal::Taken(ClaimStatus::Conflict))
    );
}

/// One reservation pays for all rounds, also for one that comes from another task.
#[test]
fn the_first_round_pays_for_all() {
    let mut call = AskedCall::new();
    let second = Intent {
        task: named("elsewhere"),
        limits: BudgetLimits {
            steps: Some(0),
            ..BudgetLimits::default()
        },
        ..round("savings", 2)
    };
    let paying = call.view.task.take();
    call.begin(&second).unwrap();
    assert_eq!(call.view.task, None, "nothing is paid twice");
    call.view.task = paying;
    let claim = call.view.claim.as_ref().unwrap();
    assert_eq!((claim.task, claim.reserved), (named("task"), 7));
    assert_eq!(call.stands(Some("savings")), "in flight");
    let first = call.first.clone();
    assert_eq!(
        call.settle(&first, ClaimPhase::NotSent),
        Err(CommandRefusal::Settled)
    );
    call.settle(&second, asks(2, "sure?")).unwrap();
}

/// Each round is sent once: the same answers again get the question they got; new ones are a new
/// round.
#[test]
fn each_round_of_input_is_sent_once() {
    let mut call = AskedCall::new();
    call.is_answered(&round("savings", 2), asks(2, "sure?"));
    assert_eq!(call.stands(Some("savings")), "asked sure?");
    assert_eq!(call.stands(Some("yes")), "open 1.2");
    // A retry of an earlier round that comes late gets the question, too: its answers were taken.
    call.is_answered(&round("yes", 3), asks(3, "really?"));
    for brought in [None, Some("savings"), Some("yes")] {
        assert_eq!(call.stands(brought), "asked really?", "{brought:?}");
    }
}

/// A round that did not run says nothing of those before it.
#[test]
fn a_round_that_did_not_run_speaks_for_itself() {
    let mut call = AskedCall::asked_thrice();
    call.is_answered(&round("no", 4), ClaimPhase::NotSent);
    for brought in [None, Some("savings"), Some("yes")] {
        assert_eq!(call.stands(brought), "unknown", "{brought:?}");
    }
    assert_eq!(call.stands(Some("no")), "open 2.0");
    let other = Intent {
        fingerprint: named("other"),
        ..round("no", 5)
    };
    assert_eq!(
        call.begin(&other),
        Err(CommandRefusal::Taken(ClaimStatus::Conflict))
    );
}

/// The answer to the last round is that of the call.
#[test]
fn the_last_round_ends_the_call() {
    let mut call = AskedCall::asked_thrice();
    call.is_answered(&round("no", 4), ClaimPhase::NotSent);
    let paid = ClaimPhase::Completed(result("paid"));
    call.is_answered(&round("maybe", 6), paid);
    for brought in [None, Some("savings"), Some("yes"), Some("maybe")] {
        assert_eq!(call.stands(brought), "ended paid", "{brought:?}");
    }
    let task = call.view.task.unwrap();
    assert_eq!(
        (task.steps, task.calls),
        (1, 1),
        "a round that did not run took nothing"
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
                is_task: false,
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

/// protocol §4.3: what its agent holds as a task is answered by the task. Whatever else a call
/// brings reads the handle, and the end of the task is the end of the call that began it.
#[test]
fn a_task_takes_no_round() {
    let first = intent("key", 1);
    let task = ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("a handle"),
        is_task: true,
    };
    let mut call = AskedCall {
        view: after(&first, Some(task)),
        first,
    };
    for brought in [None, Some("savings")] {
        assert_eq!(call.stands(brought), "asked a handle");
    }
    let refused = call.begin(&round("savings", 2)).unwrap_err();
    assert!(matches!(refused, CommandRefusal::Taken(_)), "{refused:?}");
    let ends = Settle {
        evidence: Evidence::Late,
        ..settle(&call.first, ClaimPhase::Completed(result("paid")))
    };
    run(&mut call.view, &StoreCommand::Settle(ends), START_MS).unwrap();
    assert_eq!(call.stands(Some("savings")), "ended paid");
}
