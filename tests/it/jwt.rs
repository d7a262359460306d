//! Agents whom an identity provider names: who is let in by a token, and for what each of the others
//! is not (issue 20 "who calls"; threat-model §3F F6, F9).

mod configured;
mod held;
mod keys;
mod operators;

use crate::harness::agent::Agent;
use crate::harness::answer::{Answer, code, exchange, get};
use crate::harness::gate::Gate;
use crate::harness::issuer::{TokenIssuer, TokenKey, now};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};

const PUBLIC: &str = "https://tools.example.com";
const CLAIMS: &str =
    ", claims: { agent: azp, tenant: org, roles: /roles, on_behalf_of: sub }, group: support";
const OWN_TOKEN: &str = "token-of-the-configured-bot";

/// A tool server with one tool that is read and needs a teller's role.
async fn server() -> ScriptedServer {
    let server = ScriptedServer::with(vec![tool("mark")]).await;
    let done = json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" });
    server.answers(move |_| Reply::Result(done.clone()));
    server
}

fn setup(server: &ScriptedServer, auth: &str) -> Setup {
    Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", server.url()))
        .policy("contracts:\n  oracle__mark: { purpose: a test, actions: [read], secrets: [], permission: { roles: [teller] } }\n")
        .callers(&format!("  - {{ agent: own-bot, token: {OWN_TOKEN}, roles: [teller] }}\n"))
        .unwatched()
        .more(auth)
}

fn auth(entries: &[String]) -> String {
    format!(
        "auth: {{ public_url: \"{PUBLIC}\", jwt: [ {} ] }}",
        entries.join(", ")
    )
}

/// A gate that takes the tokens of one issuer, with the key that signs them.
async fn stage() -> (ScriptedServer, TokenIssuer, TokenKey, Gate) {
    let (server, key) = (server().await, TokenKey::new("first"));
    let issuer = TokenIssuer::start(&key).await;
    let gate = setup(&server, &auth(&[issuer.entry(CLAIMS)])).start().await;
    (server, issuer, key, gate)
}

async fn mark(agent: &Agent) -> Answer {
    agent.anew_call("oracle__mark", json!({})).await
}

/// What is said of why a token was not taken.
fn challenge(answer: &Answer) -> String {
    answer
        .header("www-authenticate")
        .unwrap_or_default()
        .to_owned()
}

/// A token lets in whom it names, the ledger says who has issued it and for whom, and it goes no
/// further: not to the tool server, not into a log, not into a record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_lets_in_whom_it_names() {
    let (server, issuer, key, gate) = stage().await;
    let token = key.token(&issuer.claims("support-bot"));
    let agent = gate.agent().token(&token);
    assert!(mark(&agent).await.is_done());
    let legacy = agent.initialized().await;
    assert!(mark(&legacy).await.is_done());
    assert!(
        mark(&gate.agent().token(OWN_TOKEN)).await.is_done(),
        "beside tokens of the configuration"
    );
    let fetches = issuer.fetches();
    for _ in 0..20 {
        assert!(mark(&agent).await.is_done());
    }
    assert_eq!(issuer.fetches(), fetches, "no call asks the issuer");
    for seen in server.seen() {
        assert_eq!(seen.header("authorization"), None);
        assert!(!seen.text.contains(&token) && !format!("{:?}", seen.headers).contains(&token));
    }
    let entries = gate.entries(23).await;
    let of_token: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["issuer"] == issuer.name())
        .collect();
    assert_eq!(of_token.len(), 22);
    for entry in of_token {
        assert_eq!(
            (
                &entry["subject"],
                &entry["user_id"],
                &entry["agent_id"],
                &entry["tenant_id"]
            ),
            (
                &json!("ada@example.com"),
                &json!("ada@example.com"),
                &json!("support-bot"),
                &json!("t_001")
            )
        );
    }
    let own = entries.iter().filter(|entry| entry["user_id"] == "own-bot");
    assert!(own.clone().count() == 1 && own.clone().all(|entry| entry["issuer"].is_null()));
    let signature = token.rsplit('.').next().unwrap();
    assert!(!gate.log().contains(signature));
    let data = gate.path("data");
    let setup = gate.stop().await;
    for file in files(&data) {
        let bytes = std::fs::read(&file).unwrap();
        let is_there = bytes
            .windows(signature.len())
            .any(|part| part == signature.as_bytes());
        assert!(!is_there, "{}", file.display());
    }
    drop(setup);
}

