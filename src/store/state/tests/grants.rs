//! Standing grants: what is counted, and what ends one (guarantees §7).

use super::*;
use crate::model::amount::Amount;
use crate::store::state::command::{GrantBounds, MintGrant, RevokeGrant};
use crate::store::state::event::GrantMinted;
use crate::store::state::grant::{
    ArgumentConstraint, ArgumentRule, Grant, GrantScope, GrantTotal, GrantUse, MAX_GRANT_BYTES,
};

mod random;

/// How long grants last here.
const LASTS_MS: u64 = 1000;

fn amount(whole: u64) -> Amount {
    Amount::of(&whole.into()).unwrap()
}

/// A grant of three calls that move ten at most, minted by `ann` for a second.
pub(in crate::store) fn mint() -> MintGrant {
    let grant = Grant {
        id: ActionId::generate(),
        minted: 0,
        until: 0,
        max_uses: 3,
        scope: GrantScope {
            agent: "billing-agent".to_owned(),
            tenant: Some("t_001".to_owned()),
            user: None,
            tool: ToolName::new("bank__pay"),
            schema_hash: "a".repeat(64),
            bound_to: "b".repeat(64),
            beside: None,
        },
        constraints: [ArgumentConstraint {
            pointer: "/amount".to_owned(),
            numbered_members: Vec::new(),
            is: ArgumentRule::AtMost(100.into()),
        }]
        .into(),
        total: Some(GrantTotal {
            pointer: "/amount".to_owned(),
            at_most: amount(10),
        }),
        who: "ann".to_owned(),
        why: "every month".to_owned(),
        roles: vec!["approver".to_owned()],
        shown: None,
        uses: 0,
        moved: Amount::default(),
        last: None,
        revoked: None,
    };
    MintGrant {
        grant,
        lasts: LASTS_MS,
        allow: None,
        bounds: GrantBounds { all: 3, agent: 2 },
    }
}

/// A call under `key`, in a session of its own, that `mint` covers and that moves `moves`.
pub(in crate::store) fn covered(mint: &MintGrant, key: &str, moves: u64) -> Intent {
    let used = GrantUse {
        key: Grant::key_of(mint.grant.id),
        amount: amount(moves),
    };
    Intent {
        grant: Some(used),
        session: named(key),
        ..intent(key, 1)
    }
}

fn minted(mint: &MintGrant) -> StoreView {
    let mut view = StoreView::default();
    run(
        &mut view,
        &StoreCommand::Mint(Box::new(mint.clone())),
        START_MS,
    )
    .unwrap();
    view
}

/// Begins with nothing known of the key.
fn begins(
    view: &mut StoreView,
    intent: &Intent,
    now: Millis,
) -> Result<StoreEvent, CommandRefusal> {
    (view.claim, view.session) = (None, None);
    begin(view, intent, now)
}

fn uses(view: &StoreView) -> (u64, String) {
    let grant = view.grant.as_ref().unwrap();
    (grant.uses, grant.moved.to_string())
}

fn revoke(mint: &MintGrant) -> StoreCommand {
    let (id, who, why) = (mint.grant.id, "bob".to_owned(), "no more".to_owned());
    StoreCommand::Revoke(RevokeGrant { id, who, why })
}

#[test]
fn uses_total_time_and_revocation_end_a_grant() {
    let refused = |end| Err(CommandRefusal::Granted(end));
    let mint = mint();
    let mut view = minted(&mint);
    for (key, moves) in [("1", 4), ("2", 4)] {
        begins(&mut view, &covered(&mint, key, moves), START_MS).unwrap();
    }
    let third = covered(&mint, "3", 3);
    assert_eq!(
        begins(&mut view, &third, START_MS),
        refused(GrantEnd::TotalUsedUp)
    );
    begins(&mut view, &covered(&mint, "3", 1), START_MS).unwrap();
    assert_eq!(uses(&view), (3, "9".to_owned()));
    let fourth = covered(&mint, "4", 1);
    assert_eq!(
        begins(&mut view, &fourth, START_MS),
        refused(GrantEnd::UsedUp)
    );

    let mut view = minted(&mint);
    let late = START_MS + LASTS_MS;
    assert_eq!(begins(&mut view, &third, late), refused(GrantEnd::Expired));
    begins(&mut view, &third, late - 1).unwrap();

    let mut view = minted(&mint);
    run(&mut view, &revoke(&mint), START_MS).unwrap();
    assert_eq!(
        begins(&mut view, &third, START_MS),
        refused(GrantEnd::Revoked)
    );
    assert_eq!(
        run(&mut view, &revoke(&mint), START_MS),
        refused(GrantEnd::Revoked)
    );

    let mut view = StoreView::default();
    assert_eq!(
        begins(&mut view, &third, START_MS),
        refused(GrantEnd::Absent)
    );
    let mut other = minted(&super::grants::mint());
    assert_eq!(
        begins(&mut other, &third, START_MS),
        refused(GrantEnd::Absent)
    );
}

