//! The tool server: each call that reaches it happens, unless it says otherwise, and it has its own
//! book of that.

use super::process::TIMEOUT;
use super::{SERVER, SimulatedWorld, TASKS};
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::ids::ActionId;
use crate::upstream::lines::Lines;
use bytes::Bytes;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Milliseconds after its deadline that an answer may come: a minute longer than anybody listens.
const LATEST: u64 = 11 * 60 * 1000;

/// The bank's error of which nobody can tell what was done.
pub(super) const BROKEN: i64 = -32603;

/// One connection, as the bank has it.
pub(super) struct Line {
    says: mpsc::UnboundedSender<String>,
    /// The bank hangs up.
    pub(super) ends: CancellationToken,
    /// Requests that nobody waits for any more, the bank was told.
    cancelled: RefCell<BTreeSet<u64>>,
    /// The newest token of each session.
    tokens: RefCell<BTreeMap<String, u64>>,
}

/// A call that arrived.
struct Heard {
    id: u64,
    tool: String,
    action: ActionId,
    deed: u64,
    key: Option<String>,
    is_answer: bool,
    /// What was done with this receipt is to be taken back.
    takes_back: Option<String>,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    LostBefore,
    LostAfter,
    Slow,
    Silent,
    Invalid,
    Busy,
    /// It happens, and the bank says -32603.
    Broken,
    Unable,
    /// It happens, and the bank answers with an error that names no request.
    Stray,
    Fails,
    Question,
    Twice,
    Garbage,
    Done,
}

impl Fate {
    /// Whether it leaves open what became of the call.
    fn is_fault(self, tool: &str) -> bool {
        use Fate::{Broken, LostAfter, LostBefore, Silent, Slow, Stray, Unable};
        // An error is an answer, unless the contract says that it may mean anything.
        let is_unclear = matches!(tool, "transfer" | "refund") && matches!(self, Broken | Unable);
        is_unclear || matches!(self, LostBefore | LostAfter | Slow | Silent | Stray)
    }

    /// Whether the bank does what it was asked for.
    fn happens(self) -> bool {
        use Fate::{Broken, Done, Garbage, LostAfter, Slow, Stray, Twice};
        matches!(
            self,
            LostAfter | Slow | Broken | Stray | Twice | Garbage | Done
        )
    }
}

impl SimulatedWorld {
    /// Reads what comes on one connection until it ends. What was heard happens, whether we live or
    /// not.
    pub(super) async fn serve(self: Rc<Self>, stream: DuplexStream) {
        let (input, mut output) = tokio::io::split(stream);
        let (says, mut said) = mpsc::unbounded_channel();
        let ends = CancellationToken::new();
        let line = Rc::new(Line {
            says,
            ends,
            cancelled: RefCell::default(),
            tokens: RefCell::default(),
        });
        self.line.replace(Some(line.clone()));
        let mut lines = Lines::new(input);
        loop {
            tokio::select! {
                biased;
                () = line.ends.cancelled() => {
                    self.count("lines lost");
                    return self.fault_all();
                }
                Some(text) = said.recv() => drop(output.write_all(text.as_bytes()).await),
                heard = lines.next() => match heard {
                    Ok(Some(text)) => self.hear(&line, text),
                    Ok(None) | Err(_) => return,
                },
            }
        }
    }

    /// Whatever is on its way may get lost now.
    pub(super) fn fault_all(&self) {
        let open = self.in_flight();
        self.book.borrow_mut().faults.extend(open);
    }

    fn hear(self: &Rc<Self>, line: &Rc<Line>, text: Bytes) {
        let message = Text::read(text, &AGENT_JSON_LIMITS).unwrap().value();
        let params = &message["params"];
        if message["method"] == "notifications/cancelled" {
            self.count("cancellations");
            line.cancelled
                .borrow_mut()
                .extend(params["requestId"].as_u64());
            return;
        }
        let id = message["id"].as_u64().unwrap();
        if message["method"] == "server/discover" {
            self.count("signs of life");
            return say(line, id, &result(&json!({})));
        }
        let deed = params["arguments"]["deed"].as_u64().unwrap();
        if params["name"] == "look" {
            let (world, line) = (self.clone(), line.clone());
            return self
                .schedule
                .spawn(SERVER, async move { world.look(&line, id, deed).await });
        }
        let fence = &params["_meta"]["dev.toolgate/fence"];
        let action: ActionId = fence["action"].as_str().unwrap().parse().unwrap();
        let heard = Heard {
            id,
            tool: params["name"].as_str().unwrap().to_owned(),
            action,
            deed,
            key: params["_meta"]["bank/key"].as_str().map(str::to_owned),
            is_answer: params.get("inputResponses").is_some(),
            takes_back: params["arguments"]["receipt"].as_str().map(str::to_owned),
        };
        // The gate makes such a call itself.
        let is_of_gate = self.sends_tasks.get() || heard.takes_back.is_some();
        let amount = params["arguments"]["amount"].clone();
        self.book.borrow_mut().amounts.insert(action, amount);
        if is_of_gate {
            self.book.borrow_mut().actions.entry(action).or_insert(deed);
        }
        // 004-12: the calls of a session leave one after the other, each under a newer token.
        let (session, token) = (
            fence["session"].as_str().unwrap().to_owned(),
            fence["token"].as_u64().unwrap(),
        );
        if heard.takes_back.is_none() {
            self.book.borrow_mut().tokens.insert(deed % TASKS, token);
        }
        let before = line.tokens.borrow_mut().insert(session, token);
        assert!(
            before <= Some(token),
            "a token went back: {before:?}, {token}"
        );
        let (world, line) = (self.clone(), line.clone());
        *self.book.borrow_mut().held.entry(action).or_default() += 1;
        self.schedule.spawn(SERVER, async move {
            world.treat(&line, &heard).await;
            let mut book = world.book.borrow_mut();
            *book.held.entry(heard.action).or_default() -= 1;
        });
    }

