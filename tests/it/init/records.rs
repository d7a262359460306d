//! Whose word `init` and `init --undo` take: the operator's, and nobody's who only put files somewhere.

use super::{files, kept, mode, placed};
use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Setup, beside};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// A file that is no business of toolgate's, in a directory beside the project's files.
fn victim(setup: &Setup) -> PathBuf {
    let directory = setup.directory().join("victim");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("file"), "mine\n").unwrap();
    directory
}

fn is_untouched(setup: &Setup) -> bool {
    let directory = setup.directory().join("victim");
    let entries = fs::read_dir(&directory).unwrap().count();
    entries == 1 && fs::read_to_string(directory.join("file")).unwrap() == "mine\n"
}

/// The one record that is kept.
fn record(setup: &Setup) -> PathBuf {
    let records = setup.directory().join("home/.local/state/toolgate/inits");
    let mut records = fs::read_dir(records).unwrap();
    records.next().unwrap().unwrap().path()
}

/// Threat-model §9, issue 17 D14: what came with the files of a repository is no record of an `init`:
/// nothing that it names is removed, written or restored, and nobody is told to follow it.
#[tokio::test]
async fn a_record_that_came_with_a_repository_is_not_followed() {
    let setup = placed();
    let victim = victim(&setup);
    let evil = setup.directory().join("evil");
    fs::write(&evil, "theirs\n").unwrap();
    let own =
        |path: PathBuf, backup: Value| json!({ "path": path, "sha256": "x", "backup": backup });
    for record in [
        json!({ "files": [], "backups": victim }),
        json!({ "files": [], "backups": "victim" }),
        json!({ "files": [own(victim.join("new"), json!(evil))] }),
        json!({ "files": [own(victim.join("file"), Value::Null)] }),
    ] {
        let path = setup.directory().join(".toolgate-init.json");
        fs::write(path, record.to_string()).unwrap();
        for words in [
            &["init", "--undo"][..],
            &["init", "--undo", "--force"],
            &["adopt", "--undo"],
        ] {
            let (exit, said, wrong) = run(&setup, words).await;
            assert_eq!((exit, said.as_str()), (1, ""), "{words:?}: {record}");
            assert!(wrong.contains("it is not followed"), "{wrong}");
            assert!(is_untouched(&setup), "{words:?}: {record}");
        }
    }
    let server = ScriptedServer::with(vec![tool("read")]).await;
    let servers = json!({ "mcpServers": { "one": { "url": server.url() } } });
    fs::write(setup.directory().join(".mcp.json"), servers.to_string()).unwrap();
    let (exit, said, wrong) = run(&setup, &["adopt"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    assert_eq!(run(&setup, &["init", "--undo"]).await.0, 0);
    assert!(is_untouched(&setup));
}

/// Threat-model §9, issue 17 D14: nor is an own record followed that names what `init` never writes.
#[tokio::test]
async fn a_record_that_names_other_files_is_not_followed() {
    let server = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed();
    let victim = victim(&setup);
    let servers = json!({ "mcpServers": { "one": { "url": server.url() } } }).to_string();
    fs::write(setup.directory().join(".mcp.json"), &servers).unwrap();
    assert_eq!(run(&setup, &["adopt"]).await.0, 0);
    let record = record(&setup);
    assert_eq!(mode(&record), 0o600);
    let whole = fs::read_to_string(&record).unwrap();
    let written: Value = whole.parse().unwrap();
    let mut backups = written.clone();
    backups["backups"] = json!(victim);
    let mut aside = written.clone();
    aside["kept"][0] = json!(victim.join("file"));
    let mut own = written.clone();
    own["files"][0]["path"] = json!("victim/file");
    for hostile in [backups, aside, own] {
        fs::write(&record, hostile.to_string()).unwrap();
        let (exit, _, wrong) = run(&setup, &["init", "--undo", "--force"]).await;
        assert_eq!(exit, 1, "{hostile}");
        assert!(wrong.contains("which init never writes"), "{wrong}");
        assert!(is_untouched(&setup), "{hostile}");
    }
    fs::write(&record, whole).unwrap();
    let (exit, said, wrong) = run(&setup, &["init", "--undo"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    assert_eq!(files(setup.directory())[".mcp.json"], servers);
    assert!(!record.exists() && kept(&setup).is_empty());
}

/// Issue 17 `init`: of two at once one writes, and the agent's file goes back to what it was before both.
#[tokio::test]
async fn of_two_at_once_one_writes() {
    let server = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed();
    let servers = json!({ "mcpServers": { "one": { "url": server.url() } } }).to_string();
    fs::write(setup.directory().join(".mcp.json"), &servers).unwrap();
    let adopt = || run(&setup, &["adopt"]);
    let (one, two, three) = tokio::join!(adopt(), adopt(), adopt());
    let done = [&one, &two, &three];
    let done = done.iter().filter(|(exit, ..)| *exit == 0).count();
    assert_eq!(done, 1, "{one:?}\n{two:?}\n{three:?}");
    let (exit, said, wrong) = run(&setup, &["init", "--undo"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    let after = files(setup.directory());
    assert_eq!(after.len(), 1, "{after:?}");
    assert_eq!(after[".mcp.json"], servers);
}

/// Issue 17 `init`: what is added to the agent's file while its servers are asked is not lost.
#[tokio::test]
async fn a_file_that_is_changed_meanwhile_is_not_overwritten() {
    let setup = placed();
    let oracle = beside("oracle-server");
    let script = format!("echo >>.mcp.json; exec {}", oracle.display());
    let servers = json!({ "mcpServers": { "one": {
        "command": "sh", "args": ["-c", script], "cwd": setup.directory(), "env": { "ORACLE_LOG": setup.log_of("one") },
    } } });
    fs::write(setup.directory().join(".mcp.json"), servers.to_string()).unwrap();
    let (exit, said, wrong) = run(&setup, &["adopt"]).await;
    assert_eq!(exit, 1, "{said}");
    assert!(
        wrong.contains(".mcp.json was changed while the tool servers were asked"),
        "{wrong}"
    );
    drop(fs::remove_file(setup.log_of("one")));
    let after = files(setup.directory());
    assert_eq!(after.keys().collect::<Vec<_>>(), [".mcp.json"]);
    assert_eq!(after[".mcp.json"].trim_end(), servers.to_string());
    assert!(after[".mcp.json"].ends_with('\n'));
    assert_eq!(run(&setup, &["init", "--undo"]).await.0, 1);
}

/// Issue 17 `init`: what one that was killed has left beside the files goes with the next, and nothing else
/// that is called so.
#[tokio::test]
async fn what_a_killed_init_left_goes_with_the_next() {
    let server = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed();
    let victim = victim(&setup);
    let place = |name: &str| setup.directory().join(name);
    let left = place(".toolgate-init-0123456789abcdef0123456789abcdef");
    let used = place(".toolgate-init-ffffffffffffffffffffffffffffffff");
    let linked = place(".toolgate-init-00000000000000000000000000000000");
    let other = place(".toolgate-init-mine");
    for directory in [&left, &used, &other] {
        fs::create_dir_all(directory.join("policies/tests")).unwrap();
        fs::write(directory.join("toolgate.yaml"), "").unwrap();
    }
    std::os::unix::fs::symlink(&victim, &linked).unwrap();
    let lock = File::open(&used).unwrap();
    lock.lock().unwrap();
    let upstream = format!("one={}", server.url());
    let (exit, said, wrong) = run(&setup, &["init", "--upstream", &upstream]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    assert!(!left.exists(), "what nobody uses");
    assert!(used.join("toolgate.yaml").exists(), "another is at work");
    assert!(linked.symlink_metadata().is_ok() && other.exists());
    assert!(is_untouched(&setup));
    drop(lock);
}

/// Issue 17 `init`: it goes with `--undo`, too, whether the one that was killed had written its files or not; what another
/// is making stays.
#[tokio::test]
async fn what_a_killed_init_left_goes_with_an_undo() {
    let server = ScriptedServer::with(vec![tool("read")]).await;
    let setup = placed();
    let place = |name: &str| setup.directory().join(name);
    let left = place(".toolgate-init-0123456789abcdef0123456789abcdef");
    let used = place(".toolgate-init-ffffffffffffffffffffffffffffffff");
    fs::create_dir(&used).unwrap();
    let lock = File::open(&used).unwrap();
    lock.lock().unwrap();
    let upstream = format!("one={}", server.url());
    for is_written in [false, true] {
        if is_written {
            let (exit, said, wrong) = run(&setup, &["init", "--upstream", &upstream]).await;
            assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
        }
        fs::create_dir_all(left.join("policies/tests")).unwrap();
        let (exit, said, _) = run(&setup, &["init", "--undo"]).await;
        assert_eq!(exit, i32::from(!is_written), "{said}");
        assert!(!left.exists() && used.exists(), "{is_written}");
    }
    drop(lock);
}

/// Issue 17 `init`: lines end as they did, and the rights of the agent's file are its owner's.
#[tokio::test]
async fn line_ends_and_rights_of_the_agents_file_stay() {
    let server = ScriptedServer::with(vec![tool("read")]).await;
    let servers =
        json!({ "mcpServers": { "one": { "url": server.url() }, "two": { "url": server.url() } } });
    let original = serde_json::to_string_pretty(&servers).unwrap();
    let original = original.replace('\n', "\r\n") + "\r\n";
    let ends_alike = |text: &str| text.matches('\n').count() == text.matches("\r\n").count();
    for via in ["http", "stdio"] {
        let setup = placed();
        let path = setup.directory().join(".mcp.json");
        fs::write(&path, &original).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        let (exit, said, wrong) = run(&setup, &["adopt", "--via", via]).await;
        assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
        let rewritten = fs::read_to_string(&path).unwrap();
        assert!(ends_alike(&rewritten), "{rewritten:?}");
        assert_ne!(rewritten, original);
        assert_eq!(mode(&path), 0o664, "as its owner gave it");
        // So that both versions are brought together, and not only put back.
        fs::write(&path, rewritten.replacen('{', "{\r\n  \"mine\": 1,", 1)).unwrap();
        let (exit, said, wrong) = run(&setup, &["init", "--undo"]).await;
        assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
        let back = fs::read_to_string(&path).unwrap();
        assert!(ends_alike(&back), "{back:?}");
        let mut values: Value = back.parse().unwrap();
        values.as_object_mut().unwrap().remove("mine");
        assert_eq!(values, servers);
        assert_eq!(mode(&path), 0o664);
    }
}
