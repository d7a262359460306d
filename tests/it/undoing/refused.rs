//! What is not taken back, and why.

use super::{CALLERS, RITA, UndoStage, decision, done, name_of, policy};
use crate::harness::scripted_server::{Reply, Seen};
use serde_json::{Value, json};
use std::sync::Mutex;
use tokio::sync::oneshot;

/// The policy of the stage, whose letters nothing calls back: a person is asked about each.
pub(super) fn irreversible() -> String {
    let plain = policy("ask: never");
    let by_hand = "side_effect: { writes: letters, rollback: { manual: call the office } }";
    let for_good = "irreversible: true, approval: { approvers: [finance], hold: 0s }";
    let hard = plain.replacen(by_hand, for_good, 1);
    assert_ne!(hard, plain);
    hard
}

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

/// What is irreversible says so; and before a call has run, that it has not.
#[tokio::test]
async fn what_is_irreversible_is_not_taken_back() {
    let stage = UndoStage::of(&irreversible()).await;
    let answer = stage.calls("post", json!({ "name": "a" }), "k").await;
    let hold = decision(&answer)["approval_id"].clone();
    let hold = hold.as_str().unwrap_or_else(|| panic!("{answer}"));
    let refuses = async |id: &str, reason: &str| {
        for manner in [&["--dry-run"][..], &["--why", "a typo"]] {
            let words = [&["undo", id][..], manner].concat();
            let (code, said) = stage.runs("rita", &words).await;
            assert!(code == 1 && said.contains(reason), "{reason}: {said}");
        }
    };
    refuses(hold, "is held and has not run").await;
    assert_eq!(stage.decides("allow", hold).await.0, 0);
    let id = stage.made("post", "k").await;
    refuses(&id, "impossible").await;
    assert_eq!((stage.sent("post").len(), stage.sent("bin").len()), (1, 0));
}

/// A call on its way can be taken back once it has ended.
#[tokio::test]
async fn what_is_in_flight_is_not_taken_back() {
    let stage = UndoStage::new().await;
    let (release, held) = oneshot::channel();
    let held = Mutex::new(Some(held));
    stage.scripted.answers(move |seen| {
        let held = held.lock().unwrap().take_if(|_| name_of(seen) == "draft");
        held.map_or_else(|| done(&json!({ "id": 1 })), Reply::Later)
    });
    let asks = async {
        let is_draft = |seen: &Seen| name_of(seen) == "draft";
        stage.scripted.sees("the draft", is_draft).await;
        let (code, listed) = stage.runs("rita", &["calls", "list", "--json"]).await;
        assert_eq!(code, 0, "{listed}");
        let open: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        let id = open["action_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{listed}"));
        let (code, said) = stage.undoes(id).await;
        assert!(code == 1 && said.contains("is in flight"), "{said}");
        assert!(release.send(done(&json!({ "id": 1 }))).is_ok());
        id.to_owned()
    };
    let (id, made) = tokio::join!(asks, stage.made("draft", "k"));
    assert_eq!(id, made);
    assert_eq!(stage.undoes(&id).await.0, 0, "it has ended");
    assert_eq!(stage.sent("bin").len(), 1);
}

/// For an agent that is not known any more, and in observe mode, nothing is taken back; afterwards it is.
#[tokio::test]
async fn without_a_gate_or_an_agent_nothing_is_taken_back() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let cat_alone = CALLERS.lines().next_back().unwrap();
    assert!(!cat_alone.contains("agent: bot"), "{cat_alone}");
    let stage = stage.again(|setup| setup.callers(cat_alone)).await;
    let (code, said) = stage.undoes(&id).await;
    let reason = "does not know the agent any more";
    assert!(code == 1 && said.contains(reason), "{said}");
    let stage = stage
        .again(|setup| setup.callers(CALLERS).mode("observe"))
        .await;
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("in observe mode"), "{said}");
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    let stage = stage.again(|setup| setup.mode("enforce")).await;
    assert_eq!(stage.undoes(&id).await.0, 0);
    assert_eq!(stage.sent("bin").len(), 1);
}

/// A dry run says what the gate would say: that it passes, that a person is asked, or a refusal; and asks nobody.
#[tokio::test]
async fn a_dry_run_has_the_verdict_of_the_gate() {
    let refusing = policy("ask: never").replacen(
        "bank__bin: { purpose: A test., permission: anyone",
        "bank__bin: { purpose: A test., permission: { roles: [boss] }",
        1,
    );
    for (rules, verdict, code) in [
        (policy("ask: never"), "passed", None),
        (
            policy("approvers: [finance]"),
            "held",
            Some("approval_pending"),
        ),
        (refusing, "refused", Some("rbac_denied")),
    ] {
        let stage = UndoStage::of(&rules).await;
        let id = stage.made("draft", "k").await;
        let (status, said) = stage.asks(RITA, &id, &json!({ "dry_run": true })).await;
        let told = (said["verdict"].as_str(), said["code"].as_str());
        assert_eq!((status, told), (200, (Some(verdict), code)), "{said}");
        assert_eq!(said["state"], "offered", "{said}");
        assert_eq!(said["arguments"]["name"], "a", "{said}");
        let (ended, shown) = stage.runs("rita", &["undo", &id, "--dry-run"]).await;
        assert_eq!(ended, i32::from(verdict != "passed"), "{shown}");
        let is_told = code.is_none_or(|code| shown.contains(&format!("{verdict} ({code})")));
        assert!(is_told && shown.contains("nothing was sent"), "{shown}");
        let (_, asked) = stage.runs("ann", &["approvals", "list"]).await;
        assert!(!asked.contains("bank__bin"), "nobody is asked: {asked}");
        assert_eq!(stage.queued(&id).await, None);
        assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    }
}
