//! The damage of the incident: answers are lost, agents order again under another key, customers are charged
//! twice by a little, and stock stays frozen. The looks of `reconcile` find out which orders were placed, an operator
//! takes back what is there twice, and the books are what was meant (004-05).

use crate::harness::agent::Agent;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Orders that customers want; of three, one is placed and its answer lost, one is not placed, and its
/// answer is lost, too, and one goes well.
const WANTED: usize = 9;
const RECONCILE: &str = "reconcile: { every: 1s, older_than: 1s, settle: 1s, equal_answers: 2 }";
const OPERATORS: &str =
    "tokens: [ { name: rita, token: token-of-rita-who-resolves, roles: [resolver, switch] } ]";
const CALLERS: &str = "  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1 }";

/// What the shop has: open orders by their keys, with what each has charged.
#[derive(Default)]
struct ShopBooks {
    orders: BTreeMap<String, u64>,
    cancels: usize,
}

struct Incident {
    books: Arc<Mutex<ShopBooks>>,
    gate: Gate,
    _server: ScriptedServer,
}

/// The orders whose answers were lost, by their action ids.
struct Damage {
    /// Those that were placed, by their keys.
    lost: BTreeMap<String, String>,
    dropped: Vec<String>,
}

fn policy() -> String {
    let rest = "purpose: A test., permission: anyone, secrets: []";
    let keys = "idempotency: { derive: [/key], probe: { tool: shop__look, arguments: { order: arguments#/key }, found: /orders, \
                nothing: [[]], absent_after: 1s } }";
    format!(
        "contracts:
  shop__order: {{ {rest}, actions: [write], arguments: {{ additionalProperties: true }}, {keys}, side_effect: {{ writes: orders, rollback: {{ tool: shop__cancel, arguments: {{ key: \
         arguments#/key }} }} }} }}
  shop__cancel: {{ {rest}, actions: [write], side_effect: {{ writes: orders, rollback: {{ manual: order again }} }} }}
  shop__look: {{ purpose: A test., actions: [read], secrets: [] }}
"
    )
}

impl ShopBooks {
    fn answer(&mut self, seen: &Seen) -> Reply {
        let arguments = &seen.body["params"]["arguments"];
        let word = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        match seen.body["params"]["name"].as_str().unwrap_or_default() {
            "order" => {
                let key = word("key");
                let fate = fate(&key);
                if fate != Fate::Dropped {
                    self.orders
                        .insert(key, arguments["amount"].as_u64().unwrap());
                }
                if fate == Fate::Good {
                    return done(&json!({}));
                }
                Reply::Status(503)
            }
            "cancel" => {
                self.cancels += 1;
                if self.cancels == 1 {
                    return Reply::Result(json!({
                        "content": [{ "type": "text", "text": "locked" }], "isError": true, "resultType": "complete",
                    }));
                }
                let was_there = self.orders.remove(&word("key")).is_some();
                done(&json!({ "was_there": was_there }))
            }
            _ => {
                let found = self.orders.get_key_value(&word("order"));
                let orders: Vec<Value> =
                    found.iter().map(|(key, _)| json!({ "key": key })).collect();
                done(&json!({ "orders": orders }))
            }
        }
    }

    /// What all customers together are charged, and how many pieces are frozen for them.
    fn sums(&self) -> (u64, usize) {
        (self.orders.values().sum(), self.orders.len())
    }
}

/// What becomes of an order at the shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Good,
    /// Placed, and the answer is lost.
    Lost,
    /// Not placed, and the answer is lost.
    Dropped,
}

fn fate(key: &str) -> Fate {
    let number: Option<usize> = key
        .strip_prefix("order-")
        .and_then(|rest| rest.parse().ok());
    match number.map(|number| number % 3) {
        Some(0) => Fate::Lost,
        Some(1) => Fate::Dropped,
        // What is sent again goes well.
        Some(_) | None => Fate::Good,
    }
}

fn done(content: &Value) -> Reply {
    Reply::Result(json!({
        "content": [{ "type": "text", "text": content.to_string() }], "structuredContent": content, "resultType": "complete",
    }))
}

fn amount(number: usize) -> u64 {
    10 + u64::try_from(number).unwrap()
}

impl Incident {
    async fn new() -> Self {
        let tools = ["order", "cancel", "look"].map(tool).to_vec();
        let server = ScriptedServer::with(tools).await;
        let books = Arc::new(Mutex::new(ShopBooks::default()));
        let own = books.clone();
        server.answers(move |seen| own.lock().unwrap().answer(seen));
        let setup = Setup::new()
            .server_with("shop", &format!("url: \"{}\"", server.url()))
            .callers(CALLERS)
            .operators(OPERATORS)
            .policy(&policy())
            .more(RECONCILE);
        Self {
            books,
            gate: setup.start().await,
            _server: server,
        }
    }

    fn bot(&self) -> Agent {
        self.gate.agent().token("token-of-the-agent-bot")
    }

    /// Orders under that key, in a task of that name; what was decided.
    async fn orders(&self, number: usize, key: &str) -> Value {
        let params = json!({
            "name": "shop__order", "arguments": { "key": key, "amount": amount(number) }, "_meta": { "dev.toolgate/task": key },
        });
        let answer = self.bot().modern("tools/call", params).await.message();
        answer["result"]["_meta"]["dev.toolgate/decision"].clone()
    }

    /// Everybody orders, and orders again what nobody has answered.
    async fn happens(&self) -> Damage {
        let (mut lost, mut dropped) = (BTreeMap::new(), Vec::new());
        for number in 0..WANTED {
            let key = format!("order-{number}");
            let decided = self.orders(number, &key).await;
            let id = decided["action_id"].as_str().unwrap_or_default().to_owned();
            match fate(&key) {
                Fate::Good => {
                    assert_eq!(decided["outcome"], "answered", "{decided}");
                    continue;
                }
                Fate::Lost => drop(lost.insert(key.clone(), id)),
                Fate::Dropped => dropped.push(id),
            }
            assert_eq!(decided["code"], "outcome_unknown", "{decided}");
            let again = self.orders(number, &format!("{key}-again")).await;
            assert_eq!(again["outcome"], "answered", "{again}");
        }
        Damage { lost, dropped }
    }

    /// Waits until the looks have ended a call, and with what.
    async fn looked(&self, action: &str) -> String {
        until("the looks end it", || async {
            let entries = self.gate.ledger().await;
            let mut looks = entries
                .iter()
                .filter(|entry| entry["method"] == "probe" && entry["probe_of"] == action);
            let last = looks.next_back()?["decided_by"].as_str()?.to_owned();
            let ends = last.contains("probe: found,") || last.contains("found often enough");
            ends.then_some(last)
        })
        .await
    }

    async fn rita(&self, words: &[&str]) -> (i32, String) {
        let door = self.gate.operators.to_string();
        let around = ["--config", "toolgate.yaml", "--admin", &door];
        let setup = self.gate.setup.operator("rita");
        let (code, out, err) = run(&setup, &[words, &around].concat()).await;
        (code, out + &err)
    }

    /// The id of the task that its agent names so.
    async fn task(&self, name: &str) -> String {
        let (_, listed) = self
            .rita(&["tasks", "list", "--json", "--agent", "bot"])
            .await;
        let tasks = listed
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut named = tasks.filter(|task| task["name"] == name);
        let task = named.next().unwrap_or_else(|| panic!("{name}: {listed}"));
        task["id"].as_str().unwrap().to_owned()
    }
}

/// 004-05, 004-52, 004-57: what nobody knows is found out by looks, what was placed twice is taken back by task,
/// also where the shop refuses that once; every order is there once, each repair stands in the ledger, and the
/// ledger verifies.
#[tokio::test]
async fn what_was_charged_twice_is_taken_back() {
    let incident = Incident::new().await;
    let Damage { lost, dropped } = incident.happens().await;
    let meant = ((0..WANTED).map(amount).sum::<u64>(), WANTED);
    let damaged = incident.books.lock().unwrap().sums();
    assert_eq!(damaged.1, WANTED + lost.len(), "stock is frozen twice");
    assert!(damaged.0 > meant.0, "and charged: {damaged:?}");
    for id in lost.values() {
        let last = incident.looked(id).await;
        assert!(last.contains("probe: found,"), "{last}");
    }
    for id in &dropped {
        let last = incident.looked(id).await;
        assert!(last.contains("absent, found often enough"), "{last}");
    }
    assert_eq!(
        incident.books.lock().unwrap().sums(),
        damaged,
        "looks change nothing"
    );
    let mut failed = 0;
    for key in lost.keys() {
        let task = incident.task(key).await;
        let words = ["undo", "--task", &task, "--why", "it was ordered again"];
        loop {
            let (code, said) = incident.rita(&words).await;
            if code == 0 {
                break;
            }
            assert!(said.contains("locked"), "{said}");
            failed += 1;
            assert_eq!(failed, 1, "the shop refuses once: {said}");
        }
    }
    assert_eq!(failed, 1);
    assert_eq!(incident.books.lock().unwrap().sums(), meant);
    let entries = incident.gate.ledger().await;
    let repaired: BTreeSet<&str> = entries
        .iter()
        .filter_map(|entry| entry["compensates"].as_str())
        .collect();
    let wanted: BTreeSet<&str> = lost.values().map(String::as_str).collect();
    assert_eq!(repaired, wanted, "each repair is on record, and no other");
    let setup = incident.gate.stop().await;
    let (code, said, wrong) = run(&setup, &["ledger", "verify", "--data", "data"]).await;
    assert_eq!(code, 0, "{said}{wrong}");
}
