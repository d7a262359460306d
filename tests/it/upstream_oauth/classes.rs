//! Headers that a tool server is shown with the requests of some callers: of each its own, in each
//! session one caller's.

use super::{done, runs};
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, ScriptedServer, tool};
use crate::harness::setup::Setup;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const CALLERS: &str = "  - { agent: ada-bot, token: token-of-the-first-bot, tenant: t_001 }
  - { agent: bob-bot, token: token-of-the-second-bot, group: support }
  - { agent: other-bot, token: token-of-the-other-bot }
";
const CLASSES: &str = "headers: { X-Api-Key: all }, headers_for: [ \
    { agents: [ada-bot], tenants: [t_001], headers: { X-Api-Key: of-ada } }, \
    { groups: [support], headers: { X-Api-Key: of-support, X-Desk: \"1\" } }, \
    { agents: [bob-bot], headers: { X-Api-Key: never } } ]";

fn setup(server: &ScriptedServer, members: &str) -> Setup {
    Setup::new()
        .server_with("oracle", &format!("url: \"{}\", {members}", server.url()))
        .contracts(&[("oracle__pay", "write")])
        .callers(CALLERS)
        .unwatched()
}

async fn server(modern: bool) -> ScriptedServer {
    let server = ScriptedServer::start(Offers {
        modern,
        legacy: !modern,
        tools: vec![tool("pay")],
        ..Offers::default()
    });
    let server = server.await;
    server.answers(done);
    server
}

/// Calls of all three, side by side, on both wires; each says whose it is.
async fn calls(gate: &Gate) {
    let mut all = Vec::new();
    for (agent, token) in [
        ("ada-bot", "token-of-the-first-bot"),
        ("bob-bot", "token-of-the-second-bot"),
        ("other-bot", "token-of-the-other-bot"),
    ] {
        let modern = gate.agent().token(token).header("X-Api-Key", "forged");
        let legacy = modern.initialized().await;
        for caller in [modern, legacy] {
            for _ in 0..8 {
                let caller = caller.at("/mcp");
                let call = async move {
                    let arguments = json!({ "whose": agent });
                    caller.call_beside("oracle__pay", arguments).await
                };
                all.push(call);
            }
        }
    }
    let answers = join_all(all).await;
    assert!(answers.iter().all(Answer::is_done), "{answers:?}");
}

/// Whichever wire agent and server speak, and however calls come, each carries what belongs to its own
/// caller; no session carries what belongs to two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_caller_is_shown_by_its_own_headers() {
    for modern in [true, false] {
        let server = server(modern).await;
        let gate = setup(&server, CLASSES).start().await;
        calls(&gate).await;
        let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut sessions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for seen in server.seen() {
            if seen.method() != "tools/call" {
                continue;
            }
            let whose = &seen.body["params"]["arguments"]["whose"];
            let key = seen.header("x-api-key").unwrap().to_owned();
            let all = seen.headers.get_all("x-api-key").iter().count();
            assert_eq!(all, 1);
            assert_eq!(seen.header("x-desk").is_some(), whose == "bob-bot");
            if let Some(session) = seen.header("mcp-session-id") {
                let of_session = sessions.entry(session.to_owned()).or_default();
                of_session.insert(key.clone());
            }
            let of_caller = keys.entry(whose.as_str().unwrap().to_owned()).or_default();
            of_caller.insert(key);
        }
        let expected = [
            ("ada-bot", "of-ada"),
            ("bob-bot", "of-support"),
            ("other-bot", "all"),
        ];
        let expected = expected.map(|(whose, key)| (whose.to_owned(), [key.to_owned()].into()));
        assert_eq!(keys, expected.into());
        assert!(
            sessions.values().all(|keys| keys.len() == 1),
            "{sessions:?}"
        );
        assert_eq!(sessions.is_empty(), modern);
    }
}

/// A class that nobody is of, or that shows nothing, is a mistake.
#[tokio::test]
async fn check_names_classes_of_nobody() {
    let server = server(true).await;
    let members = "headers_for: [ { agents: [adabot], headers: { X-Api-Key: k } }, { headers: { X-Api-Key: k } }, \
                   { groups: [support], headers: {} }, { groups: [nobodys], headers: { X-Api-Key: k } } ]";
    let setup = setup(&server, members);
    setup.write();
    let (status, out, err) = runs(&setup, "check").await;
    let said = format!("{out}{err}");
    assert_ne!(status, 0);
    for words in [
        "no caller is called `adabot`",
        "names no callers",
        "names no header",
        "no caller is of the group `nobodys`",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
