//! Accounts of users (guarantees §6): what all tasks of one user take together, beside what each of
//! them takes.

use super::TestStore;
use super::promises::{begin, call, end};
use super::same::SplitMixRng;
use crate::model::clock::hands::TestClock;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::model::task::TaskOrigin;
use crate::store::claims::Store;
use crate::store::state::account::AccountDemand;
use crate::store::state::budget::{BudgetLimits, Dimension, Price, TaskUsage};
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{Intent, Reserve, Spend, SteerTask, StoreCommand};
use crate::store::state::event::TaskAct;
use crate::store::state::settlement::Charge;
use crate::store::state::tests::{HOUR_MS, named, result, settle, unknown};
use crate::store::state::{CommandRefusal, Millis, StoreKeys};
use crate::telemetry::tasks;
use std::sync::Arc;
use std::time::Duration;

const TASKS: [&str; 3] = ["one", "two", "three"];

fn account(tool_calls: Option<u64>) -> Box<AccountDemand> {
    Box::new(AccountDemand {
        key: named("ada"),
        limits: BudgetLimits {
            tool_calls,
            span: Some(HOUR_MS),
            ..BudgetLimits::default()
        },
        origin: TaskOrigin::default(),
    })
}

fn price(cost: u64) -> Price {
    Price {
        tool: ToolName::new("bank__pay"),
        cost,
    }
}

fn read(task: &str, cost: u64, calls: Option<u64>) -> StoreCommand {
    StoreCommand::Reserve(Reserve {
        account: Some(account(calls)),
        task: named(task),
        limits: BudgetLimits::default(),
        price: price(cost),
        origin: None,
        hold: None,
        edited: None,
    })
}

fn spend(task: &str, charge: (u64, Charge), since: Millis) -> StoreCommand {
    StoreCommand::Spend(Spend {
        account: Some(named("ada")),
        charge: Some(charge),
        failed: charge.1 == Charge::Hold,
        since: Some(since),
        ..Spend::nothing(named(task), ToolName::new("bank__pay"))
    })
}

fn write(store: &dyn Store, key: &str, task: &str, cost: u64, calls: Option<u64>) -> Intent {
    Intent {
        account: Some(account(calls)),
        task: named(task),
        price: price(cost),
        ..call(store, key)
    }
}

async fn used(store: &dyn Store, key: Digest) -> TaskUsage {
    let place = StoreKeys {
        task: Some(key),
        ..StoreKeys::default()
    };
    store.load_view(place).await.unwrap().task.unwrap()
}

async fn run(store: &dyn Store, command: StoreCommand) -> Result<Millis, CommandRefusal> {
    let done = store.run(command, None).await.unwrap();
    done.map(|event| event.at())
}

/// Which dimension of the account refuses one more call of any task.
async fn refused(store: &dyn Store, task: &str, calls: u64) -> Option<(Dimension, bool)> {
    match run(store, read(task, 0, Some(calls))).await {
        Ok(_) => None,
        Err(CommandRefusal::Budget(exceeded)) => Some((exceeded.dimension, exceeded.is_account)),
        Err(other) => panic!("{other:?}"),
    }
}

/// 003-40: a refusal in the transaction tells what is left of task and account, whichever has no more.
#[tokio::test]
async fn a_refusal_tells_what_is_left_of_both() {
    let store = TestStore::memory(TestClock::new().clock()).open();
    let limited = |steps| {
        StoreCommand::Reserve(Reserve {
            account: Some(account(Some(1))),
            task: named("one"),
            limits: BudgetLimits {
                steps: Some(steps),
                ..BudgetLimits::default()
            },
            price: price(0),
            origin: None,
            hold: None,
            edited: None,
        })
    };
    run(&*store, limited(5)).await.unwrap();
    for (steps, is_account) in [(5, true), (1, false)] {
        let refused = run(&*store, limited(steps)).await;
        let Err(CommandRefusal::Budget(exceeded)) = refused else {
            panic!("{refused:?}")
        };
        let left = exceeded.remaining;
        assert_eq!(exceeded.is_account, is_account);
        assert_eq!((left.steps, left.tool_calls), (Some(steps - 1), Some(0)));
    }
}

/// One call of a random task, and whatever became of it.
async fn random_call(store: &dyn Store, dice: &mut SplitMixRng, number: u64) {
    let task = TASKS[usize::try_from(dice.roll(3)).unwrap()];
    let cost = dice.roll(5);
    if dice.once_in(2) {
        let since = run(store, read(task, cost, None)).await.unwrap();
        let charges = [Charge::Release, Charge::Hold, Charge::Settle(2)];
        let charge = charges[usize::try_from(dice.roll(3)).unwrap()];
        run(store, spend(task, (cost, charge), since))
            .await
            .unwrap();
        return;
    }
    let intent = write(store, &format!("key {number}"), task, cost, None);
    begin(store, &intent).await.unwrap();
    let failed = ClaimPhase::Failed {
        answer: None,
        again: true,
    };
    let ends = [
        ClaimPhase::NotSent,
        ClaimPhase::Completed(result("paid")),
        failed,
        unknown(),
    ];
    let mut ended = settle(
        &intent,
        ends[usize::try_from(dice.roll(4)).unwrap()].clone(),
    );
    ended.cost = dice.once_in(2).then_some(1);
    end(store, ended).await.unwrap();
}

