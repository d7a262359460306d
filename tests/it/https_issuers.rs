//! Identity providers behind TLS, as they are everywhere but in tests: their keys and tokens are fetched where the machine
//! believes their certificates, and nowhere else (threat-model §3F F6).

use crate::harness::doors::{Authority, place};
use crate::harness::issuer::{TokenIssuer, TokenKey};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::tls_front::TlsFront;
use crate::harness::token_endpoint::TokenEndpoint;
use serde_json::json;

const OWN_TOKEN: &str = "token-of-the-configured-bot";

async fn server() -> ScriptedServer {
    let server = ScriptedServer::with(vec![tool("mark")]).await;
    let done = json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" });
    server.answers(move |_| Reply::Result(done.clone()));
    server
}

/// A toolgate that believes the certificates of `authority` alone.
fn setup(server: &ScriptedServer, members: &str, authority: &Authority) -> Setup {
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"{members}", server.url()))
        .contracts(&[("oracle__mark", "read")])
        .callers(&format!("  - {{ agent: own-bot, token: {OWN_TOKEN} }}\n"))
        .unwatched();
    place(setup.directory(), "roots.pem", &authority.pem);
    let roots = setup.directory().join("roots.pem");
    setup.environment("SSL_CERT_FILE", roots.to_str().unwrap())
}

/// An issuer's keys.
#[tokio::test]
async fn keys_come_from_who_shows_a_certificate_that_counts() {
    let (server, key) = (server().await, TokenKey::new("first"));
    let [ours, foreign] = [Authority::new(), Authority::new()];
    for (authority, is_believed) in [(&ours, true), (&foreign, false)] {
        let issuer = TokenIssuer::start(&key).await;
        let front = TlsFront::before(issuer.address, authority).await;
        let plain = format!("jwks_url: \"http://{}", issuer.address);
        let entry = issuer.entry(", claims: { agent: azp }, group: support");
        let entry = entry.replace(&plain, &format!("jwks_url: \"https://{}", front.address));
        let auth =
            format!("auth: {{ public_url: \"https://tools.example.com\", jwt: [ {entry} ] }}");
        let gate = setup(&server, "", &ours).more(&auth).start().await;
        let agent = gate.agent().token(&key.token(&issuer.claims("bot")));
        let answer = agent.anew_call("oracle__mark", json!({})).await;
        assert_eq!(answer.is_done(), is_believed, "{answer:?}");
        let status = if is_believed { 200 } else { 503 };
        assert_eq!(
            answer.status, status,
            "an agent keeps its token: {answer:?}"
        );
        assert_eq!(issuer.fetches() > 0, is_believed, "nothing was asked");
        let log = gate.log();
        assert_eq!(log.contains("certificate"), !is_believed, "{log}");
    }
}

/// Tokens for a tool server: to who shows another certificate, no secret goes.
#[tokio::test]
async fn a_secret_goes_to_who_shows_a_certificate_that_counts() {
    let server = server().await;
    let [ours, foreign] = [Authority::new(), Authority::new()];
    for (authority, is_believed) in [(&ours, true), (&foreign, false)] {
        let endpoint = TokenEndpoint::start().await;
        let front = TlsFront::before(endpoint.address, authority).await;
        let plain = format!("http://{}", endpoint.address);
        let oauth = endpoint.oauth("");
        let oauth = oauth.replace(&plain, &format!("https://{}", front.address));
        let gate = setup(&server, &format!(", {oauth}"), &ours).start().await;
        let agent = gate.agent().token(OWN_TOKEN);
        let answer = agent.call_beside("oracle__mark", json!({})).await;
        assert_eq!(answer.is_done(), is_believed, "{answer:?}");
        assert_eq!(endpoint.asked().len(), usize::from(is_believed));
        let called = server.seen().into_iter();
        let called = called.filter(|seen| seen.method() == "tools/call").count();
        assert_eq!(called, 1, "nothing is called without a token");
    }
}
