//! An agent that makes by itself the call that takes one of its own back, and operators who drop what was asked
//! for.

use super::*;
use crate::store::state::undo::OwnCall;

/// A call that the agent of `of` makes by its own will, and that takes it back.
pub(super) fn own(of: &Intent, fence: u64) -> Intent {
    Intent {
        undoes: Some(of.action),
        ..intent("own", fence)
    }
}

fn offered(intent: &Intent) -> UndoneWorld {
    let done = ClaimPhase::Completed(result("paid"));
    UndoneWorld::after(intent, done, AnswerWorth::Unread)
}

impl UndoneWorld {
    /// What the next call finds: the undo, and nothing of its own key.
    pub(super) fn with_another_key(&mut self) -> &mut Self {
        (self.undo.claim, self.undo.session) = (None, None);
        self
    }

    fn drops(&mut self, of: &Intent) -> Result<StoreEvent, CommandRefusal> {
        let said = AskUndo {
            of: of.action,
            who: "ann".to_owned(),
            why: "by hand".to_owned(),
            caller: None,
            drops: true,
            made_by: None,
        };
        run(&mut self.undo, &StoreCommand::AskUndo(said), START_MS)
    }
}

/// 003-64: what an agent's own call has not done leaves the undo as it was, asked for or not; what it has done is
/// done; and while nobody knows, nobody else does it.
#[test]
fn an_own_undo_takes_its_arrows() {
    let intent = undoable("k");
    for is_asked in [false, true] {
        let before = if is_asked {
            UndoPhase::Requested
        } else {
            UndoPhase::Offered
        };
        let call = own(&intent, 2);
        let by = call.action;
        for (phase, failed, became, bar) in [
            (
                ClaimPhase::Completed(result("gone")),
                false,
                UndoPhase::Done { by },
                Some(UndoBar::DoneByAgent(by)),
            ),
            (ClaimPhase::Completed(result("locked")), true, before, None),
            (ClaimPhase::NotSent, true, before, None),
            (
                unknown(),
                true,
                UndoPhase::Unknown { by },
                Some(UndoBar::Unknown(by)),
            ),
        ] {
            let mut world = offered(&intent);
            if is_asked {
                world.asks(&intent, START_MS).unwrap();
            }
            world.begins(&call, START_MS).unwrap();
            assert_eq!(world.phase(), Some(UndoPhase::Running { by }));
            world.ends(&call, phase.clone(), failed);
            assert_eq!(world.phase(), Some(became), "{phase:?}");
            let asked = world.asks(&intent, START_MS);
            assert_eq!(asked.err(), bar.map(CommandRefusal::NotUndone), "{phase:?}");
        }
    }
}

/// Where a look or a person has told the outcome, the call is known that was known before it; where that is not,
/// the undo is found by whose it is. What its answer lacks for it is no call at all.
#[test]
fn what_nobody_read_is_found() {
    let (before, read) = (named("of its arguments"), named("of its answer"));
    let with = |call: Option<Digest>| {
        let mut intent = undoable("k");
        intent.undo.as_mut().unwrap().call = call;
        intent
    };
    let kept = |call: Option<Digest>, lacks: bool| {
        AnswerWorth::Kept(Box::new(UndoPieces {
            values: None,
            call,
            lacks: lacks.then(|| "a part".to_owned()),
        }))
    };
    let tool = ToolName::new("bank__undo");
    let unread = OpenUndo::unread(&tool, "billing-agent", None, None);
    for (terms, worth, found) in [
        (Some(before), AnswerWorth::Unread, Some(before)),
        (None, AnswerWorth::Unread, Some(unread)),
        (Some(before), kept(Some(read), false), Some(read)),
        (None, kept(None, true), None),
    ] {
        let done = ClaimPhase::Completed(result("paid"));
        let world = UndoneWorld::after(&with(terms), done, worth.clone());
        let undo = world.undo.undo.unwrap();
        assert_eq!(undo.found_by(), found, "{worth:?}");
    }
    for other in [
        OpenUndo::unread(&tool, "another", None, None),
        OpenUndo::unread(&tool, "billing-agent", Some("t_1"), None),
        OpenUndo::unread(&tool, "billing-agent", None, Some("t_1")),
    ] {
        assert_ne!(other, unread, "another's");
    }
}

/// Operator and agent at the same time: whichever begins second is refused.
#[test]
fn one_of_both_begins() {
    let intent = undoable("k");
    let (mine, theirs) = (own(&intent, 2), undoing(&intent, 3, None));
    for (first, second) in [(&mine, &theirs), (&theirs, &mine)] {
        let mut world = offered(&intent);
        world.asks(&intent, START_MS).unwrap();
        world.begins(first, START_MS).unwrap();
        let late = world.with_another_key().begins(second, START_MS);
        assert_eq!(late, refused(UndoBar::Running(first.action)));
    }
}

/// A tool server that asks something is answered by a call of its own: the undo goes on with that.
#[test]
fn a_later_round_goes_on_with_it() {
    let intent = undoable("k");
    let first = own(&intent, 2);
    let mut world = offered(&intent);
    world.begins(&first, START_MS).unwrap();
    let asks = ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("sure?"),
        is_task: false,
    };
    world.ends(&first, asks, false);
    let by = first.action;
    assert_eq!(world.phase(), Some(UndoPhase::Running { by }));
    let second = Intent {
        action: ActionId::generate(),
        round: Some(named("yes")),
        fence: 3,
        ..first.clone()
    };
    world.begins(&second, START_MS).unwrap();
    world.ends(&second, ClaimPhase::Completed(result("gone")), false);
    let by = second.action;
    assert_eq!(world.phase(), Some(UndoPhase::Done { by }));
    let asked = world.asks(&intent, START_MS);
    assert_eq!(
        asked,
        refused(UndoBar::DoneByAgent(by)),
        "it is still the agent's"
    );
}

