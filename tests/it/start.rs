//! How toolgate starts, refuses to start, and ends: one line that says what to do, and no process
//! left behind (issue 2, threat-model §3H H3).

use crate::harness::gate::Gate;
use crate::harness::setup::{Setup, TOOLGATE};
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use rustix::process::Signal;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

mod ungoverned;

/// The words on standard error and the exit code, with the directory and ports of the scenario
/// taken out.
async fn refusal(setup: &Setup, arguments: &[&str]) -> String {
    let output = setup.run(arguments).await;
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    let text = text.replace(setup.directory().to_str().unwrap(), "DIR");
    format!("{text}exit code {}\n", output.status.code().unwrap())
}

async fn serve(setup: &Setup) -> String {
    let config = setup.write();
    refusal(setup, &["serve", "--config", config.to_str().unwrap()]).await
}

fn one_server() -> Setup {
    Setup::new()
        .server_with("s", "url: \"http://127.0.0.1:1/mcp\"")
        .contracts(&[("s__t", "read")])
}

#[tokio::test]
async fn a_command_line_that_cannot_be_used_says_so_with_exit_code_2() {
    let setup = one_server();
    let mut said = String::new();
    for arguments in [
        &["serve", "--confg", "x"][..],
        &["serv"],
        &["stdio"],
        &["serve", "--upstream", "no url"],
    ] {
        writeln!(
            said,
            "$ toolgate {}\n{}",
            arguments.join(" "),
            refusal(&setup, arguments).await
        )
        .unwrap();
    }
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_says_so_with_exit_code_1() {
    let mut said = String::new();
    let mut add = |what: &str, text: String| writeln!(said, "# {what}\n{text}").unwrap();
    add(
        "unknown key",
        serve(&one_server().more("polices: []")).await,
    );
    add(
        "missing variable",
        serve(&one_server().callers("  - { agent: bot, token: \"${BOT_TOKEN}\" }")).await,
    );
    let setup = one_server();
    setup.write();
    add(
        "no such file",
        refusal(&setup, &["serve", "--config", "absent.yaml"]).await,
    );
    add(
        "a directory",
        refusal(&setup, &["serve", "--config", "."]).await,
    );
    add(
        "nothing named or found",
        refusal(&Setup::new(), &["serve"]).await,
    );
    std::fs::write(setup.directory().join("latin.yaml"), b"listen: \xe9\n").unwrap();
    add(
        "no UTF-8",
        refusal(&setup, &["serve", "--config", "latin.yaml"]).await,
    );
    add(
        "a policy that is not there",
        serve(&one_server().more("policies: [absent]").policy("")).await,
    );
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn a_file_that_may_not_be_read_is_one_line() {
    let setup = one_server();
    let (config, program) = (setup.write(), setup.directory().join("toolgate"));
    std::fs::set_permissions(&config, Permissions::from_mode(0o000)).unwrap();
    std::fs::set_permissions(setup.directory(), Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(TOOLGATE, &program).unwrap();
    let mut command = tokio::process::Command::new(program);
    command
        .args(["serve", "--config"])
        .arg(&config)
        .current_dir(setup.directory());
    if rustix::process::geteuid().is_root() {
        // Root may read everything, so it is nobody who tries.
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("toolgate.yaml: error: cannot be read: Permission denied"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1), "{said}");
}

/// threat-model §9: who may write the files may write the policy; `check` and `serve` say so alike.
#[tokio::test]
async fn s9_files_that_others_may_write_are_refused_at_start() {
    let setup = one_server();
    let config = setup.write();
    for (file, mode) in [("policy.yaml", 0o646), ("toolgate.yaml", 0o666)] {
        std::fs::set_permissions(setup.directory().join(file), Permissions::from_mode(mode))
            .unwrap();
    }
    let said = refusal(&setup, &["serve", "--config", config.to_str().unwrap()]).await;
    insta::assert_snapshot!(said);
    let checked = setup.run(&["check", config.to_str().unwrap()]).await;
    let text = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert_eq!(
        (
            checked.status.code(),
            text.matches("others than its owner").count()
        ),
        (Some(1), 2),
        "{text}"
    );
}

#[tokio::test]
async fn a_port_in_use_is_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let said = serve(&one_server().listen(address))
        .await
        .replace(&address.to_string(), "ADDRESS");
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn a_second_toolgate_on_the_same_ledger_is_one_line() {
    let setup = one_server();
    let first = setup.clone().begin().await;
    let said = serve(&setup).await;
    let pid = first.pid().to_string();
    insta::assert_snapshot!(said.replace(&pid, "PID"));
    assert!(
        first
            .agent()
            .modern("server/discover", json!({}))
            .await
            .status
            > 0,
        "the first serves on"
    );
}

#[tokio::test]
async fn a_child_that_cannot_start_hides_its_tools_and_hurts_nobody() {
    let oracle = Script::new().tool("read", Behaviour::Answers).start().await;
    let gate = Setup::new()
        .server("good", &oracle)
        .server_with("bad", "command: /nowhere/at-all")
        .contracts(&[("good__read", "read"), ("bad__read", "read")])
        .start()
        .await;
    assert!(
        gate.agent()
            .modern_call("good__read", json!({}))
            .await
            .is_done()
    );
    assert_eq!(
        gate.agent()
            .modern_call("bad__read", json!({}))
            .await
            .refusal(),
        "tool_not_allowlisted"
    );
    let log = gate.log();
    let line = log
        .lines()
        .find(|line| line.contains("/nowhere/at-all"))
        .unwrap_or_else(|| panic!("not in the log:\n{log}"));
    assert!(
        line.contains("`bad` cannot be started: /nowhere/at-all does not exist; correct `command`"),
        "{line}"
    );
    let ready = gate.operators("/readyz").await;
    assert!(ready.contains("/nowhere/at-all"), "{ready}");
}

/// A gate with one call in flight, and that call.
async fn in_flight() -> (
    crate::harness::tool_server::ToolServer,
    Gate,
    tokio::task::JoinHandle<crate::harness::answer::Answer>,
) {
    let oracle = Script::new().tool("held", Behaviour::Held).start().await;
    let gate = Setup::new()
        .server("s", &oracle)
        .contracts(&[("s__held", "write")])
        .start()
        .await;
    let agent = gate.agent();
    let call = tokio::spawn(async move { agent.modern_call("s__held", json!({})).await });
    until("the call runs", || async {
        (oracle.executions().len() == 1).then_some(())
    })
    .await;
    (oracle, gate, call)
}

#[tokio::test]
async fn sigterm_lets_a_call_in_flight_be_answered_and_recorded() {
    let (oracle, mut gate, call) = in_flight().await;
    gate.terminate();
    until("no new connections", || async {
        tokio::net::TcpStream::connect(gate.agents)
            .await
            .is_err()
            .then_some(())
    })
    .await;
    assert!(gate.runs() && !call.is_finished());
    oracle.release();
    assert!(call.await.unwrap().is_done());
    assert_eq!(gate.wait().await.code(), Some(0));
    let entries = gate.ledger().await;
    assert_eq!(
        entries
            .iter()
            .map(|entry| entry["outcome"].clone())
            .collect::<Vec<_>>(),
        [json!("answered")]
    );
    let verified = gate
        .setup
        .run(&["ledger", "verify", "--data", "data"])
        .await;
    assert!(verified.status.success(), "{verified:?}");
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

/// The oracles that note what they execute in `log`.
fn oracles(log: &std::path::Path) -> Vec<u32> {
    let wanted = format!("ORACLE_LOG={}", log.display());
    let processes = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let of_log = |pid: &u32| {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        program.is_ok_and(|program| program.ends_with("oracle-server"))
            && std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
                environ
                    .split(|byte| *byte == 0)
                    .any(|variable| variable == wanted.as_bytes())
            })
    };
    processes.filter(|pid| lives(*pid) && of_log(pid)).collect()
}

#[tokio::test]
async fn h3_after_kill_9_no_child_lives_on_and_the_next_start_serves() {
    let setup = Setup::new()
        .child("calm", "", "20s")
        .child("stubborn", "--stubborn", "20s")
        .contracts(&[("calm__write", "write"), ("stubborn__write", "write")]);
    for round in 1..=3 {
        let mut gate = setup.clone().start().await;
        for server in ["calm", "stubborn"] {
            let answer = gate
                .agent()
                .modern_call(&format!("{server}__write"), json!({}))
                .await;
            assert!(answer.is_done(), "round {round}: {answer:?}");
            assert!(!oracles(&setup.log_of(server)).is_empty(), "{server}");
        }
        gate.entries(2 * round).await;
        gate.kill().await;
        until("no oracle lives", || async {
            let left: usize = ["calm", "stubborn"]
                .iter()
                .map(|server| oracles(&setup.log_of(server)).len())
                .sum();
            (left == 0).then_some(())
        })
        .await;
    }
    let gate = setup.clone().start().await;
    assert_eq!(gate.ledger().await.len(), 6, "three rounds of two calls");
}

#[tokio::test]
async fn h3_a_child_left_behind_with_its_guard_dead_is_swept_by_the_next_start() {
    let setup = Setup::new()
        .child("stubborn", "--stubborn", "20s")
        .contracts(&[("stubborn__write", "write")]);
    let mut gate = setup.clone().start().await;
    let left = oracles(&setup.log_of("stubborn"));
    assert_eq!(left.len(), 1);
    // Stopped, it cannot replace what it loses.
    gate.signal(Signal::STOP);
    for guard in guards_of(gate.pid()) {
        kill(guard);
    }
    gate.kill().await;
    let gate = setup.clone().start().await;
    until("what was left behind is gone", || async {
        (!lives(left[0])).then_some(())
    })
    .await;
    assert!(
        gate.agent()
            .modern_call("stubborn__write", json!({}))
            .await
            .is_done()
    );
    assert_eq!(
        oracles(&setup.log_of("stubborn")).len(),
        1,
        "one child, a new one"
    );
}

/// The processes that guard the children of a toolgate.
fn guards_of(toolgate: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let tasks = std::fs::read_dir(format!("/proc/{toolgate}/task")).unwrap();
    for task in tasks {
        let children =
            std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .map(|pid| pid.parse::<u32>().unwrap()),
        );
    }
    found.sort_unstable();
    found.dedup();
    assert!(!found.is_empty(), "toolgate has no guard");
    found
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

#[tokio::test]
async fn sigterm_ends_a_stubborn_child() {
    let setup = Setup::new()
        .child("stubborn", "--stubborn", "20s")
        .contracts(&[("stubborn__write", "write")]);
    let mut gate = setup.clone().start().await;
    gate.terminate();
    assert_eq!(gate.wait().await.code(), Some(0));
    assert!(oracles(&setup.log_of("stubborn")).is_empty());
}
