//! The same on the page, with plain forms.

use super::given;
use crate::approvals::pages::{field, sends, signs_in};
use crate::held_calls::{HoldingGate, call, held};
use serde_json::json;

const ANN_TOKEN: &str = "token-of-ann-who-has-the-role";

/// 001-42, guarantees §7: only what may be changed has a field; a change shows the call as it is then, and
/// what it was; the card of before allows nothing.
#[tokio::test]
async fn a_form_changes_the_call() {
    let stage = HoldingGate::editing("").await;
    let id = held(&call(&stage.bot(), "pay", given(), "k").await);
    let gate = &stage.gate;
    let cookie = signs_in(gate, ANN_TOKEN).await;
    let cookie = [("cookie", cookie.as_str())];
    let path = format!("/approvals/{id}");
    let shown = async || {
        gate.asks_operators(("GET", &path), &cookie, "")
            .await
            .text()
    };
    let card = shown().await;
    assert!(
        card.contains("name=\"edit:/n\" value=\"50\"") && card.contains("name=\"edit:/note\""),
        "{card}"
    );
    assert!(!card.contains("name=\"edit:/to\""), "{card}");
    let (secret, digest) = (field(&card, "form_secret"), field(&card, "shown"));
    let form = async |fields: &[(&str, &str)]| {
        let own = [("form_secret", secret.as_str())];
        sends(gate, &path, &[&own[..], fields].concat(), &cookie).await
    };
    let edit = |n, why| {
        [
            ("decision", "edit"),
            ("edit:/n", n),
            ("edit:/note", "for May"),
            ("why", why),
        ]
    };
    for (n, why, shown, status, said) in [
        ("500", "more", digest.as_str(), 422, "too_much"),
        ("no number", "more", &digest, 422, "no JSON"),
        ("20", "", &digest, 400, "say why"),
        ("20", "less", "sha256:0", 409, "not what you were shown"),
    ] {
        let answer = form(&[&edit(n, why)[..], &[("shown", shown)]].concat()).await;
        assert_eq!(answer.status, status, "{n} {why}");
        assert!(answer.text().contains(said), "{}", answer.text());
    }
    let unmarked = [("decision", "edit"), ("edit:/to", "DE99"), ("why", "x")];
    let answer = form(&[&unmarked[..], &[("shown", digest.as_str())]].concat()).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
    let answer = form(&[&edit("20", "less")[..], &[("shown", digest.as_str())]].concat()).await;
    assert_eq!(answer.status, 200);
    let card = answer.text();
    assert!(
        card.contains("It does not run yet") && card.contains("changed by ann; it was: <bdi>50"),
        "{card}"
    );
    let allow = |shown| [("decision", "allow"), ("why", ""), ("shown", shown)];
    assert_eq!(form(&allow(&digest)).await.status, 409);
    let fresh = field(&card, "shown");
    assert_eq!(form(&allow(&fresh)).await.status, 200);
    runs_as_changed(&stage).await;
}

/// The call runs once, as it was changed.
async fn runs_as_changed(stage: &HoldingGate) {
    let answer = call(&stage.bot(), "pay", given(), "k").await;
    let sent = json!({ "n": 20, "note": "for May", "to": "DE12" });
    assert_eq!(
        answer["result"]["content"][1]["text"],
        sent.to_string(),
        "{answer}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// A contract's reasons are buttons that deny; one that wants to know why a call is allowed is told, or the
/// call waits.
#[tokio::test]
async fn reasons_are_offered_and_asked_for() {
    let terms = ", deny_reasons: [Not this month., Ask Anna.], why: required";
    let stage = HoldingGate::editing(terms).await;
    let gate = &stage.gate;
    let cookie = signs_in(gate, ANN_TOKEN).await;
    let cookie = [("cookie", cookie.as_str())];
    for (key, word) in [("a", "allow"), ("b", "deny")] {
        let arguments = json!({ "n": 50, "note": key });
        let pay = async || call(&stage.bot(), "pay", arguments.clone(), key).await;
        let id = held(&pay().await);
        let path = format!("/approvals/{id}");
        let card = gate
            .asks_operators(("GET", &path), &cookie, "")
            .await
            .text();
        let (secret, digest) = (field(&card, "form_secret"), field(&card, "shown"));
        assert!(
            card.contains("name=\"deny_with\" value=\"Not this month.\""),
            "{card}"
        );
        let own = [("form_secret", secret.as_str()), ("shown", &digest)];
        if word == "allow" {
            let plain = [("decision", "allow"), ("why", " ")];
            let answer = sends(gate, &path, &[&own[..], &plain].concat(), &cookie).await;
            assert_eq!(answer.status, 400, "{}", answer.text());
            let told = [("decision", "allow"), ("why", "it is due")];
            let answer = sends(gate, &path, &[&own[..], &told].concat(), &cookie).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(pay().await["result"]["isError"].is_null());
        } else {
            let preset = [("deny_with", "Ask Anna."), ("why", "")];
            let answer = sends(gate, &path, &[&own[..], &preset].concat(), &cookie).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let denied = pay().await.to_string();
            assert!(denied.contains("Ask Anna."), "{denied}");
        }
    }
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "c").await);
    let (status, said) = stage.says("eve", &["deny", &id, "--preset", "3"]).await;
    assert!(status == 1 && said.contains("2 reasons"), "{said}");
    let (status, said) = stage.says("eve", &["deny", &id, "--preset", "1"]).await;
    assert_eq!(status, 0, "{said}");
    let denied = call(&stage.bot(), "pay", json!({ "n": 1 }), "c").await;
    assert!(denied.to_string().contains("Not this month."), "{denied}");
    assert_eq!(stage.scripted.executions(), 1);
}
