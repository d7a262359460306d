//! Who decides, and what one decision is good for.

use super::{ANN, HoldingGate, call, decision, held, policy};
use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::scripted_server::Offers;
use crate::harness::setup::Setup;
use serde_json::{Value, json};

/// threat-model §3E E2: many calls, each with a key of its own, and one decision: one of them runs.
#[tokio::test]
async fn one_decision_is_one_execution() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let id = held(&call(&bot, "pay", json!({ "n": 1 }), "k").await);
    stage.allows(&id).await;
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let calls = keys
        .iter()
        .map(|key| call(&bot, "pay", json!({ "n": 1 }), key));
    let answers = futures_util::future::join_all(calls).await;
    let passed = answers
        .iter()
        .filter(|answer| code(answer).is_none())
        .count();
    assert_eq!((passed, stage.scripted.executions()), (1, 1));
    let second = stage.holds(1).await[0]["id"].clone();
    assert_ne!(second, json!(id), "the others ask for one more, together");
    for refused in answers.iter().filter(|answer| code(answer).is_some()) {
        let action = &decision(refused)["action_id"];
        let entry = stage.entry(|entry| entry["action_id"] == *action).await;
        assert_eq!(
            (&entry["approval"], &entry["approved_by"]),
            (&second, &Value::Null),
            "{entry}"
        );
    }
}