/// What a call has taken it has taken until it is proven that it did not run.
#[test]
fn what_did_not_run_gives_its_use_back_once() {
    let mint = mint();
    for phase in phases().into_iter().flatten() {
        let mut view = minted(&mint);
        let call = covered(&mint, "1", 4);
        begins(&mut view, &call, START_MS).unwrap();
        let mut settle = settle(&call, phase.clone());
        if matches!(phase, ClaimPhase::Abandoned) {
            let lost = super::settle(&call, unknown());
            run(&mut view, &StoreCommand::Settle(lost), START_MS).unwrap();
            settle.evidence = operator();
        }
        run(&mut view, &StoreCommand::Settle(settle.clone()), START_MS).unwrap();
        let is_free = matches!(phase, ClaimPhase::NotSent | ClaimPhase::Failed { .. });
        let expected = if is_free { (0, "0") } else { (1, "4") };
        assert_eq!(
            uses(&view),
            (expected.0, expected.1.to_owned()),
            "{phase:?}"
        );
        // A second word on it gives nothing more.
        let again = run(&mut view, &StoreCommand::Settle(settle), START_MS);
        assert!(again.is_err() || !is_free, "{phase:?}");
        assert_eq!(uses(&view).0, expected.0);
    }
    // An operator who has looked says that it did not run.
    let mut view = minted(&mint);
    let call = covered(&mint, "1", 4);
    begins(&mut view, &call, START_MS).unwrap();
    for (phase, evidence) in [
        (unknown(), Evidence::Exchange),
        (ClaimPhase::NotSent, operator()),
    ] {
        let settle = Settle {
            evidence,
            ..settle(&call, phase)
        };
        run(&mut view, &StoreCommand::Settle(settle), START_MS).unwrap();
    }
    assert_eq!(uses(&view), (0, "0".to_owned()));
}

/// The grant and the word on the call that was shown are one event, and the rules of held calls count.
#[test]
fn a_grant_begins_with_the_word_on_a_held_call_or_not_at_all() {
    let asked = ask("key");
    let mut view = StoreView::default();
    run(
        &mut view,
        &StoreCommand::Hold(Box::new(asked.clone())),
        START_MS,
    )
    .unwrap();
    let with = |allow: Decide| {
        StoreCommand::Mint(Box::new(MintGrant {
            allow: Some(allow),
            ..mint()
        }))
    };
    let teller = Decide {
        right: right(&["teller"], None),
        ..word(&asked, "ann", true)
    };
    let itself = word(&asked, "Billing-Agent", true);
    for wrong in [teller, itself] {
        let refused = run(&mut view, &with(wrong), START_MS);
        assert_eq!(refused, Err(CommandRefusal::Undecided(Undecided::NotYours)));
        assert_eq!(view.grant, None);
    }
    let event = run(&mut view, &with(word(&asked, "ann", true)), START_MS).unwrap();
    assert!(matches!(event, StoreEvent::Granted(minted) if minted.allowed.is_some()));
    let hold = view.hold.as_ref().unwrap();
    assert_eq!(
        (&hold.phase, hold.decisions.len()),
        (&hold::HoldPhase::Allowed, 1)
    );
    assert_eq!(
        view.grant.as_ref().map(|grant| grant.until),
        Some(START_MS + LASTS_MS)
    );
    let second = run(&mut view, &with(word(&asked, "bob", true)), START_MS);
    assert_eq!(second, Err(CommandRefusal::Undecided(Undecided::Same)));
}

#[test]
fn grants_are_bounded() {
    for (all, agent, expected) in [
        (3, 0, Some(GrantBound::All)),
        (2, 2, Some(GrantBound::Agent)),
        (2, 1, None),
    ] {
        let mut view = StoreView {
            grants: LiveGrants { all, agent },
            ..StoreView::default()
        };
        let minted = run(&mut view, &StoreCommand::Mint(Box::new(mint())), START_MS);
        let bound = match minted {
            Err(CommandRefusal::TooManyGrants(bound)) => Some(bound),
            _ => None,
        };
        assert_eq!(bound, expected);
    }
}

/// The largest grant fits a value of the index, and its arguments stand behind the line.
#[test]
fn records_of_grants_are_read_as_they_were_written() {
    let text = "x".repeat(MAX_GRANT_BYTES - 64);
    let grant = Grant {
        constraints: [ArgumentConstraint {
            pointer: "/a".to_owned(),
            numbered_members: Vec::new(),
            is: ArgumentRule::StartsWith(text),
        }]
        .into(),
        ..mint().grant
    };
    let granted = GrantMinted {
        grant: grant.clone(),
        allowed: None,
    };
    let carried = event::Carried::Grant(Grant::key_of(grant.id), Box::new(grant));
    for event in [
        StoreEvent::Granted(Box::new(granted)),
        StoreEvent::Carried(carried),
    ] {
        let record = Bytes::from(event.encode().unwrap());
        assert!(record.len() < 32 << 10);
        let line = record.split(|byte| *byte == b'\n').next().unwrap();
        assert!(!String::from_utf8_lossy(line).contains("xxxx"));
        assert_eq!(StoreEvent::decode(&record).unwrap(), event);
    }
}
