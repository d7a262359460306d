//! An agent that orders until it is told that it has, and the operator who takes back what it should not
//! have ordered, until that is told.

use super::super::{RITA, decision};
use super::{Bank, HOST, Sums, TradingDoors};
use crate::harness::agent::{Agent, modern};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use toolgate_faults::dice::Dice;
use toolgate_faults::wire;

/// How often something is asked for at most, and how long is waited in between: nobody asks in a circle.
const TRIES: u32 = 400;
const BACK_OFF: Duration = Duration::from_millis(60);
const ACCOUNTS: u64 = 8;
/// Of 100 orders, those that are taken back one by one.
const MISTAKEN: u64 = 25;

pub(super) struct TraderTerms {
    pub(super) number: u64,
    /// Whether all that it has done is taken back, as one task.
    pub(super) is_astray: bool,
    pub(super) dice: Dice,
}

pub(super) struct Trader {
    terms: TraderTerms,
    doors: Arc<TradingDoors>,
    bank: Arc<Bank>,
    /// Undos that were refused since nobody knew of the order.
    refused: u64,
}

/// What an agent means.
struct Order {
    name: String,
    account: u64,
    amount: u64,
    is_mistaken: bool,
}

/// What an operator is told of an undo.
enum UndoTold {
    Done,
    /// Whether this call has taken it back is not known.
    Unknown(String),
    /// Nobody knows of the call itself.
    Early,
    Again,
}

impl Trader {
    pub(super) fn new(terms: TraderTerms, doors: Arc<TradingDoors>, bank: Arc<Bank>) -> Self {
        Self {
            terms,
            doors,
            bank,
            refused: 0,
        }
    }

    /// Orders, and takes back; what stays by account, and how often an undo came too early.
    pub(super) async fn trades(mut self, orders: u64) -> (Sums, u64) {
        let (mut stays, mut mistaken) = (Vec::new(), Vec::new());
        for nth in 0..orders {
            let dice = &mut self.terms.dice;
            let order = Order {
                name: format!("order-{nth}-of-{}", self.terms.number),
                account: dice.below(ACCOUNTS),
                amount: 1 + dice.below(1_000),
                is_mistaken: !self.terms.is_astray && dice.chance(MISTAKEN),
            };
            let is_undone = self.orders(&order).await;
            if order.is_mistaken && !is_undone {
                mistaken.push(order);
            } else if !is_undone {
                stays.push(order);
            }
        }
        for order in &mistaken {
            self.takes_back(order).await;
        }
        if self.terms.is_astray {
            self.takes_all_back().await;
            stays.clear();
        }
        let mut sums = Sums::new();
        for order in stays {
            *sums.entry(order.account).or_default() += order.amount;
        }
        (sums, self.refused)
    }

    /// Orders until it is told that it has; whether that was taken back meanwhile.
    async fn orders(&mut self, order: &Order) -> bool {
        for _ in 0..TRIES {
            let told = self.asks_for(order).await;
            let code = told.as_ref().map(decision);
            let code = code.as_ref().and_then(|said| said["code"].as_str());
            if code == Some("outcome_unknown")
                && order.is_mistaken
                && self.is_taken_early(order).await
            {
                return true;
            }
            if let (Some(told), None) = (&told, code)
                && told["result"]["content"].is_array()
            {
                assert_ne!(told["result"]["isError"], true, "{told}");
                return false;
            }
            tokio::time::sleep(BACK_OFF).await;
        }
        panic!("{} is never done", order.name);
    }

    /// One request, on a wire that may lose it, or its answer.
    async fn asks_for(&self, order: &Order) -> Option<Value> {
        let number = self.terms.number;
        let meta = json!({
            "dev.toolgate/idempotencyKey": order.name, "dev.toolgate/task": format!("task {number}"),
            "dev.toolgate/session": format!("session {number}"),
        });
        let Order {
            name,
            account,
            amount,
            ..
        } = order;
        let arguments = json!({ "order": name, "account": account, "amount": amount });
        let params = json!({ "name": "bank__order", "arguments": arguments, "_meta": meta });
        let message = modern("tools/call", params);
        let agent = Agent::new(self.doors.agents).token("token-of-the-agent-bot");
        let mut headers = agent.mirrored(&message);
        let hosts = headers.iter_mut().filter(|(name, _)| name == "Host");
        hosts.for_each(|(_, host)| HOST.clone_into(host));
        let encoded = agent.encoded(&headers, message.to_string().as_bytes());
        agent.bytes(encoded).await?.messages().pop()
    }