/// A call of the agent that is just the one that takes another one back, and comes to `phase`.
fn equal(world: &mut UndoneWorld, phase: ClaimPhase, failed: bool) -> OwnCall {
    let call = Intent {
        may_undo: Some(named("made")),
        ..intent("equal", 5)
    };
    begin(&mut world.with_another_key().undo, &call, START_MS).unwrap();
    world.ends(&call, phase, failed);
    OwnCall {
        action: call.action,
        key: call.key,
    }
}

fn done_by(of: &Intent, own: OwnCall) -> StoreCommand {
    StoreCommand::AskUndo(AskUndo {
        of: of.action,
        who: "ann".to_owned(),
        why: "a typo".to_owned(),
        caller: None,
        drops: false,
        made_by: Some(own),
    })
}

/// A call that equals the one that was asked for may be known to have done it: the undo is its agent's then, and done,
/// and the call takes no second one back. What has not run, and what runs, is no undo.
#[test]
fn what_an_equal_call_has_done_is_done() {
    let intent = undoable("k");
    let done = || ClaimPhase::Completed(result("gone"));
    let mut world = offered(&intent);
    let own = equal(&mut world, done(), false);
    let said = done_by(&intent, own);
    let unasked = run(&mut world.undo, &said, START_MS);
    assert_eq!(unasked, refused(UndoBar::NotAsked));
    world.asks(&intent, START_MS).unwrap();
    let late = START_MS + HOUR_MS;
    let event = run(&mut world.undo, &said, late).unwrap();
    assert_eq!(
        (event.place().call, event.place().undo),
        (Some(own.key), Some(OpenUndo::key_of(intent.action)))
    );
    let by = own.action;
    assert_eq!(world.phase(), Some(UndoPhase::Done { by }));
    let claim = world.undo.claim.as_ref().unwrap();
    assert_eq!(claim.undoes, Some(intent.action));
    assert!(claim.may_undo.unwrap().is_over, "it is found no more");
    let asked = world.asks(&intent, START_MS);
    assert_eq!(asked, refused(UndoBar::DoneByAgent(by)));

    let other = undoable("other");
    let mut second = offered(&other);
    second.undo.claim.clone_from(&world.undo.claim);
    second.asks(&other, START_MS).unwrap();
    let taken = run(&mut second.undo, &done_by(&other, own), START_MS);
    assert_eq!(taken, refused(UndoBar::NotOffered));

    let mut world = offered(&intent);
    world.asks(&intent, START_MS).unwrap();
    let own = equal(&mut world, unknown(), true);
    let unproven = run(&mut world.undo, &done_by(&intent, own), START_MS);
    assert_eq!(unproven, refused(UndoBar::NotOffered));

    let own = equal(&mut world, done(), false);
    let claim = world.undo.claim.take();
    let call = undoing(&intent, 6, None);
    world.begins(&call, START_MS).unwrap();
    let running = world.undo.claim.replace(claim.unwrap());
    let bar = refused(UndoBar::Running(call.action));
    assert_eq!(run(&mut world.undo, &done_by(&intent, own), START_MS), bar);
    let claim = std::mem::replace(&mut world.undo.claim, running);
    world.ends(&call, unknown(), true);
    world.undo.claim = claim;
    let bar = refused(UndoBar::Unknown(call.action));
    assert_eq!(run(&mut world.undo, &done_by(&intent, own), START_MS), bar);
}

/// What has failed, or has not run, is no undo; what may have run may be one.
#[test]
fn a_call_that_failed_may_be_no_undo() {
    let done = || ClaimPhase::Completed(result("gone"));
    for (phase, failed, may_be) in [
        (done(), false, true),
        (done(), true, false),
        (unknown(), true, true),
        (ClaimPhase::NotSent, true, false),
    ] {
        let mut world = UndoneWorld::default();
        equal(&mut world, phase.clone(), failed);
        let claim = world.undo.claim.unwrap();
        assert_eq!(!claim.may_undo.unwrap().is_over, may_be, "{phase:?}");
    }
}

/// What was asked for, or has failed, can be dropped, and then be asked for again; nothing else can.
#[test]
fn what_was_asked_for_can_be_dropped() {
    let intent = undoable("k");
    let mut world = offered(&intent);
    assert_eq!(world.drops(&intent), refused(UndoBar::NotAsked));
    world.asks(&intent, START_MS).unwrap();
    world.drops(&intent).unwrap();
    assert_eq!(world.phase(), Some(UndoPhase::Offered));
    // What was allowed meanwhile is not sent any more: it may be done by hand.
    let late = world.begins(&undoing(&intent, 2, None), START_MS);
    assert_eq!(late, refused(UndoBar::NotAsked));
    assert!(!world.undo.undo.as_ref().unwrap().is_wanted());
    world.asks(&intent, START_MS).unwrap();
    let call = undoing(&intent, 2, None);
    let by = call.action;
    world.begins(&call, START_MS).unwrap();
    assert_eq!(world.drops(&intent), refused(UndoBar::Running(by)));
    world.ends(&call, unknown(), true);
    assert_eq!(world.drops(&intent), refused(UndoBar::Unknown(by)));
    world.ends(&call, ClaimPhase::NotSent, true);
    assert_eq!(world.phase(), Some(UndoPhase::Failed { by }));
    world.drops(&intent).unwrap();
    assert_eq!(world.phase(), Some(UndoPhase::Offered));
}
