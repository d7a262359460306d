//! A changed policy is in force whole or not at all; what is wrong leaves the last good one in
//! force and says so.

use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::stdio::Launched;
use crate::harness::{DEADLINE, until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Every call is refused, with a code that tells the policies apart.
fn policy(code: &str) -> String {
    format!(
        "contracts:
  oracle__read:
    purpose: test
    actions: [read]
    rules: [ {{ code: {code}, when: \"true\" }} ]
    secrets: []
"
    )
}

async fn stage() -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: "",
        more: "",
        policy: policy("before"),
        observe: false,
    };
    (scripted, Gate::start(settings).await)
}

/// Writes beside and renames, as editors and deployments do.
fn replace(gate: &Gate, text: &str) {
    place(&gate.setup, text);
}

fn place(setup: &Setup, text: &str) {
    let (new, file) = (
        setup.directory().join("policy.yaml.new"),
        setup.directory().join("policy.yaml"),
    );
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

async fn answers_with(gate: &Gate, expected: &str) {
    let agent = gate.agent();
    until(&format!("calls are refused with {expected}"), || async {
        (code(&agent.call("oracle__read", json!({})).await).as_deref() == Some(expected))
            .then_some(())
    })
    .await;
}

/// design §3 "Policy is an immutable snapshot": under load each call is judged by the old or the
/// new policy, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_swaps_the_policy_whole_under_load() {
    let (_scripted, gate) = stage().await;
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (agent, stop) = (gate.agent(), stop.clone());
            tokio::spawn(async move {
                let mut seen = BTreeSet::new();
                while !stop.load(Ordering::Relaxed) {
                    seen.insert(code(&agent.call("oracle__read", json!({})).await));
                }
                seen
            })
        })
        .collect();
    for expected in ["after", "before", "after"] {
        replace(&gate, &policy(expected));
        answers_with(&gate, expected).await;
    }
    stop.store(true, Ordering::Relaxed);
    let known = BTreeSet::from([Some("before".to_owned()), Some("after".to_owned())]);
    for load in load {
        assert_eq!(load.await.unwrap(), known);
    }
    assert!(
        gate.metric("toolgate_reloads_total{outcome=\"swapped\"}")
            .await
            >= 3.0
    );
    let entries = gate.stop().await;
    let (_, listed, _) =
        crate::harness::gate::run(&entries, &["ledger", "list", "--json", "--data", "data"]).await;
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in listed.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        versions
            .entry(text("policy"))
            .or_default()
            .insert(text("aborted_reason"));
    }
    assert_eq!(versions.len(), 2, "{versions:?}");
    assert!(
        versions.values().all(|codes| codes.len() == 1),
        "a version has one meaning: {versions:?}"
    );
}

