//! What operators see of a toolgate that runs: its status, its ledger as it grows, its metrics, and what `doctor`
//! makes of it.

use crate::harness::gate::Gate;
use crate::harness::left_out::left_out;
use crate::harness::setup::{Setup, TOOLGATE};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::{DEADLINE, until};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-the-operator-ann, roles: [resolver, switch] } ]";

/// A toolgate before a server with a tool that answers, and one that hangs up.
async fn stage() -> (ToolServer, Gate) {
    let server = Script::new()
        .tool("read", Behaviour::Answers)
        .tool("lose", Behaviour::HangsUp)
        .start()
        .await;
    let tools = [("bank__read", "read"), ("bank__lose", "write")];
    let setup = Setup::new().server("bank", &server);
    let setup = setup.contracts(&tools).operators(OPERATORS).unwatched();
    (server, setup.start().await)
}

/// What a verb prints on the configuration of `gate`, and its exit code.
async fn shown(gate: &Gate, words: &[&str]) -> (i32, String) {
    let admin = gate.operators.to_string();
    let rest = ["--config", "toolgate.yaml", "--admin", &admin];
    let setup = gate.setup.operator("ann");
    let done = setup.run(&[words, &rest].concat()).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (code, out) = (done.status.code().unwrap(), text(done.stdout));
    (code, out + &text(done.stderr))
}

/// The events of the ledger that are no calls, by their names.
async fn events(setup: &Setup) -> Vec<Value> {
    let done = setup
        .run(&["ledger", "events", "--json", "--data", "data"])
        .await;
    let text = String::from_utf8(done.stdout).unwrap();
    let told = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut told: Vec<Value> = told.collect();
    // A directory that has just come to be watched is read once more, and the same may be refused again.
    told.dedup_by(|one, other| {
        one["event"] == "reload_refused"
            && one["event"] == other["event"]
            && one["errors"] == other["errors"]
    });
    told
}

fn names(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect()
}

/// Issue 17, seeing what runs: `status` of one that needs nobody, of one that does, and of one that is gone.
#[tokio::test]
async fn status_says_how_a_toolgate_does() {
    let (_server, gate) = stage().await;
    let (code, text) = shown(&gate, &["status"]).await;
    assert_eq!(code, 0, "{text}");
    let pid = format!("process {}", gate.pid());
    for said in [
        &*pid,
        " ready, ",
        "bank: up",
        "2 tools",
        "held      0",
        "unknown   0",
        "free",
    ] {
        assert!(text.contains(said), "{said} in {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let lost = gate.agent().modern_call("bank__lose", json!({})).await;
    assert_eq!(lost.refusal(), "outcome_unknown");
    let away = ["disable", "bank__read", "--why", "mended"];
    let (code, text) = shown(&gate, &away).await;
    assert_eq!(code, 0, "{text}");
    let (code, text) = shown(&gate, &["status", "--json"]).await;
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        code, 1,
        "an operator has to find out what became of a call: {text}"
    );
    for (place, expected) in [
        ("/running", json!(true)),
        ("/ready", json!(true)),
        ("/pid", json!(gate.pid())),
        ("/mode", json!("enforce")),
        ("/unknown", json!(1)),
        ("/disabled/bank__read/who", json!("ann")),
        ("/servers/0/state", json!("up")),
    ] {
        assert_eq!(status.pointer(place), Some(&expected), "{place} of {text}");
    }
    let problems = status["problems"].to_string();
    assert!(
        problems.contains("an operator has disabled a tool"),
        "{problems}"
    );
    // The gauge says at once what is so.
    assert!((gate.metric("toolgate_unknown_outcomes").await - 1.0).abs() < 0.1);
    let setup = gate.stop().await;
    let done = setup.run(&["status", "--config", "toolgate.yaml"]).await;
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(1), "{text}");
    for said in ["does not run", "bank__read by ann", "free"] {
        assert!(text.contains(said), "{said} in {text}");
    }
}

