//! `toolgate init`: from servers, or an agent's own configuration of them, to files that `check`
//! accepts; and back again.

mod places;
mod printed;
mod programs;
mod records;
mod taking_back;

use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Setup, beside};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const SECRET: &str = "ghp_canary0123456789abcdef";

/// A place with a home of its own, where what was before is kept.
fn placed() -> Setup {
    let setup = Setup::new();
    let home = setup.directory().join("home");
    setup.environment("HOME", home.to_str().unwrap())
}

/// Every file below but those of the home, by its name.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.extend((path != directory.join("home")).then_some(path));
            } else {
                let name = path
                    .strip_prefix(directory)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn quiet(setup: &Setup, text: &str) -> String {
    let programs = beside("oracle-server");
    let text = text.replace(programs.parent().unwrap().to_str().unwrap(), "BIN");
    let time = Regex::new(r"\([0-9.]+ s\)").unwrap();
    let text = time.replace_all(&text, "(TIME)");
    let chance = Regex::new("(backups/[0-9TZ]+|undone)-[0-9a-f]{8}").unwrap();
    let text = chance.replace_all(&text, "ID");
    text.replace(
        setup.directory().canonicalize().unwrap().to_str().unwrap(),
        "DIR",
    )
    .replace(setup.directory().to_str().unwrap(), "DIR")
}

fn desktop(setup: &Setup) -> String {
    let log = setup.log_of("init");
    let servers = json!({
        "globalShortcut": "",
        "mcpServers": {
            "my oracle": {
                "command": beside("oracle-server"), "args": [],
                "env": { "ORACLE_LOG": log, "GITHUB_TOKEN": SECRET, "LOG_LEVEL": "debug" },
            },
            "off": { "command": "/nowhere", "disabled": true },
        },
    });
    serde_json::to_string_pretty(&servers).unwrap() + "\n"
}

/// Issue 4 `init`, threat-model §9: an agent that starts its servers is pointed at toolgate, which
/// starts them; no secret is copied, only the owner may read; the result passes `check`; `--undo`
/// leaves everything byte for byte as it was.
#[tokio::test]
async fn an_agent_that_starts_its_servers_is_taken_over_and_given_back() {
    let setup = placed();
    let (original, name) = (desktop(&setup), "claude_desktop_config.json");
    fs::write(setup.directory().join(name), &original).unwrap();
    let before = files(setup.directory());
    let (exit, said, wrong) = run(&setup, &["init", "--from", name, "--rewrite-client"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    insta::assert_snapshot!("taken_over", quiet(&setup, &said));
    let after = files(setup.directory());
    for (name, text) in &after {
        let mode = mode(&setup.directory().join(name));
        if name == "init.executions" {
            continue;
        }
        let agents_own = name.starts_with("claude");
        assert!(
            mode == 0o600 || name == "claude_desktop_config.json",
            "{name}: {mode:o}"
        );
        assert_eq!(text.contains(SECRET), agents_own, "{name}");
    }
    let kept = kept(&setup);
    assert_eq!(kept.len(), 2, "as it was, and as init wrote it: {kept:?}");
    assert_eq!(kept.values().filter(|text| **text == original).count(), 1);
    insta::assert_snapshot!("toolgate_yaml", quiet(&setup, &after["toolgate.yaml"]));
    insta::assert_snapshot!(
        "contracts",
        quiet(&setup, &after["policies/my-oracle.yaml"])
    );
    insta::assert_snapshot!("claude_desktop_config", quiet(&setup, &after[name]));

    let (exit, _, wrong) = run(&setup, &["init", "--from", name]).await;
    assert!(
        exit == 1 && wrong.contains("it starts toolgate already"),
        "{wrong}"
    );
    let (exit, said, _) = run(&setup, &["check"]).await;
    assert!(
        exit == 0
            && said.contains("warning: the variable `GITHUB_TOKEN` is not set")
            && !said.contains(SECRET),
        "{said}"
    );
    let told = setup.clone().environment("GITHUB_TOKEN", SECRET);
    let (exit, said, wrong) = run(&told, &["check", "--config", "toolgate.yaml"]).await;
    assert_eq!(exit, 0, "{said}{wrong}");

    lists_as_its_agent_starts_it(&setup, &after[name]).await;
    fs::remove_dir_all(setup.directory().join("toolgate-data-my-oracle")).unwrap();
    drop(fs::remove_file(setup.log_of("init")));
    drop(fs::remove_file(setup.directory().join("stdio.log")));

    let (exit, said, _) = run(&setup, &["init", "--undo"]).await;
    assert_eq!(exit, 0, "{said}");
    insta::assert_snapshot!("taken_back", quiet(&setup, &said));
    assert_eq!(files(setup.directory()), before);
    assert!(!setup.directory().join("policies").exists());
    assert_eq!(self::kept(&setup).len(), 0, "no secret is left");
    assert_eq!(
        run(&setup, &["init", "--undo"]).await.0,
        1,
        "there is nothing left to take back"
    );
}

/// What is kept of before, which only its owner can read.
fn kept(setup: &Setup) -> BTreeMap<String, String> {
    let place = setup.directory().join("home/.local/state/toolgate/backups");
    let mut left = vec![place.clone()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{}", path.display());
            left.extend(path.is_dir().then_some(path));
        }
    }
    files(&place)
}

/// What the agent starts now is toolgate, and behind it the server with what it was given before.
async fn lists_as_its_agent_starts_it(setup: &Setup, file: &str) {
    let file: Value = serde_json::from_str(file).unwrap();
    let entry = &file["mcpServers"]["my oracle"];
    let args: Vec<&str> = entry["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect();
    let mut agents = setup.clone();
    for (name, value) in entry["env"].as_object().unwrap() {
        agents = agents.environment(name, value.as_str().unwrap());
    }
    let mut gate = crate::harness::stdio::StdioGate::start_with(&agents, &args[1..]);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
    gate.write(
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
            .to_string()
            .as_bytes(),
    )
    .await;
    assert!(gate.read().await.unwrap().message()["result"].is_object());
    gate.write(
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
            .to_string()
            .as_bytes(),
    )
    .await;
    gate.write(
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })
            .to_string()
            .as_bytes(),
    )
    .await;
    let listed = gate.read().await.unwrap().message();
    assert!(
        listed["result"]["tools"]
            .as_array()
            .is_some_and(|tools| !tools.is_empty()),
        "{listed}"
    );
    assert!(gate.close().await.success());
}

const COMMENTED: &str = r#"// what my editor starts
{
  "inputs": [{ "id": "key", "type": "promptString" }], // asked once
  "servers": {
    /* mine */ "keep": { "url": "http://127.0.0.1:9/mcp" },
    "one": { "type": "http", "url": "URL", },
    // and another
    "two": { "type": "http", "url": "URL", "headers": { "Authorization": "Bearer ${input:key}" } },
    "last": { "command": "x" }, // stays
  },
}
"#;

/// Issue 4 `init`: comments stay where they are; what is left out stays as it is; a file that was
/// changed since is not overwritten by `--undo`.
#[tokio::test]
async fn an_agent_with_comments_is_pointed_at_a_running_toolgate() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed().environment("KEY", "a-key");
    let original = COMMENTED.replace("URL", &scripted.url());
    let place = setup.directory().join("mcp.json");
    fs::write(&place, &original).unwrap();
    let init = [
        "init",
        "--from",
        "mcp.json",
        "--skip",
        "keep",
        "--skip",
        "last",
        "--rewrite-client",
        "--dir",
        "gate",
    ];
    let (exit, said, wrong) = run(&setup, &init).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    let rewritten = fs::read_to_string(&place).unwrap();
    insta::assert_snapshot!("commented", rewritten);
    let configuration = fs::read_to_string(setup.directory().join("gate/toolgate.yaml")).unwrap();
    assert!(
        configuration.contains("Authorization: \"Bearer ${KEY}\""),
        "{configuration}"
    );
    assert_eq!(run(&setup, &["check", "gate"]).await.0, 0);
    let (exit, said, _) = run(
        &setup,
        &["pins", "verify", "--config", "gate/toolgate.yaml"],
    )
    .await;
    assert_eq!(exit, 0, "{said}");

    // The operator goes on working with both.
    fs::write(&place, rewritten.replace("asked once", "asked twice")).unwrap();
    let policy = setup.directory().join("gate/policies/one.yaml");
    fs::write(&policy, fs::read_to_string(&policy).unwrap() + "# mine\n").unwrap();
    let (exit, said, _) = run(&setup, &["init", "--undo", "--dir", "gate"]).await;
    assert_eq!(exit, 1, "{said}");
    insta::assert_snapshot!("kept", quiet(&setup, &said));
    let twice = original.replace("asked once", "asked twice");
    assert_eq!(fs::read_to_string(&place).unwrap(), twice);
    let left = files(&setup.directory().join("gate"));
    let left: Vec<&str> = left.keys().map(String::as_str).collect();
    assert_eq!(left, ["policies/one.yaml"]);
    let forced = ["init", "--undo", "--dir", "gate", "--force"];
    let (exit, said, _) = run(&setup, &forced).await;
    assert_eq!(exit, 0, "{said}");
    assert_eq!(fs::read_to_string(&place).unwrap(), twice);
    assert!(files(&setup.directory().join("gate")).is_empty());
    assert!(kept(&setup).values().any(|text| text.ends_with("# mine\n")));
}

