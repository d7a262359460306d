//! Events as the journal keeps them.

use super::super::event::{BudgetSettled, ReadsTallied, decode, encode};
use super::super::tally::{EndedRead, ReadTally};
use super::*;
use crate::store::state::claim::inquiry::{Inquiry, KeptQuestion};
use crate::store::state::event::Carried;
use crate::store::state::grant::GrantUse;
use crate::store::state::kinship::Kinship;
use proptest::prelude::*;
use undo_records::{kept_caller, undo_change, undo_terms};

mod undo_records;

fn phase() -> impl Strategy<Value = ClaimPhase> {
    let stored = (
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(any::<u8>(), 0..200),
    )
        .prop_map(|(file, error, body)| {
            if file {
                Stored::inline(error, Bytes::from(body)).into_file()
            } else {
                Stored::inline(error, Bytes::from(body))
            }
        });
    let none = Just(None::<Stored>);
    prop_oneof![
        (any::<u32>(), stored.clone(), any::<bool>()).prop_map(|(round, asked, is_task)| {
            ClaimPhase::AwaitingInput {
                round,
                asked,
                is_task,
            }
        }),
        stored.clone().prop_map(ClaimPhase::Completed),
        (prop_oneof![none, stored.prop_map(Some)], any::<bool>())
            .prop_map(|(answer, again)| ClaimPhase::Failed { answer, again }),
        Just(ClaimPhase::NotSent),
        Just(ClaimPhase::Abandoned),
        ".*".prop_map(|why| ClaimPhase::Unknown { why }),
    ]
}

fn charge() -> impl Strategy<Value = Charge> {
    prop_oneof![
        Just(Charge::Release),
        Just(Charge::Hold),
        any::<u64>().prop_map(Charge::Settle)
    ]
}

fn holding() -> impl Strategy<Value = StoreEvent> {
    (".*", ".*", any::<bool>(), any::<u64>(), 0..3_u8).prop_map(|(who, why, allow, at, which)| {
        let key = named(&who);
        let mut held = holding::open_hold(&ask("key"), None, WaitingHolds::default(), at).unwrap();
        held.hold.question.arguments =
            json!({ "text": who, "why": [why, at, null, { "x": allow }] });
        held.hold.question.answers = allow.then(|| json!({ "requestState": why }));
        held.hold.question.beside =
            (at % 3 == 0).then(|| json!({ "_meta": { "x/y": why }, "task": {} }));
        let decision = hold::OperatorDecision {
            who,
            on_behalf: allow.then(|| "ann".to_owned()),
            allow,
            why,
            surface: allow.then(|| "page".to_owned()),
            at,
        };
        let phase = hold::HoldPhase::Used {
            action: ActionId::generate(),
            at,
            claim: match at % 3 {
                0 => hold::UsedClaim::Unsaid,
                1 => hold::UsedClaim::Nothing,
                _ => hold::UsedClaim::Key(key),
            },
        };
        match which {
            0 => StoreEvent::Held(Box::new(held)),
            1 => StoreEvent::Decided(event::HoldDecided {
                key,
                id: ActionId::generate(),
                decision,
                phase,
            }),
            _ => {
                held.hold.decisions.push(decision);
                StoreEvent::Carried(Carried::Hold(key, Box::new(held.hold)))
            }
        }
    })
}

/// What a call takes of a grant.
fn taken() -> GrantUse {
    GrantUse {
        key: named("grant"),
        amount: "12.5".to_owned().try_into().unwrap(),
    }
}

fn settled() -> impl Strategy<Value = StoreEvent> {
    (phase(), charge(), ".*", ".*", any::<[u64; 4]>()).prop_map(
        |(phase, charge, who, why, numbers)| {
            StoreEvent::Settled(Settled {
                account: None,
                key: named("key"),
                action: ActionId::generate(),
                task: named(&who),
                session: named(&why),
                at: numbers[0],
                phase,
                evidence: Evidence::Operator { who, why },
                charge,
                grant: (numbers[2].is_multiple_of(2)).then(taken),
                failed: numbers[1].is_multiple_of(2),
                seen: (numbers[1].is_multiple_of(3)).then_some(budget::SeenCall {
                    call: numbers[2],
                    outcome: numbers[3],
                    refused: true,
                    times: u32::try_from(numbers[3] % 7).unwrap_or_default() + 1,
                }),
                undo: (numbers[0].is_multiple_of(2)).then(|| Box::new(undo_change(numbers))),
            })
        },
    )
}

