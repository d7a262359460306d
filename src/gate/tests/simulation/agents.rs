//! Agents: each wants one thing done, and asks until it is told what became of it.

use super::bank::BROKEN;
use super::process::{TOOLS, bank};
use super::{AGENTS, DEEDS, OUTSIDE, SimulatedWorld, TASKS};
use crate::gate::call::{ArgumentOrigin, Call, CallOrigin, TaskTerms};
use crate::guards::idempotency::KEY_META_NAME;
use crate::guards::task::{Belonging, SESSION_META};
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::bridge::knows_tasks;
use crate::mcp::headers::arguments_of;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::call::{CallMeta, ToolCall};
use crate::model::caller::Caller;
use crate::model::ids::{ActionId, ToolName};
use crate::outlet::{Inlet, Outgoing, way_back};
use crate::upstream::links::Links;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

mod parked;

pub(super) use parked::AskingLine;

/// Bytes of the future that runs a call.
const CALL_BYTES_MAX: usize = 4 << 10;

/// How often an agent sends a call again before it gives up.
const PERSISTENCE: u32 = 15;
/// Codes after which the call itself may have run.
const PERHAPS: [&str; 3] = [
    "outcome_unknown",
    "executed_but_not_recorded",
    "internal_error",
];

/// What an agent asks for.
pub(super) struct Asked {
    pub(super) deed: u64,
    amount: u64,
    /// What it answers a question of the bank's.
    pub(super) reply: Option<u64>,
    /// The token that it believes to hold.
    token: Option<u64>,
}

/// What it is told.
#[derive(Debug, PartialEq)]
pub(super) enum Told {
    /// It is done; the bank's own receipt, unless only that is known.
    Done {
        receipt: Option<String>,
        replayed: bool,
    },
    Question,
    /// The bank's answer says that it failed.
    Failed,
    /// The bank's error.
    Error(i64),
    Refused(String),
}

impl Told {
    /// Does the gate speak as if the deed's outcome were not known to it?
    fn is_as_if_forgotten(&self) -> bool {
        match self {
            Self::Question | Self::Failed | Self::Error(_) => true,
            Self::Refused(code) => {
                matches!(code.as_str(), "outcome_unknown" | "duplicate_in_flight")
            }
            Self::Done { .. } => false,
        }
    }
}

impl Asked {
    /// Asks for `deed`, and for nothing special.
    pub(super) const fn of(deed: u64) -> Self {
        Self {
            deed,
            amount: 0,
            reply: None,
            token: None,
        }
    }
}

/// A call as it is sent.
pub(super) struct WantedCall {
    /// What it is for.
    pub(super) deed: u64,
    pub(super) tool: &'static str,
    pub(super) message: Message,
    /// When its first byte came.
    pub(super) arrived: Duration,
}

/// A request whose answer is waited for.
pub(super) struct Request {
    action: ActionId,
    id: Text,
    links: Arc<Links>,
    pub(super) inlet: Inlet,
}

impl Request {
    /// Tells the gate that nobody waits any more.
    pub(super) fn cancel(&self) {
        let id = Text::members_of(&[("requestId", self.id.clone())]);
        self.links
            .cancel(&Message::notification("notifications/cancelled", Some(id)));
    }
}

impl SimulatedWorld {
    /// All agents begin.
    pub(super) fn populate_agents(self: &Rc<Self>) {
        for deed in 0..TASKS * DEEDS {
            for _ in 0..AGENTS {
                let world = self.clone();
                self.schedule.spawn(OUTSIDE, async move {
                    world.agent(deed).await;
                    world.busy.set(world.busy.get() - 1);
                });
            }
        }
    }