/// design §3: each of these policies refuses in a step of its own and passes all others; a call
/// that were judged by two of them could be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_judged_by_a_mixture_of_two_policies() {
    let policies = four_policies();
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let settings = Settings {
        policy: policies[0].1.clone(),
        ..Settings::open(scripted.url(), &[])
    };
    let gate = Gate::start(settings).await;
    let refused = async |agent: &crate::harness::agent::Agent| {
        let answer = agent.call("oracle__read", json!({})).await;
        if answer["error"]["code"] == -32602 {
            "hidden".to_owned()
        } else {
            code(&answer).expect("no policy lets it pass")
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (agent, stop) = (gate.agent(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    refused(&agent).await;
                }
            })
        })
        .collect();
    for (expected, text) in policies.iter().cycle().skip(1).take(8) {
        replace(&gate, text);
        let agent = gate.agent();
        until(&format!("calls are refused with {expected}"), || async {
            (refused(&agent).await == *expected).then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    for load in load {
        load.await.unwrap();
    }
    assert_eq!(scripted.executions(), 0);
    assert!(
        gate.metric("toolgate_reloads_total{outcome=\"swapped\"}")
            .await
            >= 8.0
    );
    let setup = gate.stop().await;
    let (_, listed, _) =
        crate::harness::gate::run(&setup, &["ledger", "list", "--json", "--data", "data"]).await;
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in listed.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        let codes = versions.entry(text("policy")).or_default();
        codes.insert(text("aborted_reason"));
    }
    assert!(
        versions.len() == 4 && versions.values().all(|codes| codes.len() == 1),
        "{versions:?}"
    );
}

/// Each refuses every call, with another code.
fn four_policies() -> [(&'static str, String); 4] {
    let written = |more: &str, layers: &str| {
        format!(
            "contracts:\n  oracle__read: {{ purpose: test, actions: [read], secrets: []{more} }}\nlayers: {{ {layers} }}\n"
        )
    };
    let hidden = "agent: { anonymous: { deny: ['*__read'] } }";
    let arguments = ", arguments: { required: [missing] }";
    let rule = ", rules: [ { code: refused_by_rule, when: 'true' } ]";
    [
        ("hidden", written("", hidden)),
        ("schema_invalid", written(arguments, "")),
        (
            "rbac_denied",
            written(", permission: { roles: [nobody] }", ""),
        ),
        ("refused_by_rule", written(rule, "")),
    ]
}

/// An invalid change keeps the last good policy; log, metrics and /readyz say so with file and
/// line, until it is mended.
#[tokio::test]
async fn an_invalid_change_keeps_the_last_good_policy_and_says_so() {
    let (_scripted, gate) = stage().await;
    let version = gate.readiness().await["policy"]["version"].clone();
    replace(
        &gate,
        &policy("after").replace("actions: [read]", "actons: [read]"),
    );
    until("/readyz says that the policy is stale", || async {
        (gate.readiness().await["policy"]["stale"] == true).then_some(())
    })
    .await;
    let ready = gate.readiness().await;
    assert_eq!(
        (&ready["ready"], &ready["policy"]["version"]),
        (&json!(true), &version)
    );
    let problems = ready["policy"]["problems"].to_string();
    assert!(
        problems.contains("policy.yaml:4:5") && problems.contains("actons"),
        "{problems}"
    );
    until("the metrics say so", || async {
        (gate.metric("toolgate_policy_stale").await > 0.5).then_some(())
    })
    .await;
    assert!(
        gate.metric("toolgate_reloads_total{outcome=\"kept\"}")
            .await
            > 0.5
    );
    assert!(
        gate.log().contains("the last good policy stays in force"),
        "{}",
        gate.log()
    );
    answers_with(&gate, "before").await;

    // Put back as it was, it is no longer stale, although nothing was swapped.
    replace(&gate, &policy("before"));
    until("the metrics say that it is mended", || async {
        (gate.metric("toolgate_policy_stale").await < 0.5).then_some(())
    })
    .await;
    assert_eq!(gate.readiness().await["policy"]["stale"], false);
    replace(&gate, &policy("after"));
    answers_with(&gate, "after").await;
    assert_ne!(gate.readiness().await["policy"]["version"], version);
}

/// threat-model §9: a file that others may write from now on is worth nothing, though it says the
/// same; nor is what they wrote.
#[tokio::test]
async fn s9_a_file_that_others_may_write_keeps_the_last_good_policy() {
    let (_scripted, gate) = stage().await;
    let file = gate.path("policy.yaml");
    let chmod = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    let stale = async |expected: bool| {
        until(&format!("stale is {expected}"), || async {
            (gate.readiness().await["policy"]["stale"] == expected).then_some(())
        })
        .await;
    };
    chmod(0o666);
    stale(true).await;
    let problems = gate.readiness().await["policy"]["problems"].to_string();
    assert!(
        problems.contains("others than its owner may write this file")
            && problems.contains("chmod go-w")
    );
    std::fs::write(&file, policy("after")).unwrap();
    gate.hang_up();
    until("a second reading failed", || async {
        (gate
            .metric("toolgate_reloads_total{outcome=\"kept\"}")
            .await
            > 1.5)
            .then_some(())
    })
    .await;
    answers_with(&gate, "before").await;
    chmod(0o644);
    answers_with(&gate, "after").await;
    stale(false).await;
}

/// A change that the system does not tell of, behind a link, is read after SIGHUP.
#[tokio::test]
async fn a_hangup_reads_the_files_again() {
    let (_scripted, gate) = stage().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("policy.yaml");
    std::fs::write(&target, policy("linked")).unwrap();
    std::os::unix::fs::symlink(&target, gate.path("link")).unwrap();
    std::fs::rename(gate.path("link"), gate.path("policy.yaml")).unwrap();
    answers_with(&gate, "linked").await;
    std::fs::write(&target, policy("hung_up")).unwrap();
    gate.hang_up();
    answers_with(&gate, "hung_up").await;
}

/// A file that is written over where it lies, in a directory of policies that is named from where
/// toolgate runs, is in force without a signal.
#[tokio::test]
async fn a_file_of_a_directory_is_read_again_when_it_is_written_over() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let server = format!("url: \"{}\"", scripted.url());
    let setup = Setup::new()
        .server_with("oracle", &server)
        .more("policies: [policies]");
    let file = setup.directory().join("policies/one.yaml");
    std::fs::create_dir(setup.directory().join("policies")).unwrap();
    std::fs::write(&file, policy("before")).unwrap();
    setup.write();
    let mut agent = Launched::start(&setup, &[], false).await;
    assert_eq!(refused_with(&mut agent).await, "before");
    let changed = async {
        while refused_with(&mut agent).await != "after" {
            std::fs::write(&file, policy("after")).unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, changed)
        .await
        .expect("the change is in force");
    agent.end().await;
}

/// An agent that launched toolgate is judged by a changed policy, too, and by the last good one
/// while the files are wrong.
#[tokio::test]
async fn behind_stdio_a_change_is_in_force_and_an_invalid_one_is_not() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let server = format!("url: \"{}\"", scripted.url());
    let setup = Setup::new()
        .server_with("oracle", &server)
        .policy(&policy("before"));
    let log = || std::fs::read_to_string(setup.directory().join("stdio.log")).unwrap();
    for legacy in [false, true] {
        setup.write();
        let mut agent = Launched::start(&setup, &[], legacy).await;
        assert_eq!(refused_with(&mut agent).await, "before");
        // A change counts from when the files are watched on; what is written again as it is
        // changes nothing.
        let changed = async {
            while refused_with(&mut agent).await != "after" {
                place(&setup, &policy("after"));
            }
        };
        tokio::time::timeout(DEADLINE, changed)
            .await
            .unwrap_or_else(|_| panic!("not in force; log:\n{}", log()));
        assert!(log().contains("the policy was reloaded"), "{}", log());

        place(
            &setup,
            &policy("broken").replace("actions: [read]", "actons: [read]"),
        );
        until("the log says what is wrong", || async {
            log().contains("stays in force").then_some(())
        })
        .await;
        assert!(
            log().contains("policy.yaml:4:5") && log().contains("actons"),
            "{}",
            log()
        );
        assert_eq!(
            refused_with(&mut agent).await,
            "after",
            "the last good policy"
        );

        place(&setup, &policy("mended"));
        let mended = async { while refused_with(&mut agent).await != "mended" {} };
        tokio::time::timeout(DEADLINE, mended)
            .await
            .unwrap_or_else(|_| panic!("not in force; log:\n{}", log()));
        agent.end().await;
    }
    assert_eq!(scripted.executions(), 0);
}

async fn refused_with(agent: &mut Launched) -> String {
    code(&agent.call("read", json!({})).await).unwrap()
}

/// Agents that listen are told when the policy shows them other tools.
#[tokio::test]
async fn agents_are_told_when_the_policy_shows_other_tools() {
    let (_scripted, gate) = stage().await;
    let (modern, legacy) = (gate.agent(), gate.legacy("/mcp").await);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = modern
        .post(&modern.request("subscriptions/listen", wanted))
        .await;
    assert_eq!(
        listening.message().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    let mut standalone = legacy.get(None).await;
    assert_eq!(modern.tools().await, ["oracle__read"]);
    replace(
        &gate,
        &format!(
            "{}layers: {{ global: {{ allow: [] }} }}\n",
            policy("before")
        ),
    );
    assert_eq!(
        listening.message().await["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(
        standalone.message().await["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(modern.tools().await, [""; 0]);
    assert_eq!(legacy.tools().await, [""; 0]);
}

/// 017: what a reload finds wrong fills no log: the first problems are there, and how many more.
#[tokio::test]
async fn a_reload_of_many_mistakes_logs_some_of_them() {
    let (_scripted, gate) = stage().await;
    let contract = |number: usize| {
        format!("  oracle__t{number}: {{ purpose: p, actions: [raed], secrets: [] }}\n")
    };
    let contracts: String = (0..500).map(contract).collect();
    replace(&gate, &format!("contracts:\n{contracts}"));
    until("the reload is told of", || async {
        let is_told = gate.log().contains("the last good policy stays in force");
        is_told.then_some(())
    })
    .await;
    let log = gate.log();
    assert_eq!(log.matches(": error: ").count(), 30, "{log}");
    assert!(log.contains("`toolgate check` shows them"), "{log}");
    answers_with(&gate, "before").await;
}
