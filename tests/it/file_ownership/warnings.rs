//! What a machine lets others see is said.

use super::{NOBODY, is_root, mode};
use crate::harness::gate::Gate;
use crate::harness::setup::{Setup, TOOLGATE};
use crate::harness::tool_server::Script;
use crate::harness::until;
use std::fs::{self};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::PathBuf;

/// threat-model §13 F13, §10: an address that others reach is only listened on when that is said.
#[tokio::test]
async fn a_wide_listener_is_said() {
    let mut cases = 0;
    let token = "token-of-sixteen-bytes-or-more";
    for address in [
        "127.0.0.1:0",
        "[::1]:0",
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.1:7777",
        "[::ffff:127.0.0.1]:0",
    ] {
        for (door, flag) in [(false, false), (false, true), (true, false), (true, true)] {
            let setup = Setup::new();
            let (own, admin) = if door {
                ("127.0.0.1:0", address)
            } else {
                (address, "127.0.0.1:0")
            };
            let text = format!(
                "listen: '{own}'\nunencrypted: {}\nadmin: {{ listen: '{admin}', unencrypted: {}, tokens: [ {{ name: ann, token: {token}-a, roles: \
                 [resolver, switch, auditor] }} ] }}\ncallers: [ {{ agent: bot, token: {token}-b }} ]\nmode: observe\n",
                flag && !door,
                flag && door
            );
            let path = setup.directory().join("toolgate.yaml");
            fs::write(&path, text).unwrap();
            mode(&path, 0o600);
            let output = setup.run(&["check", path.to_str().unwrap()]).await;
            let said = String::from_utf8(output.stdout).unwrap();
            let is_near = address.starts_with("127.0.0.1") || address.starts_with("[::1]");
            let fine = is_near || flag;
            assert_eq!(
                output.status.code(),
                Some(i32::from(!fine)),
                "{address} {door} {flag}: {said}"
            );
            let key = if door {
                "`admin.unencrypted: true`"
            } else {
                "`unencrypted: true`"
            };
            assert_eq!(
                said.contains("tls: { cert: …, key: … }") && said.contains(key),
                !fine,
                "{said}"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 6 * 4);
}

/// threat-model §3E E4: a token that others than the owner may read is warned of, where it stands.
#[tokio::test]
async fn a_token_that_others_may_read_is_warned_of() {
    let mut cases = 0;
    for (bits, is_readable) in [
        (0o600, false),
        (0o400, false),
        (0o640, true),
        (0o604, true),
        (0o644, true),
    ] {
        for (yaml, is_literal) in [
            ("callers: [ { agent: bot, token: LITERAL } ]", true),
            ("callers: [ { agent: bot, token: \"${TOKEN}\" } ]", false),
            (
                "callers: [ { agent: bot, token: \"${NONE:-LITERAL}\" } ]",
                false,
            ),
            (
                "callers: []\nadmin: { tokens: [ { name: a, token: LITERAL, roles: [resolver, switch, auditor] } ] }",
                true,
            ),
            (
                "front_ends: [ { name: f, token: LITERAL, header: x-agent } ]\ncallers: [ { agent: b, front_end: f } ]",
                true,
            ),
        ] {
            let setup = Setup::new().environment("TOKEN", "token-of-the-environment");
            let path = setup.directory().join("toolgate.yaml");
            let servers = "servers: { s: { url: 'http://127.0.0.1:9/mcp' } }\nmode: observe\n";
            fs::write(
                &path,
                format!(
                    "{servers}{}\n",
                    yaml.replace("LITERAL", "token-that-is-written-out")
                ),
            )
            .unwrap();
            mode(&path, bits);
            let output = setup.run(&["check", path.to_str().unwrap()]).await;
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(
                said.contains("a token is written out here"),
                is_readable && is_literal,
                "{bits:o} {yaml}: {said}"
            );
            assert!(!said.contains("token-that-is-written-out"), "{said}");
            cases += 1;
        }
    }
    assert_eq!(cases, 5 * 5);
}

/// threat-model §10: what toolgate holds is not written to a core, and not read out of it by its
/// own account; a tool server's limits are as toolgate's.
#[tokio::test]
async fn its_memory_is_sealed() {
    let setup = Setup::new()
        .server_with("s", "url: \"http://127.0.0.1:9/mcp\"")
        .contracts(&[("s__t", "read")]);
    let config = setup.write();
    let program = setup.directory().join("toolgate");
    fs::copy(TOOLGATE, &program).unwrap();
    let mut command = std::process::Command::new(&program);
    command
        .args(["serve", "--config"])
        .arg(&config)
        .current_dir(setup.directory());
    if is_root() {
        use std::os::unix::process::CommandExt as _;
        for path in [setup.directory(), &config] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    until("its memory is sealed", || async {
        let limits = fs::read_to_string(proc.join("limits")).unwrap_or_default();
        let core = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"))?
            .to_owned();
        // What can be seen of a process that is not dumpable belongs to root, whatever account runs
        // it.
        let sealed = core.split_whitespace().skip(4).take(2).eq(["0", "0"])
            && fs::metadata(proc.join("environ")).ok()?.uid() == 0;
        sealed.then_some(())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}

/// threat-model §10, §3E E4: an agent of toolgate's own account is warned of, once; one of another
/// account is not.
#[tokio::test]
async fn an_agent_of_the_same_account_is_warned_of() {
    let server = Script::new().start().await;
    let gate = Setup::new()
        .server("oracle", &server)
        .mode("observe")
        .start()
        .await;
    let advisory = |gate: &Gate| gate.log().matches("approvals are advisory").count();
    let port = gate.agents.port();
    if is_root() {
        for _ in 0..2 {
            let script = format!(
                "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /mcp HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
            );
            let nobody = ["--reuid", "65534", "--clear-groups", "bash", "-c", &script];
            let output = std::process::Command::new("setpriv")
                .args(nobody)
                .output()
                .unwrap();
            assert!(output.stdout.starts_with(b"HTTP/1.1 "), "{output:?}");
        }
        assert_eq!(advisory(&gate), 0, "{}", gate.log());
    }
    for _ in 0..12 {
        let _ = crate::harness::answer::get(gate.agents, "/mcp").await;
    }
    until("it is said", || async {
        (advisory(&gate) > 0).then_some(())
    })
    .await;
    assert_eq!(advisory(&gate), 1, "{}", gate.log());
    assert!(gate.log().contains("share uid"), "{}", gate.log());
}
