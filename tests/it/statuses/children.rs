//! The same on standard input and output, where there are no statuses: what answers the call is an
//! answer, whatever its code; all else is none.

use super::{UNTRUE, code, report};
use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::task::JoinSet;

const AGENTS: usize = 8;
const SENDINGS: usize = 3;

/// Runs what it is told to, notes it, and answers as it is told to.
const CHILD: &str = r#"
import json, sys
modern = sys.argv[1] == "modern"
def say(answer):
    print(json.dumps(answer), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    method, params = message["method"], message.get("params", {})
    known = modern == ("io.modelcontextprotocol/protocolVersion" in params.get("_meta", {}))
    if method == "initialize" and known:
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
    elif method == "server/discover" and known:
        answer["result"] = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    elif method == "tools/list" and known:
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "undo")]
        answer["result"] = {"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
    elif method == "tools/call":
        told = params["arguments"]
        with open("came", "a") as file: file.write(json.dumps(told) + "\n")
        kind = told["kind"]
        answer["error"] = {"code": told["code"], "message": "told to"}
        if kind == "empty": continue
        if kind == "text":
            print("upstream connect error or disconnect/reset before headers", flush=True)
            continue
        if kind == "unread":
            print('{"jsonrpc":"2.0","id":%d,"result":{"content":[],"a":1,"a":2}}' % message["id"], flush=True)
            continue
        if kind == "foreign": answer["id"] = 987654321
        if kind == "spelled": answer["id"] = str(message["id"])
        if kind == "null": answer["id"] = None
        if kind == "half":
            sys.stdout.write(json.dumps(answer)[:20] + "\n")
            sys.stdout.flush()
            continue
        if kind in ("cut", "dies"):
            sys.stdout.write(json.dumps(answer)[:20] if kind == "cut" else "")
            sys.stdout.flush()
            sys.exit(1)
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    say(answer)
"#;

/// What answers, what does not, and what ends the child; the last ones one after the other.
const KINDS: [&str; 8] = [
    "matching", "unread", "foreign", "spelled", "null", "text", "half", "empty",
];
const LAST: [&str; 2] = ["cut", "dies"];

/// The kinds that are answers. Their server has time: on a busy machine an answer may be late.
const ANSWERS: [&str; 2] = ["matching", "unread"];

async fn sent(agent: &Agent, kind: &str, error: i64) -> (String, Vec<Value>) {
    let case = format!("{kind}{error}");
    let meta = json!({ "dev.toolgate/session": case, "dev.toolgate/task": case });
    let arguments = json!({ "case": case, "kind": kind, "code": error });
    let tool = if ANSWERS.contains(&kind) {
        "odd__pay"
    } else {
        "mute__pay"
    };
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let mut told = Vec::new();
    for _ in 0..SENDINGS {
        told.push(agent.ask("tools/call", params.clone()).await);
    }
    (case, told)
}

fn is_right(kind: &str, error: i64, told: &[Value]) -> bool {
    let text = told.iter().map(Value::to_string).collect::<String>();
    let is_true = |answer: &Value| match kind {
        "matching" => answer["error"]["code"] == error,
        // A result that cannot be read is one; it is withheld.
        "unread" => {
            code(answer).is_empty() && answer.to_string().contains("has answered this call")
        }
        _ => code(answer) == "outcome_unknown",
    };
    told.iter().all(is_true) && !UNTRUE.iter().any(|words| text.contains(words))
}

async fn agent(gate: &Gate, wire: &str) -> Agent {
    if wire == "legacy" {
        gate.agent().initialized().await
    } else {
        gate.agent()
    }
}

async fn each_code_of_a_child(wire: &'static str) {
    let child =
        format!("command: python3, args: [odd.py, {wire}], cwd: ., env: {{ PATH: \"${{PATH}}\" }}");
    let setup = Setup::new()
        .server_with("odd", &format!("{child}, timeout: 20s"))
        .server_with("mute", &format!("{child}, timeout: 1s"))
        .contracts(&[("odd__pay", "write"), ("mute__pay", "write")]);
    std::fs::write(setup.directory().join("odd.py"), CHILD).unwrap();
    let gate = &setup
        .environment("PATH", &std::env::var("PATH").unwrap())
        .start()
        .await;
    let cases = cases();
    let mut agents = JoinSet::new();
    for nth in 0..AGENTS {
        let (agent, cases) = (agent(gate, wire).await, cases.clone());
        agents.spawn(async move {
            let mut made = Vec::new();
            for (kind, code) in cases.into_iter().skip(nth).step_by(AGENTS) {
                made.push((kind, code, sent(&agent, kind, code).await));
            }
            made
        });
    }
    let mut made: Vec<_> = agents.join_all().await.into_iter().flatten().collect();
    for (kind, error) in LAST
        .into_iter()
        .flat_map(|kind| [(kind, -32603), (kind, -32602)])
    {
        // The child is started again: an agent whose child has answered tells.
        let fresh = &AtomicI64::new(-31000 + 100 * i64::try_from(made.len()).unwrap());
        let answers = || async move {
            let code = fresh.fetch_add(1, Ordering::Relaxed);
            let agent = agent(gate, wire).await;
            let (_, told) = sent(&agent, "revived", code).await;
            (told[0]["error"]["code"] == code).then_some(agent)
        };
        let agent = crate::harness::until("a child answers", answers).await;
        made.push((kind, error, sent(&agent, kind, error).await));
    }
    let counted = counted(gate);
    let wrong = made
        .iter()
        .filter(|(kind, error, (case, told))| counted[case] != 1 || !is_right(kind, *error, told));
    let found: Vec<String> = wrong
        .map(|(.., (case, told))| format!("{case}, {}: {told:?}", counted[case]))
        .collect();
    report(
        &format!(
            "{wire} child: {} cases, each sent {SENDINGS} times",
            made.len()
        ),
        &found,
    );
}

/// An answer under each code that the protocol reserves; what never comes costs a second each.
fn cases() -> Vec<(&'static str, i64)> {
    let mut cases: Vec<(&str, i64)> = (-32768..=-32000).map(|code| ("matching", code)).collect();
    cases.extend([-32800, -1, 0, 503].map(|code| ("matching", code)));
    cases.extend(
        KINDS[1..]
            .iter()
            .flat_map(|kind| [-32700, -32603, -32602, -32050, -32020].map(|code| (*kind, code))),
    );
    cases
}

/// How often each case came to the child.
fn counted(gate: &Gate) -> HashMap<String, usize> {
    let came = std::fs::read_to_string(gate.path("came")).unwrap();
    let mut counted: HashMap<String, usize> = HashMap::new();
    for line in came.lines() {
        let told: Value = serde_json::from_str(line).unwrap();
        *counted
            .entry(told["case"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    counted
}

/// threat-model §13 F1, guarantees §4: the lane, on a modern child.
#[tokio::test]
async fn a_code_proves_nothing_of_a_modern_child() {
    each_code_of_a_child("modern").await;
}

/// threat-model §13 F1, guarantees §4: the lane, on legacy children, one for each session.
#[tokio::test]
async fn a_code_proves_nothing_of_a_legacy_child() {
    each_code_of_a_child("legacy").await;
}
