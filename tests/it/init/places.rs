//! Which servers and which files of agents `init` takes.

use super::{SECRET, files, mode};
use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Setup, beside};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// Issue 4 `init`: one server that is started, without any file.
#[tokio::test]
async fn a_command_is_enough() {
    let setup = Setup::new();
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

/// Issue 4 `init`: of several servers one does not answer: it is named, nothing is written, and the
/// others can be taken over without it.
#[tokio::test]
async fn one_server_that_is_down_is_named_and_can_be_left_out() {
    let (one, two) = (
        ScriptedServer::with(vec![tool("read")]).await,
        ScriptedServer::with(vec![tool("read")]).await,
    );
    let setup = Setup::new();
    let servers = json!({ "mcpServers": {
        "one": { "url": one.url() }, "two": { "command": "/nowhere/server" }, "three": { "type": "sse", "url": two.url() },
    } });
    fs::write(setup.directory().join("mcp.json"), servers.to_string()).unwrap();
    let before = files(setup.directory());
    let (exit, said, wrong) =
        run(&setup, &["init", "--from", "mcp.json", "--rewrite-client"]).await;
    assert_eq!(exit, 1, "{said}{wrong}");
    assert!(
        said.contains("  one: 1 tool\n") && said.contains("  three: 1 tool\n"),
        "{said}"
    );
    assert!(
        said.contains(
            "note     `three` is named `sse`; toolgate asks its address for Streamable HTTP"
        ),
        "{said}"
    );
    assert!(
        wrong.contains("problem  two does not answer: ") && wrong.contains("(--skip)"),
        "{wrong}"
    );
    assert_eq!(wrong.matches("does not answer: ").count(), 1, "{wrong}");
    assert_eq!(files(setup.directory()), before, "nothing is written");

    let (exit, said, wrong) = run(
        &setup,
        &[
            "init",
            "--from",
            "mcp.json",
            "--rewrite-client",
            "--skip",
            "two",
        ],
    )
    .await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    let rewritten: Value = serde_json::from_str(&files(setup.directory())["mcp.json"]).unwrap();
    assert_eq!(
        rewritten["mcpServers"]["two"], servers["mcpServers"]["two"],
        "{rewritten}"
    );
    assert_eq!(
        rewritten["mcpServers"].as_object().unwrap().len(),
        2,
        "{rewritten}"
    );
    let (exit, said, wrong) = run(&setup, &["check"]).await;
    assert_eq!(exit, 0, "{said}{wrong}");
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
        let setup = Setup::new();
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
        let holding = after.iter().filter(|(_, text)| holds(text));
        let holding: Vec<&String> = holding.map(|(name, _)| name).collect();
        let kept = format!("{name}.before-toolgate");
        assert_eq!(holding, [&kept], "the secret is where it was only");
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
