//! A status code is no proof (threat-model §13 F1; guarantees §4): a tool server does what it was
//! asked to, and then answers with any status and any body. What an agent sends again meanwhile is
//! sent once, and neither agent nor ledger reads that it did not run. What runs again is named: by
//! a contract, or by the operator for a server.

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::replay::stored;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Settings;
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

mod children;
mod named_statuses;
mod reads;
mod second_attempts;
mod sessions;

/// Agents at once.
const AGENTS: usize = 24;
/// How often each agent sends the same call.
const SENDINGS: usize = 3;
/// What would be untrue of a call that ran.
const UNTRUE: [&str; 4] = [
    "nothing was sent",
    "did not run",
    "cannot be reached",
    "changes nothing",
];

const POLICY: &str = "
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__pay: { purpose: test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: oracle__undo } } }
  oracle__read: { purpose: test, actions: [read], secrets: [] }
";

/// What stands in an answer beside its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EffectKind {
    /// Nothing.
    Empty,
    /// What proxies say.
    Text,
    /// A JSON-RPC error that answers the call: the only one that is an answer.
    Matching,
    /// A JSON-RPC error that answers another call.
    Foreign,
    /// A JSON-RPC error that answers no call.
    Null,
    /// Half of a JSON-RPC error.
    Cut,
    /// An event stream that breaks.
    Broken,
}

const KINDS: [EffectKind; 7] = [
    EffectKind::Empty,
    EffectKind::Text,
    EffectKind::Matching,
    EffectKind::Foreign,
    EffectKind::Null,
    EffectKind::Cut,
    EffectKind::Broken,
];

impl EffectKind {
    fn of(word: &Value) -> Self {
        KINDS
            .into_iter()
            .find(|kind| *word == format!("{kind:?}"))
            .unwrap()
    }

    fn answers(self, status: u16, id: &Value) -> Reply {
        let error = |id: &Value| {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32000 - i64::from(status), "message": "told to" } })
                .to_string()
        };
        let whole = error(id);
        let half = whole[..whole.len() / 2].to_owned();
        let (kind, body) = match self {
            Self::Empty => ("", String::new()),
            Self::Text => (
                "text/plain",
                "upstream connect error or disconnect/reset before headers".to_owned(),
            ),
            Self::Matching => ("application/json", whole),
            Self::Foreign => ("application/json", error(&json!(987_654_321))),
            Self::Null => ("application/json", error(&Value::Null)),
            Self::Cut => ("application/json", half),
            Self::Broken => ("text/event-stream", format!(": one\n\ndata: {half}")),
        };
        Reply::Said(status, kind, body)
    }
}

/// A tool server that runs what it is told to, and answers as it is told to.
struct StatusGate {
    scripted: ScriptedServer,
    gate: Gate,
    /// How often each call came, and how often it ran.
    came: Arc<Mutex<HashMap<String, (usize, usize)>>>,
}

impl StatusGate {
    /// All ledger entries, once those of `sent` calls that were sent are there, and how many of
    /// these there are. What was not sent is summed up beyond a rate.
    async fn entries(&self, sent: usize) -> (Vec<Value>, usize) {
        until(
            &format!("{sent} ledger entries of calls that were sent"),
            || async {
                let entries = self.gate.ledger().await;
                let own = entries
                    .iter()
                    .filter(|entry| entry["attempts"].as_u64() > Some(0))
                    .count();
                (own >= sent).then_some((entries, own))
            },
        )
        .await
    }

