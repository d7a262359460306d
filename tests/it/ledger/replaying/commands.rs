//! Sandboxes that toolgate starts, and those of another configuration.

use super::{FULL, policy, says, server};
use crate::harness::gate::{run, runs};
use crate::harness::setup::{Setup, beside, contract};
use crate::harness::tool_server::executions;
use crate::harness::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::path::Path;

/// The processes whose environment names `log`.
fn running(log: &Path) -> usize {
    let needle = format!("ORACLE_LOG={}", log.display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = all.filter_map(|one| std::fs::read(one.path().join("environ")).ok());
    let names = environments.filter(|text| {
        text.split(|byte| *byte == 0)
            .any(|variable| variable == needle.as_bytes())
    });
    names.count()
}

/// A call of an oracle on standard input and output, and its id.
async fn made(tool: &str) -> (Setup, String) {
    let name = format!("bank__{tool}");
    let policy = format!("contracts:\n  {name}: {}\n", contract(&name, "read", FULL));
    let setup = Setup::new().child("bank", "", "20s").policy(&policy);
    let gate = setup.start().await;
    gate.agent().call(&name, json!({ "lines": [] })).await;
    let id = gate.entries(1).await.remove(0)["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    (gate.stop().await, id)
}

/// 004-51: the sandbox is a command; it ends with the replay. The command of the server itself is
/// refused, and so is every other place where no sandbox is.
#[tokio::test]
async fn a_command_is_a_sandbox() {
    let (setup, id) = made("read").await;
    let (program, log) = (
        beside("oracle-server"),
        setup.directory().join("sandbox.executions"),
    );
    let (program, variable) = (
        program.display().to_string(),
        format!("ORACLE_LOG={}", log.display()),
    );
    let own = executions(&setup.log_of("bank")).len();
    let replay = [
        "ledger",
        "replay",
        &id,
        "--config",
        "toolgate.yaml",
        "--sandbox",
        "--",
    ];
    let (status, out, err) = run(
        &setup,
        &[&replay[..], &["env", &variable, &program]].concat(),
    )
    .await;
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("=> stable: sha256"), "{out}");
    assert_eq!(executions(&log).len(), 1);
    until("the sandbox ends", async || {
        (running(&log) == 0).then_some(())
    })
    .await;

    let (status, out, err) = run(&setup, &[&replay[..], &[&program]].concat()).await;
    assert_eq!((status, out.as_str()), (2, ""), "{err}");
    assert!(
        err.contains("the sandbox is the server `bank` of the configuration"),
        "{err}"
    );
    assert_eq!(executions(&setup.log_of("bank")).len(), own);
}

/// 004-51: who interrupts a replay leaves no process behind.
#[tokio::test]
async fn an_interrupted_replay_leaves_no_process() {
    let (setup, id) = made("read").await;
    // The same call at a server that never answers.
    let log = setup.directory().join("sandbox.executions");
    let sandbox = format!(
        "listen: 127.0.0.1:0\ndata: other\nservers:\n  slow: {{ command: sh, args: [-c, 'read line; echo >> \"$ORACLE_LOG\"; exec sleep 600'], env: {{ ORACLE_LOG: \"{}\" }} }}\n",
        log.display()
    );
    std::fs::write(setup.directory().join("sandbox.yaml"), sandbox).unwrap();
    let words = format!(
        "ledger replay {id} --config toolgate.yaml --sandbox slow --sandbox-config sandbox.yaml --timeout 10m"
    );
    let mut child = setup.command(&words.split(' ').collect::<Vec<_>>());
    let child = child.spawn().unwrap();
    until("the sandbox runs", async || log.exists().then_some(())).await;
    assert!(running(&log) > 0);
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = child.wait_with_output().await.unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{err}");
    assert!(err.contains("interrupted"), "{err}");
    until("the sandbox ends", async || {
        (running(&log) == 0).then_some(())
    })
    .await;
}

/// 004-51: a server of another configuration is a sandbox, with what that says of it, and agents of
/// sessions are stood in for in sessions.
#[tokio::test]
async fn a_server_of_another_configuration_is_a_sandbox() {
    let (own, sandbox) = (server(says("5")).await, server(says("6")).await);
    let setup = Setup::new().server("bank", &own).policy(&policy(FULL));
    let gate = setup.start().await;
    let agent = gate.agent().initialized().await;
    agent.call("bank__look", json!({})).await;
    let id = gate.entries(1).await.remove(0)["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let setup = gate.stop().await;
    let other = format!(
        "servers: {{ staging: {{ url: \"{}\", headers: {{ Authorization: Bearer of-the-sandbox }} }} }}\n",
        sandbox.url()
    );
    std::fs::write(setup.directory().join("staging.yaml"), other).unwrap();
    let replay = format!("ledger replay {id} --config toolgate.yaml --sandbox-config staging.yaml");
    let (status, out, err) = runs(&setup, &format!("{replay} --sandbox staging")).await;
    assert_eq!(status, 1, "{out}{err}");
    assert!(
        out.contains("-\"5\"\n+\"6\"\n") && !out.contains("resultType"),
        "{out}"
    );
    let sent = &sandbox.executions()[0];
    assert_eq!(sent.headers["authorization"], "Bearer of-the-sandbox");
    assert_eq!(own.executions().len(), 1);
    let (status, _, err) = runs(&setup, &format!("{replay} --sandbox bank")).await;
    assert_eq!(status, 2, "{err}");
    assert!(
        err.contains("staging.yaml has no server `bank`, only: staging"),
        "{err}"
    );
}
