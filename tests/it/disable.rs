//! An operator takes a tool away and gives it back (003-41): at once, for good, and on record.

use crate::harness::agent::Agent;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ANN: &str = "token-of-ann-the-operator";

async fn stage(mode: &'static str) -> (ScriptedServer, Setup) {
    let scripted = ScriptedServer::with(["wipe", "read"].map(tool).to_vec()).await;
    let contracts = [("oracle__wipe", "write"), ("oracle__read", "read")];
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", scripted.url()))
        .contracts(&contracts);
    (
        scripted,
        setup.mode(mode).operators(&format!(
            "tokens: [ {{ name: ann, token: \"{ANN}\", roles: [switch] }} ]"
        )),
    )
}

/// Runs the verb against the running toolgate, or on the data directory.
async fn says(gate: Result<&Gate, &Setup>, args: &[&str]) -> (i32, String) {
    let door = gate.ok().map(|gate| gate.operators.to_string());
    let setup = gate.map_or_else(Clone::clone, |gate| gate.setup.clone());
    let mut all = args.to_vec();
    all.extend(["--config", "toolgate.yaml"]);
    all.extend(door.iter().flat_map(|door| ["--admin", door]));
    let setup = setup.environment("OPERATOR_TOKEN", ANN);
    let (code, out, err) = run(&setup, &all).await;
    (code, out + &err)
}

async fn refuses(agent: &Agent) -> bool {
    let answer = agent.call_anew("oracle__wipe", json!({})).await;
    answer["error"]["code"] == -32602
}

/// The next call is refused, the listing has changed and agents are told; other tools go on; a
/// restart changes nothing. Also where nothing else is refused.
#[tokio::test]
async fn a_tool_is_gone_at_once_and_stays_so_over_a_restart() {
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT[\d:.]+Z +").unwrap();
    for mode in ["enforce", "observe"] {
        let (scripted, setup) = stage(mode).await;
        let gate = setup.start().await;
        let (modern, legacy) = (gate.agent(), gate.legacy("/mcp").await);
        let (modern, mut listening) = modern.listens_for_tools(true).await;
        let mut standalone = legacy.get(None).await;
        assert_eq!(modern.tools().await, ["oracle__wipe", "oracle__read"]);
        assert!(!refuses(&modern).await);

        let (code, words) = says(
            Ok(&gate),
            &["disable", "oracle__wipe", "--why", "it wiped too much"],
        )
        .await;
        assert_eq!(
            (code, words.as_str()),
            (0, "oracle__wipe is disabled by ann\n")
        );
        let before = scripted.executions();
        for agent in [&modern, &legacy] {
            assert!(refuses(agent).await);
            assert_eq!(agent.tools().await, ["oracle__read"]);
            assert!(agent.call_anew("oracle__read", json!({})).await["result"]["isError"] != true);
        }
        assert_eq!(scripted.executions() - before, 2, "only the reads");
        for stream in [&mut listening, &mut standalone] {
            let told = stream.message().await;
            assert_eq!(told["method"], "notifications/tools/list_changed");
        }
        assert!((gate.metric("toolgate_disabled_tools").await - 1.0).abs() < 0.1);
        judge_refusal(&gate.entries(4).await);

        let setup = gate.stop().await;
        let gate = setup.start().await;
        assert!(refuses(&gate.agent()).await, "{mode}");
        let (code, listed) = says(Ok(&gate), &["disable"]).await;
        assert_eq!(code, 0, "{listed}");
        insta::assert_snapshot!(
            "what_is_disabled",
            time.replace(&listed, "2026-11-21T10:00:00.000Z  ")
        );
        let (code, words) = says(Ok(&gate), &["enable", "oracle__wipe", "--why", "mended"]).await;
        assert_eq!(
            (code, words.as_str()),
            (0, "oracle__wipe is enabled by ann\n")
        );
        assert!(!refuses(&gate.agent()).await);
        let setup = gate.stop().await;
        assert_eq!(
            notes(&setup).await,
            [("disabled", "it wiped too much"), ("enabled", "mended")].map(note)
        );
    }
}

