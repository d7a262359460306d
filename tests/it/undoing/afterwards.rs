//! What follows an undo: the key of the call is free; one that failed, or was not allowed yet, is made
//! anew; and what a person has to allow waits for one.

use super::{UndoStage, decision, done, failed, keyed, name_of};
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The same call after an undo is a new call, and its answer says so; the one after that is it, again.
#[tokio::test]
async fn an_undone_key_is_free() {
    let stage = UndoStage::new().await;
    let (arguments, key) = (json!({ "name": "a" }), "k");
    let id = stage.made("draft", key).await;
    let again = stage.calls("draft", arguments.clone(), key).await;
    assert_eq!(decision(&again)["replayed"], true, "{again}");
    assert_eq!(stage.undoes(&id).await.0, 0);
    let anew = stage.calls("draft", arguments.clone(), key).await;
    let said = decision(&anew);
    assert_eq!(
        (&said["ran_after_undo_of"], &said["replayed"]),
        (&json!(id), &Value::Null),
        "{anew}"
    );
    assert_eq!(stage.sent("draft").len(), 2);
    let replayed = stage.calls("draft", arguments, key).await;
    assert_eq!(decision(&replayed)["replayed"], true, "{replayed}");
    // It is a call of its own, and taken back as one.
    let second = said["action_id"].as_str().unwrap();
    assert_eq!(stage.undoes(second).await.0, 0);
    assert_eq!((stage.sent("draft").len(), stage.sent("bin").len()), (2, 2));
    let entries = stage.gate.ledger().await;
    let row = entries.iter().find(|entry| entry["action_id"] == second);
    assert_eq!(row.map(|row| &row["because"]), Some(&json!("undone")));
}

/// A call that is made anew after its undo, and each undo, is meant, also in one trace: no breaker takes the tool away.
/// The same once more, without an undo between, is a duplicate.
#[tokio::test]
async fn what_is_made_anew_is_no_duplicate() {
    let breakers = "breakers: [ { tools: [\"bank__*\"], duplicates: 0 } ]\n";
    let stage = UndoStage::of(&(super::policy("ask: never") + breakers)).await;
    stage.scripted.answers(|_| done(&json!({ "id": 1 })));
    let calls = async |tool: &str, arguments: Value, key: &str| {
        let mut call = keyed(tool, &arguments, key);
        call["_meta"]["traceparent"] =
            json!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        stage.bot().modern("tools/call", call).await.message()
    };
    let drafts = async |key: &str| {
        let answer = calls("draft", json!({ "name": "a" }), key).await;
        let id = decision(&answer)["action_id"].as_str().map(str::to_owned);
        id.unwrap_or_else(|| panic!("{answer}"))
    };
    let bins = async |id: &str, key: &str| {
        calls("bin", json!({ "of": id, "name": "a", "id": 1 }), key).await
    };
    let twice = async || {
        stage
            .gate
            .metric("toolgate_duplicates_executed_total")
            .await
    };
    // By an operator, then by its agent, each time under the same key.
    let first = drafts("k").await;
    assert_eq!(stage.undoes(&first).await.0, 0);
    let second = drafts("k").await;
    bins(&second, "own").await;
    let third = drafts("k").await;
    assert_ne!(second, third);
    bins(&third, "another").await;
    assert_eq!((stage.sent("draft").len(), stage.sent("bin").len()), (3, 3));
    let (_, listed) = stage.runs("rita", &["incident", "list"]).await;
    assert!(listed.contains("there is no incident"), "{listed}");
    assert!(twice().await.abs() < f64::EPSILON);
    // What is bound to nothing by now runs again as well, and is not meant.
    bins(&third, "a third").await;
    assert_eq!(stage.sent("bin").len(), 4);
    until("the duplicate", || async {
        (twice().await > 0.5).then_some(())
    })
    .await;
}

/// An undo that its tool server refuses has failed, the key of the call is as it was, and it can be
/// made once more.
#[tokio::test]
async fn a_failed_undo_is_made_anew() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let bins = AtomicUsize::new(0);
    stage.scripted.answers(move |seen| {
        if name_of(seen) == "bin" && bins.fetch_add(1, Ordering::SeqCst) == 0 {
            return failed();
        }
        done(&json!({ "id": 1 }))
    });
    let (code, said) = stage.undoes(&id).await;
    assert!(
        code == 1 && said.contains("failed by") && said.contains("locked"),
        "{said}"
    );
    let again = stage.calls("draft", json!({ "name": "a" }), "k").await;
    assert_eq!(decision(&again)["replayed"], true, "{again}");
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
    let (code, _) = stage.undoes(&id).await;
    assert_eq!((code, stage.sent("bin").len()), (1, 2));
}

