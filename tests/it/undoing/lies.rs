//! Tool servers that lie about an undo, ask in the middle of one, or take away what it is checked with.

use super::enemies::asks;
use super::{RITA, UndoStage, done, failed, name_of, policy};
use crate::harness::scripted_server::{Reply, tool};
use crate::harness::until;
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;

/// The policy of the stage, with a check of the draft by `look`.
fn checked() -> String {
    let check =
        "verify: { tool: bank__look, arguments: { id: result#/id }, expect: { /status: gone } }";
    let plain = policy("ask: never");
    let checked = plain.replacen("of: action# }", &format!("of: action# }}, {check}"), 1);
    assert_ne!(checked, plain);
    checked
}

/// A server that does what takes back and says that it failed is not asked a second time where the contract
/// has a check.
#[tokio::test]
async fn a_lie_is_seen_by_the_check() {
    let stage = UndoStage::of(&checked()).await;
    let is_gone = AtomicBool::new(false);
    stage.scripted.answers(move |seen| {
        let status = if is_gone.load(Ordering::SeqCst) {
            "gone"
        } else {
            "draft"
        };
        match name_of(seen).as_str() {
            "bin" => {
                is_gone.store(true, Ordering::SeqCst);
                failed()
            }
            "look" => done(&json!({ "status": status })),
            _ => done(&json!({ "id": 7 })),
        }
    });
    let id = stage.made("draft", "k").await;
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("failed by"), "{said}");
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("gone already"), "{said}");
    assert_eq!(stage.sent("bin").len(), 1);
}

/// An undo that was made is told, though what it is checked with is taken away meanwhile.
#[tokio::test]
async fn what_was_made_is_told_without_its_check() {
    let stage = UndoStage::of(&checked()).await;
    let (release, held) = oneshot::channel();
    let held = Mutex::new(Some(held));
    stage.scripted.answers(move |seen| {
        let held = held.lock().unwrap().take_if(|_| name_of(seen) == "bin");
        held.map_or_else(
            || done(&json!({ "id": 7, "status": "draft" })),
            Reply::Later,
        )
    });
    let id = stage.made("draft", "k").await;
    let meanwhile = async {
        stage
            .scripted
            .sees("the undo", |seen| name_of(seen) == "bin")
            .await;
        let rest = ["draft", "bin"].map(tool).to_vec();
        stage.scripted.changes_tools(rest).await;
        until("the check is not listed any more", || async {
            let listed = stage.bot().tools().await;
            (!listed.iter().any(|name| name == "bank__look")).then_some(())
        })
        .await;
        assert!(release.send(done(&json!({}))).is_ok());
    };
    let body = json!({ "why": "a typo" });
    let ((status, report), ()) = tokio::join!(stage.asks(RITA, &id, &body), meanwhile);
    let told = (status, &report["state"], &report["verified"]);
    assert_eq!(told, (200, &json!("done"), &json!(false)), "{report}");
}

/// Nobody answers what a server asks in the middle of an undo: whether it took back is not known, it is not
/// sent again, and an operator says what became of it.
#[tokio::test]
async fn an_undo_that_is_asked_is_not_known() {
    let stage = UndoStage::new()
        .await
        .again(crate::harness::setup::Setup::open_sides)
        .await;
    stage.scripted.answers(|seen| match name_of(seen).as_str() {
        "bin" => asks("sure?"),
        _ => done(&json!({ "id": 1 })),
    });
    let id = stage.made("draft", "k").await;
    let mut by = String::new();
    for _ in 0..2 {
        let (code, said) = stage.undoes(&id).await;
        assert!(
            code == 1 && said.contains("it is not known whether"),
            "{said}"
        );
        let named = said.split("calls resolve ").nth(1);
        let named = named.and_then(|rest| rest.split([' ', '`', '\n']).next());
        by = named.unwrap_or_else(|| panic!("{said}")).to_owned();
    }
    assert_eq!(stage.sent("bin").len(), 1);
    let words = ["calls", "resolve", &by, "--not-applied", "--why", "seen"];
    let (code, said) = stage.runs("rita", &words).await;
    assert_eq!(code, 0, "{said}");
    stage.scripted.answers(|_| done(&json!({})));
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
}
