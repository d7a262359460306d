//! An agent that makes by itself the call that takes one of its own back, and operators who drop what was asked
//! for.

use super::*;

/// A call that the agent of `of` makes by its own will, and that takes it back.
fn own(of: &Intent, fence: u64) -> Intent {
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
    fn with_another_key(&mut self) -> &mut Self {
        (self.undo.claim, self.undo.session) = (None, None);
        self
    }

    fn drops(&mut self, of: &Intent) -> Result<StoreEvent, CommandRefusal> {
        let said = AskUndo {
            of: of.action,
            who: "ann".to_owned(),
            why: "by hand".to_owned(),
            drops: true,
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
