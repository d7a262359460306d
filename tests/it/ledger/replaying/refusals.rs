//! What is not replayed, and why; and that no server of the configuration hears of it.

use super::{FULL, Made, made, made_in, policy, says, server};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::{Value, json};

async fn refused(made: &Made, words: &str, expected: &str) {
    let (status, out, err) = made.replay(words).await;
    assert_eq!((status, out.as_str()), (2, ""), "{words}: {err}");
    assert!(err.contains(expected), "{words}: {err}");
}

/// An address of this machine that is no loopback, if it has one; nothing is sent.
fn elsewhere() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("198.51.100.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// 004-51: a sandbox that is a server of the configuration, however it is spelt, or toolgate in front
/// of it, gets nothing.
#[tokio::test]
async fn the_server_itself_is_no_sandbox() {
    let own = server(says("paid")).await;
    let (url, local) = (own.url(), own.url().replace("127.0.0.1", "localhost"));
    let listen = "127.0.0.1:17923".parse().unwrap();
    let setup = Setup::new()
        .server("bank", &own)
        .policy(&policy(FULL))
        .listen(listen);
    let made = made_in(setup, own, "bank__pay", json!({ "amount": 1 })).await;
    let mut spellings = vec![
        url.clone(),
        local,
        format!("{url}/"),
        format!("{url}?env=test"),
    ];
    spellings.extend(elsewhere().map(|address| url.replace("127.0.0.1", &address)));
    for url in &spellings {
        let words = format!("--sandbox {url}");
        refused(
            &made,
            &words,
            "the sandbox is the server `bank` of the configuration: name another",
        )
        .await;
        // It changes something: no word of the operator sends it there again.
        refused(
            &made,
            &format!("{words} --same-server"),
            "the call does not only read",
        )
        .await;
    }
    let words = "--sandbox bank --sandbox-config toolgate.yaml";
    refused(&made, words, "the sandbox is the server `bank`").await;
    refused(
        &made,
        "--sandbox http://localhost:17923/mcp",
        "the sandbox is toolgate itself",
    )
    .await;
    assert_eq!(made.own.executions().len(), 1);
}

/// 004-51: a call that only reads may go to its own server again, when that is said.
#[tokio::test]
async fn reads_may_go_to_their_own_server() {
    let made = made("bank__look", FULL, says("5")).await;
    let words = format!("--sandbox {}", made.own.url());
    refused(&made, &words, "with --same-server").await;
    let line = format!(
        "ledger replay {} --config toolgate.yaml {words} --same-server",
        made.id
    );
    let (status, out, err) = crate::harness::gate::runs(&made.setup, &line).await;
    assert_eq!(status, 0, "{out}{err}");
    assert_eq!(made.own.executions().len(), 2);
    // What its contract says now counts as well as what it said then.
    let writes = contract("bank__look", "write", FULL);
    let changed = format!(
        "contracts:\n  bank__look: {writes}\n{}\n",
        undo("bank__look")
    );
    let setup = made.setup.clone().policy(&changed);
    let made = Made { setup, ..made };
    made.setup.write();
    refused(
        &made,
        &format!("{words} --same-server"),
        "the call does not only read",
    )
    .await;
}

/// 004-51: without its arguments, without an answer, and with secrets in it no call is replayed, and
/// the operator reads what would help.
#[tokio::test]
async fn what_cannot_be_replayed_is_told() {
    let sandbox = server(says("paid")).await;
    let words = format!("--sandbox {}", sandbox.url());
    for (audit, expected) in [
        (
            ", audit: digest",
            "`audit: full` in the tool's contract keeps",
        ),
        (", audit: redacted", "it is kept as `redacted`"),
    ] {
        let made = made("bank__pay", audit, says("paid")).await;
        refused(&made, &words, expected).await;
        let other = format!("{words} --arguments {{\"amount\":6}}");
        refused(&made, &other, "these are not the arguments that were sent").await;
        let (status, out, _) = made.replay("--dry-run").await;
        assert_eq!(status, 1, "{out}");
        assert!(
            out.contains("undecided") && out.contains("nor could --sandbox send it"),
            "{out}"
        );
    }
    let made = made("bank__pay", FULL, Behaviour::HangsUp).await;
    refused(
        &made,
        &words,
        "the ledger has no answer to the call (unknown)",
    )
    .await;
    let unknown = Made {
        id: "no-such-id".to_owned(),
        ..made
    };
    refused(
        &unknown,
        &words,
        "no call's action id begins or ends with no-such-id",
    )
    .await;
    let (status, out, err) = unknown.replay(&format!("{words} --json")).await;
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &said["outcome"]),
        (2, &json!("not_replayed")),
        "{err}"
    );

    let own = server(says("paid")).await;
    let secret = "secrets: { bank_token: { env: BANK_TOKEN, for: [ { server: bank, tool: pay, pointer: /token } ] } }\n";
    let policy = policy(FULL).replace("secrets: []", "secrets: [/token]");
    let setup = Setup::new()
        .server("bank", &own)
        .policy(&policy)
        .more(secret);
    let setup = setup.environment("BANK_TOKEN", "canary-of-the-bank");
    let arguments = json!({ "token": "<secret_ref:bank_token>" });
    let made = made_in(setup, own, "bank__pay", arguments).await;
    assert!(made.own.executions()[0].body.contains("canary-of-the-bank"));
    refused(&made, &words, "no sandbox is sent a secret").await;
    assert_eq!(sandbox.requests(), Vec::<String>::new());
}