    /// Sends a call until it is told what became of it, or has enough.
    async fn agent(self: &Rc<Self>, deed: u64) {
        let mut asked = Asked {
            amount: u64::from(self.once_in(15)),
            ..Asked::of(deed)
        };
        let mut replays = self.roll(3);
        for _ in 0..PERSISTENCE {
            self.some(2000).await;
            asked.token = self.token(deed);
            let was_told = self.book.borrow().told.contains_key(&deed);
            let was_held = self.is_held(deed);
            let told = self.call(&asked).await;
            self.tell(|| format!("an agent of deed {deed} is told {told:?}"));
            let Some(told) = told else {
                self.count("hung up");
                continue;
            };
            // Answered only after its outcome is on disk: what one agent was told, nobody forgets
            // (guarantees §8).
            assert!(
                !was_told || !told.is_as_if_forgotten(),
                "deed {deed} was answered, and then: {told:?}"
            );
            match told {
                Told::Done { receipt, replayed } => {
                    self.count(if !replayed {
                        "answers"
                    } else if was_held {
                        "joins"
                    } else {
                        "replays"
                    });
                    self.book
                        .borrow_mut()
                        .told
                        .entry(deed)
                        .or_default()
                        .extend(receipt);
                    if replays == 0 {
                        return;
                    }
                    replays -= 1;
                }
                Told::Question => {
                    self.count("questions");
                    asked.reply = Some(self.roll(2));
                }
                Told::Failed => return self.count("failed"),
                Told::Error(-32602) => return self.count("invalid"),
                Told::Error(code) => self.count(&code.to_string()),
                Told::Refused(code) => {
                    self.count(&code);
                    match code.as_str() {
                        "idempotency_conflict" => return,
                        "budget_exceeded" if self.once_in(2) => return,
                        "outcome_unknown" => self.some(300_000).await,
                        _ => {}
                    }
                }
            }
        }
    }

    /// Now and then an agent says which token it holds, and sometimes not the newest one.
    fn token(&self, deed: u64) -> Option<u64> {
        let seen = self
            .book
            .borrow()
            .tokens
            .get(&(deed % TASKS))
            .copied()
            .unwrap_or_default();
        match self.roll(20) {
            0 => Some(seen),
            1 => Some(seen.saturating_sub(1)),
            2 => Some(u64::MAX),
            _ => None,
        }
    }

    pub(super) fn is_held(&self, deed: u64) -> bool {
        let book = self.book.borrow();
        book.held
            .iter()
            .any(|(action, calls)| *calls > 0 && book.actions[action] == deed)
    }

    /// One request: none when the connection is lost, or the agent loses patience. The gate goes on
    /// all the same.
    pub(super) async fn call(self: &Rc<Self>, asked: &Asked) -> Option<Told> {
        let mut request = self.ask(asked)?;
        let patience = match self.roll(8) {
            0 => 90_000,
            1 => 100,
            _ => 200 + self.roll(12_000),
        };
        let told = self
            .hear_of(&mut request, Duration::from_millis(patience))
            .await;
        if told.is_none() && self.once_in(2) {
            request.cancel();
        }
        told
    }

    /// Sends a request, if there is anybody to send it to.
    pub(super) fn ask(self: &Rc<Self>, asked: &Asked) -> Option<Request> {
        let wanted = WantedCall {
            deed: asked.deed,
            tool: tool(asked.deed),
            message: self.message(asked),
            arrived: Duration::ZERO,
        };
        self.send(wanted)
    }

    pub(super) fn send(self: &Rc<Self>, wanted: WantedCall) -> Option<Request> {
        self.send_as(self.ground.caller.clone(), wanted)
    }

    fn send_as(self: &Rc<Self>, caller: Arc<Caller>, wanted: WantedCall) -> Option<Request> {
        let process = self.process.borrow().clone()?;
        let (outlet, inlet) = way_back();
        let links = Arc::new(Links::shared(self.ground.servers.clone()));
        let action = self.action(wanted.deed);
        let judged = self.judged(&wanted, action);
        let WantedCall {
            deed,
            message,
            arrived,
            ..
        } = wanted;
        let id = message.id.clone().unwrap();
        let waiting = links.wait(&id).unwrap();
        // I6 is about the budgets of the one teller's tasks.
        if Arc::ptr_eq(&caller, &self.ground.caller) {
            let session = Belonging::of(&caller, &judged).unwrap().session.key;
            self.book.borrow_mut().places.insert(deed % TASKS, session);
        }
        let (era, reading) = (Era::Modern, ArgumentOrigin::default());
        let policy = process.gate.policy.current();
        let params = message.body.clone().filter(|_| wanted_task(&message));
        let task = params.map_or(TaskTerms::Unknown, TaskTerms::Possible);
        let call = Call {
            judged,
            reading,
            message,
            origin: Arc::new(CallOrigin {
                caller,
                policy,
                era,
                links: links.clone(),
                outlet,
                waiting,
                arrived,
                is_relayed: false,
                task,
                asks_page: AtomicBool::default(),
                undoes: None,
                own_undo: Mutex::default(),
                claimed: OnceLock::new(),
                page: OnceLock::new(),
                waited: AtomicU64::default(),
            }),
        };
        let running = process.gate.clone().call_tool(call);
        assert!(
            size_of_val(&running) <= CALL_BYTES_MAX,
            "a call is a future of {} bytes",
            size_of_val(&running)
        );
        self.run_in(process.group, running);
        Some(Request {
            action,
            id,
            links,
            inlet,
        })
    }

