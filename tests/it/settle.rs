//! What becomes of a call with a side effect, event by event (guarantees §4; 004-18, 004-30,
//! 004-32, 004-37): what the tool server does, what the agent is told, what it is told when it
//! sends the same call again, and how often the tool server was asked in all.
//!
//! The events that are a crash are in `kills.rs`; a disk that is full is in `full_disk.rs`.

use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::http2_server::{REFUSALS, Refusing, authority};
use crate::harness::scripted_server::{self, ScriptedServer, tool};
use crate::harness::setup::{Setup, beside, contract, has_later, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer, executions};
use crate::harness::until;
use Said::{Code, Done, Error, Replayed, ReplayedFailure, ToolFailed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// What an agent is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// The tool's own answer.
    Done,
    /// The stored one, byte for byte, with `replayed: true`.
    Replayed,
    /// The tool's own answer, which says `isError`.
    ToolFailed,
    /// The stored one of those.
    ReplayedFailure,
    /// A refusal of toolgate.
    Code(&'static str),
    /// The tool server's JSON-RPC error.
    Error(i64),
}

/// The event, what the tool server does, what is told at first, what is told again, and how often
/// the server was asked.
type Row = (&'static str, Behaviour, Said, Said, usize);

const UNKNOWN: Said = Code("outcome_unknown");

fn rows() -> Vec<Row> {
    let failed = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true, "resultType": "complete" });
    let large = json!({ "content": [{ "type": "text", "text": "x".repeat(1 << 20) }], "resultType": "complete" });
    vec![
        ("it answers", Behaviour::Answers, Done, Replayed, 1),
        ("it answers twice", Behaviour::Twice, Done, Replayed, 1),
        (
            "it answers with more than is kept inline",
            Behaviour::Says(large),
            Done,
            Replayed,
            1,
        ),
        (
            "the result says isError",
            Behaviour::Says(failed),
            ToolFailed,
            ReplayedFailure,
            1,
        ),
        (
            "it closes the connection",
            Behaviour::HangsUp,
            UNKNOWN,
            UNKNOWN,
            1,
        ),
        ("its answer is cut off", Behaviour::Cut, UNKNOWN, UNKNOWN, 1),
        (
            "its stream ends without an answer",
            Behaviour::EndsWithoutAnswer,
            UNKNOWN,
            UNKNOWN,
            1,
        ),
        (
            "its answer is unparsable",
            Behaviour::Garbage,
            UNKNOWN,
            UNKNOWN,
            1,
        ),
        (
            "its answer is no message",
            Behaviour::NoMessage,
            UNKNOWN,
            UNKNOWN,
            1,
        ),
        (
            "its answer is another request's",
            Behaviour::ForeignId,
            UNKNOWN,
            UNKNOWN,
            1,
        ),
        (
            "it does not answer in time",
            Behaviour::Never,
            UNKNOWN,
            UNKNOWN,
            1,
        ),
        ("500", Behaviour::Status(500), UNKNOWN, UNKNOWN, 1),
        ("502", Behaviour::Status(502), UNKNOWN, UNKNOWN, 1),
        ("504", Behaviour::Status(504), UNKNOWN, UNKNOWN, 1),
        // It may have run all the same (threat-model §13 F1).
        ("401", Behaviour::Status(401), UNKNOWN, UNKNOWN, 1),
        ("404", Behaviour::Status(404), UNKNOWN, UNKNOWN, 1),
        ("429", Behaviour::Status(429), UNKNOWN, UNKNOWN, 1),
        ("503", Behaviour::Status(503), UNKNOWN, UNKNOWN, 1),
        // The server has answered, whatever its code: the answer is kept.
        (
            "-32603",
            Behaviour::Error(-32603),
            Error(-32603),
            Error(-32603),
            1,
        ),
        (
            "-32700",
            Behaviour::Error(-32700),
            Error(-32700),
            Error(-32700),
            1,
        ),
        (
            "-32600",
            Behaviour::Error(-32600),
            Error(-32600),
            Error(-32600),
            1,
        ),
        (
            "-32601",
            Behaviour::Error(-32601),
            Error(-32601),
            Error(-32601),
            1,
        ),
        (
            "-32602",
            Behaviour::Error(-32602),
            Error(-32602),
            Error(-32602),
            1,
        ),
        (
            "-32020",
            Behaviour::Error(-32020),
            Error(-32020),
            Error(-32020),
            1,
        ),
    ]
}

