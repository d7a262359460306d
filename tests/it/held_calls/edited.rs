//! An operator changes arguments of a held call before it is allowed (guarantees §7): only what the
//! contract names, judged again from step 2, and run once, as it was allowed, or not at all.

mod pages;
mod races;
mod refused;

use super::restarts::killed_at;
use super::void::reloads;
use super::{ANN, HoldingGate, call, decision, held, policy};
use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::kills::{HELD, build};
use serde_json::{Value, json};

/// What lets operators change two arguments, and has a rule about one.
pub fn editable(more: &str) -> String {
    let rules = "arguments: { properties: { n: { type: integer, minimum: 1 }, note: { type: string }, to: { type: string } } }, \
                 rules: [ { code: too_much, when: \"has(arguments.n) && arguments.n > 100\" } ]";
    let terms = format!(", approver_may_edit: [/n, /note]{more}");
    let purpose = "purpose: Pay a bill., not_for";
    policy(&terms).replacen(purpose, &format!("{rules}, {purpose}"), 1)
}

impl HoldingGate {
    pub async fn editing(more: &str) -> Self {
        Self::with(&editable(more), "enforce").await
    }

    /// The call as programs read it.
    pub async fn one(&self, id: &str) -> Value {
        let (status, shown) = self.says(ANN, &["show", id, "--json"]).await;
        assert_eq!(status, 0, "{shown}");
        serde_json::from_str(&shown).unwrap()
    }

    /// Changes it as `who`; what came of it.
    pub async fn edits(&self, who: &str, id: &str, change: &str) -> (i32, String) {
        let words = ["edit", id, change, "--why", "less is enough"];
        self.says(who, &words).await
    }

    /// Allows it as `who`, as it is now.
    pub async fn allows_as_is(&self, who: &str, id: &str) -> (i32, String) {
        let shown = self.one(id).await["shown"].as_str().unwrap().to_owned();
        let words = ["allow", id, "--why", "it is due", "--shown", &shown];
        self.says(who, &words).await
    }
}

pub fn given() -> Value {
    json!({ "n": 50, "note": "for May", "to": "DE12" })
}

/// What its agent reads of an answer: the word on what was changed, and the tool's own.
fn told(answer: &Value) -> (&str, Value) {
    let content = &answer["result"]["content"];
    let own = content[1]["text"].as_str().unwrap_or_default();
    let words = content[0]["text"].as_str().unwrap_or_default();
    (words, serde_json::from_str(own).unwrap_or_default())
}

/// guarantees §7: the call runs once, with what was allowed; its agent is told what is different, also
/// when it sends the call again; the ledger names who changed what.
#[tokio::test]
async fn an_edited_call_runs_as_it_was_changed() {
    let stage = HoldingGate::editing("").await;
    let pay = async |key: &str| call(&stage.bot(), "pay", given(), key).await;
    let id = held(&pay("k").await);
    let before = stage.one(&id).await;
    let (status, said) = stage.edits(ANN, &id, "/n=20").await;
    assert!(
        status == 0 && said.contains("It does not run yet"),
        "{said}"
    );
    let after = stage.one(&id).await;
    assert_ne!(after["shown"], before["shown"]);
    assert_eq!(
        (&after["arguments"]["n"], &after["unedited"]["n"]),
        (&json!(20), &json!(50))
    );
    assert_eq!(after["state"], "pending", "{after}");
    let old = before["shown"].as_str().unwrap();
    for words in [
        vec!["allow", &id, "--why", "due", "--shown", old],
        vec!["allow", &id, "--why", "due"],
    ] {
        let (status, said) = stage.says("eve", &words).await;
        assert!(status == 1 && said.contains("shown"), "{said}");
    }
    assert_eq!(held(&pay("k").await), id, "it waits on, under its own id");
    assert_eq!(stage.allows_as_is("eve", &id).await.0, 0);
    let answer = pay("k").await;
    assert_eq!(code(&answer), None, "{answer}");
    let (words, sent) = told(&answer);
    assert!(
        words.starts_with("arguments_changed_by_approver:") && words.contains("/n: 50 → 20"),
        "{words}"
    );
    assert_eq!(sent, json!({ "n": 20, "note": "for May", "to": "DE12" }));
    let changes = json!([{ "pointer": "/n", "before": 50, "after": 20 }]);
    assert_eq!(
        decision(&answer)["arguments_changed_by_approver"],
        changes,
        "{answer}"
    );
    let replay = pay("k").await;
    assert_eq!(decision(&replay)["replayed"], true, "{replay}");
    assert_eq!(told(&replay), told(&answer));
    let kept = &replay["result"]["_meta"]["dev.toolgate/argumentsChangedByApprover"];
    assert_eq!(*kept, changes);
    assert_eq!(stage.scripted.executions(), 1);
    // Another call with these arguments is another question, with nothing changed.
    let second = held(&pay("k2").await);
    assert_eq!(stage.one(&second).await["arguments"]["n"], 50);
    is_told_by_the_ledger(&stage, &id, &answer).await;
}

