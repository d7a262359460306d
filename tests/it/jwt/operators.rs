//! Operators whom an identity provider names, also behind a proxy that sets the token in a header.

use crate::harness::agent::Agent;
use crate::harness::answer::{Answer, code};
use crate::harness::gate::Gate;
use crate::harness::issuer::{AUDIENCE, KeysReply, TokenIssuer, TokenKey, key_set};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

/// What operators' tokens are for; agents of the same issuer have others.
const CONSOLE: &str = "https://console.example.com";

async fn stage() -> (ToolServer, TokenIssuer, TokenKey, Gate) {
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let key = TokenKey::new("first");
    let issuer = TokenIssuer::start(&key).await;
    let entry = issuer.entry(
        ", claims: { name: email, roles: /groups }, roles: { leads: [approver], sre: [auditor, switch] }, header: X-Proxy-Token",
    );
    let entry = entry.replace(AUDIENCE, CONSOLE);
    let agents = issuer.entry(", claims: { agent: azp }");
    let gate = Setup::new()
        .server("oracle", &server)
        .policy(&format!(
            "contracts:\n  oracle__pay: {}\n{}\n",
            crate::harness::setup::contract("oracle__pay", "write", ", approval: { ask: always }"),
            crate::harness::setup::undo("oracle__pay")
        ))
        .callers("  - { agent: bot, token: token-of-the-agent-bot }\n")
        .operators(&format!("tokens: [], jwt: [ {entry} ]"))
        .more(&format!("auth: {{ jwt: [ {agents} ] }}"))
        .start()
        .await;
    (server, issuer, key, gate)
}

fn claims(issuer: &TokenIssuer, email: &str, groups: &[&str]) -> Value {
    let mut claims = issuer.claims("console");
    claims["aud"] = json!(CONSOLE);
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
}

/// One issuer names agents and operators, and no token opens both doors: neither an operator's the
/// agents', nor an agent's that acts for a person that person's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_opens_both_doors() {
    let (_server, issuer, key, gate) = stage().await;
    let asked = |token: &str| {
        let agent: Agent = gate.agent().token(token);
        async move { agent.anew_call("oracle__absent", json!({})).await }
    };
    let operator = key.token(&claims(&issuer, "sue@example.com", &["sre"]));
    let status = asks(&gate, "Authorization", &operator, "/api/tasks").await;
    assert_eq!(status.status, 200);
    let refused = asked(&operator).await;
    let words = refused.header("www-authenticate").unwrap_or_default();
    assert!(
        refused.status == 401 && words.contains("for another audience"),
        "{refused:?}"
    );
    let mut acting = claims(&issuer, "sue@example.com", &["sre"]);
    acting["aud"] = json!(AUDIENCE);
    let acting = key.token(&acting);
    assert_eq!(asked(&acting).await.status, 200, "an agent's");
    for header in ["Authorization", "X-Proxy-Token"] {
        let refused = asks(&gate, header, &acting, "/api/tasks").await;
        assert_eq!(refused.status, 401, "{header}");
    }
    assert_eq!(issuer.fetches(), 1, "what is fetched is known at both");
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
    let unnamed = asks(&gate, "X-Proxy-Token", "x.y.z", "/login").await;
    assert!(unnamed.status == 200 && unnamed.header("set-cookie").is_none());
}

/// A token of an issuer that an operator pastes on the page to sign in: a key that its issuer has just made is fetched,
/// and what is wrong with another token is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pasted_token_signs_in_or_is_told_why_not() {
    let (_server, issuer, first, gate) = stage().await;
    let enters = async |token: &str| {
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let own = format!("http://{}", gate.operators);
        let body: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token)
            .finish();
        let headers = [kind, ("origin", own.as_str())];
        gate.asks_operators(("POST", "/login"), &headers, &body)
            .await
    };
    let second = TokenKey::new("second");
    issuer.answers(key_set(&[&first, &second]));
    let lead = claims(&issuer, "lea@example.com", &["leads"]);
    let entered = enters(&second.token(&lead)).await;
    assert_eq!(entered.status, 303, "{entered:?}");
    let staff = claims(&issuer, "joe@example.com", &["staff"]);
    let answer = enters(&second.token(&staff)).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.text().contains("no operator"), "{answer:?}");
    issuer.answers(KeysReply::Said(503, "down".to_owned()));
    let answer = enters(&TokenKey::new("third").token(&lead)).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    let answer = enters("token-of-nobody-at-all").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.text().contains("token of no operator"), "{answer:?}");
}

