//! Tool servers that want tokens: where they come from, how often they are fetched, and what becomes of a
//! call while there is none (protocol §7, threat-model §3F F6, F7).

mod classes;
mod exchange;

use crate::harness::agent::Agent;
use crate::harness::answer::Answer;
use crate::harness::gate::{Gate, runs};
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Setup;
use crate::harness::token_endpoint::{CLIENT, CLIENT_SECRET, TokenEndpoint, TokenReply};
use crate::harness::until;
use futures_util::future::join_all;
use serde_json::json;

const OWN_TOKEN: &str = "token-of-the-configured-bot";

fn done(_: &Seen) -> Reply {
    Reply::Result(
        json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" }),
    )
}

/// A tool server with a tool that changes something, and one that is only read.
async fn server() -> ScriptedServer {
    let server = ScriptedServer::with(vec![tool("pay"), tool("look")]).await;
    server.answers(done);
    server
}

fn setup(server: &ScriptedServer, members: &str) -> Setup {
    let members = format!("url: \"{}\", {members}", server.url());
    Setup::new()
        .server_with("oracle", &members)
        .contracts(&[("oracle__pay", "write"), ("oracle__look", "read")])
        .callers(&format!("  - {{ agent: own-bot, token: {OWN_TOKEN} }}\n"))
        .unwatched()
}

async fn pay(agent: &Agent) -> Answer {
    agent.call_beside("oracle__pay", json!({})).await
}

async fn look(agent: &Agent) -> Answer {
    agent.call_beside("oracle__look", json!({})).await
}

/// What the tool server was shown with each call, in order.
fn shown(server: &ScriptedServer) -> Vec<String> {
    let calls = server.seen().into_iter();
    let calls = calls.filter(|seen| seen.method() == "tools/call");
    calls
        .map(|seen| seen.header("authorization").unwrap_or_default().to_owned())
        .collect()
}