fn files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Tokens whose header no token has that is taken, and what is said of each.
fn by_their_header(key: &TokenKey, good: &Value) -> Vec<(String, &'static str)> {
    let header = |header: Value| key.signed(&header, good);
    let unsigned = header(json!({ "alg": "none" }));
    let unsigned = unsigned[..=unsigned.rfind('.').unwrap()].to_owned();
    let algorithm = "signed by an algorithm that is not taken";
    let critical = json!({ "alg": "ES256", "kid": "first", "crit": ["x"], "x": 1 });
    vec![
        (unsigned, "the token is not signed"),
        (header(json!({ "alg": "HS256", "kid": "first" })), algorithm),
        (header(json!({ "alg": "ES384", "kid": "first" })), algorithm),
        (header(critical), "an extension that is not understood"),
        (
            TokenKey::new("first").token(good),
            "not by a key of its issuer",
        ),
        (
            "not-a-token-of-anything".to_owned(),
            "not in the configuration",
        ),
    ]
}

/// The same of their claims.
fn by_their_claims(key: &TokenKey, good: &Value) -> Vec<(String, &'static str)> {
    let claims = [
        (
            "aud",
            json!("https://other.example.com"),
            "for another audience",
        ),
        (
            "iss",
            json!("https://other.example.com"),
            "issuer is not known here",
        ),
        ("exp", json!(now() - 60), "has expired"),
        ("exp", Value::Null, "is no JWT"),
        ("nbf", json!(now() + 600), "not valid yet"),
        ("org", Value::Null, "lacks a claim"),
        ("azp", json!("own-bot"), "may not name here"),
        ("more", json!("m".repeat(16 << 10)), "longer than 16 KiB"),
    ];
    let tokens = claims.into_iter().map(|(name, value, words)| {
        let mut claims = good.clone();
        claims[name] = value;
        (key.token(&claims), words)
    });
    tokens.collect()
}

/// Each token that is not taken is refused with words of its own, in the form that agents know
/// (RFC 6750), and none of the words is the token's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refusal_says_why() {
    let (server, issuer, key, gate) = stage().await;
    let good = issuer.claims("support-bot");
    let metadata = format!("{PUBLIC}/.well-known/oauth-protected-resource/mcp");
    let cases = [by_their_header(&key, &good), by_their_claims(&key, &good)];
    for (token, words) in cases.concat() {
        let refused = mark(&gate.agent().token(&token)).await;
        let said = challenge(&refused);
        assert_eq!(refused.status, 401, "{words}: {refused:?}");
        let expected = format!(
            "Bearer resource_metadata=\"{metadata}\", error=\"invalid_token\", error_description=\""
        );
        assert!(
            said.starts_with(&expected) && said.contains(words),
            "{words}: {said}"
        );
        assert!(!refused.text().contains(&token) && !said.contains(&token));
    }
    let unnamed = mark(&gate.agent()).await;
    let expected = format!("Bearer resource_metadata=\"{metadata}\"");
    assert_eq!((unnamed.status, challenge(&unnamed)), (401, expected));
    let there = mark(&gate.agent().at("oracle")).await;
    assert!(challenge(&there).contains("/.well-known/oauth-protected-resource/mcp/oracle\""));
    assert_eq!(server.executions(), 0);
    let expired = "toolgate_refused_tokens_total{reason=\"expired\"}";
    assert!(gate.metric(expired).await >= 1.0);
    // A role that the contract asks for is the policy's to refuse, as for every caller.
    let mut poor = good;
    poor["roles"] = json!([]);
    let agent = gate.agent().token(&key.token(&poor));
    let refused = agent.call("oracle__mark", json!({})).await;
    assert_eq!(code(&refused).as_deref(), Some("rbac_denied"));
}

