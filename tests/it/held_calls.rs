//! Calls that a person has to allow (003-46, 003-47, 003-97, 003-98; guarantees §7): held, decided
//! by operators, run once with exactly what was allowed, or not at all.

mod bound_call;
mod deciders;
mod desktop;
mod edited;
mod grants;
mod listed;
mod news;
mod nobodys_word;
mod operators;
mod pages;
mod restarts;
mod shut;
mod tasks;
mod unrelated;
mod void;

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const ANN: &str = "ann";

const OPERATORS: &str = "tokens: [ { name: ann, token: token-of-ann-who-has-the-role, roles: [finance] }, \
     { name: bob, token: token-of-bob-who-has-another, roles: [sre] }, \
     { name: bot, token: token-of-an-operator-named-bot, roles: [finance] }, \
     { name: eve, token: token-of-eve-who-has-the-role, roles: [sre, finance] }, \
     { name: rita, token: token-of-rita-who-resolves, roles: [resolver] }, \
     { name: sue, token: token-of-sue-who-switches, roles: [switch] }, \
     { name: uma, token: token-of-uma-who-reads-all, roles: [resolver, auditor] } ]";

const CALLERS: &str = "  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1 }\n  \
     - { agent: cat, token: token-of-the-agent-cat, tenant: t_1 }";

const BOUND: &str = "side_effect: { writes: bills, rollback: { tool: bank__undo } }, secrets: []";

/// What is never asked for, asked for at once, asked for while the call waits, and asked for
/// without a word of it.
pub fn policy(more: &str) -> String {
    let at_once = "approvers: [finance], hold: 0s";
    format!(
        "contracts:
  bank__pay: {{ purpose: Pay a bill., not_for: Salaries., actions: [pay], permission: anyone, {BOUND}, approval: {{ {at_once}{more} }} }}
  bank__slow: {{ purpose: Pay a bill., actions: [pay], permission: anyone, {BOUND}, approval: {{ approvers: [finance]{more} }} }}
  bank__free: {{ purpose: Pay a small bill., actions: [pay], permission: anyone, {BOUND}, approval: {{ ask: never }} }}
  bank__wipe: {{ purpose: Wipe an account., actions: [delete], permission: anyone, {BOUND} }}
  bank__undo: {{ purpose: Take it back., actions: [write], permission: anyone, side_effect: {{ writes: bills, rollback: {{ tool: bank__free }} }}, secrets: [] }}
  bank__send: {{ purpose: Send a letter., actions: [notify], permission: anyone, irreversible: true, secrets: [], approval: {{ {at_once} }} }}
"
    )
}

/// A bank of these eras that answers with the arguments it was given.
async fn bank(eras: Offers) -> ScriptedServer {
    let tools = ["pay", "slow", "free", "wipe", "send"].map(tool).to_vec();
    let scripted = ScriptedServer::start(Offers { tools, ..eras }).await;
    scripted.answers(|seen| {
        let text = seen.body["params"]["arguments"].to_string();
        Reply::Result(
            json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }),
        )
    });
    scripted
}

/// A toolgate in front of it, with that policy.
fn in_front(scripted: &ScriptedServer, policy: &str) -> Setup {
    let setup = Setup::new().server_with("bank", &format!("url: \"{}\"", scripted.url()));
    setup.policy(policy).callers(CALLERS).operators(OPERATORS)
}

pub struct HoldingGate {
    pub scripted: ScriptedServer,
    pub gate: Gate,
}

impl HoldingGate {
    /// As a sample a call is what it was: allowed once a person has.
    async fn is_a_sample_of_an_allowed_call(&self, action: &Value) {
        let (action, arguments) = (action.as_str().unwrap(), json!({ "n": 1 }).to_string());
        let words = [
            "test",
            "add",
            action,
            "--data",
            "data",
            "--arguments",
            &arguments,
        ];
        let (status, sample, wrong) = run(&self.gate.setup, &words).await;
        assert_eq!(status, 0, "{wrong}");
        assert!(
            sample.contains("state: {\"approved\":true}") && sample.contains("expect: \"allow\""),
            "{sample}"
        );
    }

