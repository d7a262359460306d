//! An agent takes a call of its own back by itself, by just the call that the contract names: it is that undo,
//! and no operator makes a second one. What is nearly that call is a call like any other.

use super::{RITA, UndoStage, decision, done, failed, keyed, name_of};
use crate::harness::scripted_server::Reply;
use crate::harness::setup::beside;
use crate::harness::until;
use crate::kills::{PROGRAM, build};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::oneshot;

/// The call that takes draft 1 back, its members in another order than the contract has them.
fn bin_of(id: &str) -> Value {
    json!({ "of": id, "name": "a", "id": 1 })
}

fn action_of(answer: &Value) -> String {
    let id = decision(answer)["action_id"].as_str().map(str::to_owned);
    id.unwrap_or_else(|| panic!("{answer}"))
}

/// 003-64: the agent's own undo is linked to the call, which is not taken back once more; its key is free, and what
/// took it back is not taken back itself.
#[tokio::test]
async fn an_agents_own_undo_is_the_undo() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let own = action_of(&stage.calls("bin", bin_of(&id), "own").await);
    let (code, said) = stage.undoes(&id).await;
    assert!(
        code == 1
            && said.contains("its agent has taken the call back itself")
            && said.contains(&own),
        "{said}"
    );
    assert_eq!(stage.sent("bin").len(), 1);
    let row = stage.row_of(&id).await;
    assert_eq!(row["action_id"], json!(own), "{row}");
    let (code, said) = stage.undoes(&own).await;
    assert!(
        code == 1 && said.contains("what undoes is not undone"),
        "{said}"
    );
    let anew = stage.calls("draft", json!({ "name": "a" }), "k").await;
    assert_eq!(decision(&anew)["ran_after_undo_of"], json!(id), "{anew}");
    // The same call again is no new undo: it is answered again.
    let again = stage.calls("bin", bin_of(&id), "own").await;
    assert_eq!(decision(&again)["replayed"], true, "{again}");
    assert_eq!(stage.sent("bin").len(), 1);
}

/// Another argument, one more, another agent: none of these is the undo, and the operator's is made.
#[tokio::test]
async fn nearly_the_same_call_is_no_undo() {
    for (agent, name, value) in [
        ("bot", "name", json!("b")),
        ("bot", "more", json!(true)),
        ("bot", "id", json!("1")),
        ("cat", "id", json!(1)),
    ] {
        let stage = UndoStage::new().await;
        let id = stage.made("draft", "k").await;
        let mut arguments = bin_of(&id);
        arguments[name] = value;
        let call = keyed("bin", &arguments, "own");
        let caller = if agent == "cat" {
            stage.cat()
        } else {
            stage.bot()
        };
        let answer = caller.modern("tools/call", call.clone()).await.message();
        assert_eq!(decision(&answer)["outcome"], "answered", "{answer}");
        let (code, said) = stage.undoes(&id).await;
        assert!(
            code == 0 && said.contains("taken back by"),
            "{call}: {said}"
        );
        assert_eq!(stage.sent("bin").len(), 2, "{call}");
    }
}

/// A call that fails leaves the undo as it was: nothing is queued, and an operator can ask for it.
#[tokio::test]
async fn a_failed_one_leaves_the_undo_as_it_was() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let bins = AtomicUsize::new(0);
    stage.scripted.answers(move |seen| {
        if name_of(seen) == "bin" && bins.fetch_add(1, Ordering::SeqCst) == 0 {
            return failed();
        }
        done(&json!({ "id": 1 }))
    });
    let answer = stage.calls("bin", bin_of(&id), "own").await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let (code, listed) = stage.runs("rita", &["undo", "--list"]).await;
    assert!(
        code == 0 && listed.contains("no undo is asked for"),
        "{listed}"
    );
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
    assert_eq!(stage.sent("bin").len(), 2);
}

/// One of which nobody knows whether it ran is no undo yet, and stops each other one, until an operator
/// says what became of it.
#[tokio::test]
async fn an_unknown_one_stops_the_next() {
    for (word, expected) in [("--applied", 1), ("--not-applied", 2)] {
        let stage = UndoStage::new().await;
        let id = stage.made("draft", "k").await;
        let bins = AtomicUsize::new(0);
        stage.scripted.answers(move |seen| {
            if name_of(seen) == "bin" && bins.fetch_add(1, Ordering::SeqCst) == 0 {
                return Reply::Status(503);
            }
            done(&json!({ "id": 1 }))
        });
        let answer = stage.calls("bin", bin_of(&id), "own").await;
        assert_eq!(decision(&answer)["code"], "outcome_unknown", "{answer}");
        let own = action_of(&answer);
        let (code, said) = stage.undoes(&id).await;
        assert!(
            code == 1 && said.contains("not known whether") && said.contains(&own),
            "{said}"
        );
        // Another key makes it no other call.
        let again = stage.calls("bin", bin_of(&id), "another").await;
        assert_eq!(decision(&again)["code"], "outcome_unknown", "{again}");
        assert_eq!(stage.sent("bin").len(), 1);
        let resolve = ["calls", "resolve", &own, word, "--why", "seen"];
        assert_eq!(stage.runs("rita", &resolve).await.0, 0);
        let (code, said) = stage.undoes(&id).await;
        let is_linked = said.contains("its agent has taken the call back itself");
        assert_eq!(
            (code, is_linked),
            (2 - expected, expected == 1),
            "{word}: {said}"
        );
        assert_eq!(
            stage.sent("bin").len(),
            usize::try_from(expected).unwrap(),
            "{word}"
        );
    }
}

