//! `init --undo` after the operator has gone on working.

use super::{files, kept, placed};
use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Setup, beside};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Issue 17 D14: where the configuration was changed since, what it needs stays with it, and the agent
/// is back at its servers all the same.
#[tokio::test]
async fn what_a_changed_configuration_needs_stays_with_it() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed();
    let servers = json!({ "mcpServers": { "one": { "url": scripted.url() } } }).to_string();
    let place = setup.directory().join(".mcp.json");
    fs::write(&place, &servers).unwrap();
    let (exit, said, wrong) = run(&setup, &["adopt"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    // As examples/adopt tells it.
    let replace = |path: &Path, from: &str, to: &str| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    };
    replace(
        &place,
        "/mcp\"",
        "/mcp\", \"headers\": { \"Authorization\": \"Bearer ${AGENT_TOKEN}\" }",
    );
    let configuration = setup.directory().join("toolgate.yaml");
    replace(&configuration, "mode: observe", "mode: enforce");
    let (exit, said, _) = run(&setup, &["adopt", "--undo"]).await;
    assert_eq!(exit, 1, "{said}");
    for line in [
        "         `toolgate` was changed since, and is gone with what was added\n",
        "kept     toolgate.yaml: it was changed since\n",
        "kept     toolgate.pins.yaml: toolgate.yaml needs it\n",
        "4 files are kept: go on with what is there, or `toolgate init --undo --force` takes them back",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let now: Value = serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
    assert_eq!(now, serde_json::from_str::<Value>(&servers).unwrap());
    assert_eq!(
        run(&setup, &["check"]).await.0,
        0,
        "it needs nothing that is gone"
    );
    let (exit, said, _) = run(&setup, &["adopt", "--undo", "--force"]).await;
    assert!(
        exit == 0 && said.contains("everything that init did is undone"),
        "{said}"
    );
    assert_eq!(files(setup.directory()).len(), 1, "{said}");
}

fn desktop(setup: &Setup) -> (PathBuf, String) {
    let server = json!({
        "command": beside("oracle-server"), "args": [], "env": { "ORACLE_LOG": setup.log_of("one") },
    });
    let servers = json!({ "mcpServers": { "one": server } });
    let servers = serde_json::to_string_pretty(&servers).unwrap();
    let place = setup.directory().join(".mcp.json");
    fs::write(&place, &servers).unwrap();
    (place, servers)
}

/// Issue 17 D14: an agent that starts toolgate with other words than `init` wrote starts toolgate: what it
/// needs stays, and it is told; `--force` gives its server back.
#[tokio::test]
async fn an_entry_with_other_arguments_still_leads_to_toolgate() {
    let setup = placed();
    let (place, servers) = desktop(&setup);
    let (exit, said, wrong) = run(&setup, &["adopt", "--via", "stdio"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    let mut now: Value = fs::read_to_string(&place).unwrap().parse().unwrap();
    let args = now["mcpServers"]["one"]["args"].as_array_mut().unwrap();
    args.extend([json!("--agent"), json!("bot")]);
    fs::write(&place, now.to_string()).unwrap();
    let (exit, said, _) = run(&setup, &["init", "--undo"]).await;
    assert_eq!(exit, 1, "{said}");
    for line in [
        "`one`: `args` was changed since, and still leads to toolgate\n",
        "kept     toolgate.yaml: ",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(fs::read_to_string(&place).unwrap(), now.to_string());
    assert_eq!(run(&setup, &["check"]).await.0, 0, "what it needs is there");
    let (exit, said, _) = run(&setup, &["init", "--undo", "--force"]).await;
    assert_eq!(exit, 0, "{said}");
    let back: Value = fs::read_to_string(&place).unwrap().parse().unwrap();
    assert_eq!(back, servers.parse::<Value>().unwrap());
    drop(fs::remove_file(setup.log_of("one")));
    assert_eq!(files(setup.directory()).len(), 1, "{said}");
}

/// Issue 17 D14: where the agent's file cannot be brought together with what it was, `--force` puts that back
/// and keeps a copy; where it names no server any more, it leads nowhere, and nothing has to stay.
#[tokio::test]
async fn a_file_that_is_nothing_like_before_can_be_taken_back() {
    for (now, is_nowhere) in [("{}\n", true), ("{ no\n", false), ("[]\n", true)] {
        for force in [false, true] {
            let setup = placed();
            let (place, servers) = desktop(&setup);
            let (exit, said, wrong) = run(&setup, &["adopt"]).await;
            assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
            fs::write(&place, now).unwrap();
            let mut words = vec!["init", "--undo"];
            words.extend(force.then_some("--force"));
            let (exit, said, _) = run(&setup, &words).await;
            assert_eq!(exit == 0, force || is_nowhere, "{now} {force}: {said}");
            let expected = if force { &*servers } else { now };
            assert_eq!(fs::read_to_string(&place).unwrap(), expected, "{said}");
            assert_eq!(
                kept(&setup).values().any(|text| text == now),
                force,
                "a copy of what is replaced: {said}"
            );
            if exit == 0 {
                drop(fs::remove_file(setup.log_of("one")));
                assert_eq!(files(setup.directory()).len(), 1, "{said}");
                assert_eq!(run(&setup, &["adopt", "--undo"]).await.0, 1);
            } else {
                assert!(said.contains("--undo --force` takes them back"), "{said}");
            }
        }
    }
}

/// Issue 17 D14: what stands where a file or its directory should go is named before anything is written, and nothing is
/// left that keeps the next try from it.
#[tokio::test]
async fn what_is_in_the_way_is_told_before_anything_is_written() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed();
    let servers = json!({ "mcpServers": { "one": { "url": scripted.url() } } }).to_string();
    fs::write(setup.directory().join(".mcp.json"), servers).unwrap();
    let policies = setup.directory().join("policies");
    let configuration = setup.directory().join("toolgate.yaml");
    fs::write(&policies, "mine").unwrap();
    let (exit, said, wrong) = run(&setup, &["adopt", "--force"]).await;
    let said = said + &wrong;
    assert!(
        exit == 1 && said.contains("policies is no directory"),
        "{said}"
    );
    fs::remove_file(&policies).unwrap();
    std::os::unix::fs::symlink("../nowhere/x", &configuration).unwrap();
    let (exit, said, wrong) = run(&setup, &["adopt", "--force"]).await;
    let said = said + &wrong;
    let why = "toolgate.yaml is a link that leads nowhere";
    assert!(exit == 1 && said.contains(why), "{said}");
    fs::remove_file(&configuration).unwrap();
    assert_eq!(files(setup.directory()).len(), 1, "nothing was written");
    let (exit, said, wrong) = run(&setup, &["adopt"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
}
