//! An agent and an operator who take one call back at the same time, while it becomes known that there is something to
//! take back: it is taken back once (003-64).

use super::found_out::{by_name, losing, lost};
use super::{RITA, UndoStage, decision};
use crate::harness::setup::beside;
use crate::harness::until;
use crate::kills::{PROGRAM, build};
use futures_util::future::join_all;
use serde_json::json;
use std::path::PathBuf;
use tokio::process::Command;

/// Drafts that agent and operator bin at once.
const MEETINGS: usize = 100;

/// Drafts that are binned by their agent and by an operator in the moment in which it is known that they are there: each is
/// binned once, by the quicker of the two, and the operator is told in the end that it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_and_operator_meet_when_it_is_known() {
    let stage = losing(&by_name()).await;
    let stage = &stage;
    let each = (0..MEETINGS).map(async |number: usize| {
        let name = format!("n{number}");
        let session = json!({ "dev.toolgate/idempotencyKey": name, "dev.toolgate/session": name });
        let called = async |tool: &str| {
            let params = json!({ "name": format!("bank__{tool}"), "arguments": { "name": name }, "_meta": session });
            stage.bot().modern("tools/call", params).await.message()
        };
        let lost = called("draft").await;
        let id = decision(&lost)["action_id"].as_str().map(str::to_owned);
        let id = id.unwrap_or_else(|| panic!("{lost}"));
        let known = async {
            let word = json!({ "verdict": "applied", "why": "seen" });
            let (status, told) = stage.posts(RITA, (&id, "resolve"), &word).await;
            assert_eq!(status, 200, "{told}");
            stage.asks(RITA, &id, &json!({ "why": "a typo" })).await
        };
        tokio::join!(known, called("bin"));
        until("it is taken back", || async {
            let (status, said) = stage.asks(RITA, &id, &json!({ "why": "a typo" })).await;
            let error = said["error"].as_str().unwrap_or_default();
            let is_done = status == 200 && said["state"] == "done";
            (is_done || status == 409 && error.contains("already")).then_some(())
        })
        .await;
        let sent = stage.sent("bin").into_iter();
        assert_eq!(sent.filter(|sent| sent["name"] == json!(name)).count(), 1, "{name}");
    });
    join_all(each).await;
}

/// A bank whose drafts are binned by name, under a program whose calls wait before they begin, once there is that pipe.
async fn pausing() -> (UndoStage, PathBuf) {
    build();
    let UndoStage { scripted, gate } = losing(&by_name()).await;
    let setup = gate.stop().await.program(beside(PROGRAM));
    let pipe = setup.directory().join("go-on");
    let hold = format!("beginning:{}", pipe.display());
    let setup = setup.environment("TOOLGATE_HOLD", &hold);
    // Who waits there has a thread for itself.
    let gate = setup.environment("TOKIO_WORKER_THREADS", "4").start().await;
    (UndoStage { scripted, gate }, pipe)
}

/// 003-64: agent and operator have both looked for the other's undo, and found none, before either has begun: the outcome
/// was told in between. The draft is binned once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looked_before_the_other_began_looks_again() {
    let (stage, pipe) = pausing().await;
    let id = lost(&stage).await;
    let made = Command::new("mkfifo").arg(&pipe).status().await.unwrap();
    assert!(made.success());
    let waiting = async |count: u64| {
        let arrived = pipe.with_extension("arrived");
        until("they wait before they begin", || async {
            let length = std::fs::metadata(&arrived).map_or(0, |file| file.len());
            (length == count).then_some(())
        })
        .await;
    };
    let why = json!({ "why": "a typo" });
    let by_operator = async {
        waiting(1).await;
        let word = json!({ "verdict": "applied", "why": "seen" });
        let (status, told) = stage.posts(RITA, (&id, "resolve"), &word).await;
        assert_eq!(status, 200, "{told}");
        stage.asks(RITA, &id, &why).await
    };
    let go_on = async {
        waiting(2).await;
        assert_eq!(stage.sent("bin").len(), 0);
        let writer = std::fs::File::options().write(true).open(&pipe).unwrap();
        std::fs::remove_file(&pipe).unwrap();
        drop(writer);
    };
    let by_agent = stage.calls("bin", json!({ "name": "a" }), "own");
    tokio::join!(by_agent, by_operator, go_on);
    until("it is taken back", || async {
        let (status, said) = stage.asks(RITA, &id, &why).await;
        let error = said["error"].as_str().unwrap_or_default();
        let is_done = status == 200 && said["state"] == "done";
        (is_done || status == 409 && error.contains("already")).then_some(())
    })
    .await;
    assert_eq!(stage.sent("bin").len(), 1);
}
