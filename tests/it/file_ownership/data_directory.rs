//! The data directory: nobody else reads it, and nothing planted in it is used.

use super::{give, is_root, mode};
use crate::approvals::{ask, held};
use crate::harness::setup::{Setup, beside};
use crate::harness::until;
use serde_json::json;
use std::fs::{self};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

const CANARY: &str = "CANARY-HELD-ARGUMENT";

/// A toolgate whose only server is not there.
fn away() -> Setup {
    Setup::new()
        .server_with("s", "url: \"http://127.0.0.1:9/mcp\"")
        .contracts(&[("s__t", "read")])
}

/// Everything below `path`, with what others may do.
fn open_to_others(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let known = fs::symlink_metadata(path).unwrap();
    if known.mode() & 0o077 != 0 {
        found.push(format!("{} {:o}", path.display(), known.mode()));
    }
    if known.is_dir() {
        found.extend(
            fs::read_dir(path)
                .unwrap()
                .flat_map(|entry| open_to_others(&entry.unwrap().path())),
        );
    }
    found
}

/// Gives everybody the right to read all of it, as an older version or a careless copy left it.
fn open_up(path: &Path) {
    let is_dir = path.is_dir();
    mode(path, if is_dir { 0o755 } else { 0o644 });
    if is_dir {
        for entry in fs::read_dir(path).unwrap() {
            open_up(&entry.unwrap().path());
        }
    }
}

/// threat-model §13 F6: a held call's arguments stood in files that every account could read. What
/// is there is narrowed, what sled makes is for its owner alone, and a tool server keeps the umask
/// that toolgate was started with.
#[tokio::test]
async fn nobody_reads_the_data_directory() {
    let mut setup = crate::approvals::setup();
    let seen = setup.directory().join("umask-of-the-server");
    let program = beside("oracle-server");
    let script = format!("umask > {}; exec {}", seen.display(), program.display());
    setup = setup.server_with(
        "child",
        &format!("command: sh, args: [-c, \"{script}\"], env: {{ ORACLE_LOG: log }}"),
    );
    setup.write();
    held(&setup, vec![ask(1, json!({ "to": CANARY }))]).await;
    let data = setup.directory().join("data");
    // As if it had been started before.
    fs::write(data.join("round-key"), "5a".repeat(32)).unwrap();
    open_up(&data);
    mode(setup.directory(), 0o755);
    let gate = setup.start_at_once().await;
    let is_said = || fs::read_to_string(&seen).is_ok_and(|said| said.ends_with('\n'));
    until("the tool server runs", || async { is_said().then_some(()) }).await;
    until("it is noted", || async {
        fs::read_dir(data.join("children"))
            .unwrap()
            .next()
            .map(|_| ())
    })
    .await;
    assert_eq!(open_to_others(&data), Vec::<String>::new());
    assert_eq!(fs::read_to_string(&seen).unwrap().trim(), "0022");
    assert!(
        gate.log()
            .contains("others could read what is in the data directory"),
        "{}",
        gate.log()
    );
    if is_root() {
        for file in ["index/db", "index/conf", "journal", "lock"] {
            let path = data.join(file);
            let nobody = ["--reuid", "65534", "--clear-groups", "ls"];
            let output = std::process::Command::new("setpriv")
                .args(nobody)
                .arg(&path)
                .output()
                .unwrap();
            assert!(!output.status.success(), "{} can be seen", path.display());
        }
    }
}

/// What the data directory holds, or holds for a moment.
const PLANTED: [&str; 15] = [
    "epoch.new",
    "index.new",
    "journal.new",
    "disabled.new",
    "epoch",
    "index.mark",
    "disabled.json",
    "lock",
    "journal",
    "index",
    "children",
    "results",
    "sent",
    "round-key",
    "round-key.new",
];

/// threat-model §13 L6, lane: everything that could stand where toolgate writes, as a link or as
/// another's; the target stays as it was.
#[tokio::test]
async fn nothing_planted_in_the_data_directory_is_used() {
    let mut cases = 0;
    for name in PLANTED {
        for how in [
            "link to a file",
            "link to a directory",
            "nobody's file",
            "nobody's directory",
        ] {
            if how.starts_with("nobody") && !is_root() {
                continue;
            }
            let setup = away();
            let config = setup.write();
            let (data, target) = (
                setup.directory().join("data"),
                setup.directory().join("target"),
            );
            fs::create_dir(&data).unwrap();
            let planted = data.join(name);
            plant(how, &planted, &target);
            let output = setup
                .run(&["serve", "--config", config.to_str().unwrap()])
                .await;
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{name}, {how}: {said}");
            assert!(
                said.contains(&format!("data/{name}")),
                "{name}, {how}: {said}"
            );
            if how == "link to a file" {
                assert_eq!(fs::read_to_string(&target).unwrap(), "keep me", "{name}");
            } else if how == "link to a directory" {
                assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "{name}");
            }
            cases += 1;
        }
    }
    assert_eq!(
        cases,
        if is_root() {
            PLANTED.len() * 4
        } else {
            PLANTED.len() * 2
        }
    );
}

fn plant(how: &str, planted: &Path, target: &Path) {
    match how {
        "link to a file" => {
            fs::write(target, "keep me").unwrap();
            symlink(target, planted).unwrap();
        }
        "link to a directory" => {
            fs::create_dir(target).unwrap();
            symlink(target, planted).unwrap();
        }
        "nobody's file" => {
            fs::write(planted, "7").unwrap();
            give(planted);
        }
        _ => {
            fs::create_dir(planted).unwrap();
            give(planted);
        }
    }
}

/// threat-model §13 L6: the data directory is ours, whatever leads to it.
#[tokio::test]
async fn a_data_directory_of_anothers_is_refused() {
    if !is_root() {
        return;
    }
    for (what, spoil) in [
        (
            "nobody's",
            (|at: &Path| {
                fs::create_dir(at.join("data")).unwrap();
                give(&at.join("data"));
            }) as fn(&Path),
        ),
        ("a link into nobody's directory", |at| {
            fs::create_dir_all(at.join("theirs/data")).unwrap();
            give(&at.join("theirs"));
            symlink("theirs/data", at.join("data")).unwrap();
        }),
        ("nobody's link", |at| {
            fs::create_dir(at.join("elsewhere")).unwrap();
            symlink("elsewhere", at.join("data")).unwrap();
            give(&at.join("data"));
        }),
        ("begun by nobody", |at| {
            fs::create_dir(at.join("data.new")).unwrap();
            fs::write(at.join("data.new/x"), "").unwrap();
            give(&at.join("data.new"));
        }),
    ] {
        let setup = away();
        let config = setup.write();
        spoil(setup.directory());
        let output = setup
            .run(&["serve", "--config", config.to_str().unwrap()])
            .await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && said.contains("the data directory"),
            "{what}: {said}"
        );
    }
    let setup = away();
    setup.write();
    fs::create_dir(setup.directory().join("elsewhere")).unwrap();
    symlink("elsewhere", setup.directory().join("data")).unwrap();
    let gate = setup.start_at_once().await;
    assert!(gate.log().is_empty() || !gate.log().contains("belongs to another account"));
}
