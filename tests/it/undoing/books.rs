//! Books that balance (issue 19): a bank that keeps every order in a file, over a network that loses
//! three of ten exchanges on both sides of toolgate; agents send again what was not answered, operators
//! take a third of the orders back, and toolgate is killed on the way. In the end the bank's file, what
//! was meant, and the ledger alone say the same.

mod bank;
mod trading;

use super::{CALLERS, OPERATORS};
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use bank::Bank;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use toolgate_faults::dice::{Dice, seed};
use toolgate_faults::proxy::Proxy;
use trading::{Trader, TraderTerms};

/// Where chance begins.
const SEED: u64 = 20_261_128;
/// Of 100 exchanges, those that break on either side.
const BROKEN: u64 = 30;
/// Agents' sessions at once, those of them whose whole task is taken back, and the orders of each.
const TRADERS: u64 = 16;
const ASTRAY: u64 = 3;
const ORDERS: u64 = 13;
/// By what name agents know toolgate, whatever stands before it.
const HOST: &str = "toolgate.test";

/// An order is known by its name, and is cancelled by it; a look says of both whether they were done.
const POLICY: &str = "contracts:
  bank__order: { purpose: A test., permission: anyone, secrets: [], actions: [write], audit: [account, amount],
    side_effect: { writes: orders, rollback: { tool: bank__cancel, arguments: { order: arguments#/order } } },
    idempotency: { require: true, expose: false, ttl: 24h,
      probe: { tool: bank__find, arguments: { order: arguments#/order }, found: /receipt, absent_after: 1s } } }
  bank__cancel: { purpose: A test., permission: anyone, secrets: [], actions: [delete], approval: { ask: never },
    side_effect: { writes: orders, rollback: { manual: order it again } },
    idempotency: { require: true, expose: false, ttl: 24h,
      probe: { tool: bank__find, arguments: { order: arguments#/order }, found: /cancelled, absent_after: 1s } } }
  bank__find: { purpose: A test., actions: [read], secrets: [] }
";

/// Sums by account.
type Sums = BTreeMap<u64, u64>;

/// What agents and operators reach. It moves when toolgate starts again.
struct TradingDoors {
    /// The wire to the agents' door.
    agents: SocketAddr,
    operators: Mutex<SocketAddr>,
}

/// toolgate between two wires that lose.
struct LossyStage {
    bank: Arc<Bank>,
    upstream: Proxy,
    downstream: Proxy,
    /// Where the wire of the agents leads.
    target: Arc<Mutex<SocketAddr>>,
    doors: Arc<TradingDoors>,
    gate: Gate,
    _scripted: ScriptedServer,
}

impl LossyStage {
    async fn new(dice: &Dice) -> Self {
        let scripted = ScriptedServer::with(["order", "cancel", "find"].map(tool).to_vec()).await;
        let server = Arc::new(Mutex::new(scripted.address));
        let upstream = Proxy::start(server, dice.fork(1), 0).await.unwrap();
        let members = format!("url: \"http://{}/mcp\", timeout: 5s", upstream.address);
        let setup = Setup::new()
            .server_with("bank", &members)
            .policy(POLICY)
            .unwatched()
            .callers(CALLERS)
            .operators(OPERATORS)
            .more(&format!("allowed_hosts: [{HOST}]"))
            .more(
                "reconcile: { every: 1s, older_than: 1s, settle: 1s, equal_answers: 2, max: 200 }",
            );
        let bank = Arc::new(Bank::new(&setup.directory().join("bank")));
        let teller = bank.clone();
        scripted.answers(move |seen| teller.answers(seen));
        let gate = setup.start().await;
        let target = Arc::new(Mutex::new(gate.agents));
        let downstream = Proxy::start(target.clone(), dice.fork(2), 0).await.unwrap();
        let doors = TradingDoors {
            agents: downstream.address,
            operators: Mutex::new(gate.operators),
        };
        let stage = Self {
            bank,
            upstream,
            downstream,
            target,
            doors: Arc::new(doors),
            gate,
            _scripted: scripted,
        };
        stage.breaks(BROKEN);
        stage
    }

    fn breaks(&self, broken: u64) {
        self.upstream.breaks_now(broken);
        self.downstream.breaks_now(broken);
    }

    /// Ends toolgate as `kill -9` does once the bank has that many orders, and starts it again.
    async fn kills_at(&mut self, orders: usize) {
        until("enough orders", || async {
            (self.bank.orders() >= orders).then_some(())
        })
        .await;
        self.gate.kill().await;
        // What starts has to find its tool server once.
        self.upstream.breaks_now(0);
        let gate = self.gate.setup.clone().start().await;
        *self.target.lock().unwrap() = gate.agents;
        *self.doors.operators.lock().unwrap() = gate.operators;
        self.gate = gate;
        self.breaks(BROKEN);
    }

    fn traders(&self, dice: &Dice) -> JoinSet<(Sums, u64)> {
        let mut traders = JoinSet::new();
        for number in 0..TRADERS {
            let terms = TraderTerms {
                number,
                is_astray: number < ASTRAY,
                dice: dice.fork(number),
            };
            let trader = Trader::new(terms, self.doors.clone(), self.bank.clone());
            traders.spawn(trader.trades(ORDERS));
        }
        traders
    }

    /// What was meant and not taken back, the bank's file, and the ledger say the same.
    async fn balances(self, meant: &Sums) {
        assert_eq!(self.bank.wrongs(), Vec::<String>::new());
        assert_eq!(self.bank.read_anew(), *meant, "the bank's file");
        let setup = self.gate.stop().await;
        let (code, said, wrong) = run(&setup, &["ledger", "verify", "--data", "data"]).await;
        assert_eq!(code, 0, "{said}{wrong}");
        let (code, exported, wrong) = run(&setup, &["ledger", "export", "--data", "data"]).await;
        assert_eq!(code, 0, "{wrong}");
        assert_eq!(of_ledger(&exported), *meant, "the ledger");
    }
}

/// The sums by the ledger alone: what was carried out, without what was taken back.
fn of_ledger(exported: &str) -> Sums {
    let (mut asked, mut live) = (BTreeMap::new(), BTreeMap::new());
    for line in exported.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let (intended, settled) = (&event["intended"], &event["settled"]);
        if let Some(action) = intended["action"].as_str() {
            asked.insert(action.to_owned(), intended["entry"]["audit"].clone());
        }
        if let Some(of) = settled["undo"]["offered"]["of"].as_str() {
            let before = live.insert(of.to_owned(), asked[of].clone());
            assert_eq!(before, None, "{of} ended twice");
        }
        let ended = &settled["undo"]["ended"];
        if let (Some(of), true) = (ended["of"].as_str(), ended["phase"]["done"].is_object()) {
            assert!(live.remove(of).is_some(), "{of} was taken back twice");
        }
    }
    let mut sums = Sums::new();
    for audit in live.values() {
        let number = |name: &str| audit[name].as_u64().unwrap();
        *sums.entry(number("account")).or_default() += number("amount");
    }
    sums
}

async fn books_balance(kill: bool) {
    let dice = Dice::new(seed(SEED));
    let mut stage = LossyStage::new(&dice).await;
    let mut traders = stage.traders(&dice.fork(3));
    if kill {
        let orders = usize::try_from(TRADERS * ORDERS / 2).unwrap();
        stage.kills_at(orders).await;
    }
    let (mut meant, mut early) = (Sums::new(), 0);
    while let Some(traded) = traders.join_next().await {
        let (sums, refused) = traded.unwrap();
        early += refused;
        for (account, sum) in sums {
            *meant.entry(account).or_default() += sum;
        }
    }
    let (orders, cancelled) = (stage.bank.orders(), stage.bank.cancelled());
    assert_eq!(orders as u64, TRADERS * ORDERS, "each once");
    assert!(cancelled >= orders / 4, "{cancelled} of {orders}");
    assert!(
        early > 0,
        "none was asked for while nobody knew of its order"
    );
    assert!(
        stage.upstream.breaks().len() > 50 && stage.downstream.breaks().len() > 50,
        "too little was lost to say anything"
    );
    stage.balances(&meant).await;
}

/// 003-64, 004-46: every order that was meant is booked once, every undone one is cancelled once, and
/// nothing else is; by the bank's file, and by the ledger alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_balance_over_a_network_that_loses() {
    books_balance(false).await;
}

/// The same where toolgate is killed while it trades.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_balance_though_toolgate_is_killed() {
    books_balance(true).await;
}
