//! Where values come from, and what becomes of calls when one cannot be had.

use super::{CANARY, judge, last_call};
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::table::rows;
use crate::harness::until;
use serde_json::json;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

/// A secret, where it comes from, and why it cannot be had.
const SOURCES: &str = "
unset     | env: TOOLGATE_NO_SUCH | the environment variable is not set
short     | env: SHORT_TOKEN      | the value is not 8 to 4096 bytes long
absent    | file: absent.txt      | the file cannot be read: entity not found
directory | file: .               | it is no regular file
fails     | command: [sh, -c, 'echo canary-of-a-failure; exit 3'], ttl: 1s | the program failed
hangs     | command: [sleep, '1000'], ttl: 1s, timeout: 100ms | it took too long
floods    | command: [cat, /dev/zero], ttl: 1s | the value is not 8 to 4096 bytes long
gone      | command: [/no/such/program], ttl: 1s | the program cannot be started: entity not found
";

/// threat-model §9 "secret backend down": wherever a value comes from, a call is refused before it
/// is sent when there is none, and the log says why, by the secret's name; `doctor` says so before
/// anybody calls, and a secret that is there again is had.
#[tokio::test]
async fn a_secret_that_cannot_be_had_refuses_its_calls() {
    let to = "for: [ { server: bank, tool: read, pointer: /token } ]";
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let mut secrets = "secrets:\n".to_owned();
    for [name, source, _] in rows(SOURCES) {
        writeln!(secrets, "  {name}: {{ {source}, {to} }}").unwrap();
    }
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(
            "contracts: { bank__read: { purpose: test, actions: [read], secrets: [/token] } }\n",
        )
        .more(&secrets)
        .environment("SHORT_TOKEN", "1234567");
    setup.write();
    let (exit, report, _) = run(&setup, &["doctor"]).await;
    assert_eq!(exit, 1, "{report}");
    let gate = setup.start().await;
    for [name, _, why] in rows(SOURCES) {
        let words = format!(
            "problem  the secret `{name}` cannot be had: {why}; calls that name it are refused"
        );
        assert!(report.contains(&words), "{words}: {report}");
        let answer = gate
            .agent()
            .call(
                "bank__read",
                json!({ "token": format!("<secret_ref:{name}>") }),
            )
            .await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("secret_denied"),
            "{name}: {answer}"
        );
        assert!(!answer.to_string().contains(name), "{answer}");
        let told = |line: &&str| {
            line.contains(name) && line.contains(why) && line.contains("the call is refused")
        };
        assert_eq!(
            gate.log().lines().filter(told).count(),
            1,
            "{name}: {}",
            gate.log()
        );
    }
    assert_eq!(scripted.executions(), 0);
    assert!(
        !gate.log().contains("canary-of-a-failure"),
        "{}",
        gate.log()
    );
    is_read_again(&scripted, &gate).await;
}

/// A file that is there again is read again.
async fn is_read_again(scripted: &ScriptedServer, gate: &Gate) {
    std::fs::write(gate.path("absent.txt"), "there-again\n").unwrap();
    until("the file is read again", || async {
        let answer = gate
            .agent()
            .call_anew("bank__read", json!({ "token": "<secret_ref:absent>" }))
            .await;
        code(&answer).is_none().then_some(())
    })
    .await;
    assert_eq!(
        last_call(scripted)["params"]["arguments"]["token"],
        "there-again"
    );
}

/// threat-model §9 "perm too wide": who else may write a secret's file says what is sent, which is
/// an error; who may read it has the secret, which is a warning.
#[tokio::test]
async fn rights_of_a_secrets_file_are_judged() {
    for (mode, code, words) in [
        (0o600, 0, None),
        (0o640, 0, None),
        (
            0o644,
            0,
            Some("warning: everybody on this machine may read this file"),
        ),
        (
            0o620,
            1,
            Some("error: others than its owner may write this file"),
        ),
        (
            0o602,
            1,
            Some("error: others than its owner may write this file"),
        ),
    ] {
        let policy =
            "contracts: { bank__read: { purpose: test, actions: [read], secrets: [/token] } }\n";
        let setup = Setup::new()
            .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
            .policy(policy);
        let setup =
            setup.more("secrets: { token: { file: t.txt, for: [ { server: bank, tool: read, pointer: /token } ] } }");
        setup.write();
        let file = setup.directory().join("t.txt");
        std::fs::write(&file, CANARY).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let (exit, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
        let text = out + &err;
        assert_eq!(exit, code, "{mode:o}: {text}");
        assert_eq!(
            text.contains("may read this file") || text.contains("may write this file"),
            words.is_some(),
            "{text}"
        );
        assert!(
            words.is_none_or(|words| text.contains(words)),
            "{mode:o}: {text}"
        );
        judge("check", text.as_bytes());
    }
}
