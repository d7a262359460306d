//! What is void is nobody's to decide: neither yes nor no counts, wherever it is said, and each answer says that
//! nothing runs as things stand, and why (guarantees §7).

use super::void::{reloads, shown};
use super::{ANN, HoldingGate, call, held, policy};
use crate::approvals::pages::{field, sends, signs_in};
use crate::approvals::terminal::WatchTerminal;
use crate::harness::until;
use serde_json::json;

pub const ANN_TOKEN: &str = "token-of-ann-who-has-the-role";
const WILL_NOT_RUN: &str = "it is void, nothing runs as things stand: ";

/// What is said of a call whose contract is another.
const WHY: &str = "what the policy says of the tool or its agent has changed";

/// Another contract of what is paid.
fn dearer(text: &str) -> String {
    text.replace("Pay a bill.", "Pay a large bill.")
}

/// Whether an answer says that no word counts, and why.
fn refuses(said: &str, why: &str) -> bool {
    said.contains(&format!("{WILL_NOT_RUN}{why}"))
}

/// Nobody's word on the call counts, of those who may decide, at the terminal and at the API; each is told that it is
/// void, and `why`. Nothing is said of it afterwards.
pub async fn counts_for_nothing(stage: &HoldingGate, id: &str, why: &str) {
    for operator in [ANN, "eve"] {
        for words in [
            &["allow", id, "--why", "due"][..],
            &["allow", id, "--why", "due", "--always"],
            &["deny", id, "--why", "old"],
            &["extend", id],
        ] {
            let (status, said) = stage.says(operator, words).await;
            assert!(
                status == 1 && refuses(&said, why),
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
    for decision in ["allow-once", "allow-always", "deny"] {
        let body = json!({ "decision": decision, "why": "due" }).to_string();
        let asked = ("POST", path.as_str());
        let answer = stage.gate.asks_operators(asked, &headers, &body).await;
        assert_eq!(answer.status, 409, "{decision}: {answer:?}");
        assert!(refuses(&answer.text(), why), "{}", answer.text());
    }
    let void = shown(stage, id).await;
    assert_eq!(
        (&void["state"], &void["decisions"]),
        (&json!("void"), &json!([])),
        "{void}"
    );
}

/// Once the call is void since its tool is another, nobody's word on it counts, and nothing has run.
pub async fn is_void_since_its_tool_has_changed(stage: &HoldingGate, id: &str) {
    let void = until("it is void", || async {
        let shown = shown(stage, id).await;
        (shown["state"] == "void").then_some(shown)
    })
    .await;
    let why = "the tool has changed";
    assert!(void["void"].as_str().unwrap().contains(why), "{void}");
    counts_for_nothing(stage, id, why).await;
    assert_eq!(stage.scripted.executions(), 0);
}

/// guarantees §7: a page that was opened before says nothing that counts: neither yes nor no, nor one of several
/// like calls; the new card says that the call is void, and has no form any more.
#[tokio::test]
async fn no_form_of_an_old_page_counts_for_what_is_void() {
    let editable = policy(", ask: on-miss, approver_may_edit: [/n], deny_reasons: [not due]");
    let stage = HoldingGate::with(&editable, "enforce").await;
    let bot = stage.bot();
    let id = held(&call(&bot, "pay", json!({ "n": 1 }), "k").await);
    let cookie = signs_in(&stage.gate, ANN_TOKEN).await;
    let cookie = [("cookie", cookie.as_str())];
    let page = format!("/approvals/{id}");
    let card = stage.gate.asks_operators(("GET", &page), &cookie, "").await;
    let card = card.text();
    assert!(card.contains("value=\"deny\""), "{card}");
    let (secret, digest) = (field(&card, "form_secret"), field(&card, "shown"));
    reloads(&stage, dearer).await;

    let always = [("decision", "always"), ("until", "1h"), ("uses", "2")];
    for word in [
        &[("decision", "allow")][..],
        &[("decision", "deny")],
        &[("deny_with", "not due")],
        &[("decision", "extend")],
        &[("decision", "edit"), ("edit:/n", "2")],
        &always,
    ] {
        let form = [
            ("why", "due"),
            ("form_secret", secret.as_str()),
            ("shown", digest.as_str()),
        ];
        let told = sends(&stage.gate, &page, &[word, &form].concat(), &cookie).await;
        assert_eq!(told.status, 409, "{word:?}: {}", told.text());
        let text = told.text();
        assert!(refuses(&text, WHY), "{word:?}: {text}");
        for words in ["name=\"decision\"", "Runs once"] {
            assert!(!text.contains(words), "{word:?}: {text}");
        }
    }
    let together = format!("{id} {digest}");
    for decision in ["allow", "deny"] {
        let form = [
            ("decision", decision),
            ("why", "old"),
            ("call", together.as_str()),
            ("form_secret", secret.as_str()),
        ];
        let told = sends(&stage.gate, "/approvals/batch", &form, &cookie).await;
        assert!(refuses(&told.text(), WHY), "{decision}: {}", told.text());
    }
    counts_for_nothing(&stage, &id, WHY).await;
}

/// guarantees §7: what was allowed and has become void before it ran is not said to stand.
#[tokio::test]
async fn what_was_allowed_and_is_void_is_said_to_be_void() {
    let stage = HoldingGate::with(&policy(", execute_by: 10m"), "enforce").await;
    let pay = async || call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await;
    let id = held(&pay().await);
    stage.allows(&id).await;
    reloads(&stage, dearer).await;
    for word in ["deny", "allow"] {
        let (status, said) = stage.says("eve", &[word, &id, "--why", "old"]).await;
        assert!(
            status == 1 && refuses(&said, WHY) && !said.contains("stands"),
            "{word}: {said}"
        );
    }
    let void = shown(&stage, &id).await;
    assert_eq!(void["allowed_by"], json!([ANN]), "{void}");
    assert_ne!(held(&pay().await), id, "it is asked about anew");
    assert_eq!(stage.scripted.executions(), 0);
}

/// guarantees §7: at a terminal a key denies nothing that has become void since it was drawn, and its agent can ask anew.
#[tokio::test]
async fn no_key_counts_for_what_is_void() {
    const QUESTION: &str = "why not? the agent reads it (nothing: not denied): ";
    let stage = HoldingGate::new().await;
    let pay = async || call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await;
    let id = held(&pay().await);
    let mut terminal = WatchTerminal::new(&stage.gate).await;
    reloads(&stage, dearer).await;
    terminal.answers(b"d", QUESTION, b"old\n").await;
    let words = format!("nothing was done: {WILL_NOT_RUN}");
    until("what came of it", || async {
        (terminal.count(&words) > 0).then_some(())
    })
    .await;
    terminal.types(b"q");
    assert_eq!(terminal.ended().await, Some(0));
    let void = shown(&stage, &id).await;
    assert_eq!(
        (&void["state"], &void["decisions"]),
        (&json!("void"), &json!([])),
        "{void}"
    );
    assert_ne!(held(&pay().await), id, "nothing is denied");
}
