//! What makes a held call void, and what does not (guarantees §7).

use super::nobodys_word::{counts_for_nothing, is_void_since_its_tool_has_changed};
use super::{ANN, HoldingGate, bank, call, decision, held, in_front, policy};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::scripted_server::{Offers, tool};
use crate::harness::until;
use serde_json::{Value, json};
use std::time::Duration;

/// What `told` is well before the call would end by itself, which takes it 55 seconds.
pub async fn at_once<T>(told: impl Future<Output = T>) -> T {
    let told = tokio::time::timeout(Duration::from_secs(20), told).await;
    told.expect("told at once")
}

/// Writes another policy and waits until it is in force.
pub async fn reloads(stage: &HoldingGate, edit: impl Fn(&str) -> String) {
    rewrites(stage, "policy.yaml", edit).await;
}

/// The same with another of the files.
pub async fn rewrites(stage: &HoldingGate, file: &str, edit: impl Fn(&str) -> String) {
    let version = async || stage.gate.readiness().await["policy"]["version"].clone();
    let before = version().await;
    let path = stage.gate.path(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let edited = edit(&text);
    assert_ne!(edited, text, "nothing was edited");
    std::fs::write(&path, edited).unwrap();
    stage.gate.hang_up();
    until("the new policy", || async {
        (version().await != before).then_some(())
    })
    .await;
}

/// What `approvals show` says of the call, as a program reads it.
pub async fn shown(stage: &HoldingGate, id: &str) -> Value {
    let (status, shown) = stage.says(ANN, &["show", id, "--json"]).await;
    assert_eq!(status, 0, "{shown}");
    serde_json::from_str(&shown).unwrap()
}

/// guarantees §7: what is said of other tools changes nothing of a call that a person was asked about,
/// before the decision and after it.
#[tokio::test]
async fn an_edit_of_something_else_voids_nothing() {
    let stage = HoldingGate::new().await;
    let pay = async || call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await;
    let id = held(&pay().await);
    let other_tool = |text: &str| text.replace("Pay a small bill.", "Pay a tiny bill.");
    reloads(&stage, other_tool).await;
    assert_eq!(held(&pay().await), id, "it still waits");
    stage.allows(&id).await;
    let more = |text: &str| {
        format!("# A comment.\n{text}layers: {{ global: {{ deny: [bank__wipe] }} }}\n")
    };
    reloads(&stage, more).await;
    let ran = pay().await;
    assert_eq!(code(&ran), None, "{ran}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: what is void is shown as void with the reason, nobody's word counts for it, and its
/// agent is told at once; sent again, the call is asked about anew.
#[tokio::test]
async fn an_edit_of_its_contract_voids_a_hold() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let waits = call(&bot, "slow", json!({ "n": 1 }), "k");
    let edits = async {
        let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
        let edit = |text: &str| text.replace("Pay a bill.", "Pay a large bill.");
        reloads(&stage, edit).await;
        id
    };
    let (told, id) = at_once(async { tokio::join!(waits, edits) }).await;
    assert_eq!(code(&told).as_deref(), Some("approval_timeout"), "{told}");
    let words = told["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        words.contains("has changed since a person was asked"),
        "{words}"
    );
    let why = "what the policy says of the tool or its agent has changed";
    counts_for_nothing(&stage, &id, why).await;
    let anew = async { call(&bot, "slow", json!({ "n": 1 }), "k").await };
    let allows = async {
        let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
        stage.allows(&id).await;
        id
    };
    let (ran, anew) = tokio::join!(anew, allows);
    assert_ne!(anew, id);
    assert_eq!(code(&ran), None, "{ran}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: a caller who may not call the tool any more is told so while a person is asked, and
/// what was allowed before is not run either.
#[tokio::test]
async fn who_may_not_call_any_more_is_told_while_a_person_is_asked() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let allowed = held(&call(&bot, "pay", json!({ "n": 1 }), "k").await);
    stage.allows(&allowed).await;
    let waits = call(&bot, "slow", json!({ "n": 1 }), "k");
    let taken = async {
        stage.holds(1).await;
        let denies = "layers: { agent: { bot: { deny: [bank__pay, bank__slow] } } }\n";
        reloads(&stage, |text: &str| format!("{text}{denies}")).await;
    };
    let (told, ()) = at_once(async { tokio::join!(waits, taken) }).await;
    assert_eq!(code(&told).as_deref(), Some("approval_timeout"), "{told}");
    let words = told["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        words.contains("the caller may not call the tool any more"),
        "{words}"
    );
    for tool in ["pay", "slow"] {
        let refused = call(&bot, tool, json!({ "n": 1 }), "k").await;
        assert_eq!(
            code(&refused).as_deref(),
            Some("tool_not_allowlisted"),
            "{refused}"
        );
    }
    assert_eq!(stage.scripted.executions(), 0);
}

/// guarantees §7: a call is void, too, once its server describes the tool otherwise; nobody is let allow
/// what the agent did not ask for.
#[tokio::test]
async fn a_tool_that_has_changed_voids_a_hold() {
    let stage = HoldingGate::new().await;
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    assert_eq!(shown(&stage, &id).await["state"], "pending");
    let mut pay = tool("pay");
    pay["description"] = json!("pays a stranger");
    stage.scripted.changes_tools(vec![pay]).await;
    is_void_since_its_tool_has_changed(&stage, &id).await;
}

/// guarantees §7, 003-91: a budget that was lowered while a person was asked counts for what waits, too: it
/// is not run on the word of before, and has its place once it is sent again.
#[tokio::test]
async fn a_limit_that_was_lowered_counts_for_what_waits() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let waits = call(&bot, "slow", json!({ "n": 1 }), "k");
    let lowered = async {
        let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
        let limit = "budgets: { agent: { bot: { max_tool_calls: 1 } } }\n";
        reloads(&stage, |text: &str| format!("{text}{limit}")).await;
        id
    };
    let (told, id) = tokio::join!(waits, lowered);
    assert_eq!(code(&told).as_deref(), Some("approval_timeout"), "{told}");
    let words = told["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        words.contains("the limits that count for the call"),
        "{words}"
    );
    assert_eq!(
        shown(&stage, &id).await["state"],
        "pending",
        "its contract is the same"
    );
    stage.allows(&id).await;
    let ran = call(&bot, "slow", json!({ "n": 1 }), "k").await;
    assert_eq!(code(&ran), None, "{ran}");
    let refused = call(&bot, "pay", json!({ "n": 2 }), "k2").await;
    assert_eq!(
        code(&refused).as_deref(),
        Some("budget_exceeded"),
        "{refused}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: what an operator has taken away is shown so, and nobody allows it meanwhile.
#[tokio::test]
async fn what_was_taken_away_is_not_allowed() {
    let stage = HoldingGate::new().await;
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    let config = ["--config", "toolgate.yaml"];
    let door = stage.gate.operators.to_string();
    let away = [
        "disable",
        "bank__pay",
        "--why",
        "it pays twice",
        "--admin",
        &door,
    ];
    let (status, said, more) = run(
        &stage.gate.setup.operator("sue"),
        &[&away[..], &config].concat(),
    )
    .await;
    assert_eq!(status, 0, "{said}{more}");
    let void = shown(&stage, &id).await;
    assert_eq!(
        (&void["state"], &void["void"]),
        (
            &json!("void"),
            &json!("an operator has taken the tool away")
        )
    );
    let (status, said) = stage.says(ANN, &["allow", &id, "--why", "due"]).await;
    assert!(status == 1 && said.contains("it is void"), "{said}");
}

/// guarantees §7: a definition that nobody approves any more is withheld from what waits for a person, too,
/// though neither it nor the contract has changed.
#[tokio::test]
async fn a_definition_that_is_approved_no_more_voids_a_hold() {
    let scripted = bank(Offers::default()).await;
    let setup = in_front(&scripted, &policy("")).more("pins: toolgate.pins.yaml");
    setup.write();
    let (status, said, wrong) = run(&setup, &["pins", "approve", "--all"]).await;
    assert_eq!(status, 0, "{said}{wrong}");
    let gate = setup.start().await;
    let stage = HoldingGate { scripted, gate };
    let bot = stage.bot();
    let id = held(&call(&bot, "pay", json!({ "n": 1 }), "k").await);
    let waits = call(&bot, "slow", json!({ "n": 1 }), "k");
    let withdrawn = async {
        stage.holds(2).await;
        std::fs::write(stage.gate.path("toolgate.pins.yaml"), "").unwrap();
        let more = |text: &str| format!("{text}layers: {{ global: {{ deny: [bank__wipe] }} }}\n");
        reloads(&stage, more).await;
    };
    let (told, ()) = at_once(async { tokio::join!(waits, withdrawn) }).await;
    assert_eq!(code(&told).as_deref(), Some("approval_timeout"), "{told}");
    let words = told["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("the tool is withheld"), "{words}");
    let void = shown(&stage, &id).await;
    assert_eq!(void["state"], "void", "{void}");
    let (status, said) = stage.says(ANN, &["allow", &id, "--why", "due"]).await;
    assert!(status == 1 && said.contains("it is void"), "{said}");
    assert_eq!(stage.scripted.executions(), 0);
}

/// Waits until the agent's own session lists the tool with these words.
async fn lists(agent: &Agent, words: &str) {
    until("the session lists it", || async {
        let listed = agent.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        let mut descriptions = tools.iter().map(|tool| &tool["description"]);
        descriptions.any(|said| said == words).then_some(())
    })
    .await;
}

/// guarantees §7: a tool that its server shows the agent's own session otherwise than toolgate is
/// allowed as that session lists it; when that changes, what was allowed is not run.
#[tokio::test]
async fn a_tool_of_the_agents_own_session_can_be_allowed() {
    let legacy = Offers {
        modern: false,
        ..Offers::default()
    };
    let stage = HoldingGate::before(legacy, &policy(""), "enforce").await;
    let bot = stage.bot().initialized().await;
    let other = |says: &str| {
        let mut pay = tool("pay");
        pay["description"] = json!(says);
        vec![pay]
    };
    stage
        .scripted
        .changes_tools_silently(other("pays a friend"));
    lists(&bot, "pays a friend").await;
    let pay = async || call(&bot, "pay", json!({ "n": 1 }), "k").await;
    let id = held(&pay().await);
    let waits = shown(&stage, &id).await;
    assert_eq!(
        (&waits["state"], &waits["void"]),
        (&json!("pending"), &Value::Null),
        "{waits}"
    );
    stage.allows(&id).await;
    let ran = pay().await;
    assert_eq!(code(&ran), None, "{ran}");
    assert_eq!(stage.scripted.executions(), 1);

    let pay = async || call(&bot, "pay", json!({ "n": 2 }), "k2").await;
    let id = held(&pay().await);
    stage.allows(&id).await;
    stage
        .scripted
        .changes_tools_silently(other("pays a stranger"));
    lists(&bot, "pays a stranger").await;
    assert_ne!(held(&pay().await), id, "it is asked about as it is now");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: an agent that lost its session finds what it was held for in the next one, once.
#[tokio::test]
async fn a_hold_survives_the_session_of_a_legacy_agent() {
    let stage = HoldingGate::new().await;
    let arguments = || json!({ "n": 1 });
    let first = stage.bot().initialized().await;
    let id = held(&call(&first, "pay", arguments(), "k").await);
    stage.allows(&id).await;
    let second = stage.bot().initialized().await;
    assert_ne!(first.session, second.session);
    let ran = call(&second, "pay", arguments(), "k").await;
    assert_eq!(code(&ran), None, "{ran}");
    let again = call(&first, "pay", arguments(), "another key").await;
    assert_ne!(held(&again), id, "it was used up");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: who comes too late for what was allowed reads by whom, and until when.
#[tokio::test]
async fn what_has_lapsed_says_so() {
    let stage = HoldingGate::with(&policy(", execute_by: 1s"), "enforce").await;
    let pay = async || call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await;
    let id = held(&pay().await);
    stage.allows(&id).await;
    let until = until("it has lapsed", || async {
        let shown = shown(&stage, &id).await;
        (shown["state"] == "lapsed").then(|| shown["execute_by"].clone())
    })
    .await;
    let late = pay().await;
    assert_eq!(code(&late).as_deref(), Some("approval_lapsed"), "{late}");
    let words = late["result"]["content"][0]["text"].as_str().unwrap();
    let expected = format!(
        "ann had allowed this call until {}",
        until.as_str().unwrap()
    );
    assert!(words.contains(&expected), "{words}");
    assert_eq!(decision(&late)["approval_id"], id.as_str());
    assert_eq!(stage.scripted.executions(), 0);
}
