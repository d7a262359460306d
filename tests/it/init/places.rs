//! Which servers and which files of agents `init` takes.

use super::{SECRET, files, kept, mode, placed};
use crate::harness::DEADLINE;
use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Setup, beside};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Issue 4 `init`: one server that is started, without any file.
#[tokio::test]
async fn a_command_is_enough() {
    let setup = placed();
    let (program, log) = (beside("oracle-server"), setup.log_of("one"));
    let words = [
        "init",
        "--name",
        "one",
        "--",
        "env",
        &format!("ORACLE_LOG={}", log.display()),
        program.to_str().unwrap(),
    ];
    let (exit, said, wrong) = run(&setup, &words).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    let (exit, said, wrong) = run(&setup, &["check"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    assert!(files(setup.directory())["toolgate.pins.yaml"].contains("  \"one\":\n"));
}

/// Issue 17 `init`: of several servers one does not start: it is named and left as it is, and the
/// others are taken over.
#[tokio::test]
async fn one_server_that_is_down_is_named_and_left_out() {
    let (one, two) = (
        ScriptedServer::with(vec![tool("read")]).await,
        ScriptedServer::with(vec![tool("read")]).await,
    );
    let setup = placed();
    let servers = json!({ "mcpServers": {
        "one": { "url": one.url() }, "two": { "command": "/nowhere/server" }, "three": { "type": "sse", "url": two.url() },
    } });
    fs::write(setup.directory().join("mcp.json"), servers.to_string()).unwrap();
    let (exit, said, wrong) =
        run(&setup, &["init", "--from", "mcp.json", "--rewrite-client"]).await;
    assert_eq!(exit, 1, "{said}{wrong}");
    let time = Regex::new(r"\([0-9.]+ s\)").unwrap();
    for line in [
        "  one: 1 tool (TIME)\n",
        "  two: no answer (TIME)\n",
        "  three: 1 tool (TIME)\n",
        "note     `three` is named `sse`; toolgate asks its address for Streamable HTTP",
    ] {
        assert!(
            time.replace_all(&said, "(TIME)").contains(line),
            "{line}: {said}"
        );
    }
    assert_eq!(
        wrong.matches("problem  two does not answer: ").count(),
        1,
        "{wrong}"
    );
    assert_eq!(
        wrong.matches("problem  two was left out").count(),
        1,
        "{wrong}"
    );
    only_two_is_left_as_it_was(&setup, &servers).await;

    assert_eq!(run(&setup, &["init", "--undo"]).await.0, 0);
    let words = ["adopt", "mcp.json", "--skip", "two"];
    let (exit, said, wrong) = run(&setup, &words).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    only_two_is_left_as_it_was(&setup, &servers).await;
}

async fn only_two_is_left_as_it_was(setup: &Setup, servers: &Value) {
    let rewritten: Value = serde_json::from_str(&files(setup.directory())["mcp.json"]).unwrap();
    let entries = rewritten["mcpServers"].as_object().unwrap();
    assert_eq!(entries["two"], servers["mcpServers"]["two"], "{rewritten}");
    assert_eq!(entries.len(), 2, "{rewritten}");
    let (exit, said, wrong) = run(setup, &["check"]).await;
    assert_eq!(exit, 0, "{said}{wrong}");
}

/// What never says a word, and leaves its process id.
const SILENT: &str = "echo $$ >silent.pid; exec tail -f /dev/null";

/// Issue 17 `init`, D9: a server that hangs is named with its command, what answers is used, and all of
/// it ends in the time that was given.
#[tokio::test]
async fn a_server_that_hangs_is_named_and_the_others_are_used() {
    let one = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed();
    let servers = json!({ "mcpServers": {
        "slow": { "command": "sh", "args": ["-c", SILENT], "cwd": setup.directory() }, "one": { "url": one.url() },
    } });
    fs::write(setup.directory().join(".mcp.json"), servers.to_string()).unwrap();
    let (exit, said, wrong) = run(&setup, &["adopt", "--timeout", "1s"]).await;
    assert_eq!(exit, 1, "{said}{wrong}");
    let named = format!(
        "problem  slow has not answered in 1 s: sh -c {SILENT}; `--timeout 2m` waits longer, `--skip slow` leaves it out\n"
    );
    assert!(wrong.contains(&named), "{wrong}");
    assert!(said.contains("  one: 1 tool ("), "{said}");
    assert!(said.contains("connect  one, slow (up to 1 s)\n"), "{said}");
    let after = files(setup.directory());
    assert!(!after["toolgate.yaml"].contains("slow"), "{after:?}");
    assert!(after[".mcp.json"].contains("slow"), "{after:?}");
    assert!(is_gone(&setup), "the server's process");
    assert_eq!(run(&setup, &["check"]).await.0, 0);
}

/// Issue 17 `init`: a signal leaves nothing behind, no file and no process.
#[tokio::test]
async fn a_signal_leaves_nothing_behind() {
    let setup = placed();
    let servers = json!({ "mcpServers": {
        "slow": { "command": "sh", "args": ["-c", SILENT], "cwd": setup.directory() },
    } });
    fs::write(setup.directory().join(".mcp.json"), servers.to_string()).unwrap();
    for kind in [Signal::INT, Signal::TERM] {
        drop(fs::remove_file(setup.directory().join("silent.pid")));
        let mut running = setup
            .command(&["adopt", "--dir", "new", "--timeout", "10m"])
            .spawn()
            .unwrap();
        while pid(&setup).is_none() {
            tokio::task::yield_now().await;
        }
        let own = i32::try_from(running.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(own).unwrap(), kind).unwrap();
        let ended = tokio::time::timeout(DEADLINE, running.wait()).await;
        assert_eq!(ended.unwrap().unwrap().code(), Some(1));
        assert!(is_gone(&setup), "the server's process");
        let left = files(setup.directory());
        let left: Vec<&str> = left.keys().map(String::as_str).collect();
        assert_eq!(left, [".mcp.json", "silent.pid"]);
        assert!(!setup.directory().join("new").exists());
    }
}

fn pid(setup: &Setup) -> Option<i32> {
    let written = fs::read_to_string(setup.directory().join("silent.pid")).ok()?;
    written.trim().parse().ok()
}

fn is_gone(setup: &Setup) -> bool {
    !Path::new(&format!("/proc/{}", pid(setup).unwrap())).exists()
}

/// Issue 4 `init`: whichever agent the file is of, where its servers stand in it, and behind a
/// link: it is pointed at toolgate in that agent's words, keeps its rights, and is given back as it
/// was; no secret of it can be read by others.
#[tokio::test]
async fn every_agents_file_is_pointed_at_toolgate_and_given_back() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let server = json!({ "url": scripted.url(), "headers": { "X-Api-Key": SECRET } });
    let off = json!({ "url": "http://127.0.0.1:9/mcp", "enabled": false });
    let both = json!({ "mcpServers": { "one": server, "off": off } });
    let cursor = json!({ "mcpServers": { "one": server } });
    let code = json!({ "servers": { "one": server }, "inputs": [] });
    let nested = json!({ "mcp": { "servers": { "one": server } }, "a": 1 });
    for (name, written, entry) in [
        ("mcp.json", both, "/mcpServers/toolgate/type"),
        (".cursor/mcp.json", cursor, "/mcpServers/toolgate/url"),
        (".vscode/mcp.json", code, "/servers/toolgate/type"),
        ("settings.json", nested, "/mcp/servers/toolgate/type"),
    ] {
        let setup = placed();
        let place = setup.directory().join(name);
        let linked = setup.directory().join("linked.json");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&linked, written.to_string()).unwrap();
        fs::set_permissions(&linked, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&linked, &place).unwrap();
        let before = files(setup.directory());
        let (exit, said, wrong) = run(&setup, &["init", "--from", name, "--rewrite-client"]).await;
        assert_eq!((exit, wrong.as_str()), (0, ""), "{name}: {said}");
        let after = files(setup.directory());
        let rewritten: Value = serde_json::from_str(&after["linked.json"]).unwrap();
        assert!(rewritten.pointer(entry).is_some(), "{name}: {rewritten}");
        assert_eq!(
            rewritten.pointer(&entry.replace("/type", "/url")).unwrap(),
            "http://127.0.0.1:7777/mcp"
        );
        assert!(!rewritten.to_string().contains(SECRET), "{rewritten}");
        let holds = |text: &String| text.contains(SECRET);
        assert!(!after.values().any(holds), "the secret is kept elsewhere");
        assert_eq!(kept(&setup).values().filter(|text| holds(text)).count(), 1);
        for path in after.keys() {
            let is_theirs = path == name || path == "linked.json";
            let expected = if is_theirs { 0o640 } else { 0o600 };
            assert_eq!(mode(&setup.directory().join(path)), expected, "{path}");
        }
        assert!(
            fs::symlink_metadata(&place).unwrap().is_symlink(),
            "a link stays one"
        );
        let (exit, said, _) = run(&setup, &["init", "--undo"]).await;
        assert_eq!(exit, 0, "{said}");
        assert_eq!(files(setup.directory()), before);
        assert!(fs::symlink_metadata(&place).unwrap().is_symlink());
        assert_eq!(mode(&linked), 0o640);
    }
}
