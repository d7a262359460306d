//! Every store decides as the plainest one does: the same commands at the same times, closed and
//! opened in between.

use super::TestStore;
use crate::model::clock::hands::TestClock;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::model::task::TaskOrigin;
use crate::store::claims::Store;
use crate::store::state::account::AccountDemand;
use crate::store::state::budget::{BudgetLimits, Price, Rate, SeenCall};
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{
    Decide, HoldBounds, HoldRequest, Intent, Reserve, Settle, Spend, StoreCommand, TaskTally,
};
use crate::store::state::settlement::{Charge, Evidence};
use crate::store::state::tally::{EndedRead, ReadTally};
use crate::store::state::tests::{ask, entry, intent, operator, result, settle, unknown, word};
use crate::store::state::{StoreKeys, StoreView};
use std::collections::BTreeMap;
use std::time::Duration;

/// Numbers that a seed decides (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct SplitMixRng(u64);

impl SplitMixRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }
}

const KEY_COUNT: u64 = 6;
const TOOL_NAMES: [&str; 2] = ["bank__pay", "bank__see"];

fn of(kind: u8, number: u64) -> Digest {
    Digest::of(&[&[kind][..], &number.to_le_bytes()].concat())
}

/// Held calls have few ids, too: of one key, they follow each other.
fn of_hold(key: u64) -> ActionId {
    format!("0198f1a2-0000-7000-8000-{key:012}")
        .parse()
        .unwrap()
}

fn held(dice: &mut SplitMixRng, key: u64) -> HoldRequest {
    let needed = u32::try_from(dice.roll(2)).unwrap() + 1;
    let (approve_for, execute_for) = (dice.roll(1000), dice.roll(1000));
    let bounds = HoldBounds {
        all: 3,
        agent: 2,
        caller: 2,
    };
    let mut ask = HoldRequest {
        key: of(b'h', key),
        id: of_hold(key),
        approve_for,
        execute_for,
        needed,
        bounds,
        ..ask("")
    };
    ask.question.tenant = dice.once_in(2).then(|| "t_002".to_owned());
    ask
}

fn limits(dice: &mut SplitMixRng) -> BudgetLimits {
    let rate = dice.once_in(3).then_some(Rate { calls: 5, per: 100 });
    BudgetLimits {
        tool_calls: Some(60),
        cost: Some(150),
        rate,
        ..BudgetLimits::default()
    }
}

fn account(dice: &mut SplitMixRng) -> Option<Box<AccountDemand>> {
    let key = dice.once_in(2).then(|| of(b'u', dice.roll(2)))?;
    Some(Box::new(AccountDemand {
        key,
        limits: BudgetLimits {
            tool_calls: Some(20),
            span: Some(500),
            ..BudgetLimits::default()
        },
        origin: TaskOrigin::default(),
    }))
}

fn command(dice: &mut SplitMixRng, last: &mut BTreeMap<u64, Intent>, token: u64) -> StoreCommand {
    let tool = TOOL_NAMES[usize::try_from(dice.roll(2)).unwrap()];
    let price = Price {
        tool: ToolName::new(tool),
        cost: dice.roll(4),
    };
    let key = dice.roll(KEY_COUNT);
    match (dice.roll(14), last.get(&key).cloned()) {
        (10 | 11, _) => StoreCommand::Hold(Box::new(held(dice, key))),
        (12 | 13, _) => {
            let who = ["ann", "bob", "billing-agent"][usize::try_from(dice.roll(3)).unwrap()];
            let said = word(&ask(""), who, !dice.once_in(4));
            StoreCommand::Decide(Decide {
                key: of(b'h', key),
                id: of_hold(key),
                ..said
            })
        }
        (0, _) => StoreCommand::Fence {
            session: of(b's', dice.roll(2)),
            token,
        },
        (1, _) => StoreCommand::Reserve(Reserve {
            account: account(dice),
            task: of(b't', dice.roll(2)),
            limits: limits(dice),
            price,
            origin: None,
            hold: None,
            edited: None,
        }),
        (2, _) if dice.once_in(2) => tally(dice, key, tool),
        (2, _) => spent(dice, key, tool),
        (3..7, Some(intent)) => settled(dice, &intent),
        _ => {
            let intent = Intent {
                key: of(b'k', key),
                round: dice.once_in(3).then(|| of(b'r', dice.roll(2))),
                account: account(dice),
                task: of(b't', dice.roll(2)),
                session: of(b's', dice.roll(2)),
                fence: if dice.once_in(20) { token / 2 } else { token },
                hold: dice.once_in(3).then(|| of(b'h', key)),
                limits: limits(dice),
                entry: entry(tool),
                price,
                ..intent("", 0)
            };
            StoreCommand::Begin(Box::new(intent))
        }
    }
}

