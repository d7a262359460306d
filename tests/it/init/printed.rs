//! What is printed of files that others wrote: their words, and nothing that acts on a terminal or that
//! nobody was to read.

use super::{files, placed};
use crate::harness::gate::run;
use crate::harness::setup::{Setup, beside};
use serde_json::{Value, json};
use std::fs;

/// threat-model §3G: what an agent's file calls a value is shown, and does nothing.
#[tokio::test]
async fn g_names_in_an_agents_file_act_on_no_terminal() {
    let setup = placed();
    let oracle = beside("oracle-server");
    let script = ["-c", "exec \"$ORACLE\"", "sh"];
    let env = json!({ "ORACLE": oracle, "ORACLE_LOG": setup.log_of("one") });
    for (value, exit_code) in [("${NOT_SET}", 1), ("sk-1", 0)] {
        let flag = format!("--a\u{1b}[2J={value}");
        let args: Vec<&str> = script.into_iter().chain([&*flag]).collect();
        let servers =
            json!({ "mcpServers": { "one": { "command": "sh", "args": args, "env": env } } });
        fs::write(setup.directory().join(".mcp.json"), servers.to_string()).unwrap();
        let (exit, said, wrong) = run(&setup, &["adopt"]).await;
        let all = said + &wrong;
        assert_eq!(exit, exit_code, "{all}");
        assert!(!all.contains('\u{1b}'), "{all:?}");
        let told = r"servers.one.args.--a\u{1b}[2J";
        assert!(all.contains(told), "{all}");
    }
}

/// threat-model §3G: so are a policy's keys and its lines, also where they are wrong.
#[tokio::test]
async fn g_what_a_policy_says_acts_on_no_terminal() {
    let setup = Setup::new();
    let written = "policies: []\n\"\\e[2J\": 1 # \u{202e}\nmode: \"\\e[31m\"\n";
    fs::write(setup.directory().join("toolgate.yaml"), written).unwrap();
    for words in [&["check"][..], &["serve"], &["pins", "verify"]] {
        let (exit, said, wrong) = run(&setup, words).await;
        let all = said + &wrong;
        assert_ne!(exit, 0, "{words:?}: {all}");
        assert!(!all.contains(['\u{1b}', '\u{202e}']), "{words:?}: {all:?}");
    }
    let (_, said, wrong) = run(&setup, &["check"]).await;
    let all = said + &wrong;
    assert!(all.contains(r"unknown key `\u{1b}[2J`"), "{all}");
}

/// threat-model §3F: a line with what could be a secret is not shown, whatever is wrong with it.
#[tokio::test]
async fn f_a_password_among_arguments_is_not_shown() {
    let setup = Setup::new();
    let own = |server: &str| format!("policies: []\nservers:\n  one: {{ {server} }}\n");
    for server in [
        "command: x, args: \"--dsn=postgres://u:canarypw@h/db\"",
        "command: x, arg: 1, args: [-x, \"a:canarypw1\"]",
        "command: [\"x --password canarypw2\"]",
        "url: \"http://127.0.0.1:9/canarypw3\", password: canarypw4, x: 1",
    ] {
        fs::write(setup.directory().join("toolgate.yaml"), own(server)).unwrap();
        let (exit, said, wrong) = run(&setup, &["check"]).await;
        let all = said + &wrong;
        assert_eq!(exit, 1, "{server}: {all}");
        assert!(!all.contains("canarypw"), "{server}: {all}");
    }
    // What surely is none helps to find what is wrong.
    fs::write(
        setup.directory().join("toolgate.yaml"),
        own("command: npx, arg: [-y]"),
    )
    .unwrap();
    let (_, said, wrong) = run(&setup, &["check"]).await;
    assert!((said + &wrong).contains("command: npx, arg: [-y]"));
}

/// Issue 17 `init`: what is wrong with a server is said of the server in the agent's file, since nobody has seen
/// a draft; a password in an address is repeated nowhere.
#[tokio::test]
async fn what_is_wrong_is_said_of_the_agents_file() {
    let setup = placed();
    let path = setup.directory().join(".mcp.json");
    for (server, expected) in [
        (
            json!({ "url": "https://ann:hunter2@127.0.0.1:9/mcp" }),
            "problem  `one`: its address holds a login or a password",
        ),
        (
            json!({ "url": "ftp://127.0.0.1:9/mcp" }),
            "`one` of .mcp.json: is no address that can be reached",
        ),
        (json!({ "command": " " }), "`one`: its `command` is empty"),
    ] {
        let servers = json!({ "mcpServers": { "first": { "command": "x" }, "one": server } });
        fs::write(&path, servers.to_string()).unwrap();
        let (exit, said, wrong) = run(&setup, &["adopt"]).await;
        assert_eq!(exit, 1, "{said}");
        assert!(wrong.contains(expected), "{wrong}");
        for absent in ["toolgate.yaml:", "hunter2", "no policy file"] {
            assert!(!wrong.contains(absent), "{absent}: {wrong}");
        }
        assert_eq!(files(setup.directory()).len(), 1);
    }
    let upstream = "one=https://ann:hunter2@127.0.0.1:9/mcp";
    let (exit, _, wrong) = run(&setup, &["init", "--upstream", upstream]).await;
    assert!(exit == 1 && !wrong.contains("hunter2"), "{wrong}");
}

/// threat-model §3F, issue 17: secrets among arguments are in no file that people commit, and the server
/// gets them all the same.
#[tokio::test]
async fn f_secrets_among_arguments_are_not_copied() {
    let setup = placed();
    let script = "case \"$*\" in *pw4*) exec \"$ORACLE\";; esac";
    let oracle = beside("oracle-server");
    let args = json!([
        "-c",
        script,
        "sh",
        "--config={\"key\":\"canarypw1\"}",
        "--user",
        "root:canarypw2",
        "-pcanarypw3",
        "admin:canarypw4",
    ]);
    let env = json!({ "ORACLE": oracle, "ORACLE_LOG": setup.log_of("one") });
    let servers = json!({ "mcpServers": { "one": { "command": "sh", "args": args, "env": env } } });
    fs::write(setup.directory().join(".mcp.json"), servers.to_string()).unwrap();
    let (exit, said, wrong) = run(&setup, &["adopt"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    let after = files(setup.directory());
    let holding = after.iter().filter(|(_, text)| text.contains("canarypw"));
    let holding: Vec<_> = holding.map(|(name, _)| name.as_str()).collect();
    assert!(holding.is_empty(), "{holding:?}");
    assert_eq!(said.matches("set      ONE_").count(), 4, "{said}");
    let rewritten: Value = after[".mcp.json"].parse().unwrap();
    assert!(rewritten["mcpServers"]["toolgate"].is_object());
}

/// Issue 17 `adopt`: what is no file is refused, and not waited for.
#[tokio::test]
async fn what_is_no_file_is_refused() {
    let setup = placed();
    let pipe = setup.directory().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for path in [pipe.to_str().unwrap(), "/dev/zero", "."] {
        let (exit, _, wrong) = run(&setup, &["adopt", path]).await;
        assert_eq!(exit, 1, "{path}");
        assert!(wrong.contains("it is no regular file"), "{path}: {wrong}");
    }
}
