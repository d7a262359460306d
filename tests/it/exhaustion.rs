//! Attacks on what toolgate has a bound of, each beside a good agent and an operator, all of whose
//! requests have to succeed while it lasts (threat-model §13 F10, F11, F14; §3B B9, §3I).

use crate::harness::agent::{Agent, modern};
use crate::harness::answer::get;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::task::JoinHandle;

mod bodies;
mod connections;
mod heads;
mod ledger_size;
mod refusals;
mod slow_calls;
mod unread_answers;

const GOOD: &str = "good-token-0123456789";
const GREEDY: &str = "greedy-token-0123456789";
const OPERATOR: &str = "operator-token-0123456789";

/// A gate for a good and a greedy agent and one operator, before an oracle with a tool that reads
/// and one that writes.
async fn guarded(more: &str) -> (ToolServer, Gate) {
    let (oracle, setup) = prepared(more).await;
    (oracle, setup.start().await)
}

/// The same, not started yet.
async fn prepared(more: &str) -> (ToolServer, Setup) {
    prepared_with(&[], more).await
}

/// The same with more tools: their names, whether they read or write, and what they do.
async fn prepared_with(tools: &[(&str, &str, Behaviour)], more: &str) -> (ToolServer, Setup) {
    let schema =
        json!({ "type": "object", "properties": { "x": { "type": "string" }, "y": {}, "z": {} } });
    let mut script = Script::new()
        .tool_with("read", &schema, Behaviour::Answers)
        .tool_with("write", &schema, Behaviour::Answers);
    let mut contracts = vec![
        ("oracle__read".to_owned(), "read"),
        ("oracle__write".to_owned(), "write"),
    ];
    for (name, action, behaviour) in tools {
        script = script.tool(name, behaviour.clone());
        contracts.push((format!("oracle__{name}"), action));
    }
    let contracts: Vec<(&str, &str)> = contracts
        .iter()
        .map(|(name, action)| (&**name, *action))
        .collect();
    let oracle = script.start().await;
    let setup = Setup::new()
        .server("oracle", &oracle)
        .contracts(&contracts)
        .unwatched()
        .callers(&format!(
            "  - {{ agent: good, token: {GOOD} }}\n  - {{ agent: greedy, token: {GREEDY} }}"
        ))
        .operators(&format!(
            "tokens: [ {{ name: ann, token: {OPERATOR}, roles: [auditor, resolver, switch] }} ]"
        ))
        .more(more);
    (oracle, setup)
}

/// A good agent and an operator, who keep asking, each time on a new connection.
struct Good {
    goes_on: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    asking: JoinHandle<()>,
}

impl Good {
    fn beside(gate: &Gate) -> Self {
        let (goes_on, asked) = (
            Arc::new(AtomicBool::new(true)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (agent, operators) = (gate.agent().token(GOOD), gate.operators);
        let (going, count) = (Arc::clone(&goes_on), Arc::clone(&asked));
        let asking = tokio::spawn(async move {
            while going.load(Ordering::Relaxed) {
                let round = count.load(Ordering::Relaxed);
                let tool = if round % 2 == 0 {
                    "oracle__read"
                } else {
                    "oracle__write"
                };
                let answer = agent.anew_call(tool, json!({})).await;
                assert!(answer.is_done(), "good call {round}: {answer:?}");
                let ready = get(operators, "/readyz")
                    .await
                    .unwrap_or_else(|| panic!("no answer to operator {round}"));
                assert_eq!(ready.status, 200, "{ready:?}");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            goes_on,
            asked,
            asking,
        }
    }

    /// How often they have asked, and were answered.
    fn asked(&self) -> usize {
        assert!(!self.asking.is_finished(), "the good agent was refused");
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits until they have asked so many times more.
    async fn ask(&self, times: usize) {
        let enough = self.asked() + times;
        crate::harness::until("good calls beside the attack", || async {
            (self.asked() >= enough).then_some(())
        })
        .await;
    }

    async fn end(self) -> usize {
        self.goes_on.store(false, Ordering::Relaxed);
        self.asking.await.expect("every good call succeeds");
        self.asked.load(Ordering::Relaxed)
    }
}

/// A good request as bytes: its head, and its body.
fn listing(agent: &Agent) -> (Vec<u8>, Vec<u8>) {
    let listing = modern("tools/list", json!({}));
    let body = listing.to_string().into_bytes();
    let mut head = agent.encoded(&agent.mirrored(&listing), &body);
    head.truncate(head.len() - body.len());
    (head, body)
}

/// What a lane has run, for people.
#[expect(clippy::print_stderr, reason = "a lane says how much it ran")]
fn tell(words: &str) {
    eprintln!("{words}");
}
