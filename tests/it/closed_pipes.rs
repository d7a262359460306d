//! Output that nobody reads any more, as behind `| head -1`: a verb that only prints ends quietly, and
//! one that works goes on to its end (issue 17).

use crate::harness::DEADLINE;
use crate::harness::gate::{run, runs};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::json;
use std::fs;
use std::io::{PipeWriter, pipe};
use std::path::Path;
use std::process::Stdio;

/// A pipe whose reader is gone: whatever is written to it fails.
fn closed() -> PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

/// What a verb of toolgate in that place ends with while nobody reads what it prints; it may say
/// neither that, nor anything of a panic.
async fn told_unread(setup: &Setup, words: &[&str]) -> i32 {
    let verb = setup.command(words).stdout(closed()).spawn().unwrap();
    let ended = tokio::time::timeout(DEADLINE, verb.wait_with_output()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{words:?} did not end"));
    let ended = ended.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).to_lowercase();
    assert!(
        !said.contains("panic") && !said.contains("broken pipe"),
        "{words:?}: {said}"
    );
    ended.status.code().unwrap()
}

/// The same where nobody reads standard error, either, as behind `2>&1 | head -1`.
pub async fn unread(setup: &Setup, words: &[&str]) -> i32 {
    let mut verb = setup.command(words);
    verb.stdout(closed()).stderr(Stdio::from(closed()));
    let ended = tokio::time::timeout(DEADLINE, verb.status()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{words:?} did not end"));
    ended.unwrap().code().unwrap()
}

/// The exit code says what it says to who reads.
#[tokio::test]
async fn a_verb_that_prints_ends_quietly() {
    let server = Script::new().tool("look", Behaviour::Answers).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__look", "read")]);
    let gate = setup.start().await;
    for _ in 0..3 {
        gate.agent().call("oracle__look", json!({})).await;
    }
    gate.entries(3).await;
    let setup = gate.stop().await;
    for line in [
        "--help",
        "ledger --help",
        "--version",
        "check",
        "check --json",
        "schema policy",
        "completions bash",
        "completions zsh",
        "man",
        "explain --agent anonymous --tool oracle__look",
        "explain --agent anonymous --tool oracle__nothing",
        "ledger list",
        "ledger list --json",
        "ledger tail",
        "ledger events",
        "ledger export",
        "ledger verify --data data",
        "calls list",
        "tasks list",
        "disable",
        "status",
        "status --json",
        "doctor",
        "report",
    ] {
        let (expected, ..) = runs(&setup, line).await;
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(told_unread(&setup, &words).await, expected, "{line}");
    }
    // One that looks again and again ends, too.
    let watched = ["status", "--watch", "--json"];
    assert_eq!(told_unread(&setup, &watched).await, 0);
}

/// What takes files back takes all of them back.
#[tokio::test]
async fn a_verb_that_works_goes_on_to_its_end() {
    let server = ScriptedServer::with(vec![tool("read")]).await;
    let setup = Setup::new();
    let home = setup.directory().join("home");
    let setup = setup.environment("HOME", home.to_str().unwrap());
    let upstream = format!("one={}", server.url());
    let init = ["init", "--upstream", &upstream];
    let written = || {
        let files = fs::read_dir(setup.directory()).unwrap();
        let names = files.map(|file| file.unwrap().file_name());
        names.filter(|name| name != "home").count()
    };
    let before = written();
    for more in [&[][..], &["--json"]] {
        let words = [&init[..], more].concat();
        assert_eq!(unread(&setup, &words).await, 0, "{words:?}");
        assert!(setup.directory().join("toolgate.yaml").exists());
        let (code, out, err) = run(&setup, &["check"]).await;
        assert_eq!(code, 0, "{out}{err}");
        let words = [&["init", "--undo"][..], more].concat();
        assert_eq!(unread(&setup, &words).await, 0, "{words:?}");
        assert_eq!(written(), before, "{words:?}");
    }
}

/// A verb whose exit code is its answer gives it also where nobody reads the rest: another verdict, a call that is
/// not there, a ledger that is damaged. Of a ledger that cannot be read whole, what was found until then counts.
#[tokio::test]
async fn what_was_found_out_counts_though_nobody_reads_it() {
    let server = Script::new().tool("look", Behaviour::Answers).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__look", "read")]);
    let gate = setup.start().await;
    gate.agent().call("oracle__look", json!({})).await;
    let entries = gate.entries(1).await;
    let replay = format!(
        "ledger replay {} --arguments {{}}",
        entries[0]["action_id"].as_str().unwrap()
    );
    let setup = gate.stop().await;
    let replay_json = format!("{replay} --json");
    let is_told = async |line: &str, expected: i32| {
        let words: Vec<_> = line.split(' ').collect();
        let (code, out, err) = run(&setup, &words).await;
        assert_eq!(code, expected, "{line}: {out}{err}");
        assert_eq!(told_unread(&setup, &words).await, expected, "{line}");
        assert_eq!(unread(&setup, &words).await, expected, "{line}");
    };
    for line in ["ledger verify --data data", &replay, &replay_json] {
        is_told(line, 0).await;
    }
    let policy = setup.directory().join("policy.yaml");
    let written = fs::read_to_string(&policy).unwrap();
    fs::write(&policy, written.replace("oracle__look", "oracle__peek")).unwrap();
    for line in ["ledger show ffffffff", &replay, &replay_json] {
        is_told(line, 1).await;
    }
    is_told("ledger replay ffffffff --sandbox http://127.0.0.1:9/mcp", 2).await;

    // One that is sound stands before the one that is not.
    let kept = setup.directory().join("state/toolgate/stdio");
    fs::create_dir_all(&kept).unwrap();
    copied(&setup, &kept.join("bank"));
    let journal = fs::read_dir(setup.directory().join("data/journal")).unwrap();
    let segments = journal.map(|file| file.unwrap().path());
    let segment = segments.filter(|file| file.extension().is_some_and(|kind| kind == "journal"));
    let segment = segment.max().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let call = bytes.windows(12).position(|found| found == b"oracle__look");
    bytes[call.unwrap()] ^= 1;
    fs::write(&segment, bytes).unwrap();
    for line in [
        "ledger verify --data data",
        "ledger verify --json --data data",
    ] {
        is_told(line, 1).await;
    }
    // What only shows calls ends where nobody reads on, before the damage or behind it.
    for words in [["ledger", "list"], ["ledger", "export"]] {
        let (code, out, err) = run(&setup, &words).await;
        assert_eq!(code, 1, "{words:?}: {out}{err}");
    }
    copied(&setup, &kept.join("post"));
    let state = setup.directory().join("state");
    let wrapped = setup
        .clone()
        .environment("XDG_STATE_HOME", state.to_str().unwrap());
    let all = ["ledger", "--stdio", "verify"];
    let (code, out, err) = run(&wrapped, &all).await;
    assert!(code == 1 && out.contains("DAMAGED"), "{out}{err}");
    assert_eq!(told_unread(&wrapped, &all).await, 1);
}

/// The data directory, copied to `place`.
fn copied(setup: &Setup, place: &Path) {
    let data = setup.directory().join("data");
    let done = std::process::Command::new("cp")
        .arg("-a")
        .arg(data)
        .arg(place)
        .status();
    assert!(done.unwrap().success());
}
