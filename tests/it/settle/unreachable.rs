//! Tool servers that refuse, die, or are not there.

use super::Said::{Code, Done, Replayed};
use super::{UNKNOWN, call, heard};
use crate::harness::http2_server::{REFUSALS, Refusing, authority};
use crate::harness::scripted_server::{self, ScriptedServer, tool};
use crate::harness::setup::{Setup, beside, contract, undo};
use crate::harness::tool_server::executions;
use crate::harness::until;
use serde_json::json;
use std::fmt::Write as _;

/// No byte left: the same key is sent as soon as the server is back.
#[tokio::test]
async fn what_was_not_sent_is_sent_when_it_is_asked_for_again() {
    let scripted = ScriptedServer::with(vec![tool("pay")]).await;
    scripted.answers(|_| {
        scripted_server::Reply::Result(json!({ "content": [{ "type": "text", "text": "done" }] }))
    });
    let members = format!("url: \"{}\"", scripted.url());
    let gate = Setup::new()
        .server_with("oracle", &members)
        .contracts(&[("oracle__pay", "write")])
        .start()
        .await;
    scripted.down();
    let first = gate
        .agent()
        .modern_call("oracle__pay", json!({ "key": "k" }))
        .await;
    assert_eq!(
        (first.refusal().as_str(), scripted.executions()),
        ("upstream_unavailable", 0)
    );
    scripted.up().await;
    let again = until("the server is back", || async {
        let answer = gate
            .agent()
            .modern_call("oracle__pay", json!({ "key": "k" }))
            .await;
        answer.refusal().is_empty().then_some(answer)
    })
    .await;
    assert_eq!(
        (heard(&again), scripted.executions()),
        ("Done".to_owned(), 1)
    );
    let last = gate
        .agent()
        .modern_call("oracle__pay", json!({ "key": "k" }))
        .await;
    assert_eq!(
        (heard(&last), scripted.executions()),
        ("Replayed".to_owned(), 1)
    );
}

/// A server on HTTP/2 that refuses a stream, or says good-bye below it, has proven that it
/// processed nothing: the same key may be sent again, and toolgate does so itself where the
/// contract allows it. Any other reset proves nothing.
#[tokio::test]
async fn a_refused_stream_is_proof() {
    let server = Refusing::start().await;
    let mut policy = format!(
        "contracts:\n{}\n",
        undo(&format!("oracle__{}", REFUSALS[0].0))
    );
    for (tool, _) in REFUSALS {
        let again = format!("oracle__{tool}_again");
        for (name, more) in [
            (format!("oracle__{tool}"), ""),
            (again, ", idempotency: { derive: arguments, attempts: 2 }"),
        ] {
            writeln!(policy, "  {name}: {}", contract(&name, "write", more)).unwrap();
        }
    }
    let members = format!("url: \"{}\"", server.url());
    let setup = Setup::new().environment("SSL_CERT_FILE", authority().to_str().unwrap());
    let gate = setup
        .server_with("oracle", &members)
        .policy(&policy)
        .start()
        .await;
    for (tool, proves) in REFUSALS {
        for wire in ["modern", "legacy"] {
            for (name, sent_again) in [(tool.to_owned(), false), (format!("{tool}_again"), true)] {
                let (what, key) = (format!("{name}, {wire}"), json!(format!("{name}-{wire}")));
                let arguments = json!({ "key": key });
                let mut told = Vec::new();
                for _ in 0..2 {
                    told.push(heard(
                        &call(&gate, wire, &format!("oracle__{name}"), &arguments).await,
                    ));
                }
                let (unknown, unsent) = (
                    format!("{UNKNOWN:?}"),
                    format!("{:?}", Code("upstream_unavailable")),
                );
                let (done, replayed) = (format!("{Done:?}"), format!("{Replayed:?}"));
                let (expected, calls) = match (proves, sent_again) {
                    (true, true) => ([done, replayed], (2, 1)),
                    (true, false) => ([unsent, done], (2, 1)),
                    (false, _) => ([unknown.clone(), unknown], (1, 0)),
                };
                assert_eq!(
                    (&told[..], server.calls(&name, &key)),
                    (&expected[..], calls),
                    "{what}"
                );
            }
        }
    }
}

