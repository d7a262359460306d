//! What operators say on the pages about several calls at once, and about calls to come.

use super::pages::{ANN_TOKEN, field, sends, signs_in};
use super::{ask, held, setup, shown};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::Offers;
use crate::held_calls::{self, HoldingGate, policy};
use serde_json::{Value, json};

/// A call that can be undone, with more than its arguments.
fn brings(arguments: Value, beside: Option<Value>, original: Option<Value>) -> super::HoldRequest {
    let mut asks = ask(1, arguments);
    let question = &mut asks.question;
    (question.irreversible, question.beside) = (false, beside);
    if original.is_some() {
        question.changed_by = vec!["rewrite bank__pay".to_owned()];
    }
    question.original = original;
    asks
}

/// The page about all of them.
async fn batch(gate: &Gate, ids: &[String], cookie: &str) -> String {
    let query: Vec<_> = ids.iter().map(|id| format!("id={id}")).collect();
    let path = format!("/approvals/batch?{}", query.join("&"));
    let answer = gate
        .asks_operators(("GET", &path), &[("cookie", cookie)], "")
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text()
}

/// Says a word on all of them as they are shown now; the status.
async fn decides(gate: &Gate, ids: &[String], cookie: &str, decision: &str) -> u16 {
    let secret = field(&batch(gate, ids, cookie).await, "form_secret");
    let mut fields = vec![
        ("decision", decision.to_owned()),
        ("why", "all of them".to_owned()),
        ("form_secret", secret),
    ];
    for id in ids {
        let digest = shown(gate, id).await["shown"].as_str().unwrap().to_owned();
        fields.push(("call", format!("{id} {digest}")));
    }
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let cookie = [("cookie", cookie)];
    sends(gate, "/approvals/batch", &fields, &cookie)
        .await
        .status
}

/// Calls are decided together by what can be seen of them: all that is equal stands there once, all that differs
/// whole, and what travels beside the arguments has to be equal.
#[tokio::test]
async fn what_is_decided_together_is_seen_whole() {
    let setup = setup();
    setup.write();
    let long = "x".repeat(400) + " THE-END";
    let trace = |name: &str| Some(json!({ "_meta": { "example.com/mode": name } }));
    let asks = vec![
        brings(
            json!({ "amount": 5, "to": "ACME", "note": long }),
            trace("dry"),
            None,
        ),
        brings(
            json!({ "amount": 900, "to": "ACME", "note": "short" }),
            trace("dry"),
            Some(json!({ "amount": 9, "to": "ACME", "note": "short" })),
        ),
        brings(
            json!({ "amount": 5, "to": "ACME", "note": "short" }),
            trace("live"),
            None,
        ),
    ];
    let ids = held(&setup, asks).await;
    let gate = setup.begin().await;
    let cookie = signs_in(&gate, ANN_TOKEN).await;
    let alike = batch(&gate, &ids[..2], &cookie).await;
    assert!(alike.contains("Allow each once"), "{alike}");
    let (differs, same) = alike.split_once("What is the same in all of them").unwrap();
    for words in [
        "THE-END",
        "900",
        "changed by rewrite bank__pay",
        "the agent sent",
    ] {
        assert!(differs.contains(words), "{words}: {alike}");
    }
    for words in ["ACME", "beside the arguments", "example.com/mode", "dry"] {
        assert!(
            same.contains(words) && !differs.contains(words),
            "{words}: {alike}"
        );
    }
    let unlike = batch(&gate, &ids[1..], &cookie).await;
    assert!(unlike.contains("cannot be allowed together"), "{unlike}");
    assert!(!unlike.contains("Allow each once"), "{unlike}");
    let (differs, _) = unlike
        .split_once("What is the same in all of them")
        .unwrap();
    assert!(
        differs.contains("dry") && differs.contains("live"),
        "{unlike}"
    );
    assert_eq!(decides(&gate, &ids[1..], &cookie, "allow").await, 409);
    assert_eq!(shown(&gate, &ids[1]).await["state"], "pending");
    assert_eq!(decides(&gate, &ids[..2], &cookie, "allow").await, 200);
    for id in &ids[..2] {
        assert_eq!(shown(&gate, id).await["state"], "allowed");
    }
}

/// A word on a page that counts for calls like it is counted as one in a program is.
#[tokio::test]
async fn a_grant_of_a_page_is_counted_as_a_decision() {
    let stage = HoldingGate::before(Offers::default(), &policy(", ask: on-miss"), "enforce").await;
    let gate = &stage.gate;
    let answer = stage.bot().call_anew("bank__pay", json!({ "n": 1 })).await;
    let path = format!("/approvals/{}", held_calls::held(&answer));
    let cookie = signs_in(gate, "token-of-ann-who-has-the-role").await;
    let cookie = [("cookie", cookie.as_str())];
    let card = gate
        .asks_operators(("GET", &path), &cookie, "")
        .await
        .text();
    let (secret, digest) = (field(&card, "form_secret"), field(&card, "shown"));
    let fields = [
        ("decision", "always"),
        ("form_secret", secret.as_str()),
        ("shown", digest.as_str()),
        ("until", "8h"),
        ("uses", "3"),
        ("why", "every day"),
    ];
    let said = sends(gate, &path, &fields, &cookie).await;
    assert_eq!(said.status, 200, "{said:?}");
    let counted = "toolgate_approval_seconds_count{decision=\"allow\"}";
    let times = gate.metric(counted).await;
    assert!((times - 1.0).abs() < f64::EPSILON, "{times}");
}