/// D11: a toolgate that runs is no problem; a stranger on its port is one, and so is a tool server that is down.
#[tokio::test]
async fn doctor_looks_through_a_toolgate_that_runs() {
    let (_server, gate) = stage().await;
    let away = ["disable", "bank__read", "--why", "mended"];
    assert_eq!(shown(&gate, &away).await.0, 0);
    let (code, text) = shown(&gate, &["doctor"]).await;
    assert_eq!(code, 0, "{text}");
    let runs = format!("ok       a toolgate runs as process {}", gate.pid());
    for said in [
        &*runs,
        "ok       it answers agents at",
        "ok       it has the policy of the files",
        "ok       tool server `bank` answers: modern and legacy, 2 tools",
        "note     `bank__read` is disabled by ann since",
        "ok       the ledger is as it was written",
    ] {
        assert!(text.contains(said), "{said} in {text}");
    }
    let setup = gate.stop().await;
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let held = stranger.local_addr().unwrap();
    let file = setup.directory().join("toolgate.yaml");
    let written = std::fs::read_to_string(&file).unwrap();
    let moved = written.replacen("listen: 127.0.0.1:0", &format!("listen: {held}"), 1);
    assert_ne!(
        moved, written,
        "the door for agents is where the stranger is: {written}"
    );
    std::fs::write(&file, moved).unwrap();
    let done = setup.run(&["doctor", "--config", "toolgate.yaml"]).await;
    let text = String::from_utf8(done.stdout).unwrap();
    let wrong = format!("problem  {held} cannot be listened on");
    assert!(text.contains(&wrong), "{text}");
    assert!(
        text.contains("note     `bank__read` is disabled by ann"),
        "{text}"
    );
    assert_eq!(done.status.code(), Some(1), "{text}");
}

/// It serves, and says that its files have errors.
async fn is_ready_and_stale(gate: &Gate) {
    let ready = gate.readiness().await;
    assert_eq!(ready["ready"], true);
    let reasons = ready["reasons"].to_string();
    assert!(reasons.contains("policy files have errors"), "{ready}");
    let told = crate::harness::answer::get(gate.operators, "/readyz")
        .await
        .unwrap();
    let word = json!({ "status": "ready", "ready": true, "policy_stale": true });
    assert_eq!((told.status, told.message()), (200, word));
}

/// D19: starts, reloads, their refusals and stops are in the ledger, which is sound and tells calls as before; while
/// the files have errors, `/readyz` says so.
#[tokio::test]
async fn reloads_and_restarts_are_in_the_ledger() {
    let (_server, gate) = stage().await;
    let policy = gate.path("policy.yaml");
    let written = std::fs::read_to_string(&policy).unwrap();
    let known = async |count: usize| {
        until(&format!("{count} events"), || async {
            let events = events(&gate.setup).await;
            (events.len() >= count).then_some(events)
        })
        .await
    };
    known(1).await;
    std::fs::write(&policy, format!("{written}contractz: {{}}\n")).unwrap();
    known(2).await;
    is_ready_and_stale(&gate).await;
    std::fs::write(&policy, &written).unwrap();
    known(3).await;
    std::fs::write(&policy, written.replace("a test", "another")).unwrap();
    let four = known(4).await;
    assert_eq!(four[1]["errors"], 1, "{four:?}");
    assert_eq!(four[2]["before"], four[2]["policy"], "{four:?}");
    assert_ne!(four[3]["before"], four[3]["policy"], "{four:?}");
    for line in [
        "the last good policy stays in force",
        "the policy files have no errors and say what is in force",
        "the policy was reloaded",
    ] {
        assert!(gate.log().contains(line), "{line} in {}", gate.log());
    }
    assert!(
        gate.agent()
            .modern_call("bank__read", json!({}))
            .await
            .is_done()
    );
    assert_eq!(gate.entries(1).await.len(), 1, "events are no calls");
    let pid = gate.pid();
    let setup = gate.stop().await;
    let events = events(&setup).await;
    let all = [
        "started",
        "reload_refused",
        "reloaded",
        "reloaded",
        "stopped",
    ];
    assert_eq!(names(&events), all, "{events:?}");
    assert_eq!(
        (&events[0]["pid"], &events[4]["pid"]),
        (&json!(pid), &json!(pid))
    );
    for verb in ["verify", "list", "events"] {
        let done = setup.run(&["ledger", verb, "--data", "data"]).await;
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success(), "{text}");
        assert_eq!(verb == "events", text.contains("reload_refused"), "{text}");
    }
}

