//! A rollback that is killed (threat-model §12), and what the ledger has of those that are not: who, from
//! what, to what, and why.

use super::{LOOSE, STRICT, becomes, done, is_strict, loosened, policy, read};
use crate::harness::gate::{Gate, runs};
use crate::harness::setup::{Setup, beside};
use crate::harness::until;
use crate::kills::{PROGRAM, ROLLBACK, build};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;

/// The rollbacks that the ledger has.
async fn recorded(setup: &Setup) -> Vec<Value> {
    let (code, out, err) = runs(setup, "ledger events --json --data data").await;
    assert_eq!(code, 0, "{out}{err}");
    let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line["event"] == "rolled_back")
        .collect()
}

async fn records(setup: &Setup, count: usize) -> Vec<Value> {
    until(&format!("{count} rollbacks in the ledger"), || async {
        let found = recorded(setup).await;
        (found.len() >= count).then_some(found)
    })
    .await
}

async fn is_half_done(gate: &Gate) {
    until("the reload is refused", || async {
        let said = gate.readiness().await.to_string();
        said.contains("has begun and not ended").then_some(())
    })
    .await;
}

/// The same toolgate, which is killed at `point`.
fn killed_at(setup: &Setup, point: &str) -> Setup {
    let setup = setup.clone().program(beside(PROGRAM));
    setup.environment("TOOLGATE_FAILPOINT", point)
}

/// Killed when all files are written and before it has ended: nothing comes in force and the ledger has no
/// rollback; done again, it is in force, and the ledger has one.
#[tokio::test]
async fn a_rollback_that_is_killed_before_its_end_is_none() {
    build();
    let (_scripted, gate, [strict, _]) = loosened("").await;
    let args = ["policy", "rollback", &strict, "--why", "the first time"];
    let ended = killed_at(&gate.setup, ROLLBACK[0]).run(&args).await;
    assert_eq!(ended.status.signal(), Some(9), "{ended:?}");
    assert_eq!(read(&gate.setup, "policy.yaml"), policy(STRICT));
    is_half_done(&gate).await;
    assert!(!is_strict(&gate).await);
    assert_eq!(recorded(&gate.setup).await, Vec::<Value>::new());
    done(
        &gate.setup,
        &["policy", "rollback", &strict, "--why", "again"],
    )
    .await;
    becomes(&gate, true).await;
    let told = records(&gate.setup, 1).await;
    assert_eq!(
        (told.len(), &told[0]["to"], &told[0]["why"]),
        (1, &json!(strict), &json!("again")),
        "{told:?}"
    );
}

/// Killed right after its end, before it says to a running toolgate that all is written: that finds it out by
/// itself, although it has read the files while they could not come in force.
#[tokio::test]
async fn a_rollback_that_is_killed_at_its_end_comes_in_force() {
    build();
    let (_scripted, gate, [strict, loose]) = loosened("").await;
    let pipe = gate.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let hold = format!("{}:{}", ROLLBACK[0], pipe.display());
    let setup = killed_at(&gate.setup, ROLLBACK[1]).environment("TOOLGATE_HOLD", &hold);
    let args = ["policy", "rollback", &strict, "--why", "too loose"];
    let rolling = setup.command(&args).spawn().unwrap();
    is_half_done(&gate).await;
    assert!(!is_strict(&gate).await);
    let go_on = tokio::task::spawn_blocking(move || std::fs::write(pipe, "go on"));
    go_on.await.unwrap().unwrap();
    let ended = rolling.wait_with_output().await.unwrap();
    assert_eq!(ended.status.signal(), Some(9), "{ended:?}");
    becomes(&gate, true).await;
    assert_eq!(gate.readiness().await["policy"]["stale"], false);
    let told = records(&gate.setup, 1).await;
    let one = &told[0];
    assert_eq!(
        (&one["from"], &one["to"], &one["why"], &one["forced"]),
        (
            &json!(loose),
            &json!(strict),
            &json!("too loose"),
            &json!(false)
        ),
        "{told:?}"
    );
    assert!(one["who"].as_str().unwrap().contains("uid "), "{one}");
    let (_, shown, _) = runs(&gate.setup, "ledger events --data data").await;
    let line = format!("policy files {} → {}", &loose[..12], &strict[..12]);
    assert!(
        shown.contains(&line) && shown.contains("too loose"),
        "{shown}"
    );
}

/// 003-42: what is rolled back while no toolgate runs is recorded by the next one, all of it, and once.
#[tokio::test]
async fn rollbacks_beside_no_toolgate_are_recorded_at_the_next_start() {
    let (_scripted, gate, [strict, loose]) = loosened("").await;
    let setup = gate.stop().await;
    for (hash, why) in [(&strict, "one"), (&loose, "two")] {
        done(&setup, &["policy", "rollback", hash, "--why", why]).await;
    }
    assert_eq!(recorded(&setup).await, Vec::<Value>::new());
    let gate = setup.policy(&policy(LOOSE)).start().await;
    let told = records(&gate.setup, 2).await;
    let whys: Value = told.iter().map(|one| one["why"].clone()).collect();
    assert_eq!(whys, json!(["one", "two"]));
    let setup = gate.stop().await;
    let gate = setup.start().await;
    done(
        &gate.setup,
        &["policy", "rollback", &strict, "--why", "three"],
    )
    .await;
    let told = records(&gate.setup, 3).await;
    let last = told.last().map(|one| &one["why"]);
    assert_eq!((told.len(), last), (3, Some(&json!("three"))), "{told:?}");
}
