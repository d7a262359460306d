//! What people say of a call that is held to take another one back (guarantees §7): nobody allows an undo who has asked
//! for it, and nothing that was allowed for one that is dropped counts for the next.

use super::*;
use crate::model::taken_back::UndoneCall;
use crate::store::state::hold::Undecided;
use std::collections::BTreeSet;

const OPERATORS: [&str; 3] = ["ann", "rita", "fay"];

impl UndoneWorld {
    fn says(
        &mut self,
        who: &str,
        of: &Intent,
        drops: bool,
        now: Millis,
    ) -> Result<StoreEvent, CommandRefusal> {
        let said = AskUndo {
            of: of.action,
            who: who.to_owned(),
            why: "a typo".to_owned(),
            caller: None,
            drops,
            made_by: None,
        };
        run(&mut self.undo, &StoreCommand::AskUndo(said), now)
    }

    /// The call is held that takes `of` back, which `who` was the first to ask for.
    fn holds(&mut self, who: &str, of: &Intent, now: Millis) -> HoldRequest {
        let mut asked = ask("undo");
        let (of, who) = (of.action, who.to_owned());
        asked.question.undoes = Some(UndoneCall { of, who });
        // One that is held already stays so.
        let outcome = run(
            &mut self.undo,
            &StoreCommand::Hold(Box::new(asked.clone())),
            now,
        );
        let hold = self.undo.hold.as_ref().map(|hold| hold.id);
        asked.id = hold.filter(|_| outcome.is_err()).unwrap_or(asked.id);
        asked
    }

    fn allows(
        &mut self,
        who: &str,
        asked: &HoldRequest,
        now: Millis,
    ) -> Result<StoreEvent, CommandRefusal> {
        run(
            &mut self.undo,
            &StoreCommand::Decide(word(asked, who, true)),
            now,
        )
    }

    fn begins_allowed(
        &mut self,
        of: &Intent,
        asked: &HoldRequest,
        now: Millis,
    ) -> Result<StoreEvent, CommandRefusal> {
        let call = Intent {
            hold: Some(asked.key),
            ..undoing(of, 2, None)
        };
        self.begins(&call, now)
    }
}

fn offered() -> (Intent, UndoneWorld) {
    let intent = undoable("k");
    let done = ClaimPhase::Completed(result("paid"));
    let world = UndoneWorld::after(&intent, done, AnswerWorth::Unread);
    (intent, world)
}

/// An operator who has asked, first or later, does not allow; nor does an operator what was dropped, also where it
/// was allowed before.
#[test]
fn who_asks_does_not_allow() {
    let not_theirs = Err(CommandRefusal::Undecided(Undecided::NotYours));
    let (intent, mut world) = offered();
    world.says("rita", &intent, false, START_MS).unwrap();
    let hold = world.holds("rita", &intent, START_MS);
    world.says("ann", &intent, false, START_MS + 1).unwrap();
    assert_eq!(world.allows("rita", &hold, START_MS + 2), not_theirs);
    assert_eq!(world.allows("Ann", &hold, START_MS + 2), not_theirs);
    world.allows("fay", &hold, START_MS + 2).unwrap();
    world.begins_allowed(&intent, &hold, START_MS + 3).unwrap();

    let (intent, mut world) = offered();
    world.says("rita", &intent, false, START_MS).unwrap();
    let hold = world.holds("rita", &intent, START_MS);
    world.says("rita", &intent, true, START_MS + 1).unwrap();
    let gone = Err(CommandRefusal::Undecided(Undecided::Gone));
    assert_eq!(world.allows("ann", &hold, START_MS + 2), gone);
    world.says("ann", &intent, false, START_MS + 3).unwrap();
    assert_eq!(
        world.allows("fay", &hold, START_MS + 4),
        gone,
        "it was held for another asking"
    );

    let (intent, mut world) = offered();
    world.says("rita", &intent, false, START_MS).unwrap();
    let hold = world.holds("rita", &intent, START_MS);
    world.allows("ann", &hold, START_MS + 1).unwrap();
    world.says("rita", &intent, true, START_MS + 2).unwrap();
    world.says("ann", &intent, false, START_MS + 3).unwrap();
    let begun = world.begins_allowed(&intent, &hold, START_MS + 4);
    assert_eq!(begun, refused(UndoBar::NotAsked));
}

/// A record of a release before has who asked last alone: its hold counts on, and of who asks now none allows.
#[test]
fn who_asked_before_they_were_kept_does_not_allow() {
    let (intent, mut world) = offered();
    world.says("rita", &intent, false, START_MS).unwrap();
    let hold = world.holds("ann", &intent, START_MS);
    let undo = world.undo.undo.as_mut().unwrap();
    (undo.askers, undo.asked_since) = (Vec::new(), None);
    world.says("fay", &intent, false, START_MS + 5).unwrap();
    for who in OPERATORS {
        let said = world.allows(who, &hold, START_MS + 6);
        assert_eq!(
            said,
            Err(CommandRefusal::Undecided(Undecided::NotYours)),
            "{who}"
        );
    }
    world.allows("bob", &hold, START_MS + 6).unwrap();
    world.begins_allowed(&intent, &hold, START_MS + 7).unwrap();
}

proptest! {
    /// 003-64, guarantees §7: whatever operators ask, drop and allow, also where toolgate ends before what was held is
    /// void: what begins was allowed by an operator who had not asked for it, and for the asking that stands.
    #[test]
    fn an_undo_is_allowed_by_another(steps in prop::collection::vec((0..5_u8, 0..3_usize), 1..40)) {
        let (intent, mut world) = offered();
        let (mut askers, mut hold, mut is_allowed) = (BTreeSet::new(), None::<HoldRequest>, false);
        for (nth, (step, who)) in steps.into_iter().enumerate() {
            let (who, now) = (OPERATORS[who], START_MS + nth as u64);
            match (step, &hold) {
                (0, _) => {
                    world.says(who, &intent, false, now).unwrap();
                    askers.insert(who);
                }
                (1, _) if world.says(who, &intent, true, now).is_ok() => {
                    askers.clear();
                    is_allowed = false;
                }
                (2, _) if !askers.is_empty() => hold = Some(world.holds(who, &intent, now)),
                (3, Some(hold)) if world.allows(who, hold, now).is_ok() => {
                    prop_assert!(!askers.is_empty() && !askers.contains(who), "{} has asked", who);
                    is_allowed = true;
                }
                (4, Some(hold)) if world.begins_allowed(&intent, hold, now).is_ok() => {
                    prop_assert!(is_allowed, "nobody has allowed this asking");
                    return Ok(());
                }
                _ => {}
            }
        }
    }
}