/// guarantees §6: whatever becomes of calls, and over restarts, an account has taken what its tasks have
/// taken, no more and no less.
#[tokio::test]
async fn an_account_is_what_its_tasks_take() {
    for seed in 0..6 {
        let (hands, mut dice) = (TestClock::new(), SplitMixRng::new(seed));
        let stand = if seed % 2 == 0 {
            TestStore::embedded(hands.clock())
        } else {
            TestStore::memory(hands.clock())
        };
        let mut store = stand.open();
        for number in 0..120 {
            hands.pass(Duration::from_millis(dice.roll(20)));
            random_call(&*store, &mut dice, number).await;
            if stand.lasts() && dice.once_in(40) {
                drop(store);
                store = stand.open();
            }
        }
        let mut sum = [0; 4];
        let numbers = |of: &TaskUsage| [of.steps, of.calls, of.cost, of.failures];
        for task in TASKS {
            let task = used(&*store, named(task)).await;
            for (sum, one) in sum.iter_mut().zip(numbers(&task)) {
                *sum += one;
            }
        }
        let account = used(&*store, named("ada")).await;
        assert_eq!(numbers(&account), sum, "seed {seed}");
        assert!(sum.iter().all(|sum| *sum > 0), "{sum:?}");
    }
}

/// guarantees §6: however many tasks ask at once, an account lets through what it has, and the next
/// span of time begins with nothing used; what was reserved before is not given back to it.
#[tokio::test]
async fn an_account_holds_for_all_tasks_and_begins_anew() {
    let hands = TestClock::new();
    let store: Arc<dyn Store> = TestStore::embedded(hands.clock()).open();
    let asking = (0..20).map(|number| {
        let store = store.clone();
        tasks::spawn("asks", async move {
            let intent = write(
                &*store,
                &format!("k{number}"),
                TASKS[number % 3],
                1,
                Some(5),
            );
            let began = begin(&*store, &intent).await.is_ok();
            began.then_some(intent)
        })
    });
    let mut begun = Vec::new();
    for asked in asking.collect::<Vec<_>>() {
        begun.extend(asked.await.unwrap());
    }
    assert_eq!(begun.len(), 5);
    let account = || used(&*store, named("ada"));
    assert_eq!(account().await.calls, 5);
    let none = Some((Dimension::ToolCalls, true));
    assert_eq!(refused(&*store, "a fourth", 5).await, none);
    // What was never sent is given back to the account, too.
    let unsent = settle(&begun[0], ClaimPhase::NotSent);
    end(&*store, unsent).await.unwrap();
    assert_eq!(account().await.calls, 4);

    hands.pass(Duration::from_millis(HOUR_MS));
    assert_eq!(refused(&*store, "a fourth", 5).await, None);
    assert_eq!(account().await.calls, 1, "it has begun anew");
    let late = settle(&begun[1], ClaimPhase::NotSent);
    end(&*store, late).await.unwrap();
    assert_eq!(account().await.calls, 1, "that was of the account before");
}

/// guarantees §6: a later round of a call has paid; and an operator stops and resets an account as a task.
#[tokio::test]
async fn an_account_is_steered_as_a_task() {
    let hands = TestClock::new();
    let store = TestStore::memory(hands.clock()).open();
    let first = write(&*store, "asks", "one", 3, Some(2));
    begin(&*store, &first).await.unwrap();
    let asked = ClaimPhase::AwaitingInput {
        round: 1,
        asked: result("which?"),
        is_task: false,
    };
    end(&*store, settle(&first, asked)).await.unwrap();
    let second = Intent {
        round: Some(named("answers")),
        ..write(&*store, "asks", "one", 3, Some(1))
    };
    begin(&*store, &second).await.unwrap();
    let mut done = settle(&second, ClaimPhase::Completed(result("paid")));
    done.cost = Some(1);
    end(&*store, done).await.unwrap();
    let account = used(&*store, named("ada")).await;
    assert_eq!((account.calls, account.cost), (1, 1), "it cost less");

    let steer = |act| {
        StoreCommand::Steer(SteerTask {
            task: named("ada"),
            act,
            who: "ann".to_owned(),
            why: "enough".to_owned(),
        })
    };
    run(&*store, steer(TaskAct::Stop)).await.unwrap();
    hands.pass(Duration::from_millis(2 * HOUR_MS));
    let stopped = run(&*store, read("two", 0, Some(9))).await;
    assert!(
        matches!(stopped, Err(CommandRefusal::Stopped(_))),
        "{stopped:?}"
    );
    run(&*store, steer(TaskAct::Reset)).await.unwrap();
    assert_eq!(refused(&*store, "two", 9).await, None);
}