/// A child that dies after the line was written may have run it, whatever it did.
#[tokio::test]
async fn a_child_that_dies_leaves_the_outcome_unknown() {
    for (name, ran) in [("dies_after", 1), ("dies_before", 0), ("half_a_line", 1)] {
        let setup = Setup::new()
            .child("oracle", "", "5s")
            .contracts(&[(&format!("oracle__{name}"), "write")]);
        let log = setup.log_of("oracle");
        let gate = setup.start().await;
        let (tool, arguments) = (format!("oracle__{name}"), json!({ "key": name }));
        let first = gate.agent().modern_call(&tool, arguments.clone()).await;
        assert_eq!(
            (first.refusal().as_str(), executions(&log).len()),
            ("outcome_unknown", ran),
            "{name}"
        );
        let again = until("the child runs again", || async {
            let answer = gate.agent().modern_call(&tool, arguments.clone()).await;
            (answer.refusal() != "upstream_unavailable").then_some(answer)
        })
        .await;
        assert_eq!(
            (again.refusal().as_str(), executions(&log).len()),
            ("outcome_unknown", ran),
            "{name}"
        );
    }
}

/// A server that is down takes nothing back: what it answered is told again, what is unknown stays
/// that, and what is new is not sent. Its tools are listed again when it is back.
#[tokio::test]
async fn a_call_is_told_again_while_its_server_is_down() {
    let setup = Setup::new();
    let (program, log) = (setup.directory().join("server"), setup.log_of("oracle"));
    let back = || std::os::unix::fs::symlink(beside("oracle-server"), &program).unwrap();
    back();
    let (command, file) = (program.display(), log.display());
    let members = format!("command: \"{command}\", env: {{ ORACLE_LOG: \"{file}\" }}");
    let contracts = [
        ("oracle__write", "write"),
        ("oracle__dies_after", "write"),
        ("oracle__read", "read"),
    ];
    let setup = setup.server_with("oracle", &members);
    let gate = setup.contracts(&contracts).start().await;
    let (modern, legacy) = (gate.agent(), gate.agent().declaring(json!({})).await);
    let ask = async |wire: &str, tool: &str, key: &str| {
        let (tool, arguments) = (format!("oracle__{tool}"), json!({ "key": key }));
        match wire {
            "legacy" => legacy.legacy_call(&tool, arguments).await,
            _ => modern.modern_call(&tool, arguments).await,
        }
    };
    for wire in ["modern", "legacy"] {
        assert_eq!(heard(&ask(wire, "write", wire).await), "Done", "{wire}");
    }
    std::fs::remove_file(&program).unwrap();
    let unknown = format!("{UNKNOWN:?}");
    for wire in ["legacy", "modern"] {
        let lost = ask(wire, "dies_after", wire).await;
        assert_eq!(heard(&lost), unknown, "{wire}");
    }
    until("the tools are hidden", || async {
        let listed = modern.modern("tools/list", json!({})).await;
        listed.message()["result"]["tools"]
            .as_array()
            .is_some_and(Vec::is_empty)
            .then_some(())
    })
    .await;
    let ran = executions(&log).len();
    for wire in ["modern", "legacy"] {
        assert_eq!(heard(&ask(wire, "write", wire).await), "Replayed", "{wire}");
        let lost = ask(wire, "dies_after", wire).await;
        assert_eq!(heard(&lost), unknown, "{wire}");
        for tool in ["write", "read"] {
            let new = ask(wire, tool, "new").await;
            assert_eq!(new.refusal(), "upstream_unavailable", "{wire}, {tool}");
            assert!(new.words().contains("nothing was sent"), "{}", new.words());
        }
        let none = ask(wire, "no_such", "new").await.refusal();
        assert_eq!(none, "tool_not_allowlisted", "{wire}");
    }
    assert_eq!(executions(&log).len(), ran, "nothing was sent");
    back();
    until("the server is back", || async {
        ask("modern", "write", "new").await.is_done().then_some(())
    })
    .await;
    assert_eq!(executions(&log).len(), ran + 1);
}