    fn fate(&self, heard: &Heard) -> Fate {
        if let Some(fate) = self.script.borrow_mut().pop_front() {
            return fate;
        }
        match self.roll(26) {
            0 => Fate::LostBefore,
            1 => Fate::LostAfter,
            2 | 14 => Fate::Slow,
            3 => Fate::Silent,
            4 => Fate::Invalid,
            5 | 6 => Fate::Busy,
            7 => Fate::Broken,
            8 => Fate::Fails,
            9 | 10 if heard.tool == "pay" && !heard.is_answer => Fate::Question,
            9 if heard.takes_back.is_some() => Fate::Question,
            11 => Fate::Twice,
            12 => Fate::Garbage,
            13 => Fate::Unable,
            15 => Fate::Stray,
            _ => Fate::Done,
        }
    }

    async fn treat(self: &Rc<Self>, line: &Line, heard: &Heard) {
        let fate = self.fate(heard);
        self.tell(|| {
            format!(
                "{} of deed {} arrives for {}: {fate:?}",
                heard.action, heard.deed, heard.tool
            )
        });
        self.some(400).await;
        if fate.is_fault(&heard.tool) {
            self.book.borrow_mut().faults.insert(heard.action);
        }
        if fate == Fate::Slow {
            sleep(TIMEOUT).await;
            self.some(if self.once_in(3) { LATEST } else { 60_000 })
                .await;
        }
        if line.cancelled.borrow().contains(&heard.id) && self.once_in(2) {
            self.book.borrow_mut().faults.insert(heard.action);
            return;
        }
        let receipt = self.effect(heard, fate);
        self.some(400).await;
        let answer = match fate {
            Fate::LostBefore | Fate::LostAfter => return line.ends.cancel(),
            Fate::Silent => return,
            Fate::Stray => {
                let mut stray = error(-32600);
                stray["id"] = Value::Null;
                return drop(line.says.send(format!("{stray}\n")));
            }
            Fate::Invalid => error(-32602),
            Fate::Busy => error(-32050),
            Fate::Broken | Fate::Unable => error(BROKEN),
            Fate::Fails => result(&json!({ "content": [], "isError": true })),
            Fate::Question => {
                result(&json!({ "resultType": "input_required", "requestState": "s" }))
            }
            Fate::Slow | Fate::Twice | Fate::Garbage | Fate::Done => result(&receipt_of(&receipt)),
        };
        if fate == Fate::Garbage {
            drop(line.says.send("what?\n".to_owned()));
        }
        for _ in 0..=u32::from(fate == Fate::Twice) {
            say(line, heard.id, &answer);
        }
    }

    /// What the bank does with a call that meets this fate; its receipt.
    fn effect(&self, heard: &Heard, fate: Fate) -> String {
        if !fate.happens() {
            return String::new();
        }
        if fate == Fate::Broken && !fate.is_fault(&heard.tool) {
            self.book.borrow_mut().undone.misleads(heard.action);
        }
        match &heard.takes_back {
            Some(receipt) => self.take_back(heard.action, receipt),
            None => self.happen(heard),
        }
    }

    /// What became of `deed`.
    async fn look(&self, line: &Line, id: u64, deed: u64) {
        self.some(400).await;
        match self.roll(4) {
            0 => return,
            1 => return say(line, id, &error(-32603)),
            _ => {}
        }
        let receipt = {
            let book = self.book.borrow();
            book.done
                .iter()
                .filter(|(_, receipt)| !book.undone.is_gone(receipt))
                .find(|(action, _)| book.actions[action] == deed)
                .map(|(_, receipt)| receipt.clone())
        };
        say(
            line,
            id,
            &result(&json!({ "content": [], "structuredContent": { "receipt": receipt } })),
        );
    }

    /// The bank does what the call asks for. I3: its intent is on the disk by now. A key that the
    /// bank knows says that it did so before.
    fn happen(&self, heard: &Heard) -> String {
        let action = heard.action;
        let before = heard
            .key
            .as_ref()
            .and_then(|key| self.book.borrow().by_key.get(key).cloned());
        if let Some(receipt) = before {
            self.count("known by their keys");
            return receipt;
        }
        assert!(
            self.has_intent(action),
            "I3: {action} happened before its intent was durable"
        );
        let mut book = self.book.borrow_mut();
        assert_eq!(
            book.actions.get(&action),
            Some(&heard.deed),
            "an action of nobody's"
        );
        let receipt = format!("receipt {}", book.done.len());
        self.tell(|| format!("{action} of deed {} happens: {receipt}", heard.deed));
        book.by_key
            .extend(heard.key.clone().map(|key| (key, receipt.clone())));
        assert!(
            book.done.insert(action, receipt.clone()).is_none(),
            "I1: {action} happened twice"
        );
        book.undone.log(action);
        receipt
    }
}

/// The result that shows `receipt`.
pub(super) fn receipt_of(receipt: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": receipt }], "structuredContent": { "receipt": receipt } })
}

fn result(result: &Value) -> Value {
    let mut result = result.clone();
    if result.get("resultType").is_none() {
        result["resultType"] = json!("complete");
    }
    json!({ "jsonrpc": "2.0", "result": result })
}

fn error(code: i64) -> Value {
    json!({ "jsonrpc": "2.0", "error": { "code": code, "message": "no" } })
}

fn say(line: &Line, id: u64, answer: &Value) {
    let mut answer = answer.clone();
    answer["id"] = json!(id);
    drop(line.says.send(format!("{answer}\n")));
}