/// guarantees §7: who may decide, and that the first decision stands.
#[tokio::test]
async fn only_who_has_the_role_decides_and_never_the_agent() {
    let stage = HoldingGate::with(&policy(", required: 2"), "enforce").await;
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    for (operator, expected) in [
        ("bob", "expired or not found"),
        ("bot", "an operator of the same name"),
    ] {
        let (status, words) = stage.says(operator, &["allow", &id, "--why", "me"]).await;
        assert_eq!(status, 1, "{words}");
        assert!(words.contains(expected), "{words}");
    }
    let says = |token: &str| {
        [
            ("authorization", format!("Bearer {token}")),
            ("content-type", "application/json".to_owned()),
        ]
    };
    for token in ["token-of-the-agent-bot", "no-token-at-all"] {
        let headers = says(token);
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let path = format!("/api/approvals/{id}");
        let asked = stage.gate.asks_operators(
            ("POST", &path),
            &headers,
            r#"{ "decision": "allow", "why": "me" }"#,
        );
        assert_eq!(asked.await.status, 401, "{token}");
    }
    for _ in 0..2 {
        let (status, words) = stage.says(ANN, &["allow", &id, "--why", "due"]).await;
        assert_eq!(status, 0, "{words}");
        assert_eq!(
            held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
            id,
            "one person is not two"
        );
    }
    let (status, words) = stage.says("eve", &["allow", &id, "--why", "due"]).await;
    assert_eq!(status, 0, "{words}");
    let (status, words) = stage.says(ANN, &["deny", &id, "--why", "no"]).await;
    assert_eq!(status, 1, "{words}");
    assert_eq!(
        code(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
        None
    );
    let entry = stage.entry(|entry| entry["outcome"] == "answered").await;
    assert_eq!(entry["approved_by"], json!(["ann", "eve"]));
    let (status, words) = stage.says("eve", &["deny", &id, "--why", "too late"]).await;
    assert_eq!(status, 1, "{words}");
}

/// 001-59, guarantees §4: who hangs up while the call is held leaves the hold as it is, and nothing
/// runs for nobody.
#[tokio::test]
async fn who_hangs_up_can_come_again() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let asked = tokio::spawn({
        let bot = bot.clone();
        async move { call(&bot, "slow", json!({ "n": 1 }), "k").await }
    });
    let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    asked.abort();
    let gone = stage
        .entry(|entry| entry["aborted_reason"] == "cancelled")
        .await;
    assert_eq!(gone["stage"], "approval", "{gone}");
    stage.allows(&id).await;
    assert_eq!(stage.scripted.executions(), 0, "nobody is there to read it");
    assert_eq!(
        code(&call(&bot, "slow", json!({ "n": 1 }), "k").await),
        None
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: who ends its session while a call of it is held has hung up, whether it still reads the call's
/// stream or not. The hold stays.
#[tokio::test]
async fn who_ends_its_session_runs_nothing() {
    let stage = HoldingGate::new().await;
    for (nth, reads) in [(0, true), (1, false)] {
        let bot = stage.bot().initialized().await;
        let arguments = json!({ "n": nth });
        let params = json!({ "name": "bank__slow", "arguments": arguments });
        let stream = bot.post(&bot.request("tools/call", params.clone())).await;
        let stream = Some(stream).filter(|_| reads);
        let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
        bot.delete().await;
        let is_of_it = |entry: &Value| {
            entry["aborted_reason"] == "cancelled" && entry["approval"] == json!(id)
        };
        let gone = stage.entry(is_of_it).await;
        assert_eq!(gone["stage"], "approval", "{gone}");
        stage.allows(&id).await;
        assert_eq!(stage.scripted.executions(), nth, "nobody reads it: {reads}");
        drop(stream);
        let again = stage.bot().initialized().await;
        assert_eq!(code(&again.ask("tools/call", params).await), None);
        assert_eq!(stage.scripted.executions(), nth + 1);
    }
}

/// threat-model §8: nothing is held where nothing is enforced; the record says what would be.
#[tokio::test]
async fn observing_asks_nobody() {
    let stage = HoldingGate::with(&policy(""), "observe").await;
    assert_eq!(
        code(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
        None
    );
    let entry = stage.entry(|entry| entry["outcome"] == "answered").await;
    assert_eq!(entry["would_refuse"], "approval_pending", "{entry}");
    assert_eq!(
        (stage.scripted.executions(), stage.holds(0).await.len()),
        (1, 0)
    );
}

/// Ann, and an operator with the name of the agent `bot`, are away: dan, who has no role of his own, decides
/// for both.
const AWAY: &str = "tokens: [ { name: ann, token: token-of-ann-who-has-the-role, roles: [finance] }, \
     { name: bot, token: token-of-an-operator-named-bot, roles: [finance] }, \
     { name: dan, token: token-of-dan-the-delegate, roles: [sre] }, \
     { name: eve, token: token-of-eve-who-has-the-role, roles: [finance] } ], \
     operators: { ann: { away_until: \"2126-12-24T08:00:00Z\", delegate: dan }, \
     bot: { away_until: \"2126-12-24T08:00:00Z\", delegate: dan } }";

/// guarantees §7: who is away and the delegate are one person of a quorum, whichever of them speaks first, and
/// so are two who have one delegate.
#[tokio::test]
async fn a_delegate_and_who_is_away_count_once() {
    let quorum = policy(", required: 2");
    let stage = HoldingGate::started(Offers::default(), &quorum, "enforce", AWAY).await;
    for (nth, first, second) in [(1, "dan", ANN), (2, ANN, "dan")] {
        let arguments = json!({ "n": nth });
        let pays = async || call(&stage.bot(), "pay", arguments.clone(), &format!("k{nth}")).await;
        let id = held(&pays().await);
        for who in [first, second, first] {
            stage.says(who, &["allow", &id, "--why", "due"]).await;
            assert_eq!(held(&pays().await), id, "{who}: one person is not two");
        }
        let (status, words) = stage.says("eve", &["allow", &id, "--why", "due"]).await;
        assert_eq!(status, 0, "{words}");
        assert_eq!(code(&pays().await), None);
        assert_eq!(stage.scripted.executions(), nth);
    }
    // Both whom dan stands in for may decide about a call of cat's, and he is one person.
    let pays = async || call(&stage.cat(), "pay", json!({ "n": 3 }), "k").await;
    let id = held(&pays().await);
    for _ in 0..2 {
        stage.says("dan", &["allow", &id, "--why", "due"]).await;
        assert_eq!(held(&pays().await), id);
    }
    assert_eq!(stage.scripted.executions(), 2);
}

/// threat-model §3E: an agent's call is not allowed by who stands in for its namesake, and no agent has the
/// name of a delegate.
#[tokio::test]
async fn no_agent_decides_through_a_delegate() {
    let away = AWAY.replace(
        "ann: { away_until: \"2126-12-24T08:00:00Z\", delegate: dan }, ",
        "",
    );
    let stage = HoldingGate::started(Offers::default(), &policy(""), "enforce", &away).await;
    let own = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    let (status, words) = stage.says("dan", &["allow", &own, "--why", "due"]).await;
    assert!(status == 1 && stage.scripted.executions() == 0, "{words}");
    assert_eq!(
        held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
        own
    );
    let other = held(&call(&stage.cat(), "pay", json!({ "n": 1 }), "k").await);
    let (status, words) = stage.says("dan", &["allow", &other, "--why", "due"]).await;
    assert_eq!(status, 0, "{words}");
    assert_eq!(
        code(&call(&stage.cat(), "pay", json!({ "n": 1 }), "k").await),
        None
    );
    for named in ["dan", "Dan"] {
        let setup = Setup::new()
            .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
            .policy(&policy(""))
            .callers(&format!(
                "  - {{ agent: {named}, token: token-of-an-agent-named-dan }}"
            ))
            .operators(&away);
        setup.write();
        let (status, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
        assert!(
            status != 0 && out.contains("counts as the name of an agent"),
            "{named}: {out}{err}"
        );
    }
}
