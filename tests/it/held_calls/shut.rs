//! Held calls whose tool is shut to their agent meanwhile: nobody's word on them counts, wherever it is said, and what
//! is open still is not taken for shut (guarantees §7).

use super::void::{at_once, reloads, shown};
use super::{ANN, HoldingGate, OPERATORS, bank, call, held, in_front, policy};
use crate::approvals::pages::{field, sends, signs_in};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::scripted_server::{Offers, tool};
use crate::harness::until;
use serde_json::{Value, json};

const ANN_TOKEN: &str = "token-of-ann-who-has-the-role";
const SHUT: &str = "the caller may not call the tool any more";

async fn pays(agent: &Agent) -> Value {
    call(agent, "pay", json!({ "n": 1 }), "k").await
}

/// Denies `bank__pay` in this layer.
fn denying(layer: &str) -> impl Fn(&str) -> String {
    let denies = format!("layers: {{ {layer} }}\n").replace("PAY", "deny: [bank__pay]");
    move |text: &str| format!("{text}{denies}")
}

/// What `operator` reads who allows the call, changes nothing of it, and gives it more time: it is void, each time.
async fn nobody_gets_around(stage: &HoldingGate, id: &str) {
    for operator in [ANN, "eve"] {
        for words in [
            &["allow", id, "--why", "due"][..],
            &["allow", id, "--why", "due", "--always"],
            &["extend", id],
        ] {
            let (status, said) = stage.says(operator, words).await;
            assert!(
                status == 1 && said.contains("it is void") && said.contains(SHUT),
                "{operator} {words:?}: {said}"
            );
        }
    }
    let bearer = format!("Bearer {ANN_TOKEN}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let path = format!("/api/approvals/{id}");
    let body = json!({ "decision": "allow-once", "why": "due" }).to_string();
    let answer = stage
        .gate
        .asks_operators(("POST", &path), &headers, &body)
        .await;
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.text().contains("it is void"), "{}", answer.text());
}

/// guarantees §7: what a layer shuts is void for each operator, with the reason: on the page, at the API, at the terminal,
/// and for the agent; who denies it reads that it was void.
#[tokio::test]
async fn what_a_layer_shuts_is_nobodys_to_allow() {
    let stage = HoldingGate::new().await;
    let id = held(&pays(&stage.bot()).await);
    let cookie = signs_in(&stage.gate, ANN_TOKEN).await;
    let cookie = [("cookie", cookie.as_str())];
    let page = format!("/approvals/{id}");
    let card = stage.gate.asks_operators(("GET", &page), &cookie, "").await;
    let (secret, digest) = (
        field(&card.text(), "form_secret"),
        field(&card.text(), "shown"),
    );
    reloads(&stage, denying("agent: { bot: { PAY } }")).await;

    let void = shown(&stage, &id).await;
    assert_eq!(void["state"], "void", "{void}");
    assert!(void["void"].as_str().unwrap().contains(SHUT), "{void}");
    nobody_gets_around(&stage, &id).await;
    let word = [
        ("decision", "allow"),
        ("why", "due"),
        ("form_secret", secret.as_str()),
        ("shown", digest.as_str()),
    ];
    let told = sends(&stage.gate, &page, &word, &cookie).await;
    assert_eq!(told.status, 409);
    assert!(told.text().contains("it is void"), "{}", told.text());
    let (status, said) = stage.says(ANN, &["wait", &id, "--timeout", "0s"]).await;
    assert!(status == 3 && said.contains(SHUT), "{status} {said}");

    let refused = pays(&stage.bot()).await;
    assert_eq!(code(&refused).as_deref(), Some("tool_not_allowlisted"));
    let (status, said) = stage.says("eve", &["deny", &id, "--why", "old"]).await;
    assert!(
        status == 0 && said.contains("it was void") && said.contains(SHUT),
        "{said}"
    );
    assert_eq!(shown(&stage, &id).await["state"], "denied");
    assert_eq!(stage.scripted.executions(), 0);
}

/// guarantees §7: who waits for the decision hears at once that there will be none.
#[tokio::test]
async fn who_waits_for_the_decision_hears_that_it_is_void() {
    let stage = HoldingGate::new().await;
    let id = held(&pays(&stage.bot()).await);
    let words = ["wait", id.as_str()];
    let waits = stage.says(ANN, &words);
    let shuts = reloads(&stage, denying("global: { PAY }"));
    let ((status, said), ()) = at_once(async { tokio::join!(waits, shuts) }).await;
    assert!(status == 3 && said.contains(SHUT), "{status} {said}");
}