    /// An operator sees at the bank that the order is booked, before toolgate knows. It is taken back only
    /// if it is known by then; else that is refused.
    async fn is_taken_early(&mut self, order: &Order) -> bool {
        let Some((action, _)) = self.bank.order(&order.name) else {
            return false;
        };
        for _ in 0..TRIES {
            match self.asks_undo(&action).await {
                UndoTold::Early => {
                    self.refused += 1;
                    return false;
                }
                told @ (UndoTold::Done | UndoTold::Unknown(_) | UndoTold::Again) => {
                    if self.is_over(order, told).await {
                        return true;
                    }
                }
            }
        }
        panic!("nobody says what becomes of {}", order.name);
    }

    async fn takes_back(&self, order: &Order) {
        let (action, _) = self.bank.order(&order.name).unwrap();
        for _ in 0..TRIES {
            let told = self.asks_undo(&action).await;
            if self.is_over(order, told).await {
                return;
            }
        }
        panic!("{} is never taken back", order.name);
    }

    /// Whether the order is taken back; of an undo that nobody knows, the operator says what the bank's own
    /// book shows.
    async fn is_over(&self, order: &Order, told: UndoTold) -> bool {
        match told {
            UndoTold::Done => return true,
            UndoTold::Unknown(by) => self.resolves(&by, &order.name).await,
            UndoTold::Early | UndoTold::Again => {}
        }
        tokio::time::sleep(BACK_OFF).await;
        false
    }

    async fn resolves(&self, by: &str, name: &str) {
        let is_cancelled = self.bank.order(name).is_some_and(|(_, gone)| gone);
        let verdict = if is_cancelled {
            "applied"
        } else {
            "not_applied"
        };
        let body = json!({ "verdict": verdict, "why": "seen at the bank" });
        // A look of toolgate's own may have been quicker.
        self.asks(&format!("/api/calls/{by}/resolve"), &body).await;
    }

    async fn asks_undo(&self, action: &str) -> UndoTold {
        let body = json!({ "why": "it was not meant" });
        let Some((status, said)) = self.asks(&format!("/api/calls/{action}/undo"), &body).await
        else {
            return UndoTold::Again;
        };
        if status == 200 {
            return match said["state"].as_str() {
                Some("done") => UndoTold::Done,
                Some("unknown") => UndoTold::Unknown(text(&said["by"])),
                _ => UndoTold::Again,
            };
        }
        let error = text(&said["error"]);
        if error.contains("taken back already") {
            return UndoTold::Done;
        }
        if error.contains("whether the call") {
            return UndoTold::Early;
        }
        let by = error.split("it is not known whether ").nth(1);
        let by = by.and_then(|rest| rest.split(' ').next());
        by.map_or(UndoTold::Again, |by| UndoTold::Unknown(by.to_owned()))
    }

    /// Takes the whole task back, until nothing of it is left.
    async fn takes_all_back(&self) {
        let body = json!({ "why": "it went astray" });
        for _ in 0..TRIES {
            let Some(task) = self.task().await else {
                tokio::time::sleep(BACK_OFF).await;
                continue;
            };
            let told = self.asks(&format!("/api/tasks/{task}/undo"), &body).await;
            let steps = told.and_then(|(_, report)| report["steps"].as_array().cloned());
            let steps = steps.unwrap_or_default();
            let is_done = |step: &Value| step["state"] == "done";
            if !steps.is_empty() && steps.iter().all(is_done) {
                return;
            }
            for step in steps.iter().filter(|step| step["state"] == "unknown") {
                if let UndoTold::Unknown(by) = self.asks_undo(&text(&step["action_id"])).await {
                    self.resolves(&by, &self.name_of(step)).await;
                }
            }
            tokio::time::sleep(BACK_OFF).await;
        }
        panic!("task {} is never taken back", self.terms.number);
    }

    /// The name of the order that a step is about.
    fn name_of(&self, step: &Value) -> String {
        self.bank.named(&text(&step["action_id"]))
    }

    async fn task(&self) -> Option<String> {
        let door = *self.doors.operators.lock().unwrap();
        let (_, listed) = wire::ask(door, ("GET", "/api/tasks?agent=bot"), RITA, "").await?;
        let name = format!("task {}", self.terms.number);
        let mut tasks = listed["tasks"].as_array()?.iter();
        let task = tasks.find(|task| task["name"] == name.as_str())?;
        Some(text(&task["id"]))
    }

    async fn asks(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let door = *self.doors.operators.lock().unwrap();
        wire::ask(door, ("POST", path), RITA, &body.to_string()).await
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