/// A token of one issuer is none of another, though both name the same key; one that lacks a scope is
/// answered 403, so that its agent asks for the scope and not for a new sign-in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issuers_and_scopes_are_told_apart() {
    let (server, ours, theirs) = (server().await, TokenKey::new("same"), TokenKey::new("same"));
    let (first, second) = (
        TokenIssuer::start(&ours).await,
        TokenIssuer::start(&theirs).await,
    );
    let scoped = format!("{CLAIMS}, scopes: [\"mcp:call\"], agents: [second-bot]");
    let entries = [first.entry(CLAIMS), second.entry(&scoped)];
    let gate = setup(&server, &auth(&entries)).start().await;
    let at = |key: &TokenKey, claims: &Value| gate.agent().token(&key.token(claims));
    assert!(mark(&at(&ours, &first.claims("first-bot"))).await.is_done());
    let forged = mark(&at(&theirs, &first.claims("first-bot"))).await;
    assert!(
        challenge(&forged).contains("not by a key of its issuer"),
        "{forged:?}"
    );
    let named = mark(&at(&ours, &first.claims("second-bot"))).await;
    assert!(challenge(&named).contains("may not name here"), "{named:?}");
    let lacking = mark(&at(&theirs, &second.claims("second-bot"))).await;
    assert_eq!(lacking.status, 403, "{lacking:?}");
    let said = challenge(&lacking);
    assert!(
        said.contains("error=\"insufficient_scope\"") && said.contains("scope=\"mcp:call\""),
        "{said}"
    );
    let counted = "toolgate_refused_messages_total{reason=\"scope\"}";
    assert!(gate.metric(counted).await >= 1.0);
    let mut claims = second.claims("second-bot");
    claims["scope"] = json!("other mcp:call");
    assert!(mark(&at(&theirs, &claims)).await.is_done());
}

/// RFC 9728: where an agent gets a token is said at the configured address, whatever `Host` says;
/// without issuers, or for what is not served, there is nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_name_the_configured_address() {
    let (server, issuer, _key, gate) = stage().await;
    let at = "/.well-known/oauth-protected-resource";
    for (path, resource) in [("", ""), ("/mcp", "/mcp"), ("/mcp/oracle", "/mcp/oracle")] {
        let answer = get(gate.agents, &format!("{at}{path}")).await.unwrap();
        let said: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(
            said,
            json!({
                "resource": format!("{PUBLIC}{resource}"), "authorization_servers": [issuer.name()],
                "scopes_supported": [], "bearer_methods_supported": ["header"],
            })
        );
    }
    for path in ["/mcp/other", "/other", "x", "/mcp/"] {
        let answer = get(gate.agents, &format!("{at}{path}")).await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
    }
    let foreign = format!("GET {at} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    let foreign = exchange(gate.agents, foreign.into_bytes()).await.unwrap();
    assert!(foreign.status == 403 && !foreign.text().contains("authorization_servers"));
    let plain = setup(&server, "").start().await;
    assert_eq!(get(plain.agents, at).await.unwrap().status, 404);
    let refused = mark(&plain.agent()).await;
    assert_eq!(
        (refused.status, challenge(&refused).as_str()),
        (401, "Bearer")
    );
}

/// A changed `auth` is in force without a restart and without a failed call; a broken one leaves the
/// old one in force.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_takes_up_issuers() {
    let (server, key) = (server().await, TokenKey::new("first"));
    let issuer = TokenIssuer::start(&key).await;
    let gate = setup(&server, "auth: {}").start().await;
    let (own, by_token) = (
        gate.agent().token(OWN_TOKEN),
        gate.agent()
            .token(&key.token(&issuer.claims("support-bot"))),
    );
    assert_eq!(mark(&by_token).await.status, 401);
    let put = |auth: &str| {
        gate.setup.clone().instead("auth: {}", auth).write();
        gate.hang_up();
    };
    put(&auth(&[issuer.entry(CLAIMS)]));
    until("the issuer is in force", || async {
        assert!(mark(&own).await.is_done());
        mark(&by_token).await.is_done().then_some(())
    })
    .await;
    put(&auth(&["{ issuer: broken }".to_owned()]));
    until("the broken one is seen", || async {
        (gate.metric("toolgate_policy_stale").await > 0.0).then_some(())
    })
    .await;
    assert!(mark(&own).await.is_done() && mark(&by_token).await.is_done());
    let session = by_token.initialized().await;
    assert!(mark(&session).await.is_done());
    let age = format!(
        "toolgate_issuer_keys_age_seconds{{issuer=\"{}\"}}",
        issuer.name()
    );
    assert!(gate.operators("/metrics").await.contains(&age));
    put("auth: {}");
    until("the issuer is gone", || async {
        assert!(mark(&own).await.is_done());
        (mark(&by_token).await.status == 401).then_some(())
    })
    .await;
    until("no alert can be about its keys", || async {
        let metrics = gate.operators("/metrics").await;
        (!metrics.contains(&age)).then_some(())
    })
    .await;
    assert_eq!(
        mark(&session).await.status,
        401,
        "nor does its session go on"
    );
}
