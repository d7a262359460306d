//! Tokens that stand for callers (RFC 8693): each is made of its caller's own, which goes nowhere else, and
//! is shown with that caller's calls alone.

use super::{done, runs};
use crate::harness::agent::Agent;
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::issuer::{TokenIssuer, TokenKey, now};
use crate::harness::scripted_server::{Offers, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::token_endpoint::{TokenEndpoint, TokenReply, TokenRequest};
use crate::harness::until;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const OWN_TOKEN: &str = "token-of-the-configured-bot";
const CLAIMS: &str = ", claims: { agent: azp, tenant: org, on_behalf_of: sub }";
/// The same, where nobody is named behind the agent.
const NAMELESS: &str = ", claims: { agent: azp, tenant: org }";

/// A gate before a server that is shown tokens of `endpoint`, for agents of `issuer`.
struct Stage {
    server: ScriptedServer,
    endpoint: TokenEndpoint,
    issuer: TokenIssuer,
    key: TokenKey,
    gate: Gate,
}

impl Stage {
    async fn with(modern: bool, exchange: &str, claims: &str) -> Self {
        let server = ScriptedServer::start(Offers {
            modern,
            legacy: !modern,
            tools: vec![tool("pay")],
            ..Offers::default()
        });
        let (server, endpoint) = (server.await, TokenEndpoint::start().await);
        server.answers(done);
        let key = TokenKey::new("first");
        let issuer = TokenIssuer::start(&key).await;
        let gate = setup(&server, &endpoint, exchange, &issuer.entry(claims));
        Self {
            gate: gate.start().await,
            server,
            endpoint,
            issuer,
            key,
        }
    }

    /// The token of `agent`, which acts for `user`.
    fn token(&self, agent: &str, user: &str) -> String {
        let mut claims = self.issuer.claims(agent);
        claims["sub"] = json!(user);
        self.key.token(&claims)
    }

    /// What was asked for callers.
    fn exchanges(&self) -> Vec<TokenRequest> {
        let asked = self.endpoint.asked().into_iter();
        asked
            .filter(|one| one.form.contains_key("subject_token"))
            .collect()
    }

    /// The headers and arguments of each call that the tool server saw.
    fn calls(&self) -> Vec<(Option<String>, Option<String>, Value)> {
        let seen = self.server.seen().into_iter();
        let calls = seen.filter(|seen| seen.method() == "tools/call");
        let header = |name: &str, seen: &crate::harness::scripted_server::Seen| {
            seen.header(name).map(str::to_owned)
        };
        calls
            .map(|seen| {
                let (token, session) = (
                    header("authorization", &seen),
                    header("mcp-session-id", &seen),
                );
                (
                    token,
                    session,
                    seen.body["params"]["arguments"]["whose"].clone(),
                )
            })
            .collect()
    }
}

fn setup(server: &ScriptedServer, endpoint: &TokenEndpoint, exchange: &str, issuer: &str) -> Setup {
    let oauth = endpoint.oauth(&format!(", exchange: {exchange}"));
    Setup::new()
        .server_with("oracle", &format!("url: \"{}\", {oauth}", server.url()))
        .contracts(&[("oracle__pay", "write")])
        .callers(&format!("  - {{ agent: own-bot, token: {OWN_TOKEN} }}\n"))
        .unwatched()
        .more(&format!("auth: {{ jwt: [ {issuer} ] }}"))
}

async fn pay(agent: &Agent, whose: &str) -> Answer {
    agent
        .call_beside("oracle__pay", json!({ "whose": whose }))
        .await
}

/// Whichever wire agent and server speak, and however calls come: the server sees for each caller a token
/// that was made of that caller's own, once; no session sees two; and nobody's own goes further than to
/// the endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_caller_is_shown_by_a_token_of_its_own() {
    for modern in [true, false] {
        let stage = Stage::with(modern, "{ subject_token_type: jwt }", CLAIMS).await;
        let (mut calls, mut tokens) = (Vec::new(), BTreeMap::new());
        for (agent, user) in [("ada-bot", "u1"), ("ada-bot", "u2"), ("bob-bot", "u1")] {
            let (token, whose) = (stage.token(agent, user), format!("{agent}:t_001:{user}"));
            let first = stage.gate.agent().token(&token);
            let second = first.initialized().await;
            for caller in [first, second] {
                for _ in 0..8 {
                    let (caller, whose) = (caller.at("/mcp"), whose.clone());
                    calls.push(async move { pay(&caller, &whose).await });
                }
            }
            tokens.insert(whose, token);
        }
        let answers = join_all(calls).await;
        assert!(answers.iter().all(Answer::is_done), "{answers:?}");
        let mut sessions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (token, session, whose) in stage.calls() {
            let (token, whose) = (token.unwrap(), whose.as_str().unwrap().to_owned());
            let (_, of) = token.split_once(':').unwrap();
            assert_eq!(of, whose, "{token}");
            if let Some(session) = session {
                sessions.entry(session).or_default().insert(whose);
            }
        }
        assert!(sessions.values().all(|of| of.len() == 1), "{sessions:?}");
        let exchanges = stage.exchanges();
        let subjects: BTreeSet<&String> = exchanges
            .iter()
            .map(|one| &one.form["subject_token"])
            .collect();
        assert_eq!(exchanges.len(), 3, "one for each caller");
        assert_eq!(subjects, tokens.values().collect());
        for one in &exchanges {
            let said = |name: &str| one.form[name].as_str();
            assert_eq!(
                said("grant_type"),
                "urn:ietf:params:oauth:grant-type:token-exchange"
            );
            assert_eq!(
                said("subject_token_type"),
                "urn:ietf:params:oauth:token-type:jwt"
            );
            assert_eq!(said("resource"), stage.server.url());
            assert!(one.basic.is_some());
        }
        for seen in stage.server.seen() {
            let headers = format!("{:?}", seen.headers);
            let leaks = |token: &String| seen.text.contains(token) || headers.contains(token);
            assert!(!tokens.values().any(leaks), "an agent's own token");
        }
        let log = stage.gate.log() + &format!("{:?}", stage.gate.ledger().await);
        let signatures = tokens
            .values()
            .map(|token| token.rsplit('.').next().unwrap());
        assert!(!signatures.into_iter().any(|one| log.contains(one)));
    }
}

