//! An undo that waits for a person goes on by itself once that person has allowed it, over a restart as well; and
//! is made once.

use super::{UndoStage, decision};
use crate::harness::until;
use crate::kills::build;
use serde_json::{Value, json};

impl UndoStage {
    /// Has rita ask for the undo of `id`, which waits for a person; the hold.
    pub(super) async fn waits(&self, id: &str) -> String {
        let (code, said) = self.undoes(id).await;
        assert!(
            code == 1
                && said.contains("a person has to allow it")
                && said.contains("goes on by itself"),
            "{said}"
        );
        let hold = said.split("approvals show ").nth(1);
        let hold = hold.and_then(|rest| rest.split_whitespace().next());
        hold.unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    pub(super) async fn decides(&self, word: &str, hold: &str) -> (i32, String) {
        self.runs("fay", &["approvals", word, hold, "--why", "it is due"])
            .await
    }

    /// The state of the open undo of `id`; none where none is open.
    pub(super) async fn queued(&self, id: &str) -> Option<String> {
        let (code, listed) = self.runs("rita", &["undo", "--list", "--json"]).await;
        assert_eq!(code, 0, "{listed}");
        let undos = listed
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut meant = undos.filter(|undo| undo["action_id"] == id);
        Some(meant.next()?["state"].as_str()?.to_owned())
    }

    /// Whether the call of `id` was taken back; asks for nothing.
    pub(super) async fn is_taken_back(&self, id: &str) -> bool {
        let (_, said) = self.runs("rita", &["undo", id, "--dry-run"]).await;
        said.contains("taken back already")
    }

    pub(super) async fn until_taken_back(&self, id: &str) {
        until("the undo that was allowed", || async {
            self.is_taken_back(id).await.then_some(())
        })
        .await;
    }
}

/// guarantees §7: a word on a call that its agent makes is none on the undo that would make the same one.
#[tokio::test]
async fn a_word_on_the_agents_own_call_allows_no_undo() {
    let stage = UndoStage::with("approvers: [finance], hold: 0s").await;
    let id = stage.made("draft", "k").await;
    let binned = json!({ "id": 1, "name": "a", "of": id });
    let own = stage.calls("bin", binned, "own").await;
    let own = decision(&own)["approval_id"].as_str().unwrap().to_owned();
    let hold = stage.waits(&id).await;
    assert_ne!(own, hold);
    assert_eq!(stage.decides("allow", &own).await.0, 0);
    let (_, said) = stage.undoes(&id).await;
    assert!(said.contains("a person has to allow it"), "{said}");
    assert_eq!(stage.queued(&id).await.as_deref(), Some("requested"));
    assert_eq!(stage.sent("bin").len(), 0);
    assert_eq!(stage.decides("allow", &hold).await.0, 0);
    stage.until_taken_back(&id).await;
    assert_eq!(stage.sent("bin").len(), 1);
}

/// 003-64: nobody asks again; a person's word is enough.
#[tokio::test]
async fn an_allowed_undo_goes_on_by_itself() {
    let stage = UndoStage::with("approvers: [finance]").await;
    let id = stage.made("draft", "k").await;
    let hold = stage.waits(&id).await;
    assert_eq!(stage.queued(&id).await.as_deref(), Some("requested"));
    let (code, said) = stage.decides("allow", &hold).await;
    assert_eq!(code, 0, "{said}");
    stage.until_taken_back(&id).await;
    assert_eq!(stage.sent("bin").len(), 1);
    assert_eq!(stage.queued(&id).await, None);
    let row = stage.row_of(&id).await;
    assert_eq!(row["approved_by"], serde_json::json!(["fay"]), "{row}");
    // An operator who asks now finds it done.
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("taken back already"), "{said}");
    assert_eq!(stage.sent("bin").len(), 1);
}