/// A bank that answers `bin` once `release` is told to.
fn slow(stage: &UndoStage) -> oneshot::Sender<Reply> {
    let (release, late) = oneshot::channel();
    let late = Mutex::new(Some(late));
    stage.scripted.answers(move |seen| {
        let late = late.lock().unwrap().take_if(|_| name_of(seen) == "bin");
        late.map_or_else(|| done(&json!({ "id": 1 })), Reply::Later)
    });
    release
}

async fn until_sent(stage: &UndoStage) {
    until("the call that undoes", || async {
        (!stage.sent("bin").is_empty()).then_some(())
    })
    .await;
}

/// Operator and agent at the same time: one effect, whichever was first.
#[tokio::test]
async fn operator_and_agent_at_once_undo_once() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let release = slow(&stage);
    let body = json!({ "why": "a typo" });
    let agent_while_it_runs = async {
        until_sent(&stage).await;
        let answer = stage.calls("bin", bin_of(&id), "own").await;
        assert_eq!(decision(&answer)["code"], "duplicate_in_flight", "{answer}");
        release
            .send(done(&json!({})))
            .unwrap_or_else(|_| panic!("nobody waits"));
    };
    let ((status, report), ()) = tokio::join!(stage.asks(RITA, &id, &body), agent_while_it_runs);
    assert_eq!(
        (status, &report["state"]),
        (200, &json!("done")),
        "{report}"
    );
    assert_eq!(stage.sent("bin").len(), 1);

    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let release = slow(&stage);
    let operator_while_it_runs = async {
        until_sent(&stage).await;
        let (status, said) = stage.asks(RITA, &id, &body).await;
        assert_eq!(status, 409, "{said}");
        release
            .send(done(&json!({})))
            .unwrap_or_else(|_| panic!("nobody waits"));
    };
    let own = stage.calls("bin", bin_of(&id), "own");
    let (answer, ()) = tokio::join!(own, operator_while_it_runs);
    assert_eq!(decision(&answer)["outcome"], "answered", "{answer}");
    let (_, said) = stage.undoes(&id).await;
    assert!(
        said.contains("its agent has taken the call back itself"),
        "{said}"
    );
    assert_eq!(stage.sent("bin").len(), 1);
}

/// The points of the second call, which is the agent's own undo.
const POINTS: [&str; 7] = [
    "preparing:2",
    "intent-before-fsync:2",
    "intent-after-fsync:2",
    "before-send:2",
    "outcome-before-fsync:2",
    "outcome-after-fsync:2",
    "reply-to-agent:2",
];

/// 003-64, 004-14: killed between any two states of it, an operator's undo afterwards makes no second effect.
#[tokio::test]
async fn a_killed_own_undo_is_one_effect() {
    build();
    for point in POINTS {
        let stage = UndoStage::new().await;
        let mut gate = stage.gate;
        gate.terminate();
        gate.wait().await;
        let setup = gate.setup.clone();
        let armed = setup.clone().program(beside(PROGRAM));
        let armed = armed.environment("TOOLGATE_FAILPOINT", point);
        let mut stage = UndoStage {
            scripted: stage.scripted,
            gate: armed.start().await,
        };
        let id = stage.made("draft", "k").await;
        let (bot, call) = (stage.bot(), keyed("bin", &bin_of(&id), "own"));
        // Nobody answers it.
        let own = tokio::spawn(async move { bot.modern("tools/call", call).await });
        stage.gate.wait().await;
        own.abort();
        let stage = UndoStage {
            scripted: stage.scripted,
            gate: setup.start().await,
        };
        let (code, said) = stage.undoes(&id).await;
        let sent = stage.sent("bin").len();
        let is_own = said.contains("its agent has taken the call back itself");
        let is_unknown = said.contains("it is not known whether");
        let known = [code == 0, is_own, is_unknown];
        assert_eq!(
            known.iter().filter(|known| **known).count(),
            1,
            "{point}: {said}"
        );
        assert!(
            sent <= 1 && (is_unknown || sent == 1),
            "{point}: sent {sent} times: {said}"
        );
    }
}
