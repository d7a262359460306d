//! Who reads what of an undo: the agent in its answer, and people and programs in the ledger.

use super::{UndoStage, decision, done, failed, name_of, policy};
use crate::harness::gate::{run, runs};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

impl UndoStage {
    /// What the ledger tells of the undo of a call, for programs.
    async fn taken_back(&self, id: &str) -> Value {
        let words = format!("ledger show {id} --json --data data");
        let (code, out, wrong) = runs(&self.gate.setup, &words).await;
        assert_eq!(code, 0, "{wrong}");
        let row: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(row["action_id"], id, "{row}");
        row["taken_back"].clone()
    }
}

fn time(told: &Value) -> Timestamp {
    told.as_str().unwrap().parse().unwrap()
}

/// 003-64: the answer and the ledger say until when a call can be taken back, and its row which call did it.
#[tokio::test]
async fn all_read_whether_and_until_when() {
    let stage = UndoStage::new().await;
    let before = Timestamp::now();
    let answer = stage.calls("draft", json!({ "name": "a" }), "k").await;
    let after = Timestamp::now();
    let said = decision(&answer);
    let id = said["action_id"].as_str().unwrap().to_owned();
    let until = time(&said["undo_until"]);
    let day = SignedDuration::from_hours(24);
    let room = SignedDuration::from_secs(5);
    assert!(
        before + day - room <= until && until <= after + day + room,
        "a day from its end: {said}"
    );
    stage.gate.entries(1).await;
    let offered = stage.taken_back(&id).await;
    assert_eq!(
        (
            &offered["state"],
            &offered["tool"],
            &offered["compensated_by"]
        ),
        (&json!("offered"), &json!("bank__bin"), &Value::Null),
        "{offered}"
    );
    let apart = time(&offered["until"]).duration_since(until).abs();
    assert!(apart < room, "{offered} {said}");
    assert_eq!(stage.undoes(&id).await.0, 0);
    let by = stage.row_of(&id).await["action_id"].clone();
    let taken = stage.taken_back(&id).await;
    assert_eq!(
        (
            &taken["state"],
            &taken["compensated_by"],
            &taken["asked"]["who"]
        ),
        (&json!("done"), &by, &json!("rita")),
        "{taken}"
    );
    let words = format!("ledger show {id} --data data");
    let (_, shown, _) = runs(&stage.gate.setup, &words).await;
    let done_by = format!("done, by {}", by.as_str().unwrap());
    assert!(shown.contains(&done_by), "{shown}");
    // What undoes is not undone, and says of itself nothing of the kind.
    assert_eq!(stage.taken_back(by.as_str().unwrap()).await, Value::Null);
}

/// Nothing is promised of what no call takes back, of what failed, and of a read.
#[tokio::test]
async fn no_time_is_promised_where_nothing_takes_it_back() {
    let stage = UndoStage::new().await;
    for (tool, key) in [("post", "p"), ("note", "n"), ("look", "l"), ("bin", "b")] {
        let answer = stage.calls(tool, json!({ "name": "a" }), key).await;
        let said = decision(&answer);
        assert_eq!(said["outcome"], "answered", "{tool}: {answer}");
        assert_eq!(said["undo_until"], Value::Null, "{tool}: {answer}");
    }
    stage.scripted.answers(|_| failed());
    let answer = stage.calls("draft", json!({ "name": "b" }), "f").await;
    let said = decision(&answer);
    assert_eq!(said["outcome"], "answered", "{answer}");
    assert_eq!(said["undo_until"], Value::Null, "{answer}");
}

/// The agent does not read what is taken out of the result; the undo is made with it all the same, and no
/// export has it.
#[tokio::test]
async fn what_is_redacted_for_the_agent_is_kept_for_the_undo() {
    let plain = policy("ask: never");
    let redact = "results: { redact: [ { pattern: 'inv-[0-9]+' } ] }";
    let before = "actions: [write], side_effect: { writes: drafts, rollback: { tool";
    let after = before.replacen("side_effect", &format!("{redact}, side_effect"), 1);
    let redacted = plain.replacen(before, &after, 1);
    assert_ne!(redacted, plain);
    let stage = UndoStage::of(&redacted).await;
    let secret = "inv-4711";
    stage.scripted.answers(move |seen| {
        if name_of(seen) == "draft" {
            done(&json!({ "id": secret }))
        } else {
            done(&json!({ "binned": true }))
        }
    });
    let answer = stage.calls("draft", json!({ "name": "a" }), "k").await;
    let said = decision(&answer);
    assert_eq!(said["outcome"], "answered", "{answer}");
    assert!(said["undo_until"].is_string(), "{answer}");
    assert!(!answer.to_string().contains(secret), "{answer}");
    let id = said["action_id"].as_str().unwrap().to_owned();
    let (code, told) = stage.undoes(&id).await;
    assert_eq!(code, 0, "{told}");
    assert_eq!(stage.sent("bin")[0]["id"], secret);
    stage.row_of(&id).await;
    let words = ["ledger", "export", "--data", "data"];
    let (code, exported, wrong) = run(&stage.gate.setup, &words).await;
    assert!(code == 0 && exported.contains(&id), "{wrong}");
    assert!(!exported.contains(secret), "{exported}");
}