fn intended() -> impl Strategy<Value = StoreEvent> {
    (".*", ".*", any::<[u64; 6]>(), any::<bool>()).prop_map(|(tool, agent, n, brings)| {
        StoreEvent::Intended(Box::new(Intended {
            account: None,
            key: named("key"),
            fingerprint: named(&tool),
            action: ActionId::generate(),
            attempt: 3,
            round: 0,
            brought: brings.then(|| named("input")),
            at: n[0],
            ttl: n[1],
            keep: n[2],
            task: named("task"),
            session: named("session"),
            fence: n[3],
            hold: (n[3] % 2 == 0).then(|| named("hold")),
            edited: (n[3] % 4 == 0).then(ActionId::generate),
            grant: (n[4] % 2 == 0).then(taken),
            cost: n[4],
            rate: n[5],
            window: (n[1] % 2 == 0).then_some(budget::Rate {
                calls: n[0],
                per: n[2],
            }),
            begins: (n[2] % 2 == 0).then(TaskOrigin::default),
            counted: (n[5] % 2 == 0).then(|| ToolName::new("t#case")),
            entry: Entry {
                user_id: agent,
                ..entry(&tool)
            },
            kinship: Kinship {
                kin: (n[0] % 2 == 0).then(|| named("kin")),
                trace: (n[1] % 2 == 0).then(|| "0af7651916cd43dd8448eb211c80319c".to_owned()),
                past: (n[2] % 2 == 0).then(ActionId::generate),
            },
            inquiry: (n[3] % 2 == 0).then(|| {
                Box::new(Inquiry {
                    sent_key: (n[1] % 2 == 0).then(|| named("sent key")),
                    question: (n[2] % 2 == 0).then(|| KeptQuestion {
                        probe: named("probe"),
                        tenant: (n[4] % 2 == 0).then(|| "t_001".to_owned()),
                        caller: (n[5] % 2 == 0).then(kept_caller),
                        arguments: "{\"order\":7}".to_owned(),
                        key: (n[5] % 2 == 0).then(|| "k1".to_owned()),
                    }),
                })
            }),
            undo: (n[1] % 3 == 0).then(|| Box::new(undo_terms("{\"values\":{}}"))),
            undoes: (n[0] % 3 == 0).then(ActionId::generate),
            may_undo: (n[0] % 5 == 0).then(|| Digest::of(b"made")),
        }))
    })
}

fn spent() -> impl Strategy<Value = StoreEvent> {
    (
        ".*",
        prop::option::of((any::<u64>(), charge())),
        any::<u64>(),
    )
        .prop_map(|(tool, charge, at)| {
            let tool = ToolName::new(&tool);
            StoreEvent::Spent(BudgetSettled {
                account: None,
                since: None,
                is_refused: false,
                is_past: false,
                task: named("task"),
                tool,
                charge,
                failed: true,
                seen: None,
                at,
            })
        })
}

fn tallied() -> impl Strategy<Value = StoreEvent> {
    (".*", any::<[u64; 4]>()).prop_map(|(tool, [cost, call, since, at])| {
        StoreEvent::Tallied(ReadsTallied {
            task: named("task"),
            reads: ReadTally::of(EndedRead {
                sent: (at % 2 == 0).then(|| (ToolName::new(&tool), cost)),
                failed: at % 3 == 0,
                seen: budget::SeenCall {
                    call,
                    outcome: cost,
                    refused: false,
                    times: 1,
                },
            }),
            begins: (at % 5 == 0).then(TaskOrigin::default),
            since,
            at,
        })
    })
}