/// An undo is a call like others: a person may have to allow it, and not the operator who asks for it.
#[tokio::test]
async fn an_undo_waits_for_a_person() {
    let stage = UndoStage::with("approvers: [finance]").await;
    let id = stage.made("draft", "k").await;
    let ask = ["undo", &id, "--why", "a typo"];
    let (code, said) = stage.runs("ann", &ask).await;
    assert!(
        code == 1 && said.contains("a person has to allow it"),
        "{said}"
    );
    let hold = said.split("approvals show ").nth(1);
    let hold = hold.and_then(|rest| rest.split_whitespace().next());
    let hold = hold.unwrap_or_else(|| panic!("{said}")).to_owned();
    let allow = ["approvals", "allow", &hold, "--why", "it is due"];
    let (code, said) = stage.runs("ann", &allow).await;
    assert!(code != 0, "she asks for it herself: {said}");
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    // Another operator asks for the same, which waits already.
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains(&hold), "{said}");
    let allow = ["approvals", "allow", &hold, "--why", "it is due"];
    let (code, said) = stage.runs("fay", &allow).await;
    assert_eq!(code, 0, "{said}");
    stage.until_taken_back(&id).await;
    assert_eq!(stage.sent("bin").len(), 1);
    assert_eq!(stage.row_of(&id).await["approved_by"], json!(["fay"]));
}

/// Who decides about an undo reads that toolgate does not take it back, though its contract names a call.
#[tokio::test]
async fn an_undo_is_not_said_to_be_undone() {
    let plain = super::policy("approvers: [finance], hold: 0s");
    let (by_hand, by_call) = ("{ manual: out of the bin }", "{ tool: bank__post }");
    let policy = plain.replacen(by_hand, by_call, 1);
    assert_ne!(policy, plain);
    let stage = UndoStage::of(&policy).await;
    let approver_reads = async |id: &str| {
        let (code, said) = stage.runs("fay", &["approvals", "show", id]).await;
        assert_eq!(code, 0, "{said}");
        said
    };
    let id = stage.made("draft", "k").await;
    let (_, said) = stage.undoes(&id).await;
    let hold = said.split("approvals show ").nth(1);
    let hold = hold.and_then(|rest| rest.split_whitespace().next());
    let shown = approver_reads(hold.unwrap_or_else(|| panic!("{said}"))).await;
    assert!(
        shown.contains(" make the call again that it takes back\n")
            && !shown.contains("bank__post"),
        "{shown}"
    );
    // The same tool, called for its own sake, is taken back as its contract says.
    let answer = stage.calls("bin", json!({ "id": 7 }), "own").await;
    let waiting = decision(&answer)["approval_id"].clone();
    let shown = approver_reads(waiting.as_str().unwrap_or_else(|| panic!("{answer}"))).await;
    assert!(
        shown.contains(" call bank__post, for 24 h after its end\n"),
        "{shown}"
    );
}

/// The original's late answer: nothing is taken back while nobody knows; once it is known, it is.
#[tokio::test]
async fn a_late_answer_can_be_taken_back() {
    let stage = UndoStage::new().await;
    let (release, late) = tokio::sync::oneshot::channel();
    let late = std::sync::Mutex::new(Some(late));
    stage.scripted.answers(move |seen| {
        match late.lock().unwrap().take_if(|_| name_of(seen) == "draft") {
            Some(late) => crate::harness::scripted_server::Reply::Later(late),
            None => done(&json!({ "id": 9 })),
        }
    });
    let setup = stage.gate.setup.clone().server_member("timeout: 1s");
    let stage = UndoStage {
        scripted: stage.scripted,
        gate: {
            let mut gate = stage.gate;
            gate.terminate();
            gate.wait().await;
            setup.start().await
        },
    };
    let answer = stage.calls("draft", json!({ "name": "a" }), "k").await;
    let said = decision(&answer);
    assert_eq!(said["code"], "outcome_unknown", "{answer}");
    let id = said["action_id"].as_str().unwrap();
    let (code, said) = stage.undoes(id).await;
    assert!(code == 1 && said.contains("calls resolve"), "{said}");
    assert!(release.send(done(&json!({ "id": 7 }))).is_ok());
    until("the late answer", || async {
        (stage.undoes(id).await.0 == 0).then_some(())
    })
    .await;
    let sent = stage.sent("bin");
    assert_eq!((sent.len(), &sent[0]["id"]), (1, &json!(7)));
}

/// What an operator says of a call counts for its undo, too.
#[tokio::test]
async fn a_resolved_call_can_be_taken_back() {
    let stage = UndoStage::new().await;
    stage.scripted.answers(|seen| {
        if name_of(seen) == "draft" {
            return crate::harness::scripted_server::Reply::Silence;
        }
        done(&json!({}))
    });
    let setup = stage.gate.setup.clone().server_member("timeout: 1s");
    let mut gate = stage.gate;
    gate.terminate();
    gate.wait().await;
    let stage = UndoStage {
        scripted: stage.scripted,
        gate: setup.start().await,
    };
    let id = stage.made("draft", "k").await;
    let result = r#"{"content":[{"type":"text","text":"9"}],"structuredContent":{"id":9}}"#;
    let words = [
        "calls",
        "resolve",
        &id,
        "--applied",
        "--why",
        "seen",
        "--result",
        result,
    ];
    let (code, said) = stage.runs("rita", &words).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(stage.undoes(&id).await.0, 0);
    assert_eq!(stage.sent("bin")[0]["id"], 9);
}
