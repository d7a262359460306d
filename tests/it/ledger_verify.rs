//! threat-model §13 F12, §3G G2 and G3: what `ledger verify` proves of a record that an intruder
//! rewrote, and what it says it cannot.

mod keys;

use crate::harness::gate::{Gate, run};
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::setup::{Setup, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const KEY: &str = "ledger: { seal: { key: { file: seal.key } } }\n";

fn write_key(setup: &Setup, name: &str, text: &str) -> PathBuf {
    let path = setup.directory().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

async fn tools() -> ToolServer {
    Script::new().tool("pay", Behaviour::Answers).start().await
}

fn setup(server: &ToolServer, more: &str) -> Setup {
    let pay = "{ purpose: a test, secrets: [], actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } } }";
    let policy = format!(
        "contracts:\n{}\n  oracle__pay: {pay}\n",
        undo("oracle__pay")
    );
    let setup = Setup::new()
        .server("oracle", server)
        .policy(&policy)
        .more(more);
    let setup = setup.callers("  - { agent: alice, token: token-of-alice-of-the-office }");
    write_key(&setup, "seal.key", &"5e".repeat(32));
    setup
}

async fn pay(gate: &Gate, count: usize) {
    let agent = gate.agent().token("token-of-alice-of-the-office");
    for n in 0..count {
        let answer = agent
            .anew_call("oracle__pay", json!({ "n": n, "of": gate.pid() }))
            .await;
        assert!(answer.is_done(), "{}", answer.text());
    }
    gate.entries(count).await;
}

async fn stopped(mut gate: Gate) -> Setup {
    gate.terminate();
    gate.wait().await;
    gate.setup.clone()
}

async fn verify(setup: &Setup, more: &[&str]) -> (i32, String) {
    let (code, out, err) = run(
        setup,
        &[&["ledger", "verify", "--config", "toolgate.yaml"], more].concat(),
    )
    .await;
    (code, out + &err)
}

fn segment(setup: &Setup) -> PathBuf {
    let dir = setup.directory().join("data/journal");
    let mut all: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    all.sort();
    all.pop().unwrap()
}

/// Where the batches of a segment begin, and where the last one ends.
fn batches(bytes: &[u8]) -> Vec<usize> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut all = vec![96];
    while let Some(at) = all.last().copied().filter(|at| *at < bytes.len()) {
        let trailer = if number(at + 20) == 1 { 44 } else { 0 };
        all.push(at + 76 + number(at) as usize + trailer + 1);
    }
    all
}

/// What F12 did: another name in the record, and checksums and chain made anew to the end.
fn rewrite(path: &Path, from: &str, to: &str) -> usize {
    let mut bytes = std::fs::read(path).unwrap();
    let all = batches(&bytes);
    let mut chain: [u8; 32] = Sha256::digest(&bytes[..96]).into();
    let mut changed = 0;
    for pair in all.windows(2) {
        let (at, end) = (pair[0], pair[1]);
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let payload = at + 76..at + 76 + length;
        while let Some(found) = bytes[payload.clone()]
            .windows(from.len())
            .position(|part| part == from.as_bytes())
        {
            bytes[payload.start + found..payload.start + found + to.len()]
                .copy_from_slice(to.as_bytes());
            changed += 1;
        }
        let crc = crc32c::crc32c(&bytes[payload]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        bytes[at + 40..at + 72].copy_from_slice(&chain);
        let crc = crc32c::crc32c(&bytes[at..at + 72]);
        bytes[at + 72..at + 76].copy_from_slice(&crc.to_le_bytes());
        chain = Sha256::digest(&bytes[at..end]).into();
    }
    std::fs::write(path, bytes).unwrap();
    changed
}

/// F12 exactly: "alice" becomes "carol". Without a key `verify` is content and says what that is
/// worth; with one it is not, and says where.
#[tokio::test]
async fn a_rewritten_entry_is_found_with_the_key() {
    for sealed in [false, true] {
        let server = tools().await;
        let gate = setup(&server, if sealed { KEY } else { "" }).start().await;
        pay(&gate, 3).await;
        let setup = stopped(gate).await;
        let (code, said) = verify(&setup, &[]).await;
        assert_eq!(code, 0, "{said}");
        let unproved =
            "Not proved: that nobody who can write the data directory has rewritten an entry";
        assert_eq!(said.contains(unproved), !sealed, "{said}");
        assert!(
            said.contains("Not proved: that the end was not cut off"),
            "{said}"
        );
        assert_eq!(
            said.contains("nobody without it has changed them"),
            sealed,
            "{said}"
        );
        let sound = std::fs::read(segment(&setup)).unwrap();
        assert!(rewrite(&segment(&setup), "alice", "carol") >= 3);
        let (code, said) = verify(&setup, &[]).await;
        assert_eq!(code, i32::from(sealed), "{said}");
        let names_the_place = said.contains("DAMAGED: 00000000000000000001.journal at byte");
        assert_eq!(
            names_the_place && said.contains("was rewritten by someone without the key"),
            sealed,
            "{said}"
        );
        // An operator without the key is told so.
        let (code, said, _) = run(&setup, &["ledger", "verify", "--data", "data"]).await;
        assert!(code == 0 && said.contains(unproved), "{said}");
        if sealed {
            let (code, said, _) = run(
                &setup,
                &["ledger", "verify", "--data", "data", "--key", "seal.key"],
            )
            .await;
            assert!(code == 1 && said.contains("without the key"), "{said}");
            // It is not gone on with either.
            let (code, _, err) = run(&setup, &["serve", "--config", "toolgate.yaml"]).await;
            assert!(
                code == 1 && err.contains("does not write to such a journal"),
                "{err}"
            );
        }
        std::fs::write(segment(&setup), sound).unwrap();
        assert_eq!(verify(&setup, &[]).await.0, 0);
    }
}

/// G3: heads leave by themselves, at the start, now and then, and at the end; with them a removed
/// end is found, and so is a rewritten entry without any key; a head that another author wrote is
/// not taken.
#[tokio::test]
async fn heads_leave_by_themselves_and_find_a_removed_end() {
    for sealed in [false, true] {
        let (server, hooks) = (tools().await, HookServer::start().await);
        let seal = if sealed {
            "seal: { key: { file: seal.key } }, "
        } else {
            ""
        };
        let webhook = format!("webhook: {{ {} }}", hooks.members("heads"));
        let more = format!(
            "ledger: {{ {seal}heads: {{ every: 1s, file: kept/heads, log: true, {webhook} }} }}\n"
        );
        let setup = setup(&server, &more);
        std::fs::create_dir(setup.directory().join("kept")).unwrap();
        let gate = setup.start().await;
        pay(&gate, 3).await;
        let count = hooks.told().len();
        let told = hooks.heard(count + 2).await;
        let left = gate.operators("/metrics").await;
        assert!(
            left.contains("toolgate_ledger_heads_total{outcome=\"failed\"} 0"),
            "{left}"
        );
        let setup = stopped(gate).await;
        let file = setup.directory().join("kept/heads");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let heads: Vec<Value> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(
            heads.len() > 2 && heads.iter().all(|head| head["seal"].is_string() == sealed),
            "{text}"
        );
        assert_eq!(told[0].body["type"], "ledger.head");
        let known = |head: &Value| heads.iter().any(|kept| kept["hash"] == head["hash"]);
        assert!(known(&told[0].body["data"]), "{told:?}");
        assert!(
            std::fs::read_to_string(setup.directory().join("log"))
                .unwrap()
                .contains("where the ledger stands")
        );
        let (code, said) = verify(&setup, HEADS).await;
        assert!(
            code == 0 && said.contains("this ledger has every one"),
            "{said}"
        );
        judge_heads(&setup, sealed, &text).await;
    }
}

const HEADS: &[&str] = &["--heads", "kept/heads"];

/// Whatever is done to the ledger or to the heads that were kept is found.
async fn judge_heads(setup: &Setup, sealed: bool, text: &str) {
    let path = segment(setup);
    let sound = std::fs::read(&path).unwrap();
    // Cut off at every batch.
    let all = batches(&sound);
    for cut in &all[1..all.len() - 1] {
        std::fs::write(&path, &sound[..*cut]).unwrap();
        let (code, said) = verify(setup, HEADS).await;
        assert!(
            code == 1 && said.contains("were removed"),
            "cut at {cut}: {said}"
        );
    }
    std::fs::write(&path, &sound).unwrap();
    rewrite(&path, "alice", "carol");
    let (code, said) = verify(setup, HEADS).await;
    assert!(code == 1 && said.contains("DAMAGED"), "{said}");
    std::fs::write(&path, &sound).unwrap();
    // A head that an author without the key wrote, and a line that is none.
    let mut forged: Value = text.lines().last().unwrap().parse().unwrap();
    forged["time"] = json!("2020-01-01T00:00:00Z");
    let file = setup.directory().join("kept/heads");
    std::fs::write(&file, format!("{text}torn\n{forged}\n")).unwrap();
    let (code, said) = verify(setup, HEADS).await;
    assert_eq!(
        (code, said.contains("its seal does not fit")),
        (i32::from(sealed), sealed),
        "{said}"
    );
    std::fs::write(&file, "nothing\n").unwrap();
    let (code, said) = verify(setup, HEADS).await;
    assert!(code == 1 && said.contains("NOTHING PROVED"), "{said}");
}

/// What does not leave is said and counted, and toolgate goes on.
#[tokio::test]
async fn a_head_that_cannot_leave_is_said() {
    let (server, hooks) = (tools().await, HookServer::start().await);
    hooks.says(|_| HookReply::Status(500));
    let webhook = format!("webhook: {{ {} }}", hooks.members("heads"));
    let more = format!("ledger: {{ heads: {{ every: 1s, file: nowhere/heads, {webhook} }} }}\n");
    let gate = setup(&server, &more).start().await;
    let failed = || async {
        gate.log()
            .contains("nobody could be told of a head of the ledger\"")
            .then_some(())
    };
    until("three tries are made, and said", failed).await;
    assert!(
        hooks.told().len() >= 3
            && gate
                .log()
                .contains("a head of the ledger cannot be written")
    );
    let counted = gate.operators("/metrics").await;
    let line = counted
        .lines()
        .find(|line| line.starts_with("toolgate_ledger_heads_total{outcome=\"failed\"}"))
        .unwrap();
    assert!(
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() >= 2.0,
        "{line}"
    );
    pay(&gate, 1).await;
    let ids: std::collections::BTreeSet<_> = hooks
        .told()
        .iter()
        .take(3)
        .map(|told| told.header("webhook-id").to_owned())
        .collect();
    assert_eq!(ids.len(), 1, "one head, told thrice, has one id");
}

/// A webhook that never answers delays no head that is kept in a file.
#[tokio::test]
async fn a_webhook_that_hangs_delays_no_file() {
    let (server, hooks) = (tools().await, HookServer::start().await);
    hooks.says(|_| HookReply::Never);
    let webhook = format!("webhook: {{ {}, timeout: 30s }}", hooks.members("heads"));
    let more = format!("ledger: {{ heads: {{ every: 1s, file: heads, {webhook} }} }}\n");
    let gate = setup(&server, &more).start().await;
    let kept = || std::fs::read_to_string(gate.setup.directory().join("heads")).unwrap_or_default();
    until("three heads are kept", || async {
        (kept().lines().count() >= 3).then_some(())
    })
    .await;
    assert_eq!(hooks.told().len(), 1, "the first one still waits");
}

/// Where no head and no segment could go is an error, where none can go yet is a warning; doctor
/// says the same.
#[tokio::test]
async fn places_where_nothing_can_be_kept_are_said() {
    let server = tools().await;
    for (ledger, wrong, code) in [
        ("heads: { file: folder }", "is a directory", 1),
        ("heads: { file: link }", "is a link or no file", 1),
        (
            "heads: { file: nowhere/heads }",
            "nowhere does not exist, so no head is written",
            0,
        ),
        ("archive: file", "is no directory", 1),
        ("archive: nowhere", "", 0),
        ("heads: { file: heads }, archive: folder", "", 0),
    ] {
        let setup = setup(&server, &format!("ledger: {{ {ledger} }}\n"));
        std::fs::create_dir(setup.directory().join("folder")).unwrap();
        std::fs::write(setup.directory().join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", setup.directory().join("link")).unwrap();
        setup.write();
        for verb in [
            &["check", "toolgate.yaml"][..],
            &["doctor", "--config", "toolgate.yaml"],
        ] {
            let (ended, out, err) = run(&setup, verb).await;
            let said = out + &err;
            // Warnings are the matter of `check`.
            let wrong = if verb[0] == "doctor" && code == 0 {
                ""
            } else {
                wrong
            };
            assert!(
                ended == code && said.contains(wrong),
                "{ledger} {verb:?}: {said}"
            );
            let unsaid = [
                "is a directory",
                "is a link or no file",
                "so no head is written",
                "is no directory",
            ];
            let count = unsaid.iter().filter(|words| said.contains(**words)).count();
            assert_eq!(
                count,
                usize::from(!wrong.is_empty()),
                "{ledger} {verb:?}: {said}"
            );
        }
    }
}

/// A directory where a file of heads is asked for is named as such.
#[tokio::test]
async fn a_directory_is_no_file_of_heads() {
    let server = tools().await;
    let gate = setup(&server, "").start().await;
    let setup = stopped(gate).await;
    let (code, said) = verify(&setup, &["--heads", "data"]).await;
    assert!(
        code == 1 && said.contains("data is a directory; name the file"),
        "{said}"
    );
}
