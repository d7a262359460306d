//! Who reads what of an undo: the agent in its answer, and people and programs in the ledger.

use super::{UndoStage, decision, done, failed, name_of, policy};
use crate::harness::gate::{run, runs};
use crate::harness::scripted_server::Reply;
use crate::harness::until;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Mutex;
use tokio::sync::oneshot;

impl UndoStage {
    /// What the ledger tells of the undo of a call, for programs.
    pub(super) async fn taken_back(&self, id: &str) -> Value {
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
    let told = time(&said["undo_until"]);
    let day = SignedDuration::from_hours(24);
    let room = SignedDuration::from_secs(5);
    assert!(
        before + day - room <= told && told <= after + day + room,
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
    let apart = time(&offered["until"]).duration_since(told).abs();
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

/// The policy of the stage, whose drafts are looked at before and after.
pub(super) fn checked() -> String {
    let check = "verify: { tool: bank__look, arguments: { id: result#/id, at: arguments#/place, by: result#/by }, expect: { /status: gone } }";
    let plain = policy("ask: never");
    let checked = plain.replacen("of: action# }", &format!("of: action# }}, {check}"), 1);
    assert_ne!(checked, plain);
    checked
}

/// 003-64: a time is promised, and promised again with the answer that is given again, exactly where the undo could
/// be made: not where its result, its arguments or its check lacks something, or where that was too long to be kept.
#[tokio::test]
async fn a_time_is_promised_where_the_undo_can_be_made() {
    let long = "x".repeat(9_000);
    let half = "x".repeat(5_000);
    let (plain, looked) = (policy("ask: never"), checked());
    let with = |name: Value, place: Value, by: Value| json!({ "name": name, "id": 1, "place": place, "by": by });
    for (nth, (rules, arguments, is_promised)) in [
        (&plain, json!({ "name": "a", "id": 1 }), true),
        (&plain, json!({ "name": "a" }), false),
        (&plain, json!({ "id": 1 }), false),
        (&plain, json!({ "name": long, "id": 1 }), false),
        (&plain, json!({ "name": "a", "id": long }), false),
        (&plain, json!({ "name": half, "id": half }), true),
        (&looked, with(json!("a"), json!(1), json!(1)), true),
        (&looked, with(json!("a"), Value::Null, json!(1)), true),
        (&looked, with(json!("a"), json!(1), Value::Null), false),
        (&looked, json!({ "name": "a", "id": 1, "by": 1 }), false),
        (&looked, with(json!("a"), json!(long), json!(1)), false),
        (&looked, with(json!(half), json!(half), json!(1)), false),
    ]
    .into_iter()
    .enumerate()
    {
        let stage = UndoStage::of(rules).await;
        stage.scripted.answers(|seen| {
            let arguments = &seen.body["params"]["arguments"];
            done(&json!({ "id": arguments["id"], "by": arguments["by"] }))
        });
        let first = decision(&stage.calls("draft", arguments.clone(), "k").await);
        let again = decision(&stage.calls("draft", arguments, "k").await);
        assert_eq!(again["replayed"], true, "{nth}: {first} {again}");
        let told = [&first, &again].map(|said| said["undo_until"].is_string());
        assert_eq!(told, [is_promised; 2], "{nth}: {first} {again}");
        let id = first["action_id"].as_str().unwrap();
        let (code, said) = stage.runs("rita", &["undo", id, "--dry-run"]).await;
        assert_eq!(code == 0, is_promised, "{nth}: {said}");
        assert!(
            is_promised || said.contains("cannot be made"),
            "{nth}: {said}"
        );
    }
}

/// An agent that got no answer reads the same time once the late one is known; a call that was taken back is a
/// new one, with a time of its own.
#[tokio::test]
async fn a_late_answer_says_it_too() {
    let stage = UndoStage::new().await;
    let stage = stage
        .again(|setup| setup.server_member("timeout: 1s"))
        .await;
    let (release, late) = oneshot::channel();
    let late = Mutex::new(Some(late));
    stage.scripted.answers(move |seen| {
        let late = late.lock().unwrap().take_if(|_| name_of(seen) == "draft");
        late.map_or_else(|| done(&json!({ "id": 2 })), Reply::Later)
    });
    let draft = async || decision(&stage.calls("draft", json!({ "name": "a" }), "k").await);
    let first = draft().await;
    assert_eq!(first["code"], "outcome_unknown", "{first}");
    assert_eq!(first["undo_until"], Value::Null, "{first}");
    assert!(release.send(done(&json!({ "id": 1 }))).is_ok());
    let again = until("the late answer", || async {
        let again = draft().await;
        (again["replayed"] == true).then_some(again)
    })
    .await;
    let id = first["action_id"].as_str().unwrap();
    stage.gate.entries(1).await;
    let offered = stage.taken_back(id).await;
    assert_eq!(offered["until"], again["undo_until"], "{offered} {again}");
    assert_eq!(stage.undoes(id).await.0, 0);
    let anew = draft().await;
    assert_eq!(anew["ran_after_undo_of"], id, "{anew}");
    assert!(
        time(&anew["undo_until"]) > time(&again["undo_until"]),
        "{anew}"
    );
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
