//! What is not taken back, and why.

use super::{RITA, UndoStage, decision, done, name_of};
use crate::harness::scripted_server::Reply;
use serde_json::{Value, json};

/// Every refusal says its reason, and sends nothing.
#[tokio::test]
async fn each_refusal_has_its_reason() {
    let stage = UndoStage::new().await;
    stage.scripted.answers(|seen| {
        if seen.body["params"]["arguments"]["name"] == "bad" {
            return Reply::Result(
                json!({ "content": [], "isError": true, "resultType": "complete" }),
            );
        }
        if seen.body["params"]["arguments"]["name"] == "bare" {
            return done(&json!({ "tool": name_of(seen) }));
        }
        done(&json!({ "id": 1 }))
    });
    let read = stage.made("look", "k1").await;
    let post = stage.made("post", "k2").await;
    let note = stage.made("note", "k3").await;
    let named = async |name: &str| {
        let answer = stage.calls("draft", json!({ "name": name }), name).await;
        let id = decision(&answer)["action_id"].as_str().map(str::to_owned);
        id.unwrap_or_else(|| panic!("{answer}"))
    };
    let (bad, bare) = (named("bad").await, named("bare").await);
    let nameless = stage.calls("draft", json!({}), "k4").await;
    let nameless = decision(&nameless)["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let nobodys = "0198f1a2-0000-7000-8000-000000000000".to_owned();
    for (id, reason) in [
        (&read, "it was a read"),
        (&post, "by hand: call the office"),
        (&note, "nothing is lost"),
        (&bad, "the tool has answered with an error"),
        (&bare, "no `result#/id`"),
        (&nameless, "no `arguments#/name`"),
        (&nobodys, "nothing that can be taken back is known"),
    ] {
        for dry in [&["--dry-run"][..], &["--why", "a typo"]] {
            let words = [&["undo", id.as_str()][..], dry].concat();
            let (code, said) = stage.runs("rita", &words).await;
            assert!(code == 1 && said.contains(reason), "{reason}: {said}");
        }
    }
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
}

/// It takes the role that says what became of calls, a reason on one line, and nothing else.
#[tokio::test]
async fn an_undo_takes_the_role_and_a_reason() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let bob = "token-of-bob-who-looks-on";
    for (token, body, expected) in [
        (bob, json!({ "why": "a typo" }), 403),
        (bob, json!({ "dry_run": true }), 403),
        (RITA, json!({}), 400),
        (RITA, json!({ "why": "" }), 400),
        (RITA, json!({ "why": "two\nlines" }), 400),
        (RITA, json!({ "why": "a typo", "force": true }), 400),
    ] {
        let (status, said) = stage.asks(token, &id, &body).await;
        assert_eq!(status, expected, "{body}: {said}");
    }
    let (status, _) = stage.asks(RITA, "no-id", &json!({ "why": "x" })).await;
    assert_eq!(status, 400);
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
}

/// What undoes is not undone, and a key that an agent writes like an undo's is none.
#[tokio::test]
async fn what_undoes_is_no_agents_key() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let forged = format!("comp:{id}");
    // With one argument other than the undo's: else it would be that.
    let binned = json!({ "id": 1, "name": "b", "of": id });
    let answer = stage.calls("bin", binned, &forged).await;
    assert_eq!(decision(&answer)["outcome"], "answered", "{answer}");
    let (code, said) = stage.undoes(&id).await;
    assert_eq!(code, 0, "an agent's key stands for nothing here: {said}");
    assert_eq!(stage.sent("bin").len(), 2);
    let row = stage.row_of(&id).await;
    let by = row["action_id"].as_str().unwrap();
    let (code, said) = stage.undoes(by).await;
    assert!(
        code == 1 && said.contains("what undoes is not undone"),
        "{said}"
    );
}