/// guarantees §7: a call that one entry of its agent may bring still is not void because another may not; the one
/// that may brings it once it is allowed.
#[tokio::test]
async fn what_one_entry_of_its_agent_may_call_is_not_void() {
    const SECOND: &str = "second-token-of-the-agent-bot";
    let callers = format!(
        "  - {{ agent: bot, token: token-of-the-agent-bot, tenant: t_1, profile: day }}\n  \
         - {{ agent: bot, token: {SECOND}, tenant: t_1, profile: night }}"
    );
    let scripted = bank(Offers::default()).await;
    let layered = format!(
        "{}layers: {{ profile: {{ day: {{}}, night: {{}} }} }}\n",
        policy("")
    );
    let gate = in_front(&scripted, &layered)
        .callers(&callers)
        .start()
        .await;
    let stage = HoldingGate { scripted, gate };
    let id = held(&pays(&stage.bot()).await);
    let shuts = |text: &str| text.replace("day: {}", "day: { deny: [bank__pay] }");
    reloads(&stage, shuts).await;
    let refused = pays(&stage.bot()).await;
    assert_eq!(code(&refused).as_deref(), Some("tool_not_allowlisted"));
    assert_eq!(shown(&stage, &id).await["state"], "pending");
    stage.allows(&id).await;
    let ran = pays(&stage.gate.agent().token(SECOND)).await;
    assert_eq!(code(&ran), None, "{ran}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: where no caller is configured, each agent is `anonymous`, and nothing of theirs is
/// void for that.
#[tokio::test]
async fn a_call_of_nobody_in_particular_is_not_void() {
    let scripted = bank(Offers::default()).await;
    let setup = in_front(&scripted, &policy("")).callers("");
    let gate = setup.start().await;
    let stage = HoldingGate { scripted, gate };
    let agent = stage.gate.agent();
    let id = held(&pays(&agent).await);
    assert_eq!(shown(&stage, &id).await["state"], "pending");
    stage.allows(&id).await;
    let ran = pays(&agent).await;
    assert_eq!(code(&ran), None, "{ran}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: a tool that its server has no more makes the call void; a server that does not answer says nothing of
/// its tools, before and after it was seen.
#[tokio::test]
async fn a_tool_that_is_gone_voids_a_hold() {
    let stage = HoldingGate::new().await;
    let id = held(&pays(&stage.bot()).await);
    stage.scripted.changes_tools(vec![tool("slow")]).await;
    let void = until("it is void", || async {
        let shown = shown(&stage, &id).await;
        (shown["state"] == "void").then_some(shown)
    })
    .await;
    let why = void["void"].as_str().unwrap();
    assert!(why.contains("the tool has changed"), "{void}");
    let (status, said) = stage.says(ANN, &["allow", &id, "--why", "due"]).await;
    assert!(status == 1 && said.contains("it is void"), "{said}");
    assert_eq!(stage.scripted.executions(), 0);
}

/// guarantees §7: the word of an operator who was taken away counts no more, for the agent and for who looks.
#[tokio::test]
async fn the_word_of_who_was_taken_away_counts_no_more() {
    let stage = HoldingGate::with(&policy(", execute_by: 10m"), "enforce").await;
    let id = held(&pays(&stage.bot()).await);
    stage.allows(&id).await;
    let without = OPERATORS.replace(
        "name: ann, token: token-of-ann",
        "name: amy, token: token-of-amy",
    );
    assert_ne!(without, OPERATORS);
    let HoldingGate { scripted, gate } = stage;
    let gate = gate.stop().await.operators(&without).start().await;
    let stage = HoldingGate { scripted, gate };
    let (status, shown) = stage.says("eve", &["show", &id, "--json"]).await;
    assert_eq!(status, 0, "{shown}");
    let void: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(void["state"], "void", "{void}");
    let told = pays(&stage.bot()).await;
    assert_eq!(code(&told).as_deref(), Some("approval_timeout"), "{told}");
    let words = told["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("an operator who has allowed it"), "{words}");
    assert_eq!(stage.scripted.executions(), 0);
}