/// Who brings no token of an issuer is refused before anything is sent, or is shown by toolgate's own
/// where that is configured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_brings_no_token_is_refused() {
    let stage = Stage::with(true, "{}", CLAIMS).await;
    let refused = pay(&stage.gate.agent().token(OWN_TOKEN), "own").await;
    assert_eq!(refused.refusal(), "upstream_unavailable", "{refused:?}");
    let words = refused.words();
    assert!(words.contains("in the name of its caller"), "{words}");
    assert_eq!(stage.server.executions(), 0);
    let token = stage.token("ada-bot", "u1");
    let served = pay(&stage.gate.agent().token(&token), "ada").await;
    assert!(
        served.is_done(),
        "the server is no worse for it: {served:?}"
    );
    let stage = Stage::with(true, "{ otherwise: client_credentials }", CLAIMS).await;
    assert!(
        pay(&stage.gate.agent().token(OWN_TOKEN), "own")
            .await
            .is_done()
    );
    let (token, ..) = stage.calls().remove(0);
    assert_eq!(token.as_deref(), Some("Bearer issued-1:own"));
}

/// What was made of a token is shown no longer than that token lasts, though the door lets it in for the
/// leeway of clocks; then the caller has to come with another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_outlives_the_token_it_was_made_of() {
    let stage = Stage::with(true, "{}", CLAIMS).await;
    let mut claims = stage.issuer.claims("ada-bot");
    claims["exp"] = json!(now() + 3);
    let agent = stage.gate.agent().token(&stage.key.token(&claims));
    assert!(pay(&agent, "ada").await.is_done());
    let refused = until("its token is over", || async {
        let (answer, ran) = (pay(&agent, "ada").await, stage.server.executions());
        (!answer.is_done()).then_some((answer, ran))
    });
    let (answer, ran) = refused.await;
    assert_eq!(answer.refusal(), "upstream_unavailable");
    assert!(answer.words().contains("own token"), "{answer:?}");
    assert_eq!(
        stage.exchanges().len(),
        1,
        "nothing is asked for it any more"
    );
    let again = stage
        .gate
        .agent()
        .token(&stage.token("ada-bot", "ada@example.com"));
    assert!(pay(&again, "ada").await.is_done());
    assert_eq!(stage.server.executions(), ran + 1);
    assert_eq!(stage.exchanges().len(), 2);
}

/// A session at the server that was begun in one name carries nothing of another, though both are one
/// agent here: what is refused is not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_in_no_other_name() {
    let stage = Stage::with(false, "{}", NAMELESS).await;
    let first = stage.gate.agent().token(&stage.token("ada-bot", "u1"));
    let session = first.initialized().await;
    assert!(pay(&session, "u1").await.is_done());
    let other = stage.token("ada-bot", "u2");
    let refused = pay(&session.token(&other), "u2").await;
    assert_eq!(refused.refusal(), "upstream_unavailable", "{refused:?}");
    assert!(refused.words().contains("in the name of another"));
    assert_eq!(stage.server.executions(), 1);
    let newer = stage.token("ada-bot", "u1");
    assert!(
        pay(&session.token(&newer), "u1").await.is_done(),
        "a newer token of the same"
    );
    let own = stage.gate.agent().token(&other).initialized().await;
    assert!(pay(&own, "u2").await.is_done());
    let names: Vec<String> = stage
        .calls()
        .into_iter()
        .map(|(token, ..)| token.unwrap().rsplit(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["u1", "u1", "u2"]);
}

/// An endpoint that gives one caller no token keeps no other from being served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_callers_failure_is_no_others() {
    let stage = Stage::with(true, "{}", CLAIMS).await;
    let served = stage.gate.agent().token(&stage.token("ada-bot", "u1"));
    assert!(pay(&served, "ada").await.is_done());
    let error = json!({ "error": "invalid_grant" }).to_string();
    stage.endpoint.answers(TokenReply::Said(400, error));
    let refused = pay(
        &stage.gate.agent().token(&stage.token("bob-bot", "u1")),
        "bob",
    )
    .await;
    assert_eq!(refused.refusal(), "upstream_unavailable", "{refused:?}");
    assert!(pay(&served, "ada").await.is_done());
    assert_eq!(stage.server.executions(), 2);
}

/// Without an issuer nobody could bring a token.
#[tokio::test]
async fn check_names_an_exchange_of_nothing() {
    let (server, endpoint) = (
        ScriptedServer::with(vec![tool("pay")]).await,
        TokenEndpoint::start().await,
    );
    let oauth = endpoint.oauth(", exchange: {}");
    let setup = Setup::new().server_with("oracle", &format!("url: \"{}\", {oauth}", server.url()));
    setup.write();
    let (status, out, err) = runs(&setup, "check").await;
    let said = format!("{out}{err}");
    assert_ne!(status, 0);
    assert!(
        said.contains("no caller comes with a token of an issuer"),
        "{said}"
    );
}