/// The ledger names who changed what of the call that was answered so, and who allowed it.
async fn is_told_by_the_ledger(stage: &HoldingGate, id: &str, answer: &Value) {
    let action = decision(answer)["action_id"].clone();
    let entry = stage
        .entry(|entry| entry["action_id"] == action && entry["outcome"] == "answered")
        .await;
    assert_eq!(
        (&entry["approval"], &entry["approved_by"]),
        (&json!(id), &json!(["eve"])),
        "{entry}"
    );
    assert!(entry.to_string().contains("operator ann"), "{entry}");
    let (_, story, _) = run(&stage.gate.setup, &["ledger", "show", id, "--data", "data"]).await;
    assert!(
        story.contains("its arguments were changed by the operator ann, at /n: less is enough"),
        "{story}"
    );
}

/// guarantees §7: what was said before a change is void, and named; both have to allow what will run.
#[tokio::test]
async fn an_edit_begins_a_quorum_anew() {
    let stage = HoldingGate::editing(", required: 2").await;
    let pay = async || call(&stage.bot(), "pay", given(), "k").await;
    let id = held(&pay().await);
    stage.allows(&id).await;
    assert_eq!(stage.one(&id).await["allowed_by"], json!(["ann"]));
    assert_eq!(stage.edits("eve", &id, "/n=20").await.0, 0);
    let hold = stage.one(&id).await;
    assert_eq!(
        (&hold["allowed_by"], &hold["edits"][0]["voided"]),
        (&json!([]), &json!(["ann"])),
        "{hold}"
    );
    assert_eq!(stage.allows_as_is("eve", &id).await.0, 0);
    held(&pay().await);
    assert_eq!(stage.allows_as_is(ANN, &id).await.0, 0);
    let answer = pay().await;
    assert_eq!(told(&answer).1["n"], 20, "{answer}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: whichever of an edit and a word comes first, what runs is what was allowed, once.
#[tokio::test]
async fn edits_and_words_race() {
    let stage = HoldingGate::editing("").await;
    for round in 0..8 {
        let key = format!("k{round}");
        let arguments = json!({ "n": 50, "note": key, "to": "DE12" });
        let pay = async || call(&stage.bot(), "pay", arguments.clone(), &key).await;
        let id = held(&pay().await);
        let (allowed, first, second) = tokio::join!(
            stage.allows_as_is(ANN, &id),
            stage.edits("eve", &id, "/n=20"),
            stage.edits(ANN, &id, "/n=30"),
        );
        let hold = stage.one(&id).await;
        let edits = hold["edits"].as_array().map_or(0, Vec::len);
        let done = [first.0, second.0]
            .iter()
            .filter(|status| **status == 0)
            .count();
        assert_eq!(done, edits, "{hold} {first:?} {second:?}");
        // A word on what was changed since counts for nothing.
        assert_eq!(
            allowed.0 == 0,
            hold["state"] == "allowed",
            "{allowed:?} {hold}"
        );
        if hold["state"] == "pending" {
            assert_eq!(stage.allows_as_is("eve", &id).await.0, 0);
        }
        let expected = stage.one(&id).await["arguments"].clone();
        let answer = pay().await;
        let content = &answer["result"]["content"];
        let ran = content[usize::from(edits > 0)]["text"].as_str().unwrap();
        let ran: Value = serde_json::from_str(ran).unwrap();
        assert_eq!(ran, expected, "{answer}");
        pay().await;
        assert_eq!(stage.scripted.executions(), round + 1);
    }
}

/// guarantees §7, threat-model §12: killed right after a change is durable, the change stands, and nothing
/// has run; killed once the intent is durable that uses it, nothing runs by it any more.
#[tokio::test]
async fn an_edit_outlives_a_kill() {
    build();
    let stage = HoldingGate::editing("").await;
    let id = held(&call(&stage.bot(), "pay", given(), "k").await);
    let stage = killed_at(stage, HELD[1], async |stage| {
        let (status, told) = stage.edits(ANN, &id, "/n=20").await;
        assert_ne!(status, 0, "{told}");
    })
    .await;
    let hold = stage.one(&id).await;
    assert_eq!(
        (
            &hold["state"],
            &hold["arguments"]["n"],
            &hold["edits"][0]["who"]
        ),
        (&json!("pending"), &json!(20), &json!("ann")),
        "{hold}"
    );
    assert_eq!(stage.allows_as_is("eve", &id).await.0, 0);
    let stage = stage.again(true).await;
    let stage = killed_at(stage, "intent-after-fsync", async |stage| {
        let bot = stage.bot();
        let lost = tokio::spawn(async move { call(&bot, "pay", given(), "k").await });
        assert!(lost.await.is_err(), "nobody answers");
    })
    .await;
    assert_eq!(stage.scripted.executions(), 0);
    let second = held(&call(&stage.bot(), "pay", given(), "k").await);
    assert_ne!(second, id);
    assert_eq!(stage.edits("eve", &second, "/n=30").await.0, 0);
    assert_eq!(stage.allows_as_is("eve", &second).await.0, 0);
    let answer = call(&stage.bot(), "pay", given(), "k").await;
    assert_eq!(told(&answer).1["n"], 30, "{answer}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: a waiting call goes on with what was allowed, and a policy that changes meanwhile makes
/// the edit void like every word.
#[tokio::test]
async fn a_waiting_call_goes_on_with_the_edit() {
    let stage = HoldingGate::editing("").await;
    let slow = |n: u64| {
        let bot = stage.bot();
        let arguments = json!({ "n": n, "note": "wait" });
        tokio::spawn(async move { call(&bot, "slow", arguments, &format!("k{n}")).await })
    };
    let waiting = slow(50);
    let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(stage.edits(ANN, &id, "/n=20").await.0, 0);
    assert_eq!(stage.allows_as_is(ANN, &id).await.0, 0);
    let answer = waiting.await.unwrap();
    assert_eq!(told(&answer).1["n"], 20, "{answer}");
    let waiting = slow(60);
    let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(stage.edits(ANN, &id, "/n=20").await.0, 0);
    let shown = stage.one(&id).await["shown"].as_str().unwrap().to_owned();
    reloads(&stage, |text| text.replace("Pay a bill.", "Pay any bill.")).await;
    let words = ["allow", &id, "--why", "due", "--shown", &shown];
    let (status, said) = stage.says(ANN, &words).await;
    assert!(status == 1, "{said}");
    let (status, said) = stage.edits(ANN, &id, "/n=10").await;
    assert!(status == 1 && said.contains("void"), "{said}");
    let answer = waiting.await.unwrap();
    assert_eq!(
        code(&answer).as_deref(),
        Some("approval_timeout"),
        "{answer}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}