    async fn new() -> Self {
        Self::with(&policy(""), "enforce").await
    }

    async fn with(policy: &str, mode: &'static str) -> Self {
        Self::before(Offers::default(), policy, mode).await
    }

    /// Where people reach the operators' door at an address of its own.
    async fn with_pages(policy: &str) -> Self {
        let members = format!("{OPERATORS}, public_url: \"https://gate.example\"");
        Self::started(Offers::default(), policy, "enforce", &members).await
    }

    /// Before a server of these eras.
    pub async fn before(eras: Offers, policy: &str, mode: &'static str) -> Self {
        Self::started(eras, policy, mode, OPERATORS).await
    }

    async fn started(eras: Offers, policy: &str, mode: &'static str, operators: &str) -> Self {
        let scripted = bank(eras).await;
        let setup = in_front(&scripted, policy).operators(operators).mode(mode);
        Self {
            scripted,
            gate: setup.start().await,
        }
    }

    pub fn bot(&self) -> Agent {
        self.gate.agent().token("token-of-the-agent-bot")
    }

    fn cat(&self) -> Agent {
        self.gate.agent().token("token-of-the-agent-cat")
    }

    /// The same files, after a restart; `kill`: without a word.
    pub async fn again(self, kill: bool) -> Self {
        self.again_later(kill, Duration::ZERO).await
    }

    /// The same, on a machine that has been up for so much longer.
    pub async fn again_later(mut self, kill: bool, later: Duration) -> Self {
        let setup = if kill {
            self.gate.kill().await;
            self.gate.setup.clone()
        } else {
            self.gate.stop().await
        };
        Self {
            scripted: self.scripted,
            gate: setup.later(later).start().await,
        }
    }

    /// Runs `toolgate approvals …` as that operator.
    pub async fn says(&self, operator: &str, args: &[&str]) -> (i32, String) {
        self.runs(operator, &[&["approvals"], args].concat()).await
    }

    /// Runs `toolgate …` as that operator; gives both outputs.
    async fn runs(&self, operator: &str, words: &[&str]) -> (i32, String) {
        let door = self.gate.operators.to_string();
        let around = ["--config", "toolgate.yaml", "--admin", &door];
        let setup = self.gate.setup.operator(operator);
        let (code, out, err) = run(&setup, &[words, &around].concat()).await;
        (code, out + &err)
    }

    /// The holds that wait, once there are `count`.
    pub async fn holds(&self, count: usize) -> Vec<Value> {
        until("holds", || async {
            let (_, listed) = self.says(ANN, &["list", "--json"]).await;
            let holds = listed
                .lines()
                .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{listed}")));
            let pending: Vec<Value> = holds
                .filter(|hold: &Value| hold["state"] == "pending")
                .collect();
            (pending.len() == count).then_some(pending)
        })
        .await
    }

    pub async fn allows(&self, id: &str) {
        let (code, words) = self.says(ANN, &["allow", id, "--why", "it is due"]).await;
        assert_eq!(code, 0, "{words}");
    }

    async fn entry(&self, fits: impl Fn(&Value) -> bool) -> Value {
        until("an entry", || async {
            self.gate.ledger().await.into_iter().rev().find(&fits)
        })
        .await
    }
}

async fn call(agent: &Agent, tool: &str, arguments: Value, key: &str) -> Value {
    let meta = json!({ "dev.toolgate/idempotencyKey": key });
    agent
        .ask(
            "tools/call",
            json!({ "name": format!("bank__{tool}"), "arguments": arguments, "_meta": meta }),
        )
        .await
}

fn decision(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.toolgate/decision"]
}

/// The id of the hold, of a call that is not decided yet.
pub fn held(answer: &Value) -> String {
    assert_eq!(
        code(answer).as_deref(),
        Some("approval_pending"),
        "{answer}"
    );
    let decision = decision(answer);
    assert_eq!(
        (&decision["retry"], &decision["final"]),
        (&json!("when_approved"), &json!(false)),
        "{answer}"
    );
    assert!(
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("The tool did not run."),
        "{answer}"
    );
    decision["approval_id"].as_str().unwrap().to_owned()
}