/// However many calls there are, and however they come, one token is fetched, in the form of RFC 6749, and
/// no call carries the agent's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_token_serves_all_calls() {
    let (server, endpoint) = (server().await, TokenEndpoint::start().await);
    let oauth = endpoint.oauth(", scopes: [pay, look]");
    let gate = setup(&server, &oauth).start().await;
    let agent = gate.agent().token(OWN_TOKEN);
    let calls = join_all((0..50).map(|_| pay(&agent))).await;
    assert!(calls.iter().all(Answer::is_done));
    let legacy = agent.initialized().await;
    let calls = join_all((0..50).map(|_| look(&legacy))).await;
    assert!(calls.iter().all(Answer::is_done));
    let asked = endpoint.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let expected = [
        ("grant_type", "client_credentials"),
        ("resource", &server.url()),
        ("scope", "pay look"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(asked[0].form, expected.into());
    let proof = (CLIENT.to_owned(), CLIENT_SECRET.to_owned());
    assert_eq!(asked[0].basic, Some(proof));
    let shown = shown(&server);
    assert_eq!(shown.len(), 100);
    assert!(shown.iter().all(|one| one == "Bearer issued-1:own"));
    for seen in server.seen() {
        assert!(
            !seen.text.contains(OWN_TOKEN) && !format!("{:?}", seen.headers).contains(OWN_TOKEN)
        );
    }
    let series = "toolgate_server_token_fetches_total{server=\"oracle\",outcome=\"fetched\"}";
    let fetched = gate.metric(series).await;
    assert!((fetched - 1.0).abs() < f64::EPSILON, "{fetched}");
}

/// Name and secret stand in the form where that is configured, `resource` and `audience` as they are
/// configured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_endpoint_is_asked_as_configured() {
    let (server, endpoint) = (server().await, TokenEndpoint::start().await);
    let oauth = endpoint.oauth(", auth: post, resource: \"\", audience: billing");
    let gate = setup(&server, &oauth).start().await;
    assert!(pay(&gate.agent().token(OWN_TOKEN)).await.is_done());
    let asked = endpoint.asked();
    let expected = [
        ("audience", "billing"),
        ("client_id", CLIENT),
        ("client_secret", CLIENT_SECRET),
        ("grant_type", "client_credentials"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(asked[0].form, expected.into());
    assert_eq!(asked[0].basic, None);
}

/// A token that ends is fetched anew, and no call is refused for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_ends_is_fetched_anew() {
    let (server, endpoint) = (server().await, TokenEndpoint::start().await);
    endpoint.answers(TokenReply::Tokens(Some(2)));
    let gate = setup(&server, &endpoint.oauth("")).start().await;
    let agent = gate.agent().token(OWN_TOKEN);
    until("a third token is shown", || async {
        let answer = pay(&agent).await;
        assert!(answer.is_done(), "{answer:?}");
        let last = shown(&server).pop().unwrap();
        (last != "Bearer issued-1:own" && last != "Bearer issued-2:own").then_some(())
    })
    .await;
    let tokens: std::collections::BTreeSet<String> = shown(&server).into_iter().collect();
    assert!(tokens.len() <= endpoint.asked().len());
}

/// A gate whose tokens end at once, and that has been served by one.
async fn short_lived(server: &ScriptedServer, endpoint: &TokenEndpoint) -> (Gate, Agent) {
    endpoint.answers(TokenReply::Tokens(Some(1)));
    let gate = setup(server, &endpoint.oauth("")).start().await;
    let agent = gate.agent().token(OWN_TOKEN);
    (gate, agent)
}

/// Calls until one is refused; nothing of that one has reached the tool server.
async fn refused(server: &ScriptedServer, agent: &Agent) -> Answer {
    until("a call is refused", || async {
        let before = server.executions();
        let answer = pay(agent).await;
        if answer.is_done() {
            return None;
        }
        assert_eq!(answer.refusal(), "upstream_unavailable", "{answer:?}");
        assert_eq!(server.executions(), before, "nothing was sent");
        Some(answer)
    })
    .await
}

/// While no token can be had, nothing is sent: the call is refused, the log says why, in the words of RFC
/// 6749 and in none of the endpoint's own. Afterwards it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_token_nothing_is_sent() {
    let (server, endpoint) = (server().await, TokenEndpoint::start().await);
    let (gate, agent) = short_lived(&server, &endpoint).await;
    let echo = json!({
        "error": "invalid_client",
        "error_description": format!("{CLIENT_SECRET} is not the secret"),
    });
    endpoint.answers(TokenReply::Said(401, echo.to_string()));
    let answer = refused(&server, &agent).await;
    assert!(answer.words().contains("nothing was sent"), "{answer:?}");
    let asked = endpoint.asked().len();
    for _ in 0..50 {
        pay(&agent).await;
    }
    assert!(
        endpoint.asked().len() < asked + 25,
        "an endpoint that fails is left alone"
    );
    endpoint.answers(TokenReply::Tokens(Some(3600)));
    until("calls are served again", || async {
        pay(&agent).await.is_done().then_some(())
    })
    .await;
    let log = gate.log();
    assert!(log.contains("invalid_client"), "{log}");
    assert!(!log.contains(CLIENT_SECRET) && !log.contains("is not the secret"));
    let ledger = format!("{:?}", gate.ledger().await);
    assert!(!ledger.contains(CLIENT_SECRET) && !ledger.contains("issued-"));
}

/// What a token endpoint does besides answering has an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_cannot_hold_toolgate_up() {
    for (reply, words) in [
        (TokenReply::Never, "no answer within 5s"),
        (TokenReply::Endless, "is longer than 65536 bytes"),
        (TokenReply::Redirects, "the status is 307"),
        (
            TokenReply::Said(
                200,
                "{\"access_token\":\"a b\",\"token_type\":\"Bearer\"}".to_owned(),
            ),
            "has a token that no header can carry",
        ),
        (
            TokenReply::Said(
                200,
                "{\"access_token\":\"a\",\"token_type\":\"mac\"}".to_owned(),
            ),
            "is of another `token_type` than Bearer",
        ),
    ] {
        let (server, endpoint) = (server().await, TokenEndpoint::start().await);
        let (gate, agent) = short_lived(&server, &endpoint).await;
        endpoint.answers(reply);
        refused(&server, &agent).await;
        until(words, || async { gate.log().contains(words).then_some(()) }).await;
        assert_eq!(endpoint.followed(), 0);
    }
}