    /// What an agent of such patience is told.
    pub(super) async fn hear_of(&self, request: &mut Request, patience: Duration) -> Option<Told> {
        let until = Instant::now() + patience;
        loop {
            match timeout_at(until, request.inlet.recv()).await {
                Ok(Some(Outgoing::Last(answer))) => {
                    return Some(self.read(&answer, request.action));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn message(&self, asked: &Asked) -> Message {
        let Asked {
            deed,
            amount,
            reply,
            token,
        } = asked;
        let mut meta = json!({ SESSION_META: format!("session {}", deed % TASKS) });
        if tool(*deed) == "pay" {
            meta[KEY_META_NAME] = json!(format!("key of {deed}"));
        }
        if let Some(token) = token {
            meta["dev.toolgate/fence"] = json!({ "token": token });
        }
        let mut params = json!({
            "name": format!("bank__{}", tool(*deed)),
            "arguments": { "deed": deed, "amount": amount },
            "_meta": meta,
        });
        if let Some(reply) = reply {
            params["inputResponses"] = json!({ "account": reply });
        }
        let id = self.book.borrow().actions.len() as u64;
        Message::request(id, "tools/call", Some(Text::of(&params)))
    }

    fn judged(&self, wanted: &WantedCall, action: ActionId) -> ToolCall {
        let WantedCall { tool, message, .. } = wanted;
        let meta = |key| message.meta(key).map(|value| value.value());
        ToolCall {
            action,
            tool: ToolName::of(&bank(), tool),
            server: Some(bank()),
            own_name: (*tool).to_owned(),
            arguments: arguments_of(message.body.as_ref()),
            request_id: "1".to_owned(),
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            session: None,
            revision: "2026-07-28",
            key_argument: None,
            key_taken: false,
            rewritten: None,
            arrived: self.hands.clock().steady(),
            said: CallMeta {
                key: meta(KEY_META_NAME),
                session: meta(SESSION_META),
                ..CallMeta::default()
            },
        }
    }

    /// What an answer says; I2 and I4 are about what it says of the call itself.
    fn read(&self, answer: &Message, action: ActionId) -> Told {
        let body = answer.body.as_ref().unwrap().value();
        if answer.is_error {
            let code = body["code"].as_i64().unwrap();
            // The bank's own word, by which nobody knows whether it happened.
            if code != BROKEN {
                self.book.borrow_mut().refused.insert(action);
            }
            return Told::Error(code);
        }
        let decision = &body["_meta"][DECISION_META_KEY];
        if let Some(code) = decision["code"].as_str() {
            if !PERHAPS.contains(&code) {
                self.book.borrow_mut().refused.insert(action);
            }
            return Told::Refused(code.to_owned());
        }
        if body["resultType"] == "input_required" {
            return Told::Question;
        }
        if body["isError"] == true {
            return Told::Failed;
        }
        let receipt = body["structuredContent"]["receipt"]
            .as_str()
            .map(str::to_owned);
        let words = body["content"][0]["text"].as_str().unwrap_or_default();
        match (&receipt, words.starts_with("An operator")) {
            (None, true) => self.count("confirmed"),
            (None, false) => self.count("found"),
            (Some(_), _) => {}
        }
        Told::Done {
            receipt,
            replayed: decision["replayed"] == Value::Bool(true),
        }
    }
}

/// Whether its agent declares that it knows tasks.
fn wanted_task(message: &Message) -> bool {
    let meta = message.body.as_ref().and_then(|params| params.get("_meta"));
    meta.as_ref().is_some_and(knows_tasks)
}

/// The tool that a deed is done with: two of five pay, two transfer.
pub(super) fn tool(deed: u64) -> &'static str {
    [TOOLS[0], TOOLS[1], TOOLS[2], TOOLS[0], TOOLS[1]][usize::try_from(deed / TASKS).unwrap()]
}