fn event() -> impl Strategy<Value = StoreEvent> {
    prop_oneof![
        settled(),
        intended(),
        spent(),
        tallied(),
        any::<[u64; 3]>().prop_map(|[cost, rate, at]| {
            StoreEvent::Reserved(BudgetReserved {
                account: None,
                task: named("task"),
                tool: ToolName::new("t"),
                cost,
                rate,
                window: (at % 2 == 0).then_some(budget::Rate {
                    calls: cost,
                    per: rate,
                }),
                begins: (at % 3 == 0).then(TaskOrigin::default),
                hold: (at % 5 == 0).then(|| (named("hold"), ActionId::generate())),
                at,
            })
        }),
        (0..4_usize, any::<u64>()).prop_map(|(state, at)| {
            StoreEvent::Entered {
                task: named("task"),
                state: crate::model::task::TaskState::ALL[state],
                begins: (at % 2 == 0).then(TaskOrigin::default),
                at,
            }
        }),
        (".*", any::<u64>()).prop_map(|(why, at)| StoreEvent::Steered(TaskSteered {
            task: named("task"),
            act: if at % 2 == 0 {
                event::TaskAct::Stop
            } else {
                event::TaskAct::Reset
            },
            who: "eve".to_owned(),
            why,
            at,
        })),
        any::<u64>().prop_map(|at| StoreEvent::Planned {
            task: named("task"),
            call: named("call"),
            begins: (at % 2 == 0).then(TaskOrigin::default),
            at,
        }),
        any::<[u64; 2]>().prop_map(|[token, at]| StoreEvent::Fenced {
            session: named("session"),
            token,
            at
        }),
        holding(),
    ]
}

proptest! {
    #[test]
    fn an_event_is_read_as_it_was_written(event in event()) {
        let record = Bytes::from(event.encode().unwrap());
        prop_assert_eq!(StoreEvent::decode(&record).unwrap(), event);
    }

    #[test]
    fn a_claim_is_read_as_it_was_written(phase in phase(), body in prop::collection::vec(any::<u8>(), 0..200)) {
        let record = Bytes::from(encode(&phase, &body).unwrap());
        let (head, rest): (ClaimPhase, Bytes) = decode(&record).unwrap();
        prop_assert_eq!(head.word(), phase.word());
        prop_assert_eq!(&rest[..], &body[..]);
    }

    /// A process that can write to the journal's file may write anything: it is refused, or it is read; never more.
    #[test]
    fn what_is_no_event_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(StoreEvent::decode(&Bytes::from(bytes)).is_err());
    }

    #[test]
    fn a_damaged_event_is_refused_or_read(event in event(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut record = event.encode().unwrap();
        let at = at.index(record.len());
        record[at] = byte;
        let _ = StoreEvent::decode(&Bytes::from(record));
    }
}

#[test]
fn a_body_may_be_anything() {
    let megabyte: Vec<u8> = (0..1 << 20)
        .map(|n: u32| n.to_le_bytes()[usize::from(n.is_multiple_of(3))])
        .collect();
    for body in [
        &b""[..],
        b"\n",
        b"\n\n{}\n",
        b"{\"completed\":1}\n",
        &[0, 255, 10, 13],
        &megabyte,
    ] {
        let call = intent("key", 1);
        let mut view = after(&call, None);
        let stored = Stored::inline(false, Bytes::copy_from_slice(body));
        let event = run(
            &mut view,
            &StoreCommand::Settle(settle(&call, ClaimPhase::Completed(stored))),
            START_MS,
        )
        .unwrap();
        let StoreEvent::Settled(read) =
            StoreEvent::decode(&Bytes::from(event.encode().unwrap())).unwrap()
        else {
            panic!("no")
        };
        assert_eq!(&read.phase.stored().unwrap().body[..], body);
    }
}

#[test]
fn digests_are_read_back_and_parts_do_not_run_into_each_other() {
    let digest = named("key");
    assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
    assert_eq!(
        digest.to_string(),
        "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"
    );
    assert_eq!(digest.short(), 0x2c70_e12b_7a06_46f9);
    for wrong in [
        "",
        "2c",
        &"g".repeat(64),
        &"0".repeat(63),
        &"0".repeat(65),
        &"é".repeat(32),
    ] {
        assert_eq!(Digest::from_hex(wrong), None, "{wrong}");
    }
    let of = |parts: &[&[u8]]| Digest::of_parts("purpose", parts);
    assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    assert_ne!(of(&[b"a"]), of(&[b"a", b""]));
    assert_ne!(of(&[]), Digest::of_parts("other", &[]));
}