/// 004-51: a sandbox that is not there, has no such tool, hangs, or says too much ends the replay in
/// time.
#[tokio::test]
async fn a_sandbox_that_does_not_answer_is_told() {
    let made = made("bank__look", FULL, says("5")).await;
    let without = Script::new()
        .tool("other", Behaviour::Answers)
        .start()
        .await;
    for (words, expected) in [
        (
            "http://127.0.0.1:9/mcp".to_owned(),
            "the sandbox does not answer:",
        ),
        (without.url(), "the sandbox lists no tool `look`"),
        ("bank".to_owned(), "`bank` is no http or https URL"),
    ] {
        refused(&made, &format!("--sandbox {words}"), expected).await;
    }
    refused(&made, "--sandbox", "name the sandbox: --sandbox URL").await;
    for (behaviour, words, expected) in [
        (Behaviour::Never, "--timeout 1s", "no answer within 1s"),
        (Behaviour::Giant, "", "the sandbox did not answer the call:"),
        (Behaviour::Cut, "", "the sandbox did not answer the call:"),
    ] {
        let (status, out, err) = made.replay_at(behaviour, words).await;
        assert_eq!((status, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected), "{err}");
    }
}

/// 004-51: an argument in which the tool server takes a key holds a new one in the sandbox: one that
/// shares a store with the server would take the call for the first one.
#[tokio::test]
async fn keys_among_the_arguments_are_new() {
    let own = server(says("paid")).await;
    let more = ", audit: full, idempotency: { derive: arguments, upstream: { argument: request } }";
    let setup = Setup::new().server("bank", &own).policy(&policy(more));
    let arguments = json!({ "amount": 1, "request": "key-of-the-agent" });
    let made = made_in(setup, own, "bank__pay", arguments).await;
    assert_eq!(
        made.own.executions()[0].arguments["request"],
        "key-of-the-agent"
    );
    let sandbox = server(says("paid")).await;
    let (status, out, err) = made.replay(&format!("--sandbox {}", sandbox.url())).await;
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("a new key in `request`"), "{out}");
    let sent = &sandbox.executions()[0];
    assert!(!sent.body.contains("key-of-the-agent"), "{}", sent.body);
    let key = sent.arguments["request"].as_str().unwrap();
    assert!(key.starts_with("toolgate-replay-"), "{key}");
}

/// 004-51: a key that is no text cannot be made anew, so the call is not sent with the one it had.
#[tokio::test]
async fn a_key_that_is_no_text_is_not_sent_again() {
    let own = server(says("paid")).await;
    let more = ", audit: full, idempotency: { derive: arguments, upstream: { argument: request } }";
    let setup = Setup::new().server("bank", &own).policy(&policy(more));
    let arguments = json!({ "amount": 1, "request": 4711 });
    let made = made_in(setup, own, "bank__pay", arguments).await;
    assert_eq!(made.own.executions()[0].arguments["request"], 4711);
    let sandbox = server(says("paid")).await;
    let words = format!("--sandbox {}", sandbox.url());
    refused(
        &made,
        &words,
        "its argument `request` is an idempotency key that is no text",
    )
    .await;
    assert_eq!(sandbox.requests(), Vec::<String>::new());
}
