//! What who looks on is told of a call that comes, from the first: at the door's stream of events, and by
//! `toolgate approvals watch` (001-48, 001-49, 001-52).

use super::terminal::WatchTerminal;
use super::{ask, held, says, setup, shown};
use crate::harness::answer::open;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::Offers;
use crate::harness::{DEADLINE, until};
use crate::held_calls::{self, HoldingGate, policy};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use toolgate::model::ids::ToolName;

const TOKEN: &str = "token-of-ann-who-has-the-role";

/// 001-48, 001-49: who looks on is told that a call was requested, with its id and until when it can be decided; it is
/// there then, and its agent reads the same id.
#[tokio::test]
async fn a_call_that_comes_is_told_once_it_is_there() {
    let stage = HoldingGate::before(Offers::default(), &policy(""), "enforce").await;
    let gate = &stage.gate;
    let port = gate.operators.port();
    let request = format!(
        "GET /api/approvals/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let mut events = open(gate.operators, request.into_bytes()).await.unwrap();
    let told = async {
        while !events.line().await.unwrap().contains("event: requested") {}
        let data = events.line().await.unwrap();
        let about: Value = serde_json::from_str(data.trim_start_matches("data: ")).unwrap();
        let path = format!("/api/approvals/{}", about["id"].as_str().unwrap());
        let bearer = format!("Bearer {TOKEN}");
        let bearer = [("authorization", bearer.as_str())];
        let hold = gate.asks_operators(("GET", &path), &bearer, "").await;
        (about, hold)
    };
    let bot = stage.bot();
    let asks = bot.call_anew("bank__pay", json!({ "n": 1 }));
    let ((about, hold), pending) = tokio::join!(told, asks);
    assert_eq!(hold.status, 200, "{hold:?}");
    let hold: Value = serde_json::from_str(&hold.text()).unwrap();
    assert_eq!(
        (&about["id"], &about["state"], &about["approve_by"]),
        (&hold["id"], &json!("pending"), &hold["approve_by"]),
        "{about}"
    );
    assert_eq!(about["id"], held_calls::held(&pending).as_str());
    let words = pending["result"]["content"][0]["text"].as_str().unwrap();
    let until = hold["approve_by"].as_str().unwrap();
    assert!(words.contains(until), "{until}: {words}");
}

async fn in_time<T>(told: impl Future<Output = T>) -> T {
    let told = tokio::time::timeout(DEADLINE, told).await;
    told.expect("told in time")
}

/// `approvals watch` with `more`, for programs, and the lines that it prints.
fn watches(gate: &Gate, more: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let door = gate.operators.to_string();
    let words = ["approvals", "watch", "--json"];
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let setup = gate.setup.operator("ann");
    let mut command = setup.command(&[&words[..], more, &place].concat());
    let mut watch = command.stdin(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    (watch, lines)
}

/// The event of the next line, and the call that it is about.
async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> (String, String) {
    let line = in_time(lines.next_line()).await;
    let line: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
    let text = |key: &str| line[key].as_str().unwrap().to_owned();
    (text("event"), text("id"))
}

/// 001-52: a program reads a line for each call of the tools that it asks about: that it waits, and each change; with
/// `--once` the exit code says that the first one was allowed.
#[tokio::test]
async fn a_program_reads_a_line_for_each_change() {
    let setup = setup();
    setup.write();
    let mut other = ask(1, json!({ "n": 1 }));
    other.question.tool = ToolName::new("bank__look");
    let ids = held(&setup, vec![other, ask(2, json!({ "n": 1 }))]).await;
    let gate = setup.begin().await;
    let id = &ids[1];
    let (mut watch, mut lines) = watches(&gate, &["--once", "--tool", "bank__p*"]);
    assert_eq!(next(&mut lines).await, ("requested".into(), id.clone()));
    let allows = async |who: &str| {
        let (status, said) = says(&gate, who, &["allow", id, "--why", "due"]).await;
        assert_eq!(status, 0, "{said}");
    };
    allows("ann").await;
    assert_eq!(next(&mut lines).await, ("changed".into(), id.clone()));
    allows("bob").await;
    // Allowed, it still waits to run.
    assert_eq!(next(&mut lines).await, ("changed".into(), id.clone()));
    let status = in_time(watch.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

/// 001-52: with `--once` a call that was decided before is not the one that is waited for.
#[tokio::test]
async fn a_program_waits_for_no_call_that_is_decided() {
    let setup = setup();
    setup.write();
    let asks = vec![ask(1, json!({ "n": 1 })), ask(1, json!({ "n": 2 }))];
    let ids = held(&setup, asks).await;
    let gate = setup.begin().await;
    // Whichever of the two stands first in the list.
    let (_, listed) = says(&gate, "ann", &["list", "--json"]).await;
    let first: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let (first, other) = if first["id"] == json!(ids[0]) {
        (&ids[0], &ids[1])
    } else {
        (&ids[1], &ids[0])
    };
    let allowed = says(&gate, "bob", &["allow", first, "--why", "due"]).await;
    assert_eq!(allowed.0, 0, "{}", allowed.1);
    let (mut watch, mut lines) = watches(&gate, &["--once"]);
    for _ in 0..2 {
        assert_eq!(next(&mut lines).await.0, "requested");
    }
    let denied = says(&gate, "bob", &["deny", other, "--why", "not due"]).await;
    assert_eq!(denied.0, 0, "{}", denied.1);
    let status = in_time(watch.wait()).await.unwrap();
    assert_eq!(status.code(), Some(1), "the one that waited was denied");
}

/// 001-52: no key allows a call that is allowed already, or gives it more time.
#[tokio::test]
async fn no_key_is_about_a_call_that_is_decided() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({ "n": 1 }))]).await;
    let gate = setup.begin().await;
    let allowed = says(&gate, "bob", &["allow", &ids[0], "--why", "due"]).await;
    assert_eq!(allowed.0, 0, "{}", allowed.1);
    let mut terminal = WatchTerminal::new(&gate).await;
    for (times, key) in [(1, b"a"), (2, b"e")] {
        terminal.types(key);
        until("the words", || async {
            (terminal.count("the call is allowed, and does not wait") >= times).then_some(())
        })
        .await;
    }
    assert_eq!(terminal.count("run once"), 0, "nothing is asked");
    terminal.types(b"q");
    assert_eq!(terminal.ended().await, Some(0));
}

/// 001-52: `s` looks at the next call, and the keys are about that one then.
#[tokio::test]
async fn a_key_looks_at_the_next_call() {
    const QUESTION: &str = "why not? the agent reads it (nothing: not denied): ";
    let setup = setup();
    setup.write();
    let asks = vec![ask(1, json!({ "n": 1 })), ask(1, json!({ "n": 2 }))];
    let ids = held(&setup, asks).await;
    let gate = setup.begin().await;
    let mut terminal = WatchTerminal::new(&gate).await;
    let looks_at = |id: &String| format!("{:<15} {id}", "id");
    let first = until("one of them", || async {
        ids.iter().position(|id| terminal.count(&looks_at(id)) > 0)
    })
    .await;
    let second = &ids[1 - first];
    assert_eq!(terminal.count(&looks_at(second)), 0);
    terminal.types(b"s");
    until("the other one", || async {
        (terminal.count(&looks_at(second)) > 0).then_some(())
    })
    .await;
    terminal.answers(b"d", QUESTION, b"not due\n").await;
    assert_eq!(shown(&gate, second).await["state"], "denied");
    assert_eq!(shown(&gate, &ids[first]).await["state"], "pending");
    terminal.types(b"q");
    assert_eq!(terminal.ended().await, Some(0));
}
