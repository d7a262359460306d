//! Held calls whose tool is shut to their agent meanwhile: nobody's word on them counts, wherever it is said, and what
//! is open still is not taken for shut (guarantees §7).

use super::nobodys_word::{counts_for_nothing, is_void_since_its_tool_has_changed};
use super::void::{at_once, reloads, shown};
use super::{ANN, HoldingGate, OPERATORS, bank, call, held, in_front, policy};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::scripted_server::{Offers, tool};
use serde_json::{Value, json};

const SHUT: &str = "the caller may not call the tool any more";

async fn pays(agent: &Agent) -> Value {
    call(agent, "pay", json!({ "n": 1 }), "k").await
}

/// Denies `bank__pay` in this layer.
fn denying(layer: &str) -> impl Fn(&str) -> String {
    let denies = format!("layers: {{ {layer} }}\n").replace("PAY", "deny: [bank__pay]");
    move |text: &str| format!("{text}{denies}")
}

/// guarantees §7: what a layer shuts is void for each operator, with the reason: for who looks, for who says a word on it,
/// for who waits for one, and for the agent.
#[tokio::test]
async fn what_a_layer_shuts_is_nobodys_to_decide() {
    let stage = HoldingGate::new().await;
    let id = held(&pays(&stage.bot()).await);
    reloads(&stage, denying("agent: { bot: { PAY } }")).await;
    let void = shown(&stage, &id).await;
    assert!(void["void"].as_str().unwrap().contains(SHUT), "{void}");
    counts_for_nothing(&stage, &id, SHUT).await;
    let (status, said) = stage.says(ANN, &["wait", &id, "--timeout", "0s"]).await;
    assert!(status == 3 && said.contains(SHUT), "{status} {said}");
    let refused = pays(&stage.bot()).await;
    assert_eq!(code(&refused).as_deref(), Some("tool_not_allowlisted"));
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
    is_void_since_its_tool_has_changed(&stage, &id).await;
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