    async fn new(members: &str, policy: &str) -> Self {
        let scripted = ScriptedServer::with(["pay", "read", "undo"].map(tool).to_vec()).await;
        let came: Arc<Mutex<HashMap<String, (usize, usize)>>> = Arc::default();
        let counted = came.clone();
        scripted.answers(move |seen: &Seen| {
            if seen.method() == "ping" {
                return Reply::Result(json!({}));
            }
            let told = &seen.body["params"]["arguments"];
            let mut counted = counted.lock().unwrap();
            let (came, ran) = counted
                .entry(told["case"].as_str().unwrap().to_owned())
                .or_default();
            *came += 1;
            *ran += usize::from(told["runs"] == true);
            if told["then"] == *came {
                return Reply::Result(json!({ "content": [], "resultType": "complete" }));
            }
            let status = u16::try_from(told["status"].as_u64().unwrap()).unwrap();
            EffectKind::of(&told["kind"]).answers(status, &seen.body["id"])
        });
        let servers = vec![(
            "oracle",
            format!("{}\"{members}, timeout: \"20s", scripted.url()),
        )];
        let settings = Settings {
            servers,
            callers: "",
            more: "",
            policy: policy.to_owned(),
            observe: false,
        };
        Self {
            gate: Gate::start(settings).await,
            scripted,
            came,
        }
    }

    /// Makes `cases` of `name`, each so often by an agent of the wire, and gives what was read each
    /// time.
    async fn made(
        &self,
        wire: &'static str,
        (name, sendings): (&'static str, usize),
        cases: &[StatusCase],
    ) -> Vec<(StatusCase, Vec<Value>)> {
        let mut agents = JoinSet::new();
        for agent in 0..AGENTS {
            let cases: Vec<StatusCase> =
                cases.iter().skip(agent).step_by(AGENTS).cloned().collect();
            let agent = self.gate.agent();
            agents.spawn(async move {
                let agent = if wire == "legacy" {
                    agent.initialized().await
                } else {
                    agent
                };
                let mut made = Vec::new();
                for case in cases {
                    let told = case.sent(&agent, (name, sendings)).await;
                    made.push((case, told));
                }
                made
            });
        }
        agents.join_all().await.into_iter().flatten().collect()
    }

    fn came(&self, case: &StatusCase) -> (usize, usize) {
        self.came
            .lock()
            .unwrap()
            .get(&case.name)
            .copied()
            .unwrap_or_default()
    }
}

/// One call.
#[derive(Debug, Clone)]
struct StatusCase {
    name: String,
    status: u16,
    kind: EffectKind,
    /// Whether the server runs it before it answers.
    runs: bool,
    /// The sending that it answers as it should; 0 for none.
    then: usize,
}

impl StatusCase {
    /// Every status with every body; every other call of a body runs.
    fn all(
        of: &str,
        statuses: &(impl Iterator<Item = u16> + Clone),
        kinds: &[EffectKind],
    ) -> Vec<Self> {
        let both = kinds
            .iter()
            .flat_map(|kind| statuses.clone().map(move |status| (status, *kind)));
        both.map(|(status, kind)| {
            let name = format!("{of}-{status}-{kind:?}");
            Self {
                name,
                status,
                kind,
                runs: status % 4 != 1,
                then: 0,
            }
        })
        .collect()
    }

