//! Random work of one agent in each regime: a third of its answers is lost, and it sends those calls
//! again among others. Each thing that it means once runs once; what it means again runs again.

use super::{BOT, CLIENT, contract, is_replayed};
use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use toolgate_faults::dice::{Dice, seed};

/// Where chance begins.
const SEED: u64 = 20_261_123;
/// Things that the agent means.
const INTENTS: u64 = 60;
/// In how many of 100 calls the answer is lost.
const LOST: u64 = 30;
/// Different things that it may mean.
const DEEDS: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Keyed,
    Declared,
    Retry,
}

/// One thing that the agent means.
#[derive(Debug, Clone)]
struct Intent {
    number: u64,
    deed: u64,
}

struct Scene {
    server: ToolServer,
    gate: Gate,
    known: Known,
    /// Calls that were answered from memory although they were meant, and were sent once.
    false_joins: usize,
    /// Calls that were sent again and not run again.
    suppressed: usize,
}

impl Scene {
    async fn of(known: Known) -> Self {
        let number = json!({ "type": "integer" });
        let schema =
            json!({ "type": "object", "properties": { "deed": number, "intent": number } });
        let server = Script::new()
            .tool_with("do", &schema, Behaviour::Held)
            .start()
            .await;
        let more = match known {
            Known::Keyed => ", idempotency: { require: true }",
            Known::Declared => ", idempotency: { derive: [/intent] }",
            Known::Retry => ", idempotency: { derive: retry }",
        };
        let policy = format!("contracts:\n{}", contract("s__do", more));
        let gate = Setup::new()
            .server("s", &server)
            .policy(&policy)
            .callers(BOT)
            .start()
            .await;
        Self {
            server,
            gate,
            known,
            false_joins: 0,
            suppressed: 0,
        }
    }

    fn agent(&self) -> Agent {
        self.gate.agent().token(CLIENT)
    }

    fn call(&self, intent: &Intent) -> Value {
        let mut arguments = json!({ "deed": intent.deed });
        if self.known == Known::Declared {
            arguments["intent"] = json!(intent.number);
        }
        let mut params = json!({ "name": "s__do", "arguments": arguments });
        if self.known == Known::Keyed {
            params["_meta"]["dev.toolgate/idempotencyKey"] = json!(intent.number.to_string());
        }
        self.agent().request("tools/call", params)
    }

    /// The answer to a call, which runs unless it was made before.
    async fn asks(&self, intent: &Intent) -> Value {
        let (agent, request) = (self.agent(), self.call(intent));
        self.server.release();
        let answer = agent.answered(&request).await;
        if is_replayed(&answer) {
            // What was let go for it runs nothing: the next call takes it.
            self.server.take_back().await;
        }
        answer
    }

    /// A call of whose answer the agent never reads a byte.
    async fn loses(&self, intent: &Intent) {
        let (agent, request) = (self.agent(), self.call(intent));
        let bytes = agent.encoded(&agent.mirrored(&request), request.to_string().as_bytes());
        let before = self.server.executions().len();
        let mut connection = TcpStream::connect(self.gate.agents).await.unwrap();
        connection.write_all(&bytes).await.unwrap();
        until("the call runs", || async {
            (self.server.executions().len() > before).then_some(())
        })
        .await;
        drop(connection);
        self.server.release();
    }

    async fn again(&mut self, intent: &Intent) {
        let answer = self.asks(intent).await;
        self.suppressed += usize::from(is_replayed(&answer));
    }
}

async fn works(known: Known) {
    let seed = seed(SEED);
    let (mut dice, mut scene) = (Dice::new(seed), Scene::of(known).await);
    let mut lost: Vec<(u64, Intent)> = Vec::new();
    // What was begun last, and what was sent again since.
    let (mut recent, mut meant) = (BTreeSet::new(), BTreeMap::<u64, usize>::new());
    let mut losses = 0;
    for number in 0..INTENTS {
        let (due, later): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(at, _)| *at <= number);
        lost = later;
        for (_, intent) in due {
            scene.again(&intent).await;
            recent.insert(intent.deed);
        }
        let deed = dice.below(DEEDS);
        // What it still waits for, and what it has just done, it does not mean a second time.
        if recent.contains(&deed) || lost.iter().any(|(_, intent)| intent.deed == deed) {
            continue;
        }
        let intent = Intent { number, deed };
        *meant.entry(deed).or_default() += 1;
        recent = BTreeSet::from([deed]);
        if dice.below(100) < LOST {
            scene.loses(&intent).await;
            losses += 1;
            lost.push((number + 1 + dice.below(4), intent));
        } else {
            let answer = scene.asks(&intent).await;
            scene.false_joins += usize::from(is_replayed(&answer));
        }
    }
    for (_, intent) in lost {
        scene.again(&intent).await;
    }
    assert!(losses > 5, "too few answers were lost, seed {seed}");
    assert_eq!(scene.false_joins, 0, "{known:?}, seed {seed}");
    assert_eq!(scene.suppressed, losses, "{known:?}, seed {seed}");
    let mut ran = BTreeMap::<u64, usize>::new();
    for execution in scene.server.executions() {
        let deed = execution.arguments["deed"].as_u64().unwrap();
        *ran.entry(deed).or_default() += 1;
    }
    assert_eq!(ran, meant, "{known:?}, seed {seed}");
}

/// 004-01, 004-11: with a key of the agent's.
#[tokio::test]
async fn a_keyed_call_runs_once() {
    works(Known::Keyed).await;
}

/// 004-01, 004-53: by what the contract declares.
#[tokio::test]
async fn a_declared_call_runs_once() {
    works(Known::Declared).await;
}

/// 004-01, 004-08: by what the agent has shown.
#[tokio::test]
async fn a_call_that_is_sent_again_runs_once() {
    works(Known::Retry).await;
}