/// Takes no token but the second.
fn only_the_second(seen: &Seen) -> Reply {
    match seen.header("authorization") {
        Some("Bearer issued-2:own") => done(seen),
        _ => Reply::Status(401),
    }
}

/// A tool server that takes a token no more is shown another: with a read that may be sent again, with a
/// side effect never, for a status is no proof (guarantees §4).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_not_taken_is_fetched_anew() {
    for changes in [false, true] {
        let (server, endpoint) = (server().await, TokenEndpoint::start().await);
        server.answers(only_the_second);
        let gate = setup(&server, &endpoint.oauth("")).start().await;
        let agent = gate.agent().token(OWN_TOKEN);
        if changes {
            assert_eq!(pay(&agent).await.refusal(), "outcome_unknown");
            assert_eq!(server.executions(), 1, "it was sent once");
            let next = agent.call_beside("oracle__pay", json!({ "n": 2 })).await;
            assert!(next.is_done(), "another one has another token: {next:?}");
        } else {
            assert!(look(&agent).await.is_done());
        }
        assert_eq!(
            shown(&server),
            ["Bearer issued-1:own", "Bearer issued-2:own"]
        );
        assert_eq!(endpoint.asked().len(), 2);
    }
}

/// A tool server that takes no token at all has none fetched for each call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_cannot_have_tokens_fetched_for_each_call() {
    let (server, endpoint) = (server().await, TokenEndpoint::start().await);
    server.answers(|_| Reply::Status(401));
    let gate = setup(&server, &endpoint.oauth("")).start().await;
    let agent = gate.agent().token(OWN_TOKEN);
    let began = std::time::Instant::now();
    for _ in 0..30 {
        assert!(!look(&agent).await.is_done());
    }
    let most = 2 + began.elapsed().as_secs() / 5;
    assert!(endpoint.asked().len() as u64 <= most, "{most}");
}

/// `check` says where a mistake is and what to do about it.
#[tokio::test]
async fn check_names_what_cannot_be_meant() {
    let (server, endpoint) = (server().await, TokenEndpoint::start().await);
    let oauth = endpoint.oauth(", scopes: [\"a b\"]");
    let members = format!("headers: {{ Authorization: \"Bearer x\" }}, {oauth}");
    let setup = setup(&server, &members);
    setup.write();
    let (status, out, err) = runs(&setup, "check").await;
    let said = format!("{out}{err}");
    assert_ne!(status, 0);
    for words in ["stands beside `oauth`", "is no scope"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains(CLIENT_SECRET), "{said}");
}

/// What `check` says of a mistake repeats no secret, and a secret that others may read is warned of.
#[tokio::test]
async fn check_repeats_no_secret() {
    let (server, endpoint) = (server().await, TokenEndpoint::start().await);
    let wrong = "oauth: { token_url: \"http://login.example.com/token?key=of-the-address\", client_id: gate, \
                 client_secret: \" written-out-secret\" }";
    for (oauth, expected) in [
        (
            wrong,
            [
                "is no address to send a secret to",
                "is empty, or has blanks around it",
            ],
        ),
        (
            endpoint.oauth("").as_str(),
            ["a secret is written out here"; 2],
        ),
    ] {
        let members = format!("url: \"{}\", {oauth}", server.url());
        let setup = Setup::new()
            .server_with("oracle", &members)
            .contracts(&[("oracle__pay", "write")]);
        let path = setup.write();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .unwrap();
        let (_, out, err) = runs(&setup, "check").await;
        let said = format!("{out}{err}");
        for words in expected {
            assert!(said.contains(words), "{said}");
        }
        for secret in ["written-out-secret", "of-the-address", CLIENT_SECRET] {
            assert!(!said.contains(secret), "{said}");
        }
    }
}
