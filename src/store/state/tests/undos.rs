//! What takes calls back (003-64): offered by an end that shows that the call was carried out, and made
//! once, unless it is proven that nothing was.

mod held;
mod own;

use super::*;
use crate::store::state::undo::{AskUndo, OpenUndo, UndoBar, UndoPhase, UndoPieces};
use proptest::prelude::*;

/// A call that another one takes back within an hour.
fn undoable(key: &str) -> Intent {
    Intent {
        undo: Some(Box::new(undone_by("bank__undo"))),
        ..intent(key, 1)
    }
}

/// The call that takes `of` back; the nth that was tried.
fn undoing(of: &Intent, fence: u64, past: Option<ActionId>) -> Intent {
    Intent {
        key: OpenUndo::call_key_of(of.action),
        fingerprint: named("undo"),
        undoes: Some(of.action),
        kinship: Kinship {
            past,
            ..Kinship::default()
        },
        ttl: 24 * HOUR_MS,
        ..intent("", fence)
    }
}

/// What is known of a call and of the one that takes it back.
#[derive(Default)]
struct UndoneWorld {
    call: StoreView,
    undo: StoreView,
}

impl UndoneWorld {
    /// After a call came to `phase`, and its answer left `worth`.
    fn after(intent: &Intent, phase: ClaimPhase, worth: AnswerWorth) -> Self {
        let mut world = Self::default();
        begin(&mut world.call, intent, START_MS).unwrap();
        world.settles(ended(intent, phase, worth), START_MS);
        world
    }

    fn settles(&mut self, ended: Settle, now: Millis) {
        run(&mut self.call, &StoreCommand::Settle(ended), now).unwrap();
        self.undo.undo = self.call.undo.clone();
    }

    fn asks(&mut self, of: &Intent, now: Millis) -> Result<StoreEvent, CommandRefusal> {
        let ask = AskUndo {
            of: of.action,
            who: "ann".to_owned(),
            why: "a typo".to_owned(),
            caller: None,
            drops: false,
            made_by: None,
        };
        run(&mut self.undo, &StoreCommand::AskUndo(ask), now)
    }

    fn begins(&mut self, undoing: &Intent, now: Millis) -> Result<StoreEvent, CommandRefusal> {
        begin(&mut self.undo, undoing, now)
    }

    fn ends(&mut self, undoing: &Intent, phase: ClaimPhase, failed: bool) {
        let settle = Settle {
            failed,
            ..settle(undoing, phase)
        };
        run(&mut self.undo, &StoreCommand::Settle(settle), START_MS).unwrap();
    }

    fn phase(&self) -> Option<UndoPhase> {
        self.undo.undo.as_ref().map(|undo| undo.phase)
    }
}

/// The end of `intent`, which its answer does not call a failure.
fn ended(intent: &Intent, phase: ClaimPhase, worth: AnswerWorth) -> Settle {
    Settle {
        worth,
        failed: false,
        ..settle(intent, phase)
    }
}

fn refused(bar: UndoBar) -> Result<StoreEvent, CommandRefusal> {
    Err(CommandRefusal::NotUndone(bar))
}

/// Only what was carried out is offered, with what its answer left; of what may have run it is once that is
/// known.
#[test]
fn what_was_carried_out_is_offered() {
    let intent = undoable("k");
    let kept = AnswerWorth::Kept(Box::new(UndoPieces {
        values: Some(KeptText::plain("{\"result#/id\":7}")),
        call: Some(named("the call that takes it back")),
        lacks: None,
    }));
    let error = ClaimPhase::Completed(Stored::inline(true, Bytes::new()));
    let done = || ClaimPhase::Completed(result("paid"));
    for (phase, worth, is_offered) in [
        (done(), kept.clone(), true),
        (done(), AnswerWorth::Unread, true),
        (done(), AnswerWorth::Failed, false),
        (error, AnswerWorth::Unread, false),
        (ClaimPhase::NotSent, AnswerWorth::Unread, false),
        (unknown(), AnswerWorth::Unread, false),
    ] {
        let world = UndoneWorld::after(&intent, phase.clone(), worth.clone());
        assert_eq!(
            world.phase(),
            is_offered.then_some(UndoPhase::Offered),
            "{phase:?}"
        );
        let values = world.undo.undo.and_then(|undo| undo.values);
        assert_eq!(values.is_some(), worth == kept, "{phase:?}");
    }
    let mut late = UndoneWorld::after(&intent, unknown(), AnswerWorth::Unread);
    assert_eq!(late.asks(&intent, START_MS), refused(UndoBar::NotOffered));
    late.settles(ended(&intent, done(), kept), START_MS + 5);
    let offered = late.undo.undo.as_ref().unwrap();
    assert_eq!(offered.until, START_MS + 5 + HOUR_MS);
    assert!(late.call.claim.unwrap().undo.is_none(), "it stands there");
}