fn replayed(answer: &Answer) -> bool {
    answer.message()["result"]["_meta"]["dev.toolgate/decision"]["replayed"] == true
}

fn heard(answer: &Answer) -> String {
    let message = answer.message();
    let (failed, replayed) = (message["result"]["isError"] == true, replayed(answer));
    let said = match (answer.refusal().as_str(), answer.error()) {
        ("", 0) if failed && replayed => ReplayedFailure,
        ("", 0) if failed => ToolFailed,
        ("", 0) if replayed => Replayed,
        ("", 0) => Done,
        ("", code) => Error(code),
        (code, _) => return format!("Code({code:?})"),
    };
    format!("{said:?}")
}

async fn stage(script: Script, tools: &[String], members: &str) -> (ToolServer, Gate) {
    let server = script.start().await;
    let names: Vec<String> = tools.iter().map(|tool| format!("oracle__{tool}")).collect();
    let contracts: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "write")).collect();
    let members = format!("url: \"{}\", timeout: 2s{members}", server.url());
    (
        server,
        Setup::new()
            .server_with("oracle", &members)
            .contracts(&contracts)
            .start()
            .await,
    )
}

/// 004-13, 004-18, 004-30, 004-37: each event of the table, on both wires.
#[tokio::test]
async fn each_event_settles_as_promised() {
    let names: Vec<String> = (0..rows().len()).map(|row| format!("row_{row}")).collect();
    let script = rows()
        .into_iter()
        .zip(&names)
        .fold(Script::new(), |script, ((_, does, ..), name)| {
            script.tool(name, does)
        });
    let (server, gate) = stage(script, &names, "").await;
    let mut wrong = Vec::new();
    for ((event, _, first, again, asked), name) in rows().into_iter().zip(&names) {
        for wire in ["modern", "legacy"] {
            let (tool, arguments) = (
                format!("oracle__{name}"),
                json!({ "key": format!("{name}-{wire}") }),
            );
            let (one, two) = (
                call(&gate, wire, &tool, &arguments).await,
                call(&gate, wire, &tool, &arguments).await,
            );
            let found = (
                heard(&one),
                heard(&two),
                of(&server.executions(), &arguments),
            );
            if found != (format!("{first:?}"), format!("{again:?}"), asked) {
                wrong.push(format!(
                    "{event}, {wire}: {found:?} and not {first:?}, {again:?}, {asked}"
                ));
            }
            if matches!(again, Replayed | ReplayedFailure)
                && one.message()["result"]["content"] != two.message()["result"]["content"]
            {
                wrong.push(format!(
                    "{event}, {wire}: what is replayed is not what was answered"
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A call by an agent that is new: nothing but the call itself says that it is the same again.
async fn call(gate: &Gate, wire: &str, tool: &str, arguments: &Value) -> Answer {
    match wire {
        "legacy" => {
            gate.agent()
                .declaring(json!({}))
                .await
                .legacy_call(tool, arguments.clone())
                .await
        }
        _ => gate.agent().modern_call(tool, arguments.clone()).await,
    }
}

/// How often these arguments came.
fn of(executions: &[crate::harness::tool_server::Execution], arguments: &Value) -> usize {
    executions
        .iter()
        .filter(|execution| execution.arguments == *arguments)
        .count()
}

/// A guard refuses: nothing is claimed, the same call is judged again.
#[tokio::test]
async fn what_is_refused_claims_nothing() {
    let schema =
        json!({ "type": "object", "properties": { "key": {}, "amount": { "type": "integer" } } });
    let server = Script::new()
        .tool_with("pay", &schema, Behaviour::Answers)
        .start()
        .await;
    let policy = "contracts:\n  oracle__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: \
                  oracle__pay } } }\n  oracle__pay: { purpose: a test, actions: [write], side_effect: { writes: test, rollback: { tool: \
                  oracle__undo } }, secrets: [], rules: [ { code: too_much, \
                  when: \"arguments.amount > 10\" } ] }\n";
    let gate = Setup::new()
        .server("oracle", &server)
        .policy(policy)
        .start()
        .await;
    let arguments = json!({ "key": "k", "amount": 11 });
    for _ in 0..2 {
        let refused = gate
            .agent()
            .modern_call("oracle__pay", arguments.clone())
            .await;
        assert_eq!(
            (refused.refusal().as_str(), server.executions().len()),
            ("too_much", 0)
        );
        assert!(
            refused.words().contains("did not run"),
            "{}",
            refused.words()
        );
    }
}

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

/// A key that comes back after its time is not executed again silently, and is free when it is
/// forgotten; a derived key is free at once; an unknown outcome never expires (guarantees §3, §4).
/// Needs a time namespace; says so when there is none.
#[tokio::test]
#[expect(clippy::print_stderr, reason = "a scenario that is left out says so")]
async fn a_key_expires_and_is_forgotten_in_the_end() {
    if !has_later() {
        eprintln!("SKIPPED: no time namespace can be made here; allow user namespaces to try it");
        return;
    }
    let server = Script::new()
        .tool("pay", Behaviour::Answers)
        .tool("lost", Behaviour::HangsUp)
        .start()
        .await;
    let setup = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__pay", "write"), ("oracle__lost", "write")]);
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    let expired = Code("idempotency_key_expired");
    let mut ran = BTreeMap::<String, usize>::new();
    for (later, given, derived) in [
        (Duration::ZERO, Done, Done),
        (Duration::from_mins(55), Replayed, Replayed),
        (2 * hour, expired, Done),
        (89 * day, expired, Done),
        (92 * day, Done, Done),
    ] {
        let mut gate = setup.clone().later(later).start().await;
        for wire in ["modern", "legacy"] {
            let what = format!("{wire}, {later:?} later");
            for (tool, key, expected) in [
                ("pay", Some("given"), given),
                ("pay", None, derived),
                ("lost", Some("lost"), UNKNOWN),
            ] {
                let name = format!("{tool}-{key:?}-{wire}");
                let mut params =
                    json!({ "name": format!("oracle__{tool}"), "arguments": { "key": name } });
                if let Some(key) = key {
                    params["_meta"] =
                        json!({ "dev.toolgate/idempotencyKey": format!("{key}-{wire}") });
                }
                let answer = match wire {
                    "legacy" => {
                        gate.agent()
                            .declaring(json!({}))
                            .await
                            .legacy("tools/call", params)
                            .await
                    }
                    _ => gate.agent().modern("tools/call", params).await,
                };
                assert_eq!(
                    heard(&answer),
                    format!("{expected:?}"),
                    "{what}, {name}: {answer:?}"
                );
                if expected == expired {
                    assert!(
                        answer.words().contains("did not run again"),
                        "{what}: {}",
                        answer.words()
                    );
                }
                let runs = ran.entry(name.clone()).or_default();
                *runs += usize::from(expected == Done || (expected == UNKNOWN && later.is_zero()));
                assert_eq!(
                    of(&server.executions(), &json!({ "key": name })),
                    *runs,
                    "{what}, {name}"
                );
            }
        }
        gate.terminate();
        assert!(gate.wait().await.success(), "{}", gate.log());
    }
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
            (again, ", idempotency: { attempts: 2 }"),
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
    let members = format!(
        "command: \"{}\", env: {{ ORACLE_LOG: \"{}\" }}",
        program.display(),
        log.display()
    );
    let contracts = [
        ("oracle__write", "write"),
        ("oracle__dies_after", "write"),
        ("oracle__read", "read"),
    ];
    let gate = setup
        .server_with("oracle", &members)
        .contracts(&contracts)
        .start()
        .await;
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
    for wire in ["legacy", "modern"] {
        assert_eq!(
            heard(&ask(wire, "dies_after", wire).await),
            format!("{UNKNOWN:?}"),
            "{wire}"
        );
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
        assert_eq!(
            heard(&ask(wire, "dies_after", wire).await),
            format!("{UNKNOWN:?}"),
            "{wire}"
        );
        for tool in ["write", "read"] {
            let new = ask(wire, tool, "new").await;
            assert_eq!(
                new.refusal(),
                "upstream_unavailable",
                "{wire}, {tool}: {new:?}"
            );
            assert!(new.words().contains("nothing was sent"), "{}", new.words());
        }
        assert_eq!(
            ask(wire, "no_such", "new").await.refusal(),
            "tool_not_allowlisted",
            "{wire}"
        );
    }
    assert_eq!(executions(&log).len(), ran, "nothing was sent");
    back();
    until("the server is back", || async {
        ask("modern", "write", "new").await.is_done().then_some(())
    })
    .await;
    assert_eq!(executions(&log).len(), ran + 1);
}

/// What the agent no longer waits for is finished, stored and given to it when it asks again.
#[tokio::test]
async fn an_agent_that_leaves_finds_its_answer_later() {
    let (server, gate) = stage(
        Script::new().tool("pay", Behaviour::Held),
        &["pay".to_owned()],
        "",
    )
    .await;
    let agent = gate.agent();
    let (tool, arguments) = ("oracle__pay", json!({ "key": "k" }));
    let leaving = tokio::spawn({
        let (agent, arguments) = (agent.clone(), arguments.clone());
        async move { agent.modern_call(tool, arguments).await }
    });
    until("the tool runs", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    leaving.abort();
    let _ = leaving.await;
    server.release();
    let again = agent.modern_call(tool, arguments).await;
    assert_eq!(
        (heard(&again), server.executions().len()),
        ("Replayed".to_owned(), 1)
    );
}

/// guarantees §4, §5: an agent that hangs up while its call waits, for the same call in flight or
/// for its turn, leaves an entry and nothing else. Its call never runs; what it waited for goes on,
/// and so does whatever comes next.
#[tokio::test]
async fn an_agent_that_leaves_while_its_call_waits_leaves_an_entry_only() {
    for (waits_for, key, stage, last, runs) in [
        ("the same call", "one", "repetition", Replayed, 1),
        ("its turn", "two", "budget", Done, 2),
    ] {
        let server = Script::new().tool("pay", Behaviour::Held).start().await;
        let gate = Setup::new()
            .server("oracle", &server)
            .contracts(&[("oracle__pay", "write")])
            .start()
            .await;
        let ask = |key: &'static str| {
            let agent = gate.agent();
            tokio::spawn(async move {
                agent
                    .modern_call("oracle__pay", json!({ "key": key }))
                    .await
            })
        };
        let first = ask("one");
        until("the tool runs", || async {
            (server.executions().len() == 1).then_some(())
        })
        .await;
        let leaving = ask(key);
        let passed = format!("toolgate_stage_seconds_count{{stage=\"{stage}\"}} 2");
        until("the call waits", || async {
            gate.operators("/metrics")
                .await
                .contains(&passed)
                .then_some(())
        })
        .await;
        leaving.abort();
        let _ = leaving.await;
        until("the call is recorded", || async {
            let mut entries = gate.ledger().await.into_iter();
            entries.find(|entry| entry["aborted_reason"] == "cancelled" && entry["attempts"] == 0)
        })
        .await;
        assert!(!first.is_finished(), "{waits_for}");
        server.release();
        server.release();
        assert_eq!(heard(&first.await.unwrap()), "Done", "{waits_for}");
        assert_eq!(server.executions().len(), 1, "{waits_for}");
        let next = gate
            .agent()
            .modern_call("oracle__pay", json!({ "key": key }))
            .await;
        assert_eq!(
            (heard(&next), server.executions().len()),
            (format!("{last:?}"), runs),
            "{waits_for}"
        );
    }
}

/// A duplicate in flight joins and gets the one result.
#[tokio::test]
async fn a_duplicate_in_flight_gets_the_one_result() {
    let (server, gate) = stage(
        Script::new().tool("pay", Behaviour::Held),
        &["pay".to_owned()],
        "",
    )
    .await;
    let ask = || {
        let agent = gate.agent();
        tokio::spawn(async move {
            agent
                .modern_call("oracle__pay", json!({ "key": "k" }))
                .await
        })
    };
    let first = ask();
    until("the tool runs", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    let mut others: Vec<_> = (0..8).map(|_| ask()).collect();
    let ended = futures_util::future::select_all(&mut others);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), ended)
            .await
            .is_err(),
        "one did not wait"
    );
    server.release();
    assert_eq!(heard(&first.await.unwrap()), "Done");
    for other in others {
        assert_eq!(heard(&other.await.unwrap()), "Replayed");
    }
    assert_eq!(server.executions().len(), 1);
}

/// An answer that comes after the time-out completes the call; nobody sends it again.
#[tokio::test]
async fn a_late_answer_makes_the_outcome_known() {
    let (server, gate) = stage(
        Script::new().tool("pay", Behaviour::Held),
        &["pay".to_owned()],
        "",
    )
    .await;
    let arguments = json!({ "key": "k" });
    let first = gate
        .agent()
        .modern_call("oracle__pay", arguments.clone())
        .await;
    assert_eq!(first.refusal(), "outcome_unknown");
    server.release();
    let known = until("the outcome is known", || async {
        let answer = gate
            .agent()
            .modern_call("oracle__pay", arguments.clone())
            .await;
        answer.refusal().is_empty().then_some(answer)
    })
    .await;
    assert_eq!(
        (heard(&known), server.executions().len()),
        ("Replayed".to_owned(), 1)
    );
}

/// A key belongs to one call: other arguments are a conflict, and the stored result is not shown
/// (004-24). A new key is a new call (004-08, 004-43).
#[tokio::test]
async fn a_key_is_for_one_call() {
    let (server, gate) = stage(
        Script::new().tool("pay", Behaviour::Answers),
        &["pay".to_owned()],
        "",
    )
    .await;
    let agent = gate.agent();
    let call = async |key: &str, amount: u64| {
        let mut message = crate::harness::agent::modern(
            "tools/call",
            json!({ "name": "oracle__pay", "arguments": { "amount": amount } }),
        );
        message["params"]["_meta"]["dev.toolgate/idempotencyKey"] = json!(key);
        agent
            .send(&agent.mirrored(&message), message.to_string().as_bytes())
            .await
    };
    assert_eq!(heard(&call("one", 1).await), "Done");
    let conflict = call("one", 2).await;
    assert_eq!(conflict.refusal(), "idempotency_conflict");
    assert!(!conflict.text().contains("done"), "{conflict:?}");
    assert_eq!(server.executions().len(), 1);
    assert_eq!(heard(&call("one", 1).await), "Replayed");
    assert_eq!(heard(&call("two", 1).await), "Done");
    assert_eq!(server.executions().len(), 2);
}

/// Rounds: what a tool asks for is passed through and never replayed as the final answer; each
/// round is sent once.
#[tokio::test]
async fn rounds_are_sent_once_each() {
    let asks = json!({ "resultType": "input_required", "requestState": "one",
        "inputRequests": { "sure": { "method": "elicitation/create",
            "params": { "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } } } });
    let scripted = ScriptedServer::with(vec![tool("pay")]).await;
    scripted.answers(move |seen| {
        let done = seen.body["params"]["inputResponses"].is_object();
        let result =
            json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" });
        scripted_server::Reply::Result(if done { result } else { asks.clone() })
    });
    let members = format!("url: \"{}\"", scripted.url());
    let setup = Setup::new()
        .server_with("oracle", &members)
        .contracts(&[("oracle__pay", "write")])
        .open_sides();
    let gate = setup.start().await;
    let agent = gate.agent();
    let round = async |responses: Option<Value>, state: &Value| {
        let mut params = json!({ "name": "oracle__pay", "arguments": { "key": "k" } });
        if let Some(responses) = responses {
            params["inputResponses"] = responses;
            params["requestState"] = state.clone();
        }
        let mut message = crate::harness::agent::modern("tools/call", params);
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": {} });
        agent
            .send(&agent.mirrored(&message), message.to_string().as_bytes())
            .await
    };
    let first = round(None, &Value::Null).await;
    let state = first.message()["result"]["requestState"].clone();
    assert_eq!(
        first.message()["result"]["resultType"],
        "input_required",
        "{first:?}"
    );
    let answers = json!({ "sure": { "action": "accept", "content": {} } });
    assert_eq!(heard(&round(Some(answers.clone()), &state).await), "Done");
    assert_eq!(scripted.executions(), 2);
    assert_eq!(heard(&round(Some(answers), &state).await), "Replayed");
    assert_eq!(scripted.executions(), 2);
}

/// guarantees §4, `input_required`: a retry of an earlier round that comes late is not sent again,
/// before the end, after it, and when the round after it was not executed; it is given what the
/// call's last round was.
#[tokio::test]
async fn late_retries_of_earlier_rounds_stay_here() {
    let scripted = ScriptedServer::with(vec![tool("pay")]).await;
    scripted.answers(|seen| match seen.body["params"]["requestState"].as_str() {
        None => scripted_server::Reply::Result(
            json!({ "resultType": "input_required", "requestState": "one" }),
        ),
        Some("one") => scripted_server::Reply::Result(
            json!({ "resultType": "input_required", "requestState": "two" }),
        ),
        Some(_) => scripted_server::Reply::Status(429),
    });
    let members = format!("url: \"{}\", not_executed: [429]", scripted.url());
    let setup = Setup::new()
        .server_with("oracle", &members)
        .contracts(&[("oracle__pay", "write")])
        .open_sides();
    let gate = setup.start().await;
    let agent = gate.agent();
    let round = async |state: &Value| {
        let mut params = json!({ "name": "oracle__pay", "arguments": { "key": "k" } });
        if state.is_string() {
            params["requestState"] = state.clone();
        }
        let message = crate::harness::agent::modern("tools/call", params);
        agent
            .send(&agent.mirrored(&message), message.to_string().as_bytes())
            .await
    };
    let state = |answer: &Answer| answer.message()["result"]["requestState"].clone();
    let one = state(&round(&Value::Null).await);
    let two = state(&round(&one).await);
    assert_eq!(scripted.executions(), 2);
    for early in [&Value::Null, &one, &Value::Null, &one] {
        assert_eq!(state(&round(early).await), two, "what is asked now");
    }
    assert_eq!(
        scripted.executions(),
        2,
        "earlier rounds are not sent again"
    );
    assert_eq!(round(&two).await.refusal(), "upstream_unavailable");
    let refused = scripted.executions();
    for early in [&Value::Null, &one] {
        assert_eq!(
            round(early).await.refusal(),
            "outcome_unknown",
            "that a later round did not run says nothing of it"
        );
    }
    assert_eq!(scripted.executions(), refused);
    scripted.answers(|_| {
        scripted_server::Reply::Result(json!({ "content": [], "resultType": "complete" }))
    });
    assert_eq!(heard(&round(&two).await), "Done");
    for early in [&Value::Null, &one, &two] {
        assert_eq!(heard(&round(early).await), "Replayed");
    }
    assert_eq!(scripted.executions(), refused + 1);
}

/// What was answered is replayed after toolgate was killed and started again.
#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    let (server, mut gate) = stage(
        Script::new().tool("pay", Behaviour::Answers),
        &["pay".to_owned()],
        "",
    )
    .await;
    let arguments = json!({ "key": "k" });
    let first = gate
        .agent()
        .modern_call("oracle__pay", arguments.clone())
        .await;
    assert_eq!(heard(&first), "Done");
    gate.kill().await;
    let gate = gate.setup.clone().start().await;
    let again = gate.agent().modern_call("oracle__pay", arguments).await;
    assert_eq!(
        (heard(&again), server.executions().len()),
        ("Replayed".to_owned(), 1)
    );
    assert_eq!(
        first.message()["result"]["content"],
        again.message()["result"]["content"]
    );
}

/// What a read that the contract names finds ends an unknown outcome, on both wires: done, surely
/// not done, or nothing.
#[tokio::test]
async fn a_probe_ends_an_unknown_outcome() {
    let shows = |orders: Value| {
        let content = json!([{ "type": "text", "text": "orders" }]);
        Behaviour::Says(
            json!({ "content": content, "structuredContent": { "orders": orders }, "resultType": "complete" }),
        )
    };
    let script = Script::new()
        .tool("pay", Behaviour::HangsUp)
        .tool("finds", shows(json!([{ "id": 1 }])));
    let server = script
        .tool("misses", shows(json!([])))
        .tool("breaks", Behaviour::Status(500))
        .start()
        .await;
    for (probe, absent_after, again, asked) in [
        ("finds", "1h", "Replayed", 1),
        ("misses", "1s", "Code(\"outcome_unknown\")", 2),
        ("misses", "1h", "Code(\"outcome_unknown\")", 1),
        ("breaks", "1s", "Code(\"outcome_unknown\")", 1),
    ] {
        let probing = format!(
            ", idempotency: {{ probe: {{ tool: oracle__{probe}, arguments: {{ key: arguments#/key }}, found: /orders, \
             absent_after: {absent_after} }} }}"
        );
        let policy = format!(
            "contracts:\n{}\n  oracle__pay: {}\n  oracle__{probe}: {{ purpose: a look, actions: [read], secrets: [] }}\n",
            undo("oracle__pay"),
            contract("oracle__pay", "write", &probing)
        );
        let gate = Setup::new()
            .server("oracle", &server)
            .policy(&policy)
            .start()
            .await;
        for wire in ["modern", "legacy"] {
            let arguments = json!({ "key": format!("{probe}-{absent_after}-{wire}") });
            let first = call(&gate, wire, "oracle__pay", &arguments).await;
            assert_eq!(heard(&first), format!("{UNKNOWN:?}"), "{probe}, {wire}");
            // A look that finds nothing proves something only once the call can no longer be on its
            // way.
            let told = until("the call is asked for as often as that allows", || async {
                let told = heard(&call(&gate, wire, "oracle__pay", &arguments).await);
                let calls = server
                    .executions()
                    .into_iter()
                    .filter(|execution| execution.tool == "pay");
                let calls = calls
                    .filter(|execution| execution.arguments == arguments)
                    .count();
                (calls == asked).then_some(told)
            })
            .await;
            assert_eq!(told, again, "{probe}, {absent_after}, {wire}");
        }
    }
}