/// 001-46, 003-47, 003-97, 003-98: deleting implies approval though its contract says nothing of
/// it, an irreversible effect each time anew; what opts out is not asked for. guarantees §7: the
/// call runs once, when the agent sends it again; the answer is replayed.
#[tokio::test]
async fn a_call_runs_once_when_a_person_allows_it() {
    let stage = HoldingGate::with(
        &policy("").replace(
            "[delete]",
            "[delete], approval: { approvers: [finance], hold: 0s }",
        ),
        "enforce",
    )
    .await;
    let bot = stage.bot();
    assert_eq!(code(&call(&bot, "free", json!({}), "k0").await), None);
    assert_eq!(stage.scripted.executions(), 1);
    for tool in ["pay", "wipe", "send"] {
        let before = stage.scripted.executions();
        let id = held(&call(&bot, tool, json!({ "n": 1 }), "k1").await);
        assert_eq!(
            held(&call(&bot, tool, json!({ "n": 1 }), "k1").await),
            id,
            "the same hold"
        );
        assert_eq!(stage.holds(1).await[0]["id"], *id);
        stage.allows(&id).await;
        assert_eq!(
            stage.scripted.executions(),
            before,
            "nobody has sent it since"
        );
        let answer = call(&bot, tool, json!({ "n": 1 }), "k1").await;
        assert_eq!(
            (code(&answer), &decision(&answer)["replayed"]),
            (None, &Value::Null),
            "{answer}"
        );
        let replay = call(&bot, tool, json!({ "n": 1 }), "k1").await;
        assert_eq!(
            (code(&replay), &decision(&replay)["replayed"]),
            (None, &json!(true)),
            "{replay}"
        );
        assert_eq!(stage.scripted.executions(), before + 1);
        // Each execution is asked for on its own.
        let second = held(&call(&bot, tool, json!({ "n": 1 }), "k2").await);
        assert_ne!(second, id);
        assert_eq!(stage.scripted.executions(), before + 1);
        let action = decision(&answer)["action_id"].clone();
        let entry = stage
            .entry(|entry| entry["action_id"] == action && entry["outcome"] == "answered")
            .await;
        assert_eq!(
            (&entry["approval"], &entry["approved_by"]),
            (&json!(id), &json!(["ann"])),
            "{entry}"
        );
        stage.is_a_sample_of_an_allowed_call(&action).await;
        let (code, words) = stage
            .says(ANN, &["deny", &second, "--why", "once is enough"])
            .await;
        assert_eq!(code, 0, "{words}");
    }
}

/// 003-47: nothing but `actions: [delete]` is written, and nobody has the role: the call is refused
/// at once.
#[tokio::test]
async fn who_cannot_be_asked_refuses_at_once() {
    let stage = HoldingGate::new().await;
    let answer = call(&stage.bot(), "wipe", json!({}), "k").await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("approver_unreachable"),
        "{answer}"
    );
    assert_eq!(decision(&answer)["final"], true);
    let long = json!({ "note": "x".repeat(20_000) });
    let answer = call(&stage.bot(), "pay", long, "k").await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("approver_unreachable"),
        "{answer}"
    );
    assert_eq!(
        (stage.scripted.executions(), stage.holds(0).await.len()),
        (0, 0)
    );
    let (_, checked, _) = run(&stage.gate.setup, &["check"]).await;
    assert!(
        checked.contains("a call of `bank__wipe` asks 1 operator with the role approver"),
        "{checked}"
    );
}