    async fn sent(&self, agent: &Agent, (name, sendings): (&str, usize)) -> Vec<Value> {
        let arguments = json!({
            "case": self.name, "status": self.status, "kind": format!("{:?}", self.kind), "runs": self.runs,
            "then": self.then,
        });
        // Some name their key, the others rely on the one that is derived.
        let mut meta = json!({ "dev.toolgate/session": self.name, "dev.toolgate/task": self.name });
        if self.status.is_multiple_of(2) {
            meta["dev.toolgate/idempotencyKey"] = json!(self.name);
        }
        let mut told = Vec::new();
        for _ in 0..sendings {
            let params =
                json!({ "name": format!("oracle__{name}"), "arguments": arguments, "_meta": meta });
            told.push(agent.ask("tools/call", params).await);
        }
        told
    }
}

fn code(answer: &Value) -> &str {
    answer["result"]["_meta"]["dev.toolgate/decision"]["code"]
        .as_str()
        .unwrap_or_default()
}

/// What is wrong with what was told of a call that may have run.
fn wrong(case: &StatusCase, told: &[Value]) -> Option<String> {
    let right = told.iter().map(stored).all(|answer| {
        if case.kind == EffectKind::Matching {
            answer["error"]["code"] == -32000 - i64::from(case.status)
                && answer["error"]["message"] == "told to"
        } else {
            code(&answer) == "outcome_unknown"
                && answer["result"]["_meta"]["dev.toolgate/decision"]["final"] == true
        }
    });
    let text = told.iter().map(Value::to_string).collect::<String>();
    let untrue = UNTRUE.iter().find(|words| text.contains(**words));
    (!right || untrue.is_some()).then(|| format!("{}: {told:?}", case.name))
}

async fn each_status_with_each_body(wire: &'static str) {
    let stage = StatusGate::new("", POLICY).await;
    let cases = StatusCase::all(wire, &(400..=599), &KINDS);
    let made = stage.made(wire, ("pay", SENDINGS), &cases).await;
    let mut found: Vec<String> = made
        .iter()
        .filter_map(|(case, told)| wrong(case, told))
        .collect();
    for (case, _) in &made {
        let (came, ran) = stage.came(case);
        if (came, ran) != (1, usize::from(case.runs)) {
            found.push(format!(
                "{}: it came {came} times and ran {ran} times",
                case.name
            ));
        }
    }
    let (entries, sent) = stage.entries(cases.len()).await;
    if sent != cases.len() {
        found.push(format!("the ledger has {sent} calls that were sent"));
    }
    for entry in &entries {
        let text = entry.to_string();
        let outcomes = if entry["outcome"] == "unknown" {
            "outcome_unknown"
        } else {
            ""
        };
        let is_true = matches!(entry["outcome"].as_str(), Some("unknown" | "answered"))
            && entry["aborted_reason"].as_str().unwrap_or_default() == outcomes;
        if !is_true || UNTRUE.iter().any(|words| text.contains(words)) {
            found.push(format!("the ledger: {entry}"));
        }
    }
    report(
        &format!(
            "{wire}: {} cases, each sent {SENDINGS} times, {} entries",
            cases.len(),
            entries.len()
        ),
        &found,
    );
}

#[expect(clippy::print_stderr, reason = "a lane says how much it has tried")]
fn report(what: &str, found: &[String]) {
    eprintln!("{what}: {} wrong", found.len());
    let shown: Vec<&str> = found.iter().take(10).map(String::as_str).collect();
    assert!(
        found.is_empty(),
        "{what}: {} wrong\n{}",
        found.len(),
        shown.join("\n")
    );
}

/// threat-model §13 F1, guarantees §4: the lane, on the modern wire.
#[tokio::test]
async fn a_status_proves_nothing_on_the_modern_wire() {
    each_status_with_each_body("modern").await;
}

/// threat-model §13 F1, guarantees §4: the lane, on the legacy wire, where a 404 says besides that
/// the session is gone.
#[tokio::test]
async fn a_status_proves_nothing_on_the_legacy_wire() {
    each_status_with_each_body("legacy").await;
}

/// threat-model §13 F1, the table: what was sent again, on both wires, when an agent sent the same
/// call three times.
#[tokio::test]
async fn the_calls_that_ran_again_run_once() {
    let stage = StatusGate::new("", POLICY).await;
    for wire in ["modern", "legacy"] {
        let cases = StatusCase::all(
            wire,
            &[401, 404, 429, 503].into_iter(),
            &[EffectKind::Text, EffectKind::Matching, EffectKind::Null],
        );
        for case in cases {
            let case = StatusCase { runs: true, ..case };
            let agent = stage.gate.agent();
            let agent = if wire == "legacy" {
                agent.initialized().await
            } else {
                agent
            };
            let told = case.sent(&agent, ("pay", SENDINGS)).await;
            assert_eq!(stage.came(&case), (1, 1), "{}: {told:?}", case.name);
            assert_eq!(wrong(&case, &told), None);
        }
    }
    assert_eq!(stage.scripted.executions(), 24);
}
