//! People elsewhere are told that a call waits for them (issue 16, "Telling people"): at least once,
//! under one id, whatever becomes of the receiver and of toolgate; never what the call says.

mod away;
mod mail;

use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::hook_server::{HookReply, HookServer, Told};
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

const OPERATORS: &str = "public_url: \"https://toolgate.example\", tokens: [ { name: ann, token: token-of-ann-who-has-the-role, roles: [finance] } ]";

/// What is asked for at once, with a marked argument, and with a name that is meant to be read as
/// something else.
fn policy() -> String {
    let bound = "side_effect: { writes: bills, rollback: { manual: by hand } }, secrets: [], permission: anyone";
    let asked = "approval: { approvers: [finance], hold: 0s, notify: [/amount, /gone] }";
    format!(
        "contracts:\n  bank__pay: {{ purpose: Pay a bill., actions: [pay], {bound}, {asked} }}\n"
    )
}

struct Stage {
    bank: ScriptedServer,
    gate: Gate,
}

impl Stage {
    async fn new(notify: &str) -> Self {
        Self::on(Setup::new(), notify).await
    }

    async fn on(setup: Setup, notify: &str) -> Self {
        Self::on_operators(setup.operators(OPERATORS), notify).await
    }

    async fn on_operators(setup: Setup, notify: &str) -> Self {
        let tools = vec![tool("pay")];
        let bank = ScriptedServer::start(Offers {
            tools,
            ..Offers::default()
        })
        .await;
        bank.answers(|_| {
            Reply::Result(json!({ "content": [{ "type": "text", "text": "paid" }], "resultType": "complete" }))
        });
        let setup = setup
            .server_with("bank", &format!("url: \"{}\"", bank.url()))
            .policy(&policy())
            .callers("  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1 }")
            .more(notify);
        let gate = setup.start().await;
        Self { bank, gate }
    }

    /// Has `amount` paid; the approval, where that has to be asked.
    async fn pays(&self, amount: u64) -> Option<String> {
        let agent = self.gate.agent().token("token-of-the-agent-bot");
        let arguments = json!({ "amount": amount, "note": "the-secret-argument" });
        let meta = json!({ "dev.toolgate/idempotencyKey": format!("k{amount}") });
        let call = json!({ "name": "bank__pay", "arguments": arguments, "_meta": meta });
        let answer = agent.ask("tools/call", call).await;
        if code(&answer).as_deref() != Some("approval_pending") {
            assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
            return None;
        }
        let decision = &answer["result"]["_meta"]["dev.toolgate/decision"];
        Some(
            decision["approval_id"]
                .as_str()
                .unwrap_or_else(|| panic!("{decision}"))
                .to_owned(),
        )
    }

    async fn says(&self, word: &str, id: &str) {
        let door = self.gate.operators.to_string();
        let words = [
            "approvals",
            word,
            id,
            "--why",
            "so it is",
            "--config",
            "toolgate.yaml",
            "--admin",
            &door,
        ];
        let (code, out, err) = run(&self.gate.setup.operator("ann"), &words).await;
        assert_eq!(code, 0, "{out}{err}");
    }

    /// As after `kill -9`.
    async fn killed(mut self) -> Self {
        self.gate.kill().await;
        let gate = self.gate.setup.clone().start().await;
        Self {
            bank: self.bank,
            gate,
        }
    }
}

/// A receiver in the configuration.
fn receiver(server: &HookServer, name: &str, more: &str) -> String {
    format!("    - {{ name: {name}, {}{more} }}\n", server.members(name))
}

fn notify(receivers: &[String], egress: &str) -> String {
    format!(
        "notify:\n  egress: [{egress}]\n  receivers:\n{}",
        receivers.concat()
    )
}

const ALL: &str = ", events: [requested, decided, expired, executed, unknown]";