/// 001-42, guarantees §7: the answer waits for the decision, while it can; allowed, it is the
/// tool's, and denied, the reason's.
#[tokio::test]
async fn a_call_waits_for_its_decision() {
    let stage = Arc::new(HoldingGate::new().await);
    let waiting = |n: u32| {
        let bot = stage.bot();
        tokio::spawn(async move { call(&bot, "slow", json!({ "n": n }), &format!("k{n}")).await })
    };
    let (allowed, twin) = (waiting(1), waiting(1));
    until("the gauge", || async {
        (stage.gate.metric("toolgate_approvals_pending").await > 0.5).then_some(())
    })
    .await;
    let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    stage.allows(&id).await;
    let answers = [allowed.await.unwrap(), twin.await.unwrap()];
    for answer in &answers {
        assert_eq!(code(answer), None, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "{\"n\":1}");
    }
    assert_eq!(stage.scripted.executions(), 1, "both were the same call");
    let decided = stage
        .gate
        .metric("toolgate_approval_seconds_count{decision=\"allow\"}")
        .await;
    assert!((decided - 1.0).abs() < 0.1, "{decided}");
    until("the gauge", || async {
        (stage.gate.metric("toolgate_approvals_pending").await < 0.5).then_some(())
    })
    .await;
    let entry = stage
        .entry(|entry| entry["outcome"] == "answered" && entry["attempts"] == 1)
        .await;
    assert!(entry["hold_ms"].as_f64().unwrap() > 0.0, "{entry}");
    assert!(
        entry["gate_ms"].as_f64().unwrap() < entry["latency_ms"].as_f64().unwrap(),
        "{entry}"
    );

    let denied = waiting(2);
    let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    let (status, words) = stage
        .says(ANN, &["deny", &id, "--why", "not before Monday"])
        .await;
    assert_eq!(status, 0, "{words}");
    let denied = denied.await.unwrap();
    assert_eq!(
        code(&denied).as_deref(),
        Some("approval_denied"),
        "{denied}"
    );
    let words = denied["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        words.contains("not before Monday") && !words.contains("ann"),
        "{words}"
    );
    // Nobody is asked the same again at once; other arguments are another question.
    assert_eq!(
        code(&call(&stage.bot(), "slow", json!({ "n": 2 }), "k9").await).as_deref(),
        Some("approval_denied")
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// 001-43, 001-A2, guarantees §7: no decision in time means no.
#[tokio::test]
async fn a_time_that_is_over_means_no() {
    let stage = HoldingGate::with(&policy(", approve_by: 1s"), "enforce").await;
    let answer = call(&stage.bot(), "slow", json!({}), "k").await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("approval_timeout"),
        "{answer}"
    );
    assert_eq!(decision(&answer)["retry"], "same_key");
    let id = decision(&answer)["approval_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (status, words) = stage.says(ANN, &["allow", &id, "--why", "late"]).await;
    assert_eq!(status, 1, "{words}");
    assert!(words.contains("expired or not found"), "{words}");
    assert_eq!(stage.scripted.executions(), 0);
}

/// 003-46: the operator who decides is shown all of it: what will run, in full and unmistakably,
/// what the tool is for and what not.
#[tokio::test]
async fn a_person_is_shown_what_will_run() {
    let stage = HoldingGate::new().await;
    let trick = json!({ "to": "DE12\u{202e}34\u{200b}", "note": "line\nnext \u{1b}[2K", "amount": 9_007_199_254_740_991_u64 });
    let id = held(&call(&stage.bot(), "pay", trick, "k").await);
    let (status, shown) = stage.says(ANN, &["show", &id]).await;
    assert_eq!(status, 0, "{shown}");
    assert!(
        !shown.contains(['\u{202e}', '\u{200b}', '\u{1b}']),
        "{shown}"
    );
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT[\d:.]+Z").unwrap();
    let hash = regex::Regex::new("[0-9a-f]{64}").unwrap();
    let version = regex::Regex::new("policy( +)[0-9a-f]{12}").unwrap();
    let shown = time
        .replace_all(&shown, "2026-11-21T10:00:00Z")
        .replace(
            &stage.gate.setup.directory().display().to_string(),
            "DIRECTORY",
        )
        .replace(&id, "01M0000000000000000000000");
    let shown = version
        .replace_all(&hash.replace_all(&shown, "…"), "policy${1}0123456789ab")
        .into_owned();
    insta::assert_snapshot!("what_an_operator_is_shown", shown);
    let (status, listed) = stage.says(ANN, &["list"]).await;
    assert_eq!(status, 0);
    // A time that ends in 0 is shorter.
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT[\d:.]+Z +").unwrap();
    let listed = time
        .replace_all(&listed, "2026-11-21T10:00:00.000Z  ")
        .replace(&id, "01M0000000000000000000000");
    insta::assert_snapshot!("what_is_held", listed);
}
