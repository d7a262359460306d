//! What holds after any commands at any times, by the events alone: a book of its own is kept
//! beside the state machine and compared with it. guarantees §1, 003-27, 004-13, 004-25, 004-28.
//! The book is in `reference`, what is compared in `checks`.

use super::super::budget::Rate;
use super::*;
use proptest::prelude::*;
use reference::{ReferenceState, ReferenceStore};

mod checks;
mod reference;

const TOOL_NAMES: [&str; 2] = ["bank__pay", "bank__see"];

/// Something that happens. Names are numbers, so that they meet.
#[derive(Debug, Clone)]
enum RandomStep {
    Begin(RandomBegin),
    Settle(RandomSettle),
    Reserve {
        task: u8,
        tool: usize,
        cost: u64,
    },
    Spend {
        which: prop::sample::Index,
        charge: u8,
        failed: bool,
    },
    Fence {
        session: u8,
        stale: bool,
    },
    Wait(u64),
}

#[derive(Debug, Clone, Copy)]
struct RandomBegin {
    key: u8,
    fingerprint: u8,
    round: Option<u8>,
    task: u8,
    session: u8,
    stale: bool,
    tool: usize,
    cost: u64,
    keep: bool,
}

#[derive(Debug, Clone, Copy)]
struct RandomSettle {
    key: u8,
    stranger: bool,
    phase: usize,
    word: usize,
    cost: Option<u64>,
}

fn begins() -> impl Strategy<Value = RandomStep> {
    let begin = (
        0..3_u8,
        0..8_u8,
        prop::option::weighted(0.3, 0..3_u8),
        (0..2_u8, 0..2_u8),
        0..10_u8,
        0..2_usize,
        0..4_u64,
    );
    begin.prop_map(
        |(key, fingerprint, round, (task, session), stale, tool, cost)| {
            RandomStep::Begin(RandomBegin {
                key,
                fingerprint: fingerprint / 7,
                round,
                task,
                session,
                stale: stale == 0,
                tool,
                cost,
                keep: key == 0,
            })
        },
    )
}

fn settles() -> impl Strategy<Value = RandomStep> {
    let settle = (
        0..3_u8,
        0..10_u8,
        0..7_usize,
        0..30_usize,
        prop::option::of(0..4_u64),
    );
    settle.prop_map(|(key, stranger, phase, word, cost)| {
        RandomStep::Settle(RandomSettle {
            key,
            stranger: stranger == 0,
            phase,
            word,
            cost,
        })
    })
}

fn step() -> impl Strategy<Value = RandomStep> {
    prop_oneof![
        4 => begins(),
        5 => settles(),
        1 => (0..2_u8, 0..2_usize, 0..4_u64).prop_map(|(task, tool, cost)| RandomStep::Reserve { task, tool, cost }),
        1 => (any::<prop::sample::Index>(), 0..3_u8, any::<bool>())
            .prop_map(|(which, charge, failed)| RandomStep::Spend { which, charge, failed }),
        1 => (0..2_u8, any::<bool>()).prop_map(|(session, stale)| RandomStep::Fence { session, stale }),
        2 => prop_oneof![0..50_u64, 900..1100_u64, Just(20_000_u64), Just(315_360_000_000_u64)].prop_map(RandomStep::Wait),
    ]
}

fn limits() -> impl Strategy<Value = BudgetLimits> {
    let some = |most: u64| prop::option::of(0..most);
    (
        some(30),
        some(20),
        some(40),
        some(12),
        prop::option::of((1..5_u64, 1..300_u64)),
    )
        .prop_map(
            |(steps, tool_calls, cost, calls_per_tool, rate)| BudgetLimits {
                steps,
                tool_calls,
                cost,
                calls_per_tool,
                rate: rate.map(|(calls, per)| Rate { calls, per }),
                ..BudgetLimits::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_promises_hold(limits in limits(), steps in prop::collection::vec(step(), 1..80)) {
        let mut book = ReferenceStore::new(limits);
        for step in steps {
            book.take(&step);
            book.check();
        }
        book.replay();
        book.outlive();
    }

    /// An event that was decided once is applied to anything: a damaged index must not stop the journal's replay.
    #[test]
    fn events_apply_to_any_view(limits in limits(), steps in prop::collection::vec(step(), 1..60), skip in any::<u64>()) {
        let mut book = ReferenceStore::new(limits);
        for step in steps {
            book.take(&step);
        }
        let mut world = ReferenceState::default();
        let kept = book.events.iter().enumerate().filter(|(index, _)| skip >> (index % 64) & 1 == 0);
        kept.for_each(|(_, event)| world.apply(event));
    }
}