/// Every arrow of an undo, and what each state says to who asks again.
#[test]
fn an_undo_takes_its_arrows() {
    let (intent, by) = (undoable("k"), ActionId::generate());
    let offered = || {
        UndoneWorld::after(
            &intent,
            ClaimPhase::Completed(result("paid")),
            AnswerWorth::Unread,
        )
    };
    for (phase, failed, became, bar) in [
        (
            ClaimPhase::Completed(result("gone")),
            false,
            UndoPhase::Done { by },
            Some(UndoBar::Done(by)),
        ),
        (
            ClaimPhase::Completed(result("locked")),
            true,
            UndoPhase::Failed { by },
            None,
        ),
        (ClaimPhase::NotSent, true, UndoPhase::Failed { by }, None),
        (
            unknown(),
            true,
            UndoPhase::Unknown { by },
            Some(UndoBar::Unknown(by)),
        ),
        (
            ClaimPhase::AwaitingInput {
                round: 1,
                asked: result("sure?"),
                is_task: false,
            },
            false,
            UndoPhase::Unknown { by },
            Some(UndoBar::Unknown(by)),
        ),
    ] {
        let mut world = offered();
        world.asks(&intent, START_MS).unwrap();
        assert_eq!(world.phase(), Some(UndoPhase::Requested));
        let call = Intent {
            action: by,
            ..undoing(&intent, 2, None)
        };
        world.begins(&call, START_MS).unwrap();
        assert_eq!(world.phase(), Some(UndoPhase::Running { by }));
        assert_eq!(world.asks(&intent, START_MS), refused(UndoBar::Running(by)));
        world.ends(&call, phase.clone(), failed);
        assert_eq!(world.phase(), Some(became), "{phase:?}");
        let asked = world.asks(&intent, START_MS);
        assert_eq!(asked.err(), bar.map(CommandRefusal::NotUndone), "{phase:?}");
    }
}

/// 003-64: a time is promised where all that is needed was left, and as long as it can begin.
#[test]
fn a_time_is_promised_while_it_can_be_made() {
    let intent = undoable("k");
    let kept = |is_whole: bool| {
        AnswerWorth::Kept(Box::new(UndoPieces {
            values: None,
            call: None,
            lacks: (!is_whole).then(|| "a part".to_owned()),
        }))
    };
    let until = START_MS + HOUR_MS;
    for (worth, promised) in [
        (kept(true), Some(until)),
        (kept(false), None),
        (AnswerWorth::Unread, None),
    ] {
        let done = ClaimPhase::Completed(result("paid"));
        let world = UndoneWorld::after(&intent, done, worth);
        let undo = world.undo.undo.unwrap();
        assert_eq!(undo.promised(until - 1), promised);
        assert_eq!(undo.promised(until), None);
    }
}

/// The window counts from the end of the call; what has begun within it ends after it.
#[test]
fn an_undo_has_its_window() {
    let intent = undoable("k");
    let done = ClaimPhase::Completed(result("paid"));
    let mut world = UndoneWorld::after(&intent, done, AnswerWorth::Unread);
    let until = START_MS + HOUR_MS;
    assert_eq!(world.asks(&intent, until), refused(UndoBar::Over(until)));
    assert!(world.asks(&intent, until - 1).is_ok());
    let call = undoing(&intent, 2, None);
    let late = world.begins(&call, until);
    assert_eq!(late, refused(UndoBar::Over(until)));
    // A call of another name takes nothing back.
    let stranger = undoing(&undoable("other"), 3, None);
    assert_eq!(
        world.begins(&stranger, START_MS),
        refused(UndoBar::NotOffered)
    );
    assert!(world.begins(&call, until - 1).is_ok());
    world.ends(&call, ClaimPhase::Completed(result("gone")), false);
    let by = call.action;
    assert_eq!(world.phase(), Some(UndoPhase::Done { by }));
}

proptest! {
    /// 003-64: whatever is asked, begun by an operator or its agent and ended, and in whatever order: a call is
    /// taken back once, and begun again only after a proof that it was not.
    #[test]
    fn a_call_is_taken_back_once(steps in prop::collection::vec((0..4_u8, 0..5_u8), 1..40)) {
        let intent = undoable("k");
        let done = ClaimPhase::Completed(result("paid"));
        let mut world = UndoneWorld::after(&intent, done, AnswerWorth::Unread);
        let (mut fence, mut running, mut may_have_run) = (2, None::<Intent>, false);
        for (step, how) in steps {
            match step {
                0 => drop(world.asks(&intent, START_MS)),
                1 => {
                    fence += 1;
                    let past = world.undo.claim.as_ref().map(|claim| claim.action);
                    let call = undoing(&intent, fence, past);
                    if world.begins(&call, START_MS).is_ok() {
                        prop_assert!(!may_have_run, "begun though it may have run");
                        (running, may_have_run) = (Some(call), true);
                    }
                }
                2 if running.is_none() => {
                    fence += 1;
                    let call = own::own(&intent, fence);
                    if world.with_another_key().begins(&call, START_MS).is_ok() {
                        prop_assert!(!may_have_run, "begun by its agent though it may have run");
                        (running, may_have_run) = (Some(call), true);
                    }
                }
                _ => {
                    let Some(call) = running.take() else { continue };
                    let (phase, failed, ran) = match how {
                        0 => (ClaimPhase::Completed(result("gone")), false, true),
                        1 => (ClaimPhase::Completed(result("locked")), true, false),
                        2 => (ClaimPhase::NotSent, true, false),
                        3 => (ClaimPhase::Failed { answer: None, again: true }, true, false),
                        _ => (unknown(), true, true),
                    };
                    world.ends(&call, phase, failed);
                    may_have_run = ran;
                }
            }
            let is_over = matches!(world.phase(), Some(UndoPhase::Done { .. } | UndoPhase::Unknown { .. }));
            prop_assert_eq!(may_have_run && running.is_none(), is_over);
        }
    }
}