fn spent(dice: &mut SplitMixRng, key: u64, tool: &str) -> StoreCommand {
    let charge = [
        None,
        Some((1, Charge::Release)),
        Some((2, Charge::Settle(1))),
    ][usize::try_from(key % 3).unwrap()];
    let tool = ToolName::new(tool);
    StoreCommand::Spend(Spend {
        account: dice.once_in(2).then(|| of(b'u', dice.roll(2))),
        task: of(b't', dice.roll(2)),
        tool,
        charge,
        failed: dice.once_in(2),
        seen: None,
        since: None,
        is_refused: false,
        is_past: false,
    })
}

fn tally(dice: &mut SplitMixRng, key: u64, tool: &str) -> StoreCommand {
    let seen = SeenCall {
        call: key,
        outcome: dice.roll(2),
        refused: false,
        times: 1,
    };
    let read = EndedRead {
        sent: Some((ToolName::new(tool), 1)),
        failed: dice.once_in(2),
        seen,
    };
    StoreCommand::Tally(TaskTally {
        task: of(b't', dice.roll(2)),
        reads: ReadTally::of(read),
        since: 0,
        idle: None,
        origin: TaskOrigin::default(),
    })
}

fn settled(dice: &mut SplitMixRng, intent: &Intent) -> StoreCommand {
    let asked = ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("which?"),
        is_task: false,
    };
    let failed = ClaimPhase::Failed {
        answer: Some(result("no")),
        again: dice.once_in(2),
    };
    let phases = [
        unknown(),
        ClaimPhase::Completed(result("paid")),
        ClaimPhase::NotSent,
        asked,
        failed,
        ClaimPhase::Abandoned,
    ];
    let phase = phases[usize::try_from(dice.roll(6)).unwrap()].clone();
    let evidence = if dice.once_in(4) {
        operator()
    } else {
        Evidence::Late
    };
    StoreCommand::Settle(Settle {
        evidence,
        ..settle(intent, phase)
    })
}

/// What both stores know of everything.
async fn known(store: &dyn Store) -> Vec<StoreView> {
    let mut views = Vec::new();
    for key in 0..KEY_COUNT {
        let (task, session) = (Some(of(b't', key % 2)), Some(of(b's', key % 2)));
        let place = StoreKeys {
            account: Some(of(b'u', key % 2)),
            call: Some(of(b'k', key)),
            task,
            session,
            hold: Some(of(b'h', key)),
            grant: None,
            undo: None,
        };
        views.push(store.load_view(place).await.unwrap());
    }
    views
}

/// What a restart makes of a call in flight: nothing was marked as sent.
async fn restarted(store: &dyn Store) {
    for (key, claim) in store.unsettled(100).await.unwrap() {
        if matches!(claim.phase, ClaimPhase::Dispatching) {
            let intent = Intent {
                key,
                action: claim.action,
                ..intent("", 0)
            };
            let settle = Settle {
                failed: false,
                evidence: Evidence::Restart,
                ..settle(&intent, ClaimPhase::NotSent)
            };
            store
                .run(StoreCommand::Settle(settle), None)
                .await
                .unwrap()
                .unwrap();
        }
    }
}

#[tokio::test]
async fn every_store_decides_as_the_one_in_memory_does() {
    for seed in 0..4 {
        let (hands, mut dice, mut last) =
            (TestClock::new(), SplitMixRng::new(seed), BTreeMap::new());
        let stand = TestStore::embedded(hands.clock());
        let (plain, mut store) = (TestStore::memory(hands.clock()).open(), stand.open());
        for number in 0..250 {
            hands.pass(Duration::from_millis(dice.roll(20)));
            let command = command(&mut dice, &mut last, number + 2);
            let expected = plain.run(command.clone(), None).await.unwrap();
            assert_eq!(
                store.run(command.clone(), None).await.unwrap(),
                expected,
                "seed {seed}, command {number}"
            );
            if let (StoreCommand::Begin(intent), Ok(_)) = (command, expected) {
                last.insert(
                    (0..KEY_COUNT)
                        .find(|key| of(b'k', *key) == intent.key)
                        .unwrap(),
                    *intent,
                );
            }
            if dice.once_in(50) {
                drop(store);
                store = stand.open();
                restarted(&*plain).await;
                assert_eq!(
                    known(&*store).await,
                    known(&*plain).await,
                    "seed {seed}, opened after command {number}"
                );
                assert_eq!(
                    store.holds(9).await,
                    plain.holds(9).await,
                    "seed {seed}, opened after command {number}"
                );
            }
        }
        assert_eq!(known(&*store).await, known(&*plain).await, "seed {seed}");
    }
}
