//! An undo that cannot be made, as who reads the ledger finds it: not offered, and with the reason.

use super::told::checked;
use super::{UndoStage, decision, done, policy};
use crate::harness::gate::runs;
use crate::harness::scripted_server::Reply;
use serde_json::{Value, json};

impl UndoStage {
    /// What the ledger tells of the undo of a call, for people.
    async fn told_of(&self, id: &str) -> String {
        let words = format!("ledger show {id} --data data");
        let (code, shown, wrong) = runs(&self.gate.setup, &words).await;
        assert_eq!(code, 0, "{wrong}");
        let mut lines = shown.lines();
        let line = lines.find_map(|line| line.strip_prefix("taken back "));
        line.unwrap_or_else(|| panic!("{shown}")).trim().to_owned()
    }
}

/// 003-64: what lacks a part of its result, of its arguments or of its check, or was too long to be kept, is not
/// offered; what lacks nothing is, and then can be made.
#[tokio::test]
async fn what_cannot_be_made_is_not_offered() {
    let long = "x".repeat(9_000);
    let (plain, looked) = (policy("ask: never"), checked());
    for (rules, arguments, lacks) in [
        (&plain, json!({ "name": "a", "id": 1 }), None),
        (
            &plain,
            json!({ "name": "a" }),
            Some("the call has no `result#/id`"),
        ),
        (
            &plain,
            json!({ "id": 1 }),
            Some("the call has no `arguments#/name`"),
        ),
        (
            &plain,
            json!({ "name": long, "id": 1 }),
            Some("too long to be kept"),
        ),
        (
            &plain,
            json!({ "name": "a", "id": long }),
            Some("too long to be kept"),
        ),
        (
            &looked,
            json!({ "name": "a", "id": 1, "place": 3, "by": 2 }),
            None,
        ),
        (
            &looked,
            json!({ "name": "a", "id": 1, "place": 3 }),
            Some("the call has no `result#/by`"),
        ),
    ] {
        let stage = UndoStage::of(rules).await;
        stage.scripted.answers(|seen| {
            let arguments = &seen.body["params"]["arguments"];
            done(&json!({ "id": arguments["id"], "by": arguments["by"] }))
        });
        let answer = stage.calls("draft", arguments, "k").await;
        let id = decision(&answer)["action_id"].as_str().unwrap().to_owned();
        stage.gate.entries(1).await;
        says_whether(&stage, &id, lacks).await;
        let (code, said) = stage.runs("rita", &["undo", &id, "--dry-run"]).await;
        assert_eq!(code == 0, lacks.is_none(), "{said}");
        assert!(lacks.is_none_or(|lacks| said.contains(lacks)), "{said}");
        assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    }
}

/// The ledger offers to take the call back, or says what it lacks for that.
async fn says_whether(stage: &UndoStage, id: &str, lacks: Option<&str>) {
    let (told, shown) = (stage.told_of(id).await, stage.taken_back(id).await);
    let expected = if lacks.is_some() {
        "impossible"
    } else {
        "offered"
    };
    assert_eq!(shown["state"], expected, "{lacks:?}: {shown}");
    match lacks {
        None => {
            assert!(told.starts_with("by a call of bank__bin, until "), "{told}");
            assert_eq!(shown["lacks"], Value::Null, "{shown}");
        }
        Some(lacks) => {
            assert!(
                told.starts_with("not possible: ") && told.contains(lacks),
                "{told}"
            );
            assert!(shown["lacks"].as_str().unwrap().contains(lacks), "{shown}");
        }
    }
}

/// What an operator says of a call that nobody knew of is not read for that: the ledger does not promise it, nor
/// does it say that it cannot be, since it can.
#[tokio::test]
async fn what_nobody_has_looked_at_is_left_open() {
    let stage = UndoStage::new().await;
    stage.scripted.answers(|_| Reply::Status(503));
    let id = stage.made("draft", "k").await;
    let result = json!({ "content": [], "structuredContent": { "id": 7 } });
    let result = result.to_string();
    let words = [
        "calls",
        "resolve",
        &id,
        "--applied",
        "--why",
        "seen",
        "--result",
        &result,
    ];
    let (code, said) = stage.runs("rita", &words).await;
    assert_eq!(code, 0, "{said}");
    let told = stage.told_of(&id).await;
    assert!(told.contains("if all that it needs is there"), "{told}");
    let shown = stage.taken_back(&id).await;
    assert_eq!(
        (&shown["state"], &shown["lacks"]),
        (&json!("offered"), &Value::Null),
        "{shown}"
    );
    stage.scripted.answers(|_| done(&json!({})));
    let (code, said) = stage.undoes(&id).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(stage.sent("bin")[0]["id"], 7);
}
