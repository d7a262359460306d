//! The ledger is read: listed, verified, judged again.

use super::{POLICY, pay, stage};
use crate::harness::gate::run;
use crate::harness::setup::Setup;
use serde_json::json;

/// Issue 2: list, show and verify read the ledger while it is being written and after; a flipped
/// byte is found.
#[tokio::test]
async fn the_ledger_is_read_while_toolgate_runs_and_after() {
    let (_scripted, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-clerk");
    agent.call("oracle__read", json!({})).await;
    agent.call("oracle__pay", pay("amount", json!(101))).await;
    let entries = gate.entries(2).await;
    let id = entries[1]["action_id"].as_str().unwrap().to_owned();
    let setup = gate.setup.clone();
    let mut stopping = Some(gate);
    let mut head = String::new();
    for running in [true, false] {
        if !running {
            stopping.take().unwrap().stop().await;
        }
        let ledger = async |args: &[&str]| {
            run(&setup, &[&["ledger"], args, &["--data", "data"]].concat()).await
        };
        let (code, listed, _) = ledger(&["list"]).await;
        assert!(
            code == 0 && listed.contains("too_much") && listed.contains("oracle__read"),
            "{listed}"
        );
        let (code, listed, _) = ledger(&[
            "list",
            "--json",
            "--code",
            "too_much",
            "--agent",
            "clerk",
            "--tool",
            "oracle__pay",
        ])
        .await;
        assert!(
            code == 0 && listed.lines().count() == 1 && listed.contains(&id),
            "{listed}"
        );
        let (code, shown, _) = ledger(&["show", &id]).await;
        assert!(
            code == 0 && shown.contains("too_much") && shown.contains("c_1"),
            "{shown}"
        );
        assert_eq!(ledger(&["show", "no-such-id"]).await.0, 1);
        let (code, said, _) = ledger(&["verify"]).await;
        assert!(code == 0 && said.starts_with("ok: "), "{said}");
        head = said
            .lines()
            .find_map(|line| line.strip_prefix("head "))
            .unwrap()
            .to_owned();
        assert_eq!(ledger(&["verify", "--expect-head", &head]).await.0, 0);
    }
    judge_damage(&setup, &head).await;
}

/// A flipped bit is found, and so is an end that was cut off, by a head that was kept elsewhere.
async fn judge_damage(setup: &Setup, head: &str) {
    let segment = newest(&setup.directory().join("data"));
    let whole = std::fs::read(&segment).unwrap();
    let at = whole
        .windows(8)
        .position(|window| window == b"too_much")
        .unwrap();
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    std::fs::write(&segment, &flipped).unwrap();
    let (code, said, _) = run(setup, &["ledger", "verify", "--data", "data"]).await;
    assert!(code == 1 && said.starts_with("DAMAGED: "), "{said}");
    // An end that was cut off is found by a head that was kept elsewhere.
    std::fs::write(&segment, &whole[..at - 400]).unwrap();
    let (code, said, _) = run(
        setup,
        &["ledger", "verify", "--data", "data", "--expect-head", head],
    )
    .await;
    assert_eq!(code, 1, "{said}");
}

/// 003-104, 003-P3a, 003-P3c: a recorded call is judged again under the policy as it is
/// now; nothing is executed.
#[tokio::test]
async fn a_recorded_call_is_judged_again() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-clerk");
    let (fine, refused) = (pay("amount", json!(100)), pay("amount", json!(101)));
    for arguments in [&fine, &refused] {
        agent.call("oracle__pay", arguments.clone()).await;
    }
    agent.call("oracle__hidden", json!({})).await;
    let entries = gate.entries(3).await;
    let ids: Vec<&str> = entries
        .iter()
        .map(|entry| entry["action_id"].as_str().unwrap())
        .collect();
    let executed = scripted.executions();
    let replay = async |id: &str, more: &[&str]| {
        let place = ["--config", "toolgate.yaml", "--data", "data"];
        let words = [&["ledger", "replay", id][..], &place, more].concat();
        run(&gate.setup, &words).await
    };
    let (fine, refused) = (fine.to_string(), refused.to_string());
    let rows: [(&str, &[&str], i32, &str); 7] = [
        (ids[0], &["--arguments", &fine], 0, "now:  passed "),
        (ids[1], &["--arguments", &refused], 0, "now:  too_much "),
        (ids[2], &[], 0, "=> the same verdict"),
        (ids[0], &[], 1, "=> undecided: give --arguments"),
        (
            ids[0],
            &["--arguments", &refused],
            1,
            "not the call's arguments",
        ),
        (ids[0], &["--arguments", "[]"], 1, "must be a JSON object"),
        (
            "ffff",
            &[],
            1,
            "no call's action id begins or ends with ffff",
        ),
    ];
    for (id, more, code, words) in rows {
        let (ended, out, err) = replay(id, more).await;
        assert!(
            ended == code && format!("{out}{err}").contains(words),
            "{more:?}: {ended}\n{out}{err}"
        );
    }
    let policy = gate.path("policy.yaml");
    std::fs::write(&policy, POLICY.replace("> 100", "> 1000")).unwrap();
    let (code, out, _) = replay(ids[1], &["--arguments", &refused]).await;
    assert!(
        code == 1 && out.contains("=> another verdict") && out.contains("then: too_much"),
        "{out}"
    );
    assert_eq!(scripted.executions(), executed);
}

/// The file that holds the entries.
fn newest(data: &std::path::Path) -> std::path::PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.extend(
        std::fs::read_dir(data.join("journal"))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path()),
    );
    let holds = |path: &std::path::PathBuf| {
        path.is_file() && std::fs::read(path).unwrap().starts_with(b"TGJOURNL")
    };
    files.into_iter().filter(holds).max().unwrap()
}