/// Where nothing else is refused, a server answers for names that it does not list: not for one that
/// it could take for a tool that is taken away.
#[tokio::test]
async fn no_other_spelling_leads_to_a_tool_that_is_gone() {
    let (scripted, setup) = stage("observe").await;
    let gate = setup.start().await;
    let (code, words) = says(Ok(&gate), &["disable", "oracle__wipe", "--why", "so"]).await;
    assert_eq!(code, 0, "{words}");
    for agent in [gate.agent(), gate.legacy("/mcp").await] {
        for (name, is_alike) in [
            ("oracle__Wipe", true),
            ("oracle__wipe_", true),
            ("oracle__.WIPE", true),
            ("oracle__wipe ", true),
            ("oracle__wipe\u{200b}", true),
            ("oracle__\u{ff57}ipe", true),
            ("oracle__swipe", false),
        ] {
            let before = scripted.executions();
            let answer = agent.call_anew(name, json!({})).await;
            assert_eq!(
                answer["error"]["code"] == -32602,
                is_alike,
                "{name}: {answer}"
            );
            let ran = scripted.executions() - before;
            assert_eq!(ran, usize::from(!is_alike), "{name}");
        }
    }
}

fn judge_refusal(entries: &[Value]) {
    let refused = entries.iter().find(|entry| entry["outcome"] == "refused");
    let by = refused.unwrap()["decided_by"].as_str().unwrap();
    assert!(
        by.starts_with("disabled: by ann since ") && by.ends_with(": it wiped too much"),
        "{by}"
    );
}

fn note((what, why): (&str, &str)) -> Value {
    json!({ what: { "tool": "oracle__wipe", "who": "ann", "why": why } })
}

async fn notes(setup: &Setup) -> Vec<Value> {
    let (_, exported, _) = run(setup, &["ledger", "export", "--data", "data"]).await;
    let lines = exported
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let notes = lines.filter_map(|line| line["noted"].get("note").cloned());
    // Starts and stops are noted, too.
    let is_switch = |note: &Value| note.get("disabled").or(note.get("enabled")).is_some();
    notes.filter(is_switch).collect()
}

/// While the files are broken an operator can still take a tool away: that is when it matters most.
#[tokio::test]
async fn a_tool_can_be_taken_away_while_the_policy_is_stale() {
    let (_scripted, setup) = stage("enforce").await;
    let gate = setup.start().await;
    std::fs::write(gate.path("policy.yaml"), "contracts: {").unwrap();
    gate.hang_up();
    let stale = async || gate.readiness().await["policy"]["stale"] == true;
    until("the policy is stale", || async {
        stale().await.then_some(())
    })
    .await;
    assert_eq!(
        says(Ok(&gate), &["disable", "oracle__wipe", "--why", "x"])
            .await
            .0,
        0
    );
    assert!(refuses(&gate.agent()).await && stale().await);
}

/// Without a running toolgate the next one starts without the tool; a name that can be no tool is
/// refused.
#[tokio::test]
async fn a_tool_is_taken_away_while_nothing_runs() {
    let (_scripted, setup) = stage("enforce").await;
    setup.write();
    let gate = setup.start().await;
    let (code, words) = says(Ok(&gate), &["disable", "oracle__wiep", "--why", "x"]).await;
    assert!(
        code == 1 && words.contains("there is no such tool"),
        "{words}"
    );
    let (code, words) = says(Ok(&gate), &["enable", "oracle__wipe", "--why", "x"]).await;
    assert!(
        code == 1 && words.contains("the tool is not disabled"),
        "{words}"
    );
    let setup = gate.stop().await;
    let (code, words) = says(Err(&setup), &["disable", "oracel__wipe", "--why", "x"]).await;
    assert!(
        code == 1 && words.contains("there is no such tool"),
        "{words}"
    );
    let (code, words) = says(Err(&setup), &["disable", "oracle__wiep", "--why", "x"]).await;
    assert_eq!(
        (code, words.as_str()),
        (
            1,
            "toolgate: `oracle__wiep` has no contract, so nobody can call it; did you mean `oracle__wipe`?\n"
        )
    );
    let nowhere = Setup::new().contracts(&[("oracle__wipe", "write")]);
    let nowhere = nowhere.server_with("oracle", "url: \"http://127.0.0.1:9/mcp\"");
    nowhere.write();
    let (code, words) = says(Err(&nowhere), &["disable", "oracle__wipe", "--why", "x"]).await;
    assert!(
        code == 1 && words.contains("no toolgate has run on it yet"),
        "{words}"
    );
    let (code, words) = says(Err(&setup), &["disable", "oracle__wipe", "--why", "x"]).await;
    assert!(
        code == 0 && words.contains("oracle__wipe is disabled by "),
        "{words}"
    );
    let explained = ["explain", "--agent", "anonymous", "--tool", "oracle__wipe"];
    let (code, words) = says(Err(&setup), &explained).await;
    assert!(
        code == 1 && words.contains("disabled: by ") && words.contains("=> refused"),
        "{words}"
    );
    let gate = setup.start().await;
    assert!(refuses(&gate.agent()).await);
}

