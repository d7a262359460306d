//! Whatever happens to a held call, in any order and at any time.

use super::edits::{edit, edits_to};
use super::*;
use crate::store::state::command::EditHold;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

/// Something that happens to a held call. Names are numbers, so that they meet.
#[derive(Debug, Clone)]
enum HoldStep {
    Ask(u32),
    Say {
        who: usize,
        allow: bool,
        teller: bool,
        /// About the arguments as they were before the last change.
        stale: bool,
    },
    Edit {
        stale: bool,
    },
    Begin {
        key: u8,
        /// With the arguments as the agent sends them.
        as_asked: bool,
    },
    Wait(u64),
}

fn step() -> impl Strategy<Value = HoldStep> {
    prop_oneof![
        2 => (1..4_u32).prop_map(HoldStep::Ask),
        4 => (0..4_usize, 0..6_u8, 0..6_u8, 0..6_u8).prop_map(|(who, allow, teller, stale)| HoldStep::Say {
            who, allow: allow > 0, teller: teller == 0, stale: stale == 0,
        }),
        1 => (0..4_u8).prop_map(|stale| HoldStep::Edit { stale: stale == 0 }),
        3 => (any::<u8>(), 0..3_u8).prop_map(|(key, as_asked)| HoldStep::Begin { key, as_asked: as_asked == 0 }),
        2 => prop_oneof![0..100_u64, Just(EXECUTE_MS - 1), Just(EXECUTE_MS), Just(APPROVE_MS), Just(EXPIRED_HOLD_GRACE_MS), Just(HOUR_MS)]
            .prop_map(HoldStep::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// guarantees §1: whatever happens, a call begins only after as many different operators of the
    /// role have allowed it as it needs, nobody has denied it, all in time, and once. The events
    /// alone say so, and give the same state again.
    #[test]
    fn what_was_not_allowed_never_begins(steps in prop::collection::vec(step(), 1..80)) {
        let (mut view, mut now, mut events, mut fence) = (StoreView::default(), START_MS, Vec::new(), 0);
        let (mut asked, mut id): (Option<(u32, Millis)>, _) = (None, ActionId::generate());
        let (mut allowed, mut last, mut edits) = (BTreeSet::new(), START_MS, 0);
        for step in steps {
            match step {
                HoldStep::Wait(time) => now += time,
                HoldStep::Ask(needed) => {
                    let asks = HoldRequest { id: ActionId::generate(), needed, ..ask("key") };
                    if let Ok(event) = hold(&mut view, &asks, now) {
                        events.push(event);
                        (asked, id, last, edits) = (Some((needed, now)), asks.id, now, 0);
                        allowed.clear();
                    }
                }
                HoldStep::Say { who, allow, teller, stale } => {
                    let who = ["ann", "bob", "cyd", "billing-agent"][who];
                    let right = right(&[if teller { "teller" } else { "approver" }], None);
                    let known = edits - usize::from(stale && edits > 0);
                    let said = Decide { id, right, edits: known, ..word(&ask("key"), who, allow) };
                    if let Ok(event) = say(&mut view, said, now) {
                        events.push(event);
                        let (_, since) = asked.unwrap();
                        prop_assert!(!teller && who != "billing-agent" && now < since + APPROVE_MS);
                        prop_assert!(!allow || known == edits, "what was not looked at is allowed");
                        if allow {
                            prop_assert!(allowed.insert(who), "the same operator counted twice");
                            last = now;
                        } else {
                            asked = None;
                        }
                    }
                }
                HoldStep::Edit { stale } => {
                    let known = edits - usize::from(stale && edits > 0);
                    let change = EditHold { id, edits: known, ..edit(&ask("key"), "ann", json!({ "amount": events.len() })) };
                    if let Ok(event) = edits_to(&mut view, change, now) {
                        events.push(event);
                        prop_assert_eq!(known, edits);
                        (edits, last) = (edits + 1, now);
                        allowed.clear();
                    }
                }
                HoldStep::Begin { key, as_asked } => {
                    fence += 1;
                    let carried = view.hold.as_ref().and_then(Hold::edited);
                    let edited = carried.filter(|_| !as_asked);
                    let call = Intent { hold: Some(named("key")), edited, ..intent(&key.to_string(), fence) };
                    view.claim = None;
                    let begun = begin(&mut view, &call, now);
                    let is_allowed = asked.is_some_and(|(needed, _)| allowed.len() == needed as usize);
                    let is_exact = edited == carried;
                    prop_assert_eq!(begun.is_ok(), is_allowed && is_exact && now < last + EXECUTE_MS, "{:?}", begun);
                    if let Ok(event) = begun {
                        events.push(event);
                        asked = None;
                    }
                }
            }
        }
        let mut again = StoreView::default();
        for event in &events {
            again.claim = None;
            apply(&StoreEvent::decode(&Bytes::from(event.encode().unwrap())).unwrap(), &mut again);
        }
        prop_assert_eq!(again.hold, view.hold);
    }
}