fn ids(told: &[Told]) -> BTreeSet<String> {
    told.iter()
        .map(|told| told.body["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Answers each request, and loses three of ten, always the same ones.
fn lossy(server: &HookServer) -> Arc<Mutex<Vec<Value>>> {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let (keeps, dice) = (taken.clone(), Mutex::new(7_u64));
    server.says(move |told| {
        let mut dice = dice.lock().unwrap();
        *dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if (*dice >> 33) % 10 < 3 {
            return HookReply::Status(503);
        }
        keeps.lock().unwrap().push(told.body.clone());
        HookReply::Status(204)
    });
    taken
}

/// A receiver that loses three of ten, and a toolgate that is killed with `kill -9` between calls and
/// decisions: each event is told at least once, always with the same id and words.
#[tokio::test]
async fn each_event_is_told_under_one_id_whatever_breaks() {
    let server = HookServer::start().await;
    let taken = lossy(&server);
    let mut stage = Stage::new(&notify(&[receiver(&server, "ops", ALL)], "ops")).await;
    let mut expected = BTreeSet::new();
    for amount in 1..=6 {
        let id = stage.pays(amount).await.unwrap();
        expected.insert(format!("{id}.requested"));
        if amount % 2 == 0 {
            stage = stage.killed().await;
        }
        stage
            .says(if amount % 3 == 0 { "deny" } else { "allow" }, &id)
            .await;
        expected.insert(format!("{id}.decided"));
        if amount % 2 == 1 {
            stage = stage.killed().await;
        }
        if amount == 5 {
            assert_eq!(stage.pays(amount).await, None);
            expected.insert(format!("{id}.executed"));
        }
    }
    let heard = || {
        let taken = taken.lock().unwrap().clone();
        let ids: BTreeSet<String> = taken
            .iter()
            .map(|body| body["id"].as_str().unwrap().to_owned())
            .collect();
        (ids.is_superset(&expected)).then_some(taken)
    };
    let taken = until("all are told", || async { heard() }).await;
    assert!(server.told().len() > taken.len(), "some are lost");
    let mut words: BTreeMap<String, Value> = BTreeMap::new();
    for body in taken {
        let id = body["id"].as_str().unwrap().to_owned();
        assert!(expected.contains(&id), "{body}");
        let before = words.entry(id).or_insert_with(|| body.clone());
        assert_eq!(*before, body);
    }
}

/// What is told, and what is not: who asks for what, the marked argument, a link; no other argument.
/// The signature is checked by the receiver.
#[tokio::test]
async fn a_message_says_who_asks_for_what_and_nothing_else_of_the_call() {
    let server = HookServer::start().await;
    let stage = Stage::new(&notify(&[receiver(&server, "ops", ALL)], "ops")).await;
    let id = stage.pays(12_500).await.unwrap();
    stage.says("allow", &id).await;
    server.heard(2).await;
    assert_eq!(stage.pays(12_500).await, None);
    let told = server.heard(3).await;
    let body = &told[0].body;
    let time = |key: &str| body[key].as_str().unwrap().ends_with('Z');
    assert!(time("timestamp") && time("approve_by"), "{body}");
    let mut plain = body.clone();
    for key in ["timestamp", "approve_by"] {
        plain[key] = json!("…");
    }
    assert_eq!(
        plain,
        json!({
            "id": format!("{id}.requested"), "type": "approval.requested", "timestamp": "…", "approval": id,
            "state": "pending", "tool": "bank__pay", "agent": "bot", "tenant": "t_1", "effects": ["pay"],
            "roles": ["finance"], "approve_by": "…", "arguments": { "/amount": "12500" },
            "link": format!("https://toolgate.example/approvals/{id}"),
        })
    );
    assert_eq!(told[0].header("webhook-id"), format!("{id}.requested"));
    let rest: Vec<_> = told[1..]
        .iter()
        .map(|told| (&told.body["type"], &told.body["state"], &told.body["who"]))
        .collect();
    assert_eq!(
        rest,
        [
            (
                &json!("approval.decided"),
                &json!("allowed"),
                &json!(["ann"])
            ),
            (
                &json!("approval.executed"),
                &json!("completed"),
                &Value::Null
            ),
        ]
    );
    assert!(
        told.iter()
            .all(|told| !told.body.to_string().contains("the-secret-argument"))
    );
    let delivered = "toolgate_notifications_total{receiver=\"ops\",outcome=\"delivered\"}";
    until("it is counted", || async {
        (stage.gate.metric(delivered).await >= 3.0).then_some(())
    })
    .await;
    // What is kept for it says no more.
    let kept = std::fs::read_to_string(stage.gate.path("data/outbox")).unwrap();
    assert!(!kept.contains("the-secret-argument"), "{kept}");
}

/// Killed before anything could be told: it is told after the restart, under the id it was tried
/// with.
#[tokio::test]
async fn what_was_not_taken_is_told_after_a_kill() {
    let server = HookServer::start().await;
    server.says(|_| HookReply::Status(500));
    let stage = Stage::new(&notify(&[receiver(&server, "ops", "")], "ops")).await;
    let id = stage.pays(1).await.unwrap();
    let tried = ids(&server.heard(1).await);
    let stage = stage.killed().await;
    let before = server.told().len();
    server.says(|_| HookReply::Status(204));
    let told = server.heard(before + 1).await;
    assert_eq!(ids(&told[before..]), tried);
    assert_eq!(tried, BTreeSet::from([format!("{id}.requested")]));
    // Asked while no toolgate was there to tell, as far as the kept outbox knows.
    let Stage {
        bank: _bank,
        mut gate,
    } = stage;
    gate.kill().await;
    std::fs::remove_file(gate.path("data/outbox")).unwrap();
    let before = server.told().len();
    let _gate = gate.setup.clone().start().await;
    assert_eq!(ids(&server.heard(before + 1).await[before..]), tried);
}

/// One that never answers, and one that sends elsewhere: another one is told meanwhile, and no call waits.
#[tokio::test]
async fn one_receiver_holds_up_no_other_and_no_redirect_is_followed() {
    let (server, stuck) = (HookServer::start().await, HookServer::start().await);
    let elsewhere = format!("http://{}/elsewhere", server.address);
    stuck.says(move |told| match told.hook.as_str() {
        "sends" => HookReply::Redirects(elsewhere.clone()),
        _ => HookReply::Never,
    });
    let receivers = [
        receiver(&stuck, "hangs", ", timeout: 30s"),
        receiver(&stuck, "sends", ""),
        receiver(&server, "ops", ""),
    ];
    let stage = Stage::new(&notify(&receivers, "hangs, sends, ops")).await;
    let mut expected = BTreeSet::new();
    for amount in 1..=3 {
        let id = stage.pays(amount).await.unwrap();
        expected.insert(format!("{id}.requested"));
    }
    assert_eq!(ids(&server.heard(3).await), expected);
    let failed = "toolgate_notifications_total{receiver=\"sends\",outcome=\"failed\"}";
    until("it is counted", || async {
        (stage.gate.metric(failed).await >= 3.0).then_some(())
    })
    .await;
    assert!(server.told().iter().all(|told| told.hook == "ops"));
    let hung = stuck
        .told()
        .iter()
        .filter(|told| told.hook == "hangs")
        .count();
    assert_eq!(hung, 1, "one at a time");
}

/// An address of this machine is reached only where the receiver is named for that, as a number and as
/// a name.
#[tokio::test]
async fn what_is_not_named_is_told_at_public_addresses_only() {
    let server = HookServer::start().await;
    let named = receiver(&server, "named", "").replace("127.0.0.1", "localhost");
    let receivers = [
        receiver(&server, "number", ""),
        named,
        receiver(&server, "ops", ""),
    ];
    let stage = Stage::new(&notify(&receivers, "ops")).await;
    stage.pays(1).await.unwrap();
    for name in ["number", "named"] {
        let failed =
            format!("toolgate_notifications_total{{receiver=\"{name}\",outcome=\"failed\"}}");
        until("it is counted", || async {
            (stage.gate.metric(&failed).await >= 2.0).then_some(())
        })
        .await;
    }
    assert!(server.heard(1).await.iter().all(|told| told.hook == "ops"));
    assert!(
        stage
            .gate
            .log()
            .contains("a private network, and `notify.egress` does not name it")
    );
}

/// A call of which nobody knows whether it ran is told of, held or not.
#[tokio::test]
async fn an_unknown_outcome_is_told() {
    let server = HookServer::start().await;
    let stage = Stage::new(&notify(
        &[receiver(&server, "ops", ", events: [unknown]")],
        "ops",
    ))
    .await;
    stage.bank.answers(|_| Reply::Status(502));
    let id = stage.pays(1).await.unwrap();
    stage.says("allow", &id).await;
    let agent = stage.gate.agent().token("token-of-the-agent-bot");
    let meta = json!({ "dev.toolgate/idempotencyKey": "k1" });
    let arguments = json!({ "amount": 1, "note": "the-secret-argument" });
    let call = json!({ "name": "bank__pay", "arguments": arguments, "_meta": meta });
    agent.ask("tools/call", call).await;
    let told = server.heard(1).await;
    assert_eq!(told[0].body["id"], format!("{id}.unknown"));
    assert_eq!(told[0].body["type"], "approval.unknown");
}
