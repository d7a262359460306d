//! Operators whom an identity provider names, also behind a proxy that sets the token in a header.

use crate::harness::agent::Agent;
use crate::harness::answer::{Answer, code};
use crate::harness::gate::Gate;
use crate::harness::issuer::{TokenIssuer, TokenKey};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

async fn stage() -> (ToolServer, TokenIssuer, TokenKey, Gate) {
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let key = TokenKey::new("first");
    let issuer = TokenIssuer::start(&key).await;
    let entry = issuer.entry(
        ", claims: { name: email, roles: /groups }, roles: { leads: [approver], sre: [auditor, switch] }, header: X-Proxy-Token",
    );
    let gate = Setup::new()
        .server("oracle", &server)
        .policy(&format!(
            "contracts:\n  oracle__pay: {}\n{}\n",
            crate::harness::setup::contract("oracle__pay", "write", ", approval: { ask: always }"),
            crate::harness::setup::undo("oracle__pay")
        ))
        .callers("  - { agent: bot, token: token-of-the-agent-bot }\n")
        .operators(&format!("tokens: [], jwt: [ {entry} ]"))
        .start()
        .await;
    (server, issuer, key, gate)
}

fn claims(issuer: &TokenIssuer, email: &str, groups: &[&str]) -> Value {
    let mut claims = issuer.claims("console");
    claims["email"] = json!(email);
    claims["groups"] = json!(groups);
    claims
}

async fn asks(gate: &Gate, header: &str, token: &str, path: &str) -> Answer {
    let value = if header == "Authorization" {
        format!("Bearer {token}")
    } else {
        token.to_owned()
    };
    let headers = [(header, value.as_str()), ("Accept", "text/html")];
    gate.asks_operators(("GET", path), &headers, "").await
}

/// An operator is who a token says, with the roles that the configuration makes of the claim; who has
/// none of them, or no good token, is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_makes_an_operator() {
    let (_server, issuer, key, gate) = stage().await;
    let sre = key.token(&claims(&issuer, "sue@example.com", &["sre", "staff"]));
    for header in ["Authorization", "X-Proxy-Token"] {
        assert_eq!(
            asks(&gate, header, &sre, "/api/tasks").await.status,
            200,
            "{header}"
        );
    }
    let forged = TokenKey::new("first").token(&claims(&issuer, "sue@example.com", &["sre"]));
    for (token, status) in [
        (
            key.token(&claims(&issuer, "joe@example.com", &["staff"])),
            403,
        ),
        (key.token(&claims(&issuer, "joe@example.com", &[])), 403),
        (key.token(&claims(&issuer, "joe", &["sre"])), 401),
        (forged, 401),
        (
            TokenKey::new("other").token(&claims(&issuer, "sue@example.com", &["sre"])),
            401,
        ),
        ("token-of-nobody-at-all".to_owned(), 401),
    ] {
        for header in ["Authorization", "X-Proxy-Token"] {
            let answer = asks(&gate, header, &token, "/api/tasks").await;
            assert_eq!(answer.status, status, "{header} {answer:?}");
            assert!(!answer.text().contains(&token));
        }
    }
    let agents = mark_of_agents(&gate, &sre).await;
    assert_eq!(
        agents, 401,
        "an operator's token opens nothing at the agents' door"
    );
}

async fn mark_of_agents(gate: &Gate, token: &str) -> u16 {
    let agent: Agent = gate.agent().token(token);
    agent.anew_call("oracle__pay", json!({})).await.status
}

/// A call that a person of the identity provider has allowed runs, and the ledger says who it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issued_operator_decides() {
    let (server, issuer, key, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-agent-bot");
    let called = tokio::spawn(async move { agent.call("oracle__pay", json!({})).await });
    let lead = key.token(&claims(&issuer, "lea@example.com", &["leads"]));
    let id = until("the call is held", || async {
        let listed = asks(&gate, "Authorization", &lead, "/api/approvals").await;
        let listed: Value = serde_json::from_str(&listed.text()).unwrap();
        let id = listed.pointer("/approvals/0/id").and_then(Value::as_str);
        id.map(str::to_owned)
    })
    .await;
    let bearer = format!("Bearer {lead}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let path = format!("/api/approvals/{id}");
    let word = r#"{ "decision": "allow", "why": "due" }"#;
    let allowed = gate.asks_operators(("POST", &path), &headers, word).await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    let answer = called.await.unwrap();
    assert_eq!(code(&answer), None, "{answer}");
    assert_eq!(server.executions().len(), 1);
    let entries = gate.entries(1).await;
    let done = entries
        .iter()
        .find(|entry| entry["outcome"] == "answered")
        .unwrap();
    assert_eq!(done["approved_by"], json!(["lea@example.com"]));
}

/// Behind a proxy that knows who it is, the console asks for no token: it signs in by itself, for as
/// long as the token counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_signs_in_by_the_header_of_a_proxy() {
    let (_server, issuer, key, gate) = stage().await;
    let lead = key.token(&claims(&issuer, "lea@example.com", &["leads"]));
    let entered = asks(&gate, "X-Proxy-Token", &lead, "/login?next=/approvals").await;
    let cookie = entered.header("set-cookie").unwrap_or_default().to_owned();
    assert_eq!(
        (entered.status, entered.header("location")),
        (303, Some("/approvals")),
        "{entered:?}"
    );
    let lasts = cookie.split_once("Max-Age=").unwrap().1;
    let lasts: u64 = lasts.split(';').next().unwrap().parse().unwrap();
    assert!(lasts > 500 && lasts <= 630, "{cookie}");
    let (pair, _) = cookie.split_once(';').unwrap();
    let headers = [("Cookie", pair), ("Accept", "text/html")];
    let page = gate
        .asks_operators(("GET", "/approvals"), &headers, "")
        .await;
    assert!(
        page.status == 200 && page.text().contains("lea@example.com"),
        "{page:?}"
    );
    let nobody = asks(&gate, "X-Proxy-Token", "x.y.z", "/login").await;
    assert!(nobody.status == 200 && nobody.header("set-cookie").is_none());
}