/// Issue 4 `init`: everything that is wrong is said at once, before anything is started, and
/// nothing is written.
#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once_and_nothing_is_written() {
    let setup = placed();
    let servers = json!({ "mcpServers": {
        "a b": { "command": "x", "env": { "A": "${env:NOT_SET}" } }, "a-b": { "command": "x" }, "none": {},
        "odd": { "command": "x", "args": [{}] },
    } });
    fs::write(setup.directory().join("mcp.json"), servers.to_string()).unwrap();
    fs::write(setup.directory().join("toolgate.yaml"), "# mine\n").unwrap();
    let before = files(setup.directory());
    let said = async |args: &[&str]| {
        let (exit, said, wrong) = run(&setup, args).await;
        assert_eq!(files(setup.directory()), before, "{args:?}");
        quiet(
            &setup,
            &format!(
                "$ toolgate {}\n{said}{wrong}exit code {exit}\n\n",
                args.join(" ")
            ),
        )
    };
    let mut all = said(&[
        "init",
        "--from",
        "mcp.json",
        "--rewrite-client",
        "--skip",
        "gone",
    ])
    .await;
    all += &said(&["init", "--from", "absent.json"]).await;
    all += &said(&["init", "--from", "toolgate.yaml"]).await;
    all += &said(&[
        "init",
        "--upstream",
        "bad name=http://127.0.0.1:9/mcp",
        "--force",
    ])
    .await;
    all += &said(&[
        "init",
        "--upstream",
        "down=http://127.0.0.1:9/mcp",
        "--dir",
        "new",
    ])
    .await;
    assert!(
        !setup.directory().join("new").exists(),
        "nothing is left of it"
    );
    all += &said(&["init"]).await;
    all += &said(&["adopt", "--dir", "new"]).await;
    insta::assert_snapshot!("wrong", all);
}