/// `ledger tail -f` of the ledger that a toolgate writes.
struct Following {
    process: Child,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn of(gate: &Gate, words: &[&str]) -> Self {
        let mut process = Command::new(TOOLGATE)
            .args(["ledger", "tail", "-f", "--json", "--data", "data"])
            .args(words)
            .current_dir(gate.setup.directory())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(DEADLINE, self.lines.next_line()).await;
        serde_json::from_str(&line.expect("a line in time").unwrap().unwrap()).unwrap()
    }
}

/// Each call comes as it is written, across a restart of the toolgate that writes; Ctrl-C is a good end.
#[tokio::test]
async fn the_ledger_is_followed_as_it_is_written() {
    let (_server, gate) = stage().await;
    gate.agent()
        .modern_call("bank__read", json!({ "n": 1 }))
        .await;
    gate.entries(1).await;
    let mut all = Following::of(&gate, &[]);
    let mut refused = Following::of(&gate, &["--outcome", "unknown", "-n", "0"]);
    assert_eq!(all.next().await["event"], "started");
    assert_eq!(all.next().await["outcome"], "answered");
    gate.agent()
        .modern_call("bank__read", json!({ "n": 2 }))
        .await;
    assert_eq!(all.next().await["tool"], "bank__read");
    gate.agent().modern_call("bank__lose", json!({})).await;
    assert_eq!(all.next().await["outcome"], "unknown");
    assert_eq!(refused.next().await["tool"], "bank__lose");
    let setup = gate.stop().await;
    assert_eq!(all.next().await["event"], "stopped");
    let gate = setup.start().await;
    assert_eq!(all.next().await["event"], "started");
    gate.agent()
        .modern_call("bank__read", json!({ "n": 3 }))
        .await;
    assert_eq!(all.next().await["outcome"], "answered");
    let pid = i32::try_from(all.process.id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = tokio::time::timeout(DEADLINE, all.process.wait()).await;
    assert_eq!(ended.expect("an end in time").unwrap().code(), Some(0));
}

/// D27: what `promtool check metrics` says of a scrape: nothing.
#[tokio::test]
async fn promtool_finds_nothing_wrong_with_a_scrape() {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".tools/bin/promtool");
    let promtool = if own.exists() { own } else { "promtool".into() };
    if Command::new(&promtool)
        .arg("--version")
        .output()
        .await
        .is_err()
    {
        left_out("promtool", "tests/tools/setup installs it");
        return;
    }
    let (_server, gate) = stage().await;
    gate.agent().modern_call("bank__read", json!({})).await;
    gate.agent().modern_call("bank__lose", json!({})).await;
    gate.entries(2).await;
    let scrape = gate.asks_operators(("GET", "/metrics"), &[], "").await;
    let kind = scrape.header("content-type").unwrap();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let mut judge = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = judge.stdin.take().unwrap();
    input.write_all(scrape.text().as_bytes()).await.unwrap();
    drop(input);
    let judged = judge.wait_with_output().await.unwrap();
    let said = String::from_utf8([judged.stdout, judged.stderr].concat()).unwrap();
    assert_eq!((judged.status.code(), said.as_str()), (Some(0), ""));
    assert!(
        scrape.text().contains("toolgate_latency_seconds_count 2"),
        "{}",
        scrape.text()
    );
}
