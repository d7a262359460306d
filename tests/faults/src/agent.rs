//! An agent of the modern wire: what breaks is sent again with the same arguments under a new
//! JSON-RPC id, after a pause that grows. Everything it is told is noted.

use crate::dice::Dice;
use crate::wire::{Heard, exchange, request};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Our verdict in `_meta`.
const DECISION: &str = "dev.toolgate/decision";

/// What can stand beside a status, as the effects server knows it.
const BODIES: [&str; 7] = [
    "empty", "text", "matching", "foreign", "null", "cut", "broken",
];

/// What an agent was told once.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The business key of the call.
    pub key: String,
    /// From 0.
    pub attempt: u32,
    /// When it asked, boot time in nanoseconds.
    pub asked: i64,
    /// When it was told.
    pub at: i64,
    /// What.
    pub what: What,
    /// The answer as it was, for what must not stand in it.
    pub text: String,
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The tool has run.
    Done {
        /// toolgate says that this is the answer to an earlier call.
        replayed: bool,
    },
    /// The tool has run, and says `isError`.
    ToolError,
    /// Nobody knows whether the tool has run.
    Unknown,
    /// toolgate refused.
    Refused {
        /// Why.
        code: String,
        /// `never`, `same_key`, `new_key` or `after_ms:…`.
        retry: String,
    },
    /// A JSON-RPC error of the tool server.
    Error(i64),
    /// The tool server asks for more.
    InputRequired,
    /// Nothing that says anything: no answer, or one without a response.
    Broken(String),
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "attempt {} at {} to {}: {:?}",
            self.attempt, self.asked, self.at, self.what
        )
    }
}

impl What {
    /// Reads an answer.
    pub fn of(heard: &Heard) -> Self {
        let message = match heard {
            Heard::Answer(_, Some(message)) => message,
            Heard::Answer(status, None) => {
                return Self::Broken(format!("HTTP {status} without a response"));
            }
            Heard::Broken(why) => return Self::Broken(why.clone()),
        };
        let (result, error) = (&message["result"], &message["error"]);
        let decision = if error.is_object() {
            &error["data"][DECISION]
        } else {
            &result["_meta"][DECISION]
        };
        match (decision["code"].as_str(), error["code"].as_i64()) {
            (Some("outcome_unknown"), _) => Self::Unknown,
            (Some(code), _) => {
                let retry = decision["retry"].as_str().unwrap_or("never").to_owned();
                Self::Refused {
                    code: code.to_owned(),
                    retry,
                }
            }
            (None, Some(code)) => Self::Error(code),
            (None, None) if result["resultType"] == "input_required" => Self::InputRequired,
            (None, None) if result["isError"] == true => Self::ToolError,
            (None, None) => Self::Done {
                replayed: decision["replayed"] == true,
            },
        }
    }

    /// Whether an agent asks again, and after how long at least.
    pub fn again(&self) -> Option<Duration> {
        match self {
            Self::Broken(_) => Some(Duration::ZERO),
            Self::Refused { retry, .. } if retry == "same_key" || retry == "when_approved" => {
                Some(Duration::ZERO)
            }
            Self::Refused { retry, .. } => retry
                .strip_prefix("after_ms:")?
                .parse()
                .ok()
                .map(Duration::from_millis),
            Self::Done { .. }
            | Self::ToolError
            | Self::Unknown
            | Self::Error(_)
            | Self::InputRequired => None,
        }
    }
}

/// A call to be made, as often as it takes.
#[derive(Debug, Clone)]
pub struct Errand {
    /// The tool, by the name that agents use.
    pub tool: String,
    /// The business key; it is the argument `key`.
    pub key: String,
    /// The other arguments.
    pub arguments: Value,
    /// `_meta["dev.toolgate/session"]`.
    pub session: String,
    /// Send an explicit idempotency key too?
    pub explicit: bool,
}

impl Errand {
    /// A call of `oracle__effect` under `key` in `session`, without an explicit key.
    pub fn effect(key: &str, session: &str) -> Self {
        let tool = "oracle__effect".to_owned();
        Self {
            tool,
            key: key.to_owned(),
            arguments: json!({}),
            session: session.to_owned(),
            explicit: false,
        }
    }

    /// The same, which a person has to allow.
    #[must_use]
    pub fn held(self) -> Self {
        Self {
            tool: "oracle__held".to_owned(),
            ..self
        }
    }