/// Issue 17 `adopt`: of several agents' files it takes none unasked.
#[tokio::test]
async fn of_several_agents_one_is_named() {
    let setup = Setup::new();
    for name in ["mcp.json", ".cursor/mcp.json"] {
        let path = setup.directory().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}").unwrap();
    }
    let (exit, _, wrong) = run(&setup, &["adopt"]).await;
    assert_eq!(
        (exit, &*wrong),
        (
            1,
            "toolgate: .cursor/mcp.json and mcp.json are here; name one: `toolgate adopt .cursor/mcp.json`\n"
        )
    );
}

/// threat-model §3D D5, D6: what a server says of a tool makes a draft for a person, in quotes and
/// comments, and nothing else; what says nothing is taken for the worst. `--force` keeps what it
/// replaces.
#[tokio::test]
async fn d6_a_draft_takes_the_worst_and_quotes_what_is_said() {
    let hints = |name: &str, hints: Value| json!({ "name": name, "annotations": hints, "inputSchema": { "type": "object" } });
    let mut hostile = hints(
        "hostile",
        json!({ "title": "T\n  actions: [read]\u{202e}", "readOnlyHint": "true" }),
    );
    hostile["description"] =
        json!("Pays \"all\".\n    actions: [read]\n#\u{1b}[2J' \\ ${HOME} {{x}}");
    hostile["inputSchema"]["properties"] =
        json!({ "a: b #\u{202e}c": { "type": "string" }, "n": { "type": "integer" } });
    hostile["inputSchema"]["required"] = json!(["n"]);
    let scripted = ScriptedServer::with(vec![
        hostile,
        hints(
            "reads",
            json!({ "readOnlyHint": true, "openWorldHint": true }),
        ),
        hints("writes", json!({ "destructiveHint": false })),
        hints(
            "deletes",
            json!({ "destructiveHint": true, "idempotentHint": true }),
        ),
        hints("unusable", json!({}))
            .as_object()
            .map(|tool| json!({ "name": tool["name"], "inputSchema": [] }))
            .unwrap(),
    ])
    .await;
    let setup = placed();
    fs::create_dir(setup.directory().join("policies")).unwrap();
    fs::write(setup.directory().join("policies/one.yaml"), "# mine\n").unwrap();
    let upstream = format!("one={}", scripted.url());
    let (exit, said, wrong) = run(&setup, &["init", "--force", "--upstream", &upstream]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    assert!(
        said.contains("a tool is quarantined, and gets no contract: `unusable`"),
        "{said}"
    );
    let drafted = fs::read_to_string(setup.directory().join("toolgate.yaml")).unwrap();
    assert!(
        drafted.contains("    # not_executed: [401, 429]   # only if"),
        "threat-model §13 F1: {drafted}"
    );
    insta::assert_snapshot!("worst", files(setup.directory())["policies/one.yaml"]);
    let (exit, said, wrong) = run(&setup, &["check"]).await;
    assert_eq!(exit, 0, "{said}{wrong}");
    assert_eq!(run(&setup, &["init", "--undo"]).await.0, 0);
    assert_eq!(
        files(setup.directory()),
        BTreeMap::from([("policies/one.yaml".to_owned(), "# mine\n".to_owned())])
    );
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
