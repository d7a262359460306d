//! Calls that become tasks, where agent and server have different kinds of them.

use super::histories::KillHistory;
use crate::harness::agent::Agent;
use crate::harness::answer::{Reading, code};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

mod followed;
mod held;
pub mod of_legacy_servers;
pub mod of_modern_servers;

pub const ELICITED: &str = "elicitation/create";
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The contracts: that of `write` calls two errors proofs that nothing was done.
fn policy() -> String {
    let proofs = ", idempotency: { derive: arguments, not_executed: [-32000, -32602] }";
    let contracts = [
        ("s__write", "write", proofs),
        ("s__read", "read", ""),
        ("s__may", "read", ""),
        ("s__plain", "read", ""),
    ];
    let lines = contracts
        .map(|(tool, action, more)| format!("  {tool}: {}\n", contract(tool, action, more)));
    format!("contracts:\n{}{}\n", lines.concat(), undo("s__write"))
}

/// A server of one era that makes tasks, behind toolgate.
pub struct Stage {
    pub server: ScriptedServer,
    pub gate: Gate,
    /// How its tasks stand: what is told of any of them, in the words of its era.
    pub standing: Arc<Mutex<Value>>,
    /// How often it was asked how one stands.
    pub polls: Arc<AtomicUsize>,
}

impl Stage {
    /// Before a server with these tools, which says in its introduction that it makes tasks.
    pub async fn with(modern: bool, tools: Vec<Value>) -> Self {
        Self::for_callers(modern, tools, "").await
    }

    /// The same for these callers besides, as the configuration lists them.
    pub async fn for_callers(modern: bool, tools: Vec<Value>, callers: &str) -> Self {
        let capabilities = if modern {
            json!({ "tools": {}, "extensions": { EXTENSION: {} } })
        } else {
            json!({ "tools": {}, "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } } })
        };
        let offers = Offers {
            modern,
            legacy: !modern,
            capabilities,
            tools,
            ..Offers::default()
        };
        let server = ScriptedServer::start(offers).await;
        let gate = Setup::new()
            .server_with("s", &format!("url: \"{}\"", server.url()))
            .policy(&policy())
            .callers(callers)
            .open_sides()
            .start()
            .await;
        let (standing, polls) = (Arc::default(), Arc::default());
        Self {
            server,
            gate,
            standing,
            polls,
        }
    }

    /// How its tasks stand from now on.
    pub fn stands(&self, standing: Value) {
        *self.standing.lock().unwrap() = standing;
    }

    /// Waits until toolgate has asked once more how a task stands.
    pub async fn is_polled(&self) {
        let before = self.polls.load(Ordering::SeqCst);
        let asked = || async { (self.polls.load(Ordering::SeqCst) > before).then_some(()) };
        until("toolgate asks after the task", asked).await;
    }

    /// How often the server was asked by this method.
    pub fn count(&self, method: &str) -> usize {
        let seen = self.server.seen();
        seen.iter().filter(|seen| seen.method() == method).count()
    }

    /// A legacy agent in a session.
    pub async fn legacy_agent(&self) -> Agent {
        self.gate.legacy("/mcp/s").await
    }
}

/// The parameters of a call, as a task where `task` says so.
pub fn call(name: &str, n: u32, task: Option<Value>) -> Value {
    let mut params = json!({ "name": name, "arguments": { "n": n } });
    if let Some(task) = task {
        params["task"] = task;
    }
    params
}

/// Answers the next question of a server by a request.
pub async fn answers(agent: &Agent, reading: &mut Reading, result: Value) -> Value {
    let asked = reading.message().await;
    assert_eq!(asked["method"], ELICITED, "{asked}");
    let told = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
    assert_eq!(agent.post(&told).await.head.status, 202);
    asked
}

pub fn text(words: &str) -> Value {
    json!([{ "type": "text", "text": words }])
}
