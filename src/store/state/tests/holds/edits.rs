//! Arguments of a held call that an operator changes: what was said before is void, and what runs is
//! exactly what was allowed.

use super::*;
use crate::store::state::command::EditHold;
use crate::store::state::hold::MAX_HOLD_EDITS;
use serde_json::{Value, json};

/// What `who`, an approver, makes of the call held by `ask`.
pub(super) fn edit(ask: &HoldRequest, who: &str, arguments: Value) -> EditHold {
    EditHold {
        key: ask.key,
        id: ask.id,
        who: who.to_owned(),
        right: right(&["approver"], None),
        why: "less is enough".to_owned(),
        surface: None,
        edits: 0,
        pointers: vec!["/amount".to_owned()],
        arguments,
    }
}

pub(super) fn edits_to(
    view: &mut StoreView,
    edit: EditHold,
    now: Millis,
) -> Result<StoreEvent, CommandRefusal> {
    let event = decide(&StoreCommand::Edit(Box::new(edit)), view, now)?;
    apply(&event, view);
    Ok(event)
}

fn less() -> Value {
    json!({ "amount": 90 })
}

/// An operator who may not decide may not change it, either; nor does one change what is over.
#[test]
fn only_what_waits_is_changed_and_by_those_who_decide() {
    let one = ask("key");
    let teller = EditHold {
        right: right(&["teller"], None),
        ..edit(&one, "eve", less())
    };
    let itself = edit(&one, "billing-agent", less());
    let another = EditHold {
        id: ActionId::generate(),
        ..edit(&one, "ann", less())
    };
    for (change, why) in [
        (teller, Undecided::NotYours),
        (itself, Undecided::NotYours),
        (another, Undecided::Gone),
    ] {
        let mut view = held(&one, &[]);
        let was = view.clone();
        let told = edits_to(&mut view, change, START_MS + 1);
        assert_eq!((told, &view), (undecided(why), &was));
    }
    for said in [true, false] {
        let mut view = held(&one, &[("ann", said)]);
        let told = edits_to(&mut view, edit(&one, "eve", less()), START_MS + 2);
        assert_eq!(told, undecided(Undecided::Gone), "{said}");
    }
    let mut view = held(&one, &[]);
    let late = edits_to(&mut view, edit(&one, "ann", less()), START_MS + APPROVE_MS);
    assert_eq!(late, undecided(Undecided::Gone));
}

/// Of two operators who change it at once, the second is told to look again, and so is one who allows
/// what was changed meanwhile. No it means in any case.
#[test]
fn words_are_about_what_was_looked_at() {
    let one = ask("key");
    let mut view = held(&one, &[]);
    edits_to(&mut view, edit(&one, "ann", less()), START_MS + 1).unwrap();
    let second = edits_to(&mut view, edit(&one, "eve", json!({})), START_MS + 2);
    assert_eq!(second, undecided(Undecided::Edited));
    let stale = say(&mut view, word(&one, "eve", true), START_MS + 3);
    assert_eq!(stale, undecided(Undecided::Edited));
    let mut denied = view.clone();
    say(&mut denied, word(&one, "eve", false), START_MS + 3).unwrap();
    assert_eq!(denied.hold.unwrap().phase, Held::Denied);
    let fresh = Decide {
        edits: 1,
        ..word(&one, "eve", true)
    };
    say(&mut view, fresh, START_MS + 4).unwrap();
    assert_eq!(view.hold.unwrap().phase, Held::Allowed);
}

/// A change makes void what was said before: two have to allow what will run.
#[test]
fn a_change_begins_the_count_anew() {
    let two = HoldRequest {
        needed: 2,
        ..ask("key")
    };
    let mut view = held(&two, &[("ann", true)]);
    edits_to(&mut view, edit(&two, "eve", less()), START_MS + 2).unwrap();
    let hold = view.hold.clone().unwrap();
    assert_eq!(hold.edits[0].voided, ["ann"]);
    assert_eq!((hold.decisions.len(), hold.phase), (0, Held::Pending));
    let again = |who| Decide {
        edits: 1,
        ..word(&two, who, true)
    };
    say(&mut view, again("eve"), START_MS + 3).unwrap();
    assert_eq!(view.hold.clone().unwrap().phase, Held::Pending);
    say(&mut view, again("ann"), START_MS + 4).unwrap();
    assert_eq!(view.hold.unwrap().phase, Held::Allowed);
}

/// The call as its agent sent it does not run by a word about another, nor the other way round.
#[test]
fn what_runs_is_what_was_allowed() {
    let one = ask("key");
    let mut view = held(&one, &[]);
    edits_to(&mut view, edit(&one, "ann", less()), START_MS + 1).unwrap();
    let fresh = Decide {
        edits: 1,
        ..word(&one, "ann", true)
    };
    say(&mut view, fresh, START_MS + 2).unwrap();
    let carried = view.hold.as_ref().and_then(Hold::edited);
    assert!(carried.is_some());
    let call = |edited| Intent {
        hold: Some(one.key),
        edited,
        ..intent("call", 1)
    };
    let as_asked = begin(&mut view, &call(None), START_MS + 3);
    assert_eq!(
        as_asked,
        Err(CommandRefusal::Held(HoldStatus::Allowed)),
        "the original"
    );
    let begun = begin(&mut view, &call(carried), START_MS + 3).unwrap();
    assert!(matches!(begun, StoreEvent::Intended(intended) if intended.edited == Some(one.id)));
    assert_eq!(view.claim.unwrap().edited, Some(one.id));
    let mut plain = held(&one, &[("ann", true)]);
    let changed = begin(&mut plain, &call(carried), START_MS + 3);
    assert_eq!(changed, Err(CommandRefusal::Held(HoldStatus::Allowed)));
}

/// It is bounded, keeps what the agent's arguments were, and is read again from the journal.
#[test]
fn changes_are_bounded_and_kept() {
    let one = ask("key");
    let mut view = held(&one, &[]);
    let before = one.question.arguments.clone();
    for edits in 0..=MAX_HOLD_EDITS {
        let change = EditHold {
            edits,
            ..edit(&one, "ann", json!({ "amount": edits }))
        };
        let told = edits_to(&mut view, change, START_MS + 1);
        if edits == MAX_HOLD_EDITS {
            assert_eq!(told, undecided(Undecided::EditsSpent));
            break;
        }
        let event = told.unwrap();
        let record = event.encode().unwrap();
        let head = record.split(|byte| *byte == b'\n').next().unwrap();
        let head = String::from_utf8(head.to_vec()).unwrap();
        assert!(
            head.contains("/amount") && !head.contains(&format!("{{\"amount\":{edits}}}")),
            "{head}"
        );
        assert_eq!(StoreEvent::decode(&Bytes::from(record)).unwrap(), event);
    }
    let hold = view.hold.clone().unwrap();
    assert_eq!(hold.question.unedited.as_ref(), Some(&before));
    let carried = StoreEvent::Carried(Carried::Hold(one.key, Box::new(hold)));
    let record = carried.encode().unwrap();
    assert_eq!(StoreEvent::decode(&Bytes::from(record)).unwrap(), carried);
}
