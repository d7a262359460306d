//! Calls that are taken back by the call that their contract names (003-64): once, through the whole gate,
//! as a row of its own; or not at all, with a reason.

mod afterwards;
mod allowed;
mod books;
mod by_agents;
mod checked;
mod enemies;
mod found_out;
mod frozen;
mod killed;
mod lacking;
mod lies;
mod meeting;
mod on_the_page;
mod own_undos;
mod queued;
mod races;
mod refused;
mod rights;
mod told;
mod whole_tasks;

use crate::harness::agent::Agent;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const OPERATORS: &str = "tokens: [ { name: rita, token: token-of-rita-who-resolves, roles: [resolver, switch] }, \
     { name: ann, token: token-of-ann-who-decides, roles: [finance, resolver] }, \
     { name: fay, token: token-of-fay-who-decides-too, roles: [finance] }, \
     { name: bob, token: token-of-bob-who-looks-on, roles: [sre] } ]";

const CALLERS: &str = "  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1 }\n  - { agent: cat, token: token-of-the-agent-cat, tenant: t_1 }";

/// What is drafted is binned, by its id; `bin` says when a person is asked about that.
fn policy(bin: &str) -> String {
    let rest = "purpose: A test., permission: anyone, secrets: []";
    format!(
        "contracts:
  bank__draft: {{ {rest}, actions: [write], side_effect: {{ writes: drafts, rollback: {{ tool: bank__bin, arguments: {{ id: result#/id, name: \
         arguments#/name, of: action# }} }} }} }}
  bank__bin: {{ {rest}, actions: [delete], approval: {{ {bin} }}, side_effect: {{ writes: drafts, rollback: {{ manual: out of the bin }} }} }}
  bank__post: {{ {rest}, actions: [write], side_effect: {{ writes: letters, rollback: {{ manual: call the office }} }} }}
  bank__note: {{ {rest}, actions: [write], additive: true }}
  bank__look: {{ purpose: A test., actions: [read], secrets: [] }}
"
    )
}

/// A toolgate before a bank whose drafts have numbers from 1.
struct UndoStage {
    scripted: ScriptedServer,
    gate: Gate,
}

/// The structured result of a call that went well.
fn done(content: &Value) -> Reply {
    Reply::Result(json!({
        "content": [{ "type": "text", "text": content.to_string() }], "structuredContent": content, "resultType": "complete",
    }))
}

/// A result that says that the call failed.
fn failed() -> Reply {
    Reply::Result(json!({
        "content": [{ "type": "text", "text": "locked" }], "isError": true, "resultType": "complete",
    }))
}

fn name_of(seen: &Seen) -> String {
    let name = seen.body["params"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

impl UndoStage {
    async fn new() -> Self {
        Self::with("ask: never").await
    }

    async fn with(bin: &str) -> Self {
        Self::of(&policy(bin)).await
    }

    async fn of(policy: &str) -> Self {
        Self::set(policy, CALLERS, "").await
    }

    /// With those callers, and `more` in its configuration.
    async fn set(policy: &str, callers: &str, more: &str) -> Self {
        let tools = ["draft", "bin", "post", "note", "look"].map(tool).to_vec();
        let scripted = ScriptedServer::start(Offers {
            tools,
            ..Offers::default()
        })
        .await;
        let drafts = Arc::new(AtomicUsize::new(0));
        scripted.answers(move |seen| {
            let nth = drafts.fetch_add(1, Ordering::SeqCst) + 1;
            done(&json!({ "id": nth, "tool": name_of(seen) }))
        });
        let setup = Setup::new().server_with("bank", &format!("url: \"{}\"", scripted.url()));
        let setup = setup.policy(policy).callers(callers).more(more);
        let gate = setup.operators(OPERATORS).unwatched().start().await;
        Self { scripted, gate }
    }

    fn bot(&self) -> Agent {
        self.gate.agent().token("token-of-the-agent-bot")
    }

    fn cat(&self) -> Agent {
        self.gate.agent().token("token-of-the-agent-cat")
    }

    /// Calls a tool under `key`; the answer.
    async fn calls(&self, tool: &str, arguments: Value, key: &str) -> Value {
        let call = keyed(tool, &arguments, key);
        self.bot().modern("tools/call", call).await.message()
    }

    /// The same; its action id.
    async fn made(&self, tool: &str, key: &str) -> String {
        let answer = self.calls(tool, json!({ "name": "a" }), key).await;
        let decided = decision(&answer);
        let id = decided["action_id"].as_str();
        id.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The arguments with which a tool was called, each time.
    fn sent(&self, tool: &str) -> Vec<Value> {
        let seen = self.scripted.seen();
        let calls = seen.iter().filter(|seen| seen.method() == "tools/call");
        let calls = calls.filter(|seen| name_of(seen) == tool);
        calls
            .map(|seen| seen.body["params"]["arguments"].clone())
            .collect()
    }

    /// Runs `toolgate …` as that operator; gives both outputs.
    async fn runs(&self, operator: &str, words: &[&str]) -> (i32, String) {
        let door = self.gate.operators.to_string();
        let around = ["--config", "toolgate.yaml", "--admin", &door];
        let setup = self.gate.setup.operator(operator);
        let (code, out, err) = run(&setup, &[words, &around].concat()).await;
        (code, out + &err)
    }

    async fn undoes(&self, id: &str) -> (i32, String) {
        self.runs("rita", &["undo", id, "--why", "a typo"]).await
    }

    /// The same at the door itself, as that operator: status and answer.
    async fn asks(&self, token: &str, id: &str, body: &Value) -> (u16, Value) {
        self.posts(token, (id, "undo"), body).await
    }

    /// What that operator sends of a call, to be done with it.
    async fn posts(&self, token: &str, to: (&str, &str), body: &Value) -> (u16, Value) {
        let (id, what) = to;
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        let path = format!("/api/calls/{id}/{what}");
        let asked = ("POST", path.as_str());
        let answer = self
            .gate
            .asks_operators(asked, &headers, &body.to_string())
            .await;
        (answer.status, answer.message())
    }

    /// The row of the ledger that takes `id` back, once it has ended.
    async fn row_of(&self, id: &str) -> Value {
        until("the row of an undo", || async {
            let entries = self.gate.ledger().await;
            entries
                .into_iter()
                .rev()
                .find(|entry| entry["compensates"] == id)
        })
        .await
    }
}

/// The parameters of a call under `key`.
fn keyed(tool: &str, arguments: &Value, key: &str) -> Value {
    let meta = json!({ "dev.toolgate/idempotencyKey": key });
    json!({ "name": format!("bank__{tool}"), "arguments": arguments, "_meta": meta })
}

fn decision(answer: &Value) -> Value {
    answer["result"]["_meta"]["dev.toolgate/decision"].clone()
}

const RITA: &str = "token-of-rita-who-resolves";

/// 003-64: a dry run shows the call and sends nothing; the undo makes it, once, of what was kept. The verb
/// has a second name.
#[tokio::test]
async fn a_call_is_taken_back_once() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let (code, said) = stage.runs("rita", &["rollback", &id, "--dry-run"]).await;
    let expected = json!({ "id": 1, "name": "a", "of": id });
    assert!(
        code == 0 && said.contains("would call bank__bin") && said.contains("nothing was sent"),
        "{said}"
    );
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
    assert_eq!(stage.sent("bin"), std::slice::from_ref(&expected));
    for _ in 0..2 {
        let (code, said) = stage.undoes(&id).await;
        assert!(code == 1 && said.contains("taken back already"), "{said}");
    }
    assert_eq!(stage.sent("bin"), [expected]);
    let row = stage.row_of(&id).await;
    let told = (&row["tool"], &row["user_id"], &row["outcome"]);
    assert_eq!(
        told,
        (&json!("bank__bin"), &json!("bot"), &json!("answered")),
        "{row}"
    );
    let (status, again) = stage.asks(RITA, &id, &json!({ "why": "again" })).await;
    assert!(
        status == 409 && again["error"].as_str().unwrap().contains("already"),
        "{again}"
    );
}

/// What was kept for an undo is read with toolgate's own eyes only: no export has it.
#[tokio::test]
async fn an_export_has_nothing_of_what_is_kept() {
    let stage = UndoStage::new().await;
    let answer = stage
        .calls("draft", json!({ "name": "marmalade" }), "k")
        .await;
    let id = decision(&answer)["action_id"].as_str().unwrap().to_owned();
    stage.gate.entries(1).await;
    let data = stage.gate.path("data");
    let words = ["ledger", "export", "--data", data.to_str().unwrap()];
    let (code, exported, wrong) = run(&stage.gate.setup, &words).await;
    assert!(code == 0 && exported.contains(&id), "{wrong}");
    assert!(exported.contains("left_out"), "{exported}");
    assert!(!exported.contains("marmalade"), "{exported}");
    assert_eq!(stage.undoes(&id).await.0, 0);
    assert_eq!(stage.sent("bin")[0]["name"], "marmalade");
}

/// Twice is once, also at the same time and by two operators.
#[tokio::test]
async fn two_operators_at_once_undo_once() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let ann = "token-of-ann-who-decides";
    let (one, other) = (json!({ "why": "a typo" }), json!({ "why": "so do I" }));
    let (one, other) = tokio::join!(stage.asks(RITA, &id, &one), stage.asks(ann, &id, &other));
    for (status, report) in [&one, &other] {
        let is_done = *status == 200 && report["state"] == "done";
        assert!(is_done || *status == 409, "{one:?} {other:?}");
    }
    assert!(one.0 == 200 || other.0 == 200, "{one:?} {other:?}");
    assert_eq!(stage.sent("bin").len(), 1);
}

/// The same call made twice is two calls, and each is taken back by itself.
#[tokio::test]
async fn each_of_two_equal_calls_is_taken_back() {
    let stage = UndoStage::new().await;
    let (first, second) = (
        stage.made("draft", "k1").await,
        stage.made("draft", "k2").await,
    );
    for id in [&second, &first] {
        assert_eq!(stage.undoes(id).await.0, 0);
    }
    let ids: Vec<Value> = stage
        .sent("bin")
        .iter()
        .map(|sent| sent["id"].clone())
        .collect();
    assert_eq!(ids, [json!(2), json!(1)]);
}
