//! Bad input at the agents' doors: each gets a clear error, and the oracle counts no execution
//! (issue 2, threat-model §3A–§3C).

use crate::harness::agent::Agent;
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::stdio::StdioGate;
use crate::harness::tool_server::script::{MODERN, VERSION_KEY};
use crate::harness::tool_server::{Behaviour, Execution, Script, ToolServer, executions};
use serde_json::json;

mod callers;
mod children;
mod connection_limit;
mod framing;
mod good_input;
mod headers;
mod messages;
mod methods;
mod repeats;
mod servers;

/// In every bad message; never in an answer or the log.
const CANARY: &str = "c4n4ry-v4lue";

/// A gate before an oracle with a read and a write tool, both allowed to every caller.
async fn governed() -> (ToolServer, Gate) {
    let oracle = Script::new()
        .tool("read", Behaviour::Answers)
        .tool("write", Behaviour::Answers)
        .start()
        .await;
    let setup = Setup::new()
        .server("oracle", &oracle)
        .contracts(&[("oracle__read", "read"), ("oracle__write", "write")]);
    let gate = setup.start().await;
    (oracle, gate)
}

/// The ways a message comes in.
enum Door {
    Modern(Agent),
    Legacy(Agent),
    Stdio(Box<StdioGate>),
}

impl Door {
    fn name(&self) -> &'static str {
        match self {
            Self::Modern(_) => "modern",
            Self::Legacy(_) => "legacy",
            Self::Stdio(_) => "stdio",
        }
    }

    /// A body from a template: `@TOOL` is the tool's name, `@META` the members of `_meta`,
    /// `@CANARY` the canary, and `@BYTE` a byte that is no UTF-8.
    fn body(&self, template: &str) -> Vec<u8> {
        let envelope = format!(
            "\"{VERSION_KEY}\":\"{MODERN}\",\"io.modelcontextprotocol/clientCapabilities\":{{}}"
        );
        let meta = if matches!(self, Self::Legacy(_)) {
            ""
        } else {
            &envelope
        };
        let tool = if matches!(self, Self::Stdio(_)) {
            "write"
        } else {
            "oracle__write"
        };
        let text = template
            .replace("@TOOL", tool)
            .replace("@META", meta)
            .replace("@CANARY", CANARY);
        let mut bytes = Vec::new();
        for (index, part) in text.split("@BYTE").enumerate() {
            bytes.extend_from_slice(if index > 0 { b"\xff" } else { b"" });
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }

    async fn send(&mut self, template: &str) -> Answer {
        let body = self.body(template);
        match self {
            Self::Modern(agent) => {
                let call = json!({ "method": "tools/call", "params": { "name": "oracle__write" } });
                agent.send(&agent.mirrored(&call), &body).await
            }
            Self::Legacy(agent) => agent.send(&agent.headers(), &body).await,
            Self::Stdio(gate) => gate.ask(&body).await,
        }
    }
}

/// Asserts what every refusal of a bad message has: the code, words that say what is right, and
/// nothing of the message.
fn refused(what: &str, answer: &Answer, code: i64, says: &str) {
    assert_eq!(answer.error(), code, "{what}: {answer:?}");
    let words = answer.words();
    assert!(
        words.contains(says),
        "{what}: {words:?} does not say {says:?}"
    );
    assert!(!answer.text().contains(CANARY), "{what}: echoes a value");
}

/// Asserts that nothing ran, then that a good call still does.
async fn untouched(oracle: &ToolServer, gate: &Gate) {
    assert_eq!(
        oracle.executions().len(),
        0,
        "something ran: {:?}",
        oracle.executions()
    );
    let answer = gate.agent().modern_call("oracle__write", json!({})).await;
    assert!(answer.is_done(), "a good call no longer passes: {answer:?}");
    assert_eq!(oracle.executions().len(), 1);
    assert!(
        !gate.log().contains(CANARY),
        "the log has a value: {}",
        gate.log()
    );
}
