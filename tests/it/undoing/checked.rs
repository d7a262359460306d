//! A contract says what shows that the effect is gone: fields of a read, before and after.

use super::{UndoStage, done, name_of};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// The policy of the stage, with a check of the draft by `look`.
fn policy() -> String {
    let check =
        "verify: { tool: bank__look, arguments: { id: result#/id }, expect: { /status: gone } }";
    let plain = super::policy("ask: never");
    let checked = plain.replacen("of: action# }", &format!("of: action# }}, {check}"), 1);
    assert_ne!(checked, plain);
    checked
}

/// A bank whose bin does its work, if `works`, and whose drafts say so.
async fn stage(works: bool) -> UndoStage {
    let stage = UndoStage::of(&policy()).await;
    let is_gone = AtomicBool::new(false);
    stage
        .scripted
        .answers(move |seen| match name_of(seen).as_str() {
            "bin" => {
                is_gone.store(works, Ordering::SeqCst);
                done(&json!({}))
            }
            "look" if is_gone.load(Ordering::SeqCst) => done(&json!({ "status": "gone" })),
            "look" => done(&json!({ "status": "draft" })),
            _ => done(&json!({ "id": 7 })),
        });
    stage
}

/// The check is made before and after; what it does not show is told, though the tool has answered.
#[tokio::test]
async fn fields_say_whether_it_is_gone() {
    for works in [true, false] {
        let stage = stage(works).await;
        let id = stage.made("draft", "k").await;
        let (code, said) = stage.runs("rita", &["undo", &id, "--dry-run"]).await;
        assert_eq!((code, stage.sent("look").len()), (0, 0), "{said}");
        let (code, said) = stage.undoes(&id).await;
        assert_eq!(code, i32::from(!works), "{said}");
        assert_eq!(said.contains("does not show"), !works, "{said}");
        assert_eq!(stage.sent("look"), [json!({ "id": 7 }), json!({ "id": 7 })]);
        assert_eq!(stage.sent("bin").len(), 1);
    }
}

/// What is gone already is not taken back.
#[tokio::test]
async fn what_is_gone_is_not_taken_back() {
    let stage = UndoStage::of(&policy()).await;
    stage
        .scripted
        .answers(|_| done(&json!({ "id": 7, "status": "gone" })));
    let id = stage.made("draft", "k").await;
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("gone already"), "{said}");
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
}