    /// The same, which is answered with any status and any body, whether it ran or not: nobody can
    /// know what became of it.
    #[must_use]
    pub fn with_status(mut self, dice: &mut Dice) -> Self {
        let body = BODIES[usize::try_from(dice.below(BODIES.len() as u64)).unwrap_or(0)];
        self.arguments["fault"] =
            json!({ "status": 400 + dice.below(200), "body": body, "runs": dice.chance(50) });
        self
    }
}

/// Agents that share one log.
#[derive(Debug, Clone)]
pub struct Agents {
    /// Where toolgate, or what stands before it, is; it may move when it is started again.
    pub address: Arc<Mutex<SocketAddr>>,
    patience: Duration,
    attempts: u32,
    twice: u64,
    dice: Dice,
    ids: Arc<AtomicU64>,
    open: Arc<AtomicU64>,
    back: Arc<Notify>,
    told: Arc<Mutex<Vec<Told>>>,
    excused: Arc<Mutex<BTreeSet<String>>>,
}

impl Agents {
    /// Agents of an address, patient for 10 s, with 40 attempts.
    pub fn new(address: SocketAddr, dice: Dice) -> Self {
        let (ids, open) = (Arc::new(AtomicU64::new(1)), Arc::default());
        let (address, patience) = (Arc::new(Mutex::new(address)), Duration::from_secs(10));
        let (back, told, excused) = (Arc::default(), Arc::default(), Arc::default());
        Self {
            address,
            patience,
            attempts: 40,
            twice: 0,
            dice,
            ids,
            open,
            back,
            told,
            excused,
        }
    }

    /// One answer may take this long.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// In `percent` of 100 cases a request is sent twice at once, under two ids.
    #[must_use]
    pub fn twice(self, percent: u64) -> Self {
        Self {
            twice: percent,
            ..self
        }
    }

    /// toolgate is somewhere else now; an agent that pauses asks at once.
    pub fn moved(&self, to: SocketAddr) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = to;
        self.back.notify_waiters();
    }

    /// How many requests wait for their answers.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Everything that was told so far, in the order in which it was.
    pub fn told(&self) -> Vec<Told> {
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The keys of calls that were to be answered with a status: their outcomes may be unknown.
    pub fn excused(&self) -> BTreeSet<String> {
        self.excused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sends a call until something final is told; the last thing told.
    pub async fn run(&self, errand: &Errand) -> What {
        if errand.arguments["fault"].is_object() {
            self.excused
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(errand.key.clone());
        }
        let mut dice = self.dice.fork(self.ids.fetch_add(1, Ordering::Relaxed));
        let mut last = What::Broken("never sent".to_owned());
        for attempt in 0..self.attempts {
            let (first, second) = (self.once(errand, attempt), self.once(errand, attempt));
            let (one, other) = if dice.chance(self.twice) {
                let (one, other) = tokio::join!(first, second);
                (one, Some(other))
            } else {
                (first.await, None)
            };
            // An agent that asks twice takes the answer that says more.
            last = match other {
                Some(other) if one.again().is_some() => other,
                _ => one,
            };
            let Some(pause) = last.again() else {
                return last;
            };
            let growing = Duration::from_millis((5 << attempt.min(6)) + dice.below(20));
            let _ = tokio::time::timeout(pause.max(growing), self.back.notified()).await;
        }
        last
    }

    /// Sends a call once, under a new JSON-RPC id.
    pub async fn once(&self, errand: &Errand, attempt: u32) -> What {
        let mut arguments = errand.arguments.clone();
        arguments["key"] = json!(errand.key);
        let mut meta = vec![("dev.toolgate/session", json!(errand.session))];
        if errand.explicit {
            meta.push(("dev.toolgate/idempotencyKey", json!(errand.key)));
        }
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let params = json!({ "name": errand.tool, "arguments": arguments });
        let message = request(id, "tools/call", params, &meta);
        let address = *self.address.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = boot_time();
        self.open.fetch_add(1, Ordering::Relaxed);
        let heard = exchange(address, &message, self.patience).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        let what = What::of(&heard);
        let text = match heard {
            Heard::Answer(_, message) => message
                .map(|message| message.to_string())
                .unwrap_or_default(),
            Heard::Broken(why) => why,
        };
        let told = Told {
            key: errand.key.clone(),
            attempt,
            asked,
            at: boot_time(),
            what: what.clone(),
            text,
        };
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(told);
        what
    }
}

/// Nanoseconds since the machine started, sleep included.
pub fn boot_time() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