/// What was denied, and what was dropped before it was allowed, is not made.
#[tokio::test]
async fn what_is_denied_or_dropped_does_not_go_on() {
    let stage = UndoStage::with("approvers: [finance]").await;
    let (denied, dropped, last) = (
        stage.made("draft", "k1").await,
        stage.made("draft", "k2").await,
        stage.made("draft", "k3").await,
    );
    let hold = stage.waits(&denied).await;
    assert_eq!(stage.decides("deny", &hold).await.0, 0);
    let hold = stage.waits(&dropped).await;
    let drop = ["undo", &dropped, "--drop", "--why", "the agent did it"];
    let (code, said) = stage.runs("rita", &drop).await;
    assert!(code == 0 && said.contains("dropped by rita"), "{said}");
    assert_eq!(stage.queued(&dropped).await, None);
    let (code, said) = stage.decides("allow", &hold).await;
    assert!(code == 1 && said.contains("the undo is dropped"), "{said}");
    // The one that was allowed after them is the only one that is made.
    let hold = stage.waits(&last).await;
    assert_eq!(stage.decides("allow", &hold).await.0, 0);
    stage.until_taken_back(&last).await;
    let ids: Vec<Value> = stage
        .sent("bin")
        .iter()
        .map(|sent| sent["id"].clone())
        .collect();
    assert_eq!(ids, [serde_json::json!(3)]);
    assert_eq!(stage.queued(&denied).await.as_deref(), Some("requested"));
}

/// guarantees §7: who asks does not allow, whether first or later, and whether the first one has dropped it meanwhile;
/// a word on what was dropped counts for nothing.
#[tokio::test]
async fn who_has_asked_does_not_allow() {
    let stage = UndoStage::with("approvers: [finance]").await;
    let asks = async |who: &str, id: &str| {
        let (_, said) = stage.runs(who, &["undo", id, "--why", "a typo"]).await;
        let hold = said.split("approvals show ").nth(1);
        let hold = hold.and_then(|rest| rest.split_whitespace().next());
        hold.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let allows = async |who: &str, hold: &str| {
        let words = ["approvals", "allow", hold, "--why", "it is due"];
        stage.runs(who, &words).await
    };
    let drops = async |id: &str| {
        let words = ["undo", id, "--drop", "--why", "a mistake"];
        assert_eq!(stage.runs("rita", &words).await.0, 0);
    };
    // Rita asks, ann asks too: the same is held.
    let both = stage.made("draft", "k1").await;
    let hold = asks("rita", &both).await;
    assert_eq!(asks("ann", &both).await, hold);
    let (code, said) = allows("ann", &hold).await;
    assert!(code == 1 && said.contains("who has asked for it"), "{said}");
    // Rita asks and drops it; ann asks anew.
    let anew = stage.made("draft", "k2").await;
    let dropped = asks("rita", &anew).await;
    drops(&anew).await;
    let (code, said) = allows("ann", &dropped).await;
    assert!(code == 1 && said.contains("the undo is dropped"), "{said}");
    let hold = asks("ann", &anew).await;
    assert_ne!(hold, dropped);
    let (code, said) = allows("ann", &hold).await;
    assert!(code == 1 && said.contains("who has asked for it"), "{said}");
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    let (code, said) = allows("fay", &hold).await;
    assert_eq!(code, 0, "{said}");
    stage.until_taken_back(&anew).await;
    assert_eq!(stage.sent("bin").len(), 1);
}

/// The points from the word on. The first call is the one that is taken back, the second what waits, the third
/// what goes on.
const POINTS: [&str; 7] = [
    "approval-approved",
    "preparing:3",
    "intent-before-fsync:2",
    "intent-after-fsync:2",
    "before-send:2",
    "outcome-before-fsync:2",
    "outcome-after-fsync:2",
];

/// 003-64, 004-14: killed between any two states after the word, it is made once, or stands in the queue with what
/// is to be done.
#[tokio::test]
async fn a_killed_one_goes_on_after_a_restart() {
    build();
    for point in POINTS {
        let (stage, setup) = UndoStage::killed_at("approvers: [finance]", point).await;
        let id = stage.made("draft", "k").await;
        let hold = stage.waits(&id).await;
        // toolgate may be killed before it answers.
        stage.decides("allow", &hold).await;
        let stage = stage.after_the_kill(setup).await;
        let end = until(point, || async {
            if stage.is_taken_back(&id).await {
                return Some("done".to_owned());
            }
            let listed = stage.queued(&id).await;
            listed.filter(|listed| listed == "failed" || listed == "unknown")
        })
        .await;
        let sent = stage.sent("bin").len();
        match end.as_str() {
            "done" => assert_eq!(sent, 1, "{point}"),
            "failed" => assert_eq!(
                sent, 0,
                "{point}: what was sent is not known to have failed"
            ),
            _ => assert!(sent <= 1, "{point}: sent {sent} times"),
        }
        let has_begun = !matches!(point, "approval-approved" | "preparing:3");
        assert!(has_begun || end == "done", "{point}: {end}");
    }
}