/// threat-model §3F: an issuer withdraws a key that was stolen, and a thief who has signed in by a token of that key is
/// out with it: no page, and no decision. Who has signed in by another key stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_ends_with_the_key_of_its_token() {
    let (server, issuer, stolen, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-agent-bot");
    let called = tokio::spawn(async move { agent.call("oracle__pay", json!({})).await });
    let next = TokenKey::new("next");
    let bearer = |key: &TokenKey, email: &str| key.token(&claims(&issuer, email, &["leads"]));
    let id = until("the call is held", || async {
        let token = bearer(&stolen, "lea@example.com");
        let listed = asks(&gate, "Authorization", &token, "/api/approvals").await;
        let listed: Value = serde_json::from_str(&listed.text()).unwrap();
        let id = listed.pointer("/approvals/0/id").and_then(Value::as_str);
        id.map(str::to_owned)
    })
    .await;
    let signed_in = async |key: &TokenKey, email: &str| {
        until("the key is known, and signs in", || async {
            let token = bearer(key, email);
            let entered = asks(&gate, "X-Proxy-Token", &token, "/login").await;
            let cookie = entered.header("set-cookie")?.split_once(';')?.0.to_owned();
            Some(cookie)
        })
        .await
    };
    let status = async |cookie: &str, path: &str| {
        let headers = [("Cookie", cookie), ("Accept", "text/html")];
        gate.asks_operators(("GET", path), &headers, "")
            .await
            .status
    };
    let thief = signed_in(&stolen, "lea@example.com").await;
    let page = format!("/approvals/{id}");
    assert_eq!(status(&thief, &page).await, 200);
    // A key that nobody knows yet leads to the fetch that shows what is withdrawn.
    issuer.answers(key_set(&[&next]));
    let sue = signed_in(&next, "sue@example.com").await;
    assert_ne!(status(&thief, &page).await, 200);
    let origin = format!("http://{}", gate.operators);
    let headers = [
        ("Cookie", thief.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Origin", origin.as_str()),
    ];
    let word = "decision=allow&why=x";
    let decided = gate.asks_operators(("POST", &page), &headers, word).await;
    assert_ne!(decided.status, 200, "{decided:?}");
    assert_eq!(server.executions().len(), 0);
    assert_eq!(status(&sue, &page).await, 200, "another key's stays");
    called.abort();
}

const BEFORE: &str = "leads: [approver], sre: [auditor, switch]";

/// What the files say of `issuer`, whose people's roles make these here.
fn entry_of(issuer: &TokenIssuer, roles: &str) -> String {
    let more = format!(
        ", claims: {{ name: email, roles: /groups }}, roles: {{ {roles} }}, header: X-Proxy-Token"
    );
    issuer.entry(&more).replace(AUDIENCE, CONSOLE)
}

fn configures(gate: &Gate, entries: &[String]) {
    let operators = format!("tokens: [], jwt: [ {} ]", entries.join(", "));
    gate.setup.clone().operators(&operators).write();
}

async fn is_answered(gate: &Gate, token: &str, wanted: u16) {
    until(&format!("it is answered {wanted}"), || async {
        let answer = asks(gate, "Authorization", token, "/api/tasks").await;
        (answer.status == wanted).then_some(())
    })
    .await;
}

/// Issue 20 "hot reload of all of it": issuers of operators, and which roles they give, are what the files say, without a
/// restart and without one failed request of an operator who has those roles all the time; the keys are fetched once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issuers_of_operators_come_and_go() {
    let (_server, issuer, key, gate) = stage().await;
    let other_key = TokenKey::new("other");
    let other = TokenIssuer::start(&other_key).await;
    let sue = key.token(&claims(&issuer, "sue@example.com", &["sre"]));
    let lea = key.token(&claims(&issuer, "lea@example.com", &["leads"]));
    let tom = other_key.token(&claims(&other, "tom@example.com", &["sre"]));
    for (token, status) in [(&sue, 200), (&lea, 403), (&tom, 401)] {
        is_answered(&gate, token, status).await;
    }
    let changes = async {
        let more = entry_of(&other, "sre: [auditor]");
        configures(&gate, &[entry_of(&issuer, BEFORE), more.clone()]);
        is_answered(&gate, &tom, 200).await;
        let with_role = BEFORE.replace("[approver]", "[approver, switch]");
        configures(&gate, &[entry_of(&issuer, &with_role)]);
        is_answered(&gate, &lea, 200).await;
        is_answered(&gate, &tom, 401).await;
        more
    };
    let mut asked = 0;
    let load = async {
        loop {
            let answer = asks(&gate, "Authorization", &sue, "/api/tasks").await;
            assert_eq!(answer.status, 200, "after {asked}: {answer:?}");
            asked += 1;
        }
    };
    let more = tokio::select! {
        more = changes => more,
        () = load => unreachable!(),
    };
    assert!(asked > 0);
    assert_eq!(issuer.fetches(), 1, "its keys are known still");
    configures(&gate, &[more]);
    is_answered(&gate, &sue, 401).await;
    let log = gate.log();
    assert!(!log.contains("restart to apply it"), "{log}");
}

/// A sign-in by an issuer of which the files say another thing ends, whatever else they say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_ends_with_what_is_said_of_its_issuer() {
    let (_server, issuer, key, gate) = stage().await;
    let sue = key.token(&claims(&issuer, "sue@example.com", &["sre"]));
    let entered = asks(&gate, "X-Proxy-Token", &sue, "/login?next=/approvals").await;
    let cookie = entered.header("set-cookie").unwrap_or_default().to_owned();
    let (cookie, _) = cookie.split_once(';').unwrap();
    let page = async || {
        let headers = [("Cookie", cookie), ("Accept", "text/html")];
        let page = gate
            .asks_operators(("GET", "/approvals"), &headers, "")
            .await;
        page.status
    };
    assert_eq!(page().await, 200);
    let lea = key.token(&claims(&issuer, "lea@example.com", &["leads"]));
    is_answered(&gate, &lea, 403).await;
    let with_role = BEFORE.replace("[approver]", "[approver, switch]");
    configures(&gate, &[entry_of(&issuer, &with_role)]);
    is_answered(&gate, &lea, 200).await;
    assert_ne!(page().await, 200);
}