/// Under load every call that begins after the answer is refused, and none is half judged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_no_later_call_passes() {
    let (scripted, setup) = stage("enforce").await;
    let gate = setup.start().await;
    let (stop, away) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let load = (0..4).map(|_| {
        let (agent, stop, away) = (gate.agent(), stop.clone(), away.clone());
        tokio::spawn(async move {
            let mut seen = [0_usize; 2];
            while !stop.load(Ordering::SeqCst) {
                let is_away = away.load(Ordering::SeqCst);
                let refused = refuses(&agent).await;
                assert!(
                    refused || !is_away,
                    "a call passed after the tool was taken away"
                );
                seen[usize::from(refused)] += 1;
            }
            seen
        })
    });
    let load: Vec<_> = load.collect();
    until("calls pass", || async {
        (scripted.executions() > 3).then_some(())
    })
    .await;
    assert_eq!(
        says(Ok(&gate), &["disable", "oracle__wipe", "--why", "x"])
            .await
            .0,
        0
    );
    away.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        assert!(refuses(&gate.agent()).await);
    }
    stop.store(true, Ordering::SeqCst);
    let mut passed = 0;
    for load in load {
        passed += load.await.unwrap()[0];
    }
    assert_eq!(
        passed,
        scripted.executions(),
        "what was refused was not executed"
    );
}

/// A call that waits for its turn when the tool is taken away is not sent, and its entry says why.
#[tokio::test]
async fn a_call_that_waits_is_not_sent_any_more() {
    let server = Script::new().tool("pay", Behaviour::Held).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__pay", "write")]);
    let gate = setup
        .operators(&format!(
            "tokens: [ {{ name: ann, token: \"{ANN}\", roles: [switch] }} ]"
        ))
        .start()
        .await;
    let pay = |key: &'static str| {
        let agent = gate.agent();
        let meta = json!({ "dev.toolgate/session": "one", "dev.toolgate/idempotencyKey": key });
        let params = json!({ "name": "oracle__pay", "arguments": { "key": key }, "_meta": meta });
        tokio::spawn(async move { agent.ask("tools/call", params).await })
    };
    let first = pay("first");
    until("the first runs", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    let passed = "toolgate_stage_seconds_count{stage=\"budget\"} 2";
    let second = pay("second");
    until("the second waits", || async {
        gate.operators("/metrics")
            .await
            .contains(passed)
            .then_some(())
    })
    .await;
    assert_eq!(
        says(
            Ok(&gate),
            &["disable", "oracle__pay", "--why", "wrong amounts"]
        )
        .await
        .0,
        0
    );
    server.release();
    server.release();
    assert_eq!(second.await.unwrap()["error"]["code"], -32602);
    assert!(first.await.unwrap()["result"]["isError"] != true);
    assert_eq!(server.executions().len(), 1);
    let refused = gate
        .entries(2)
        .await
        .into_iter()
        .find(|entry| entry["outcome"] == "refused")
        .unwrap();
    assert!(
        refused["decided_by"]
            .as_str()
            .unwrap()
            .ends_with("wrong amounts"),
        "{refused}"
    );
}
