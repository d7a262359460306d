//! Who may decide of a held call, and for how long.

use super::*;

use Undecided::{Gone, NotYours, Other, Same};

const ITSELF: &str = "billing-agent";

/// After `before`, what `said` makes of the held call: its phase, or nothing and why.
fn assert_decides(
    ask: &HoldRequest,
    before: &[(&str, bool)],
    said: Decide,
    after: Result<Held, Undecided>,
) {
    let mut view = held(ask, before);
    let was = view.clone();
    let what = format!("{before:?}, {said:?}");
    let told = say(&mut view, said, START_MS + 1);
    match after {
        Ok(phase) => {
            told.unwrap();
            let hold = view.hold.unwrap();
            assert_eq!(
                (hold.phase, hold.decisions.len()),
                (phase, before.len() + 1),
                "{what}"
            );
        }
        Err(why) => {
            assert_eq!((told, &view), (undecided(why), &was), "{what}");
        }
    }
}

/// 001-A3: only the roles that the rule asks for.
#[test]
fn operators_decide_within_their_roles() {
    let one = ask("key");
    let nobody = HoldRequest {
        roles: Vec::new(),
        ..one.clone()
    };
    let stranger = Decide {
        right: right(&["teller"], None),
        ..word(&one, "eve", true)
    };
    let roleless = Decide {
        right: right(&[], None),
        ..word(&one, "eve", false)
    };
    assert_decides(&one, &[], word(&one, "ann", true), Ok(Held::Allowed));
    assert_decides(&one, &[], word(&one, "ann", false), Ok(Held::Denied));
    assert_decides(&one, &[], stranger.clone(), Err(NotYours));
    assert_decides(&one, &[("ann", true)], stranger, Err(NotYours));
    assert_decides(&one, &[], roleless, Err(NotYours));
    assert_decides(&nobody, &[], word(&nobody, "ann", true), Err(NotYours));
}

/// 001-A3: never the agent itself, however it spells its name, unless the rule says that it may.
#[test]
fn no_agent_decides_of_its_own_call() {
    let one = ask("key");
    let own = HoldRequest {
        self_approval: true,
        ..one.clone()
    };
    let spelt = word(&one, "Billing-Agent", true);
    assert_decides(&one, &[], spelt, Err(NotYours));
    assert_decides(&one, &[], word(&one, ITSELF, true), Err(NotYours));
    assert_decides(&one, &[], word(&one, ITSELF, false), Err(NotYours));
    assert_decides(&own, &[], word(&own, ITSELF, true), Ok(Held::Allowed));
}

/// 001-A3: as many different operators as the rule asks for; any denial ends it.
#[test]
fn two_operators_decide_where_two_are_needed() {
    let two = HoldRequest {
        needed: 2,
        ..ask("key")
    };
    let ann = &[("ann", true)];
    assert_decides(&two, &[], word(&two, "ann", true), Ok(Held::Pending));
    assert_decides(&two, ann, word(&two, "ann", true), Err(Same));
    assert_decides(&two, ann, word(&two, "Ann", true), Err(Same));
    assert_decides(&two, ann, word(&two, "bob", true), Ok(Held::Allowed));
    assert_decides(&two, ann, word(&two, "bob", false), Ok(Held::Denied));
    assert_decides(&two, ann, word(&two, "ann", false), Ok(Held::Denied));
}

/// 001-A3: the first decision stands.
#[test]
fn the_first_decision_stands() {
    let one = ask("key");
    for allowed in [true, false] {
        let decided = &[("ann", allowed)];
        let other = || Err(Other { allowed });
        assert_decides(&one, decided, word(&one, "bob", allowed), Err(Same));
        assert_decides(&one, decided, word(&one, "bob", !allowed), other());
    }
    let taken_back = word(&one, "ann", false);
    let other = Err(Other { allowed: true });
    assert_decides(&one, &[("ann", true)], taken_back, other);
}

/// 001-A3: what is not held, or not any more, is not decided.
#[test]
fn nobody_decides_what_is_not_held() {
    let one = ask("key");
    let another = Decide {
        id: ActionId::generate(),
        ..word(&one, "ann", true)
    };
    assert_decides(&one, &[], another, Err(Gone));
    assert_eq!(
        say(&mut StoreView::default(), word(&one, "ann", true), START_MS),
        undecided(Gone)
    );
}

/// Decided too late is not decided, whichever operator says it; what was used cannot be taken back.
#[test]
fn nobody_decides_after_the_deadline() {
    let ask = ask("key");
    for (said, at) in [
        (vec![], APPROVE_MS),
        (vec![("ann", true)], EXECUTE_MS),
        (vec![("ann", false)], APPROVE_MS),
    ] {
        for allow in [true, false] {
            let mut view = held(&ask, &said);
            let told = say(&mut view, word(&ask, "bob", allow), START_MS + at);
            assert_eq!(told, undecided(Undecided::Gone), "{said:?}");
        }
    }
    let mut view = held(&ask, &[]);
    say(
        &mut view,
        word(&ask, "ann", true),
        START_MS + APPROVE_MS - 1,
    )
    .unwrap();
    assert_eq!(
        stands(&view, START_MS + APPROVE_MS + EXECUTE_MS - 2),
        HoldStatus::Allowed,
        "counted from the decision"
    );
    begin(
        &mut view,
        &Intent {
            hold: Some(ask.key),
            ..intent("call", 1)
        },
        START_MS + APPROVE_MS,
    )
    .unwrap();
    let told = say(&mut view, word(&ask, "bob", false), START_MS + APPROVE_MS);
    assert_eq!(told, undecided(Undecided::Gone));
}
