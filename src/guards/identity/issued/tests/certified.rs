//! A certificate beside a token of an issuer: both name one caller, or nobody is named.

use super::*;
use crate::guards::identity::certificates::ShownProof;

const ANN_URI: &str = "spiffe://example.org/ns/agents/sa/ann";

/// An issuer that may name `ann`, whose entry has a certificate and is as its tokens describe it, but for a
/// `change`.
fn certified(
    key: &SigningKey,
    change: impl FnOnce(&mut Value),
) -> (&'static TestClock, Rule, String) {
    let mut entry = json!({
        "agent": "ann", "certificate": ANN_URI, "tenant": "t_1", "roles": ["billing"], "group": "support",
    });
    change(&mut entry);
    let issuer = written(|issuer| issuer["agents"] = json!(["ann", "ben"]));
    let callers = vec![serde_json::from_value(entry).unwrap()];
    let (clock, rule) = ready(settings(vec![issuer], callers), &[key]);
    let token = key.token(&claims(clock, |claims| claims["azp"] = json!("ann")));
    (clock, rule, token)
}

fn shown(rule: &Rule, uri: &str, bearer: Option<&str>) -> Result<Arc<Caller>, Unauthorized> {
    let uris = [uri.to_owned()];
    let proof = ShownProof {
        certificate: Some(&uris),
        bearer,
    };
    rule.identify_by(proof, |_| None).map(|found| found.caller)
}

/// Who has both is known by both, and the person behind the agent is whom the token names.
#[test]
fn token_and_certificate_of_one_caller_count_together() {
    let (_, rule, token) = certified(&key(), |_| {});
    let caller = shown(&rule, ANN_URI, Some(&token)).unwrap();
    assert_eq!(caller.agent.as_str(), "ann");
    assert_eq!(caller.certificate.as_deref(), Some(ANN_URI));
    assert_eq!(caller.issued_by().1.as_deref(), Some("ada"));
    assert_eq!(caller.user.as_ref().map(UserId::as_str), Some("ada"));
    assert!(caller.is_of_entry(&rule.callers()[0]));
    let alone = shown(&rule, ANN_URI, None).unwrap();
    assert_eq!(alone.certificate.as_deref(), Some(ANN_URI));
    assert!(alone.issued.is_none() && alone.user.is_none());
    let other = "spiffe://example.org/ns/agents/sa/other";
    let by_token = shown(&rule, other, Some(&token)).unwrap();
    assert!(by_token.certificate.is_none() && by_token.issued.is_some());
}

/// A token of another agent names another caller; one that gives the agent another tenant, group or roles than
/// its entry is told which of them.
#[test]
fn what_names_two_callers_names_nobody() {
    let key = key();
    let (clock, rule, _) = certified(&key, |_| {});
    let (tenant, roles) = (
        Unauthorized::Unlike("tenant"),
        Unauthorized::Unlike("roles"),
    );
    for (claim, value, refused) in [
        ("azp", json!("ben"), Unauthorized::Contradicted),
        ("org", json!("t_2"), tenant),
        ("realm", json!({ "roles": ["billing", "admin"] }), roles),
        ("realm", json!({ "roles": [] }), roles),
    ] {
        let token = key.token(&claims(clock, |claims| {
            claims["azp"] = json!("ann");
            claims[claim] = value.clone();
        }));
        assert!(who(&rule, &token).is_ok(), "the token is good: {claim}");
        let found = shown(&rule, ANN_URI, Some(&token));
        assert_eq!(found, Err(refused), "{claim} {value}");
    }
    for (name, value) in [
        ("tenant", json!("t_2")),
        ("group", json!("others")),
        ("roles", json!(["billing", "admin"])),
    ] {
        let (_, rule, token) = certified(&key, |entry| entry[name] = value.clone());
        let found = shown(&rule, ANN_URI, Some(&token));
        assert_eq!(found, Err(Unauthorized::Unlike(name)), "{value}");
    }
}

/// The order of roles says nothing, and what no token can say of an agent is what the entry says: the
/// certificate proves all of it.
#[test]
fn an_entry_may_say_what_no_token_says() {
    let key = key();
    for (name, value) in [
        ("owner", json!(true)),
        ("model", json!("openai/gpt-5")),
        ("environment", json!("production")),
        ("users", json!("meta")),
        ("roles", json!(["clerk", "billing"])),
    ] {
        let (clock, rule, _) = certified(&key, |entry| {
            entry["roles"] = json!(["billing", "clerk"]);
            entry[name] = value.clone();
        });
        let token = key.token(&claims(clock, |claims| {
            claims["azp"] = json!("ann");
            claims["realm"] = json!({ "roles": ["clerk", "billing", "clerk"] });
        }));
        let caller = shown(&rule, ANN_URI, Some(&token)).unwrap();
        assert!(caller.is_of_entry(&rule.callers()[0]), "{name}");
        assert_eq!(caller.user.as_ref().map(UserId::as_str), Some("ada"));
        assert_eq!(caller.owner, name == "owner");
    }
}

/// A good certificate makes no bad token good.
#[test]
fn a_token_that_is_not_taken_is_refused_beside_a_certificate() {
    let key = key();
    let (clock, rule, token) = certified(&key, |_| {});
    clock.pass(Duration::from_secs(331));
    let found = shown(&rule, ANN_URI, Some(&token));
    let refused = Unauthorized::Token(TokenRejected::Expired);
    assert_eq!(found, Err(refused));
    let foreign = SigningKey::new("1", SigningAlgorithm::Es256);
    let forged = foreign.token(&claims(clock, |claims| claims["azp"] = json!("ann")));
    let found = shown(&rule, ANN_URI, Some(&forged));
    let refused = Unauthorized::Token(TokenRejected::Signature);
    assert_eq!(found, Err(refused));
}
