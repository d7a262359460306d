//! Whatever happens to a grant, in any order and at any time: a book of its own says what may begin.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum GrantStep {
    Begin { key: u8, moves: u64 },
    End { key: u8, how: usize },
    Revoke,
    Wait(u64),
}

fn step() -> impl Strategy<Value = GrantStep> {
    prop_oneof![
        6 => (0..4_u8, 0..5_u64).prop_map(|(key, moves)| GrantStep::Begin { key, moves }),
        6 => (0..4_u8, 0..5_usize).prop_map(|(key, how)| GrantStep::End { key, how }),
        1 => Just(GrantStep::Revoke),
        2 => prop_oneof![0..200_u64, Just(LASTS_MS)].prop_map(GrantStep::Wait),
    ]
}

/// The calls that are in flight, and what has begun and is not known to have not run.
#[derive(Debug, Default)]
struct GrantBook {
    open: BTreeMap<u8, (Intent, u64, StoreView)>,
    uses: u64,
    moved: u64,
    revoked: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// guarantees §1, §7: a call begins with a grant only in its time, as often as it says and within
    /// its total, never after it was taken back; what did not run gives back exactly what it took. The
    /// events alone give the same state again.
    #[test]
    fn no_call_begins_beyond_its_grant(steps in prop::collection::vec(step(), 1..80)) {
        let mint = mint();
        let (mut view, mut now) = (minted(&mint), START_MS);
        let first = decide(&StoreCommand::Mint(Box::new(mint.clone())), &StoreView::default(), START_MS);
        let (mut book, mut events) = (GrantBook::default(), vec![first.unwrap()]);
        for step in steps {
            match step {
                GrantStep::Wait(time) => now += time,
                GrantStep::Revoke => {
                    let event = run(&mut view, &revoke(&mint), now);
                    prop_assert_eq!(event.is_ok(), !book.revoked);
                    events.extend(event);
                    book.revoked = true;
                }
                GrantStep::Begin { key, moves } if !book.open.contains_key(&key) => {
                    let call = covered(&mint, &key.to_string(), moves);
                    let begun = begins(&mut view, &call, now);
                    // A total that is used up covers nothing, not even what moves nothing.
                    let has_room = book.moved < 10 && book.moved + moves <= 10;
                    let expected = !book.revoked && now < START_MS + LASTS_MS && book.uses < 3 && has_room;
                    prop_assert_eq!(begun.is_ok(), expected, "{:?}", begun);
                    if let Ok(event) = begun {
                        events.push(event);
                        (book.uses, book.moved) = (book.uses + 1, book.moved + moves);
                        book.open.insert(key, (call, moves, view.clone()));
                    }
                }
                GrantStep::Begin { .. } => {}
                GrantStep::End { key, how } => {
                    let Some((call, moves, then)) = book.open.remove(&key) else {
                        continue;
                    };
                    let phase = [ClaimPhase::NotSent, ClaimPhase::Failed { answer: None, again: true },
                        ClaimPhase::Completed(result("paid")), unknown(), ClaimPhase::NotSent][how].clone();
                    view.claim = then.claim;
                    let ended = run(&mut view, &StoreCommand::Settle(settle(&call, phase)), now);
                    events.push(ended.unwrap());
                    if ![2, 3].contains(&how) {
                        (book.uses, book.moved) = (book.uses - 1, book.moved - moves);
                    }
                }
            }
            prop_assert_eq!(uses(&view), (book.uses, book.moved.to_string()));
        }
        let mut again = StoreView::default();
        for event in &events {
            // Each claim is another's; only the grant is looked at.
            let event = StoreEvent::decode(&Bytes::from(event.encode().unwrap())).unwrap();
            again.claim = if let StoreEvent::Settled(settled) = &event {
                let of = |event: &&StoreEvent| matches!(event, StoreEvent::Intended(one) if one.action == settled.action);
                let mut before = StoreView::default();
                apply(events.iter().find(of).unwrap(), &mut before);
                before.claim
            } else {
                None
            };
            apply(&event, &mut again);
        }
        prop_assert_eq!(again.grant, view.grant);
    }
}
