//! Calls that wait for a person for longer than the token lasts that they came by.

use super::{CLAIMS, auth};
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::issuer::{TokenIssuer, TokenKey, now};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

/// How long a token counts beyond its `exp`, in seconds.
const LEEWAY: u64 = 30;
const ANN: [(&str, &str); 2] = [
    ("Authorization", "Bearer token-of-ann-who-decides"),
    ("Content-Type", "application/json"),
];

/// The calls that wait, by their argument `n`.
async fn held(gate: &Gate, n: usize) -> Option<String> {
    let listed = gate
        .asks_operators(("GET", "/api/approvals"), &ANN, "")
        .await;
    let listed: Value = serde_json::from_str(&listed.text()).unwrap();
    let mut calls = listed["approvals"].as_array()?.iter();
    let one = calls.find(|call| call["arguments"]["n"] == n)?;
    one["id"].as_str().map(str::to_owned)
}

/// A gate before `server`, at which tellers of `issuer` pay where a person allows it.
async fn bank(server: &ToolServer, issuer: &TokenIssuer) -> Gate {
    let asked = ", permission: { roles: [teller] }, approval: { ask: always }";
    Setup::new()
        .server("oracle", server)
        .policy(&format!(
            "contracts:\n  oracle__pay: {}\n  oracle__read: {}\n{}\n",
            contract("oracle__pay", "write", asked),
            contract("oracle__read", "read", ""),
            undo("oracle__pay")
        ))
        .operators("tokens: [ { name: ann, token: token-of-ann-who-decides, roles: [approver] } ]")
        .unwatched()
        .more(&auth(&[issuer.entry(CLAIMS)]))
        .start()
        .await
}

/// An agent that is taken out of a role at the identity provider, or out of it altogether, keeps no call that waits for a
/// person: it runs only where a token counts by which its agent could still make it. One that was allowed
/// is not lost: sent again with a token that counts, it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allowed_call_needs_a_token_that_counts() {
    let script = Script::new().tool("pay", Behaviour::Answers);
    let server = script.tool("read", Behaviour::Answers).start().await;
    let key = TokenKey::new("first");
    let issuer = TokenIssuer::start(&key).await;
    let gate = bank(&server, &issuer).await;
    let token = |agent: &str, exp: u64, roles: &[&str]| {
        let mut claims = issuer.claims(agent);
        (claims["exp"], claims["roles"]) = (json!(exp), json!(roles));
        key.token(&claims)
    };
    let agents = ["nobody-since", "role-lost", "role-kept"];
    // Time enough for a slow machine to have all three held before.
    let exp = now() - LEEWAY + 20;
    let mut called = Vec::new();
    for (n, name) in agents.into_iter().enumerate() {
        let agent = gate.agent().token(&token(name, exp, &["teller"]));
        let waits = async move { agent.call("oracle__pay", json!({ "n": n })).await };
        called.push(tokio::spawn(waits));
    }
    let mut ids = Vec::new();
    for n in 0..agents.len() {
        ids.push(until("the call is held", || held(&gate, n)).await);
    }
    for (name, roles) in [
        ("role-lost", &["clerk"][..]),
        ("role-kept", &["clerk", "teller"]),
    ] {
        let agent = gate.agent().token(&token(name, now() + 600, roles));
        let seen = agent.anew_call("oracle__read", json!({})).await;
        assert_eq!(seen.status, 200, "{seen:?}");
    }
    until("their tokens are over", || async {
        (now() > exp + LEEWAY).then_some(())
    })
    .await;
    for id in &ids {
        let path = format!("/api/approvals/{id}");
        let word = r#"{ "decision": "allow", "why": "due" }"#;
        let allowed = gate.asks_operators(("POST", &path), &ANN, word).await;
        assert_eq!(allowed.status, 200, "{allowed:?}");
    }
    for (name, called) in agents.into_iter().zip(called) {
        let answer = called.await.unwrap();
        let is_refused = name != "role-kept";
        let refused = is_refused.then_some("approval_timeout");
        assert_eq!(code(&answer).as_deref(), refused, "{name}: {answer}");
        assert_eq!(answer.to_string().contains("counts no more"), is_refused);
    }
    let paid = || {
        let done = server.executions().into_iter();
        let done = done.filter(|one| one.tool == "pay");
        done.map(|one| one.arguments["n"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(paid(), [json!(2)]);
    let again = gate
        .agent()
        .token(&token("nobody-since", now() + 600, &["teller"]));
    let answer = again.call("oracle__pay", json!({ "n": 0 })).await;
    assert_eq!(code(&answer), None, "it is allowed still: {answer}");
    assert_eq!(paid(), [json!(2), json!(0)]);
}
