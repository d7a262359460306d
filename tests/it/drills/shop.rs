//! A shop with books: orders take money and stock, and cancelling one gives both back, unless the shop has a
//! habit.

use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// What a tool does instead of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// It says that it is done, and does nothing.
    Idle,
    /// It gives the money back, and keeps the stock.
    Half,
    /// It does its work, and its answer is lost.
    Lost,
    /// It does its work, and never answers.
    Silent,
    /// It says that it failed, and does nothing.
    Locked,
    /// Another value each time.
    Restless,
}

/// What the shop has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Books {
    pub balance: i64,
    pub stock: i64,
    orders: BTreeMap<i64, i64>,
    next: i64,
    reads: i64,
}

struct Kept {
    books: Mutex<Books>,
    habits: Mutex<BTreeMap<String, Habit>>,
    late: Mutex<BTreeMap<String, Receiver<Reply>>>,
}

/// The shop.
pub struct Shop {
    pub server: ScriptedServer,
    kept: Arc<Kept>,
}

impl Shop {
    pub async fn open() -> Self {
        let tools = ["order", "cancel", "tip", "untip", "mail", "books"].map(tool);
        let server = ScriptedServer::with(tools.to_vec()).await;
        let books = Books {
            balance: 100,
            stock: 10,
            orders: BTreeMap::new(),
            next: 1,
            reads: 0,
        };
        let kept = Arc::new(Kept {
            books: Mutex::new(books),
            habits: Mutex::default(),
            late: Mutex::default(),
        });
        let own = kept.clone();
        server.answers(move |seen| own.answer(seen));
        Self { server, kept }
    }

    /// From now on a tool has that habit; none: it does its work.
    pub fn habit(&self, tool: &str, habit: Option<Habit>) {
        let mut habits = self.kept.habits.lock().unwrap();
        habits.remove(tool);
        habits.extend(habit.map(|habit| (tool.to_owned(), habit)));
    }

    /// The next call of a tool does its work, and is answered with what is sent.
    pub fn late(&self, tool: &str) -> Sender<Reply> {
        let (release, late) = channel();
        self.kept.late.lock().unwrap().insert(tool.to_owned(), late);
        release
    }

    /// What it has: money and stock.
    pub fn has(&self) -> (i64, i64) {
        let books = self.kept.books.lock().unwrap();
        (books.balance, books.stock)
    }

    /// The arguments with which a tool was called, each time.
    pub fn sent(&self, tool: &str) -> Vec<Value> {
        let seen = self.server.seen();
        let calls = seen.iter().filter(|seen| name(seen) == tool);
        calls
            .map(|seen| seen.body["params"]["arguments"].clone())
            .collect()
    }
}

impl Kept {
    fn answer(&self, seen: &Seen) -> Reply {
        let tool = name(seen);
        let habit = self.habits.lock().unwrap().get(&tool).copied();
        let arguments = &seen.body["params"]["arguments"];
        let mut books = self.books.lock().unwrap();
        if let Some(late) = self.late.lock().unwrap().remove(&tool) {
            books.work(&tool, arguments, None);
            return Reply::Later(late);
        }
        match habit {
            Some(Habit::Idle) => done(&json!({})),
            Some(Habit::Locked) => Reply::Result(json!({
                "content": [{ "type": "text", "text": "locked" }], "isError": true, "resultType": "complete",
            })),
            Some(Habit::Lost) => {
                books.work(&tool, arguments, None);
                Reply::Status(503)
            }
            Some(Habit::Silent) => {
                books.work(&tool, arguments, None);
                Reply::Silence
            }
            Some(Habit::Half | Habit::Restless) | None => {
                done(&books.work(&tool, arguments, habit))
            }
        }
    }
}

impl Books {
    fn work(&mut self, tool: &str, arguments: &Value, habit: Option<Habit>) -> Value {
        match tool {
            "order" => {
                let (id, amount) = (self.next, arguments["amount"].as_i64().unwrap());
                self.next += 1;
                self.orders.insert(id, amount);
                self.balance -= amount;
                self.stock -= 1;
                json!({ "id": id })
            }
            "cancel" => {
                let id = arguments["id"].as_i64().unwrap();
                let amount = self.orders.remove(&id).unwrap_or_default();
                self.balance += amount;
                self.stock += i64::from(habit != Some(Habit::Half));
                json!({})
            }
            "tip" => {
                self.balance -= 1;
                json!({})
            }
            "untip" => {
                self.balance += 1;
                json!({})
            }
            "books" => {
                self.reads += 1;
                let noise = i64::from(habit == Some(Habit::Restless)) * self.reads;
                let orders = self.orders.len();
                json!({ "balance": self.balance + noise, "stock": self.stock, "orders": orders, "name": "the shop" })
            }
            _ => json!({}),
        }
    }
}

fn name(seen: &Seen) -> String {
    let name = seen.body["params"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

pub fn done(content: &Value) -> Reply {
    Reply::Result(json!({
        "content": [{ "type": "text", "text": content.to_string() }], "structuredContent": content, "resultType": "complete",
    }))
}
