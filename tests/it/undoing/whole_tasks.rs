//! What a task has done is taken back, the last call first, up to one that cannot be.

use super::refused::irreversible;
use super::{UndoStage, decision, done, failed, name_of};
use crate::harness::setup::{Setup, beside};
use crate::kills::{PROGRAM, build};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

impl UndoStage {
    /// Calls a tool in the task `t`, under `key`; the answer.
    async fn in_task_answered(&self, tool: &str, key: &str) -> Value {
        let meta = json!({ "dev.toolgate/idempotencyKey": key, "dev.toolgate/task": "t" });
        let params =
            json!({ "name": format!("bank__{tool}"), "arguments": { "name": key }, "_meta": meta });
        self.bot().modern("tools/call", params).await.message()
    }

    /// The same, of one that is carried out.
    async fn in_task(&self, tool: &str, key: &str) {
        let answer = self.in_task_answered(tool, key).await;
        assert!(
            answer["result"]["structuredContent"].is_object(),
            "{answer}"
        );
    }

    /// The id of that task.
    pub(super) async fn task(&self) -> String {
        let (_, listed) = self
            .runs("rita", &["tasks", "list", "--json", "--agent", "bot"])
            .await;
        let tasks = listed
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut named = tasks.filter(|task| task["name"] == "t");
        let task = named.next().unwrap_or_else(|| panic!("{listed}"));
        task["id"].as_str().unwrap().to_owned()
    }

    /// Which drafts were binned, in their order.
    fn binned(&self) -> Vec<Value> {
        let sent = self.sent("bin");
        sent.iter().map(|sent| sent["name"].clone()).collect()
    }
}

/// The last call first; what is done is passed over; a call that only a person takes back ends it.
#[tokio::test]
async fn a_task_is_taken_back_in_reverse() {
    let stage = UndoStage::new().await;
    stage.in_task("draft", "a").await;
    stage.in_task("note", "b").await;
    stage.in_task("draft", "c").await;
    let task = stage.task().await;
    let undo = ["undo", "--task", &task, "--why", "it went astray"];
    let (code, said) = stage
        .runs("rita", &["undo", "--task", &task, "--dry-run"])
        .await;
    assert_eq!((code, stage.binned()), (0, Vec::new()), "{said}");
    for _ in 0..2 {
        let (code, said) = stage.runs("rita", &undo).await;
        assert_eq!(code, 0, "{said}");
        assert_eq!(stage.binned(), [json!("c"), json!("a")], "{said}");
    }
    for (tool, key) in [("draft", "d"), ("post", "e"), ("draft", "f")] {
        stage.in_task(tool, key).await;
    }
    let (code, said) = stage.runs("rita", &undo).await;
    assert!(
        code == 1 && said.contains("stopped at") && said.contains("call the office"),
        "{said}"
    );
    assert_eq!(stage.binned(), [json!("c"), json!("a"), json!("f")]);
    let (code, said) = stage
        .runs("rita", &["undo", "--task", "00000000", "--why", "x"])
        .await;
    assert!(code == 1 && said.contains("no task"), "{said}");
}

/// One that fails is told, and what was before it is taken back all the same; asked again, that one alone
/// is tried.
#[tokio::test]
async fn a_task_goes_on_after_one_that_fails() {
    let stage = UndoStage::new().await;
    for key in ["a", "b", "c"] {
        stage.in_task("draft", key).await;
    }
    let is_locked = AtomicBool::new(true);
    stage.scripted.answers(move |seen| {
        let is_b = seen.body["params"]["arguments"]["name"] == "b";
        if name_of(seen) == "bin" && is_b && is_locked.swap(false, Ordering::SeqCst) {
            return failed();
        }
        done(&json!({ "id": 1 }))
    });
    let task = stage.task().await;
    let undo = ["undo", "--task", &task, "--why", "it went astray"];
    let (code, said) = stage.runs("rita", &undo).await;
    assert!(code == 1 && !said.contains("stopped at"), "{said}");
    let failed: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("  failed by "))
        .collect();
    assert!(failed.len() == 1 && failed[0].contains("locked"), "{said}");
    assert_eq!(said.matches("  done by ").count(), 2, "{said}");
    assert_eq!(stage.binned(), [json!("c"), json!("b"), json!("a")]);
    let (code, said) = stage.runs("rita", &undo).await;
    assert_eq!(code, 0, "{said}");
    let all = [json!("c"), json!("b"), json!("a"), json!("b")];
    assert_eq!(stage.binned(), all);
    let (code, said) = stage.runs("rita", &undo).await;
    assert_eq!((code, stage.binned().len()), (0, 4), "{said}");
}

/// What nothing takes back ends it as what a person takes back by hand does.
#[tokio::test]
async fn an_irreversible_call_ends_the_undo_of_a_task() {
    let stage = UndoStage::of(&irreversible()).await;
    stage.in_task("draft", "a").await;
    let answer = stage.in_task_answered("post", "b").await;
    let hold = decision(&answer)["approval_id"].clone();
    let hold = hold.as_str().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(stage.decides("allow", hold).await.0, 0);
    for (tool, key) in [("post", "b"), ("draft", "c")] {
        stage.in_task(tool, key).await;
    }
    let task = stage.task().await;
    let undo = ["undo", "--task", &task, "--why", "it went astray"];
    for _ in 0..2 {
        let (code, said) = stage.runs("rita", &undo).await;
        assert!(code == 1 && said.contains("stopped at"), "{said}");
        assert!(said.contains("impossible"), "{said}");
        assert_eq!(stage.binned(), [json!("c")]);
    }
    assert_eq!(stage.sent("post").len(), 1);
}

/// The points of the fifth call: after three drafts and the undo of the last of them, that of the one before.
const MIDST: [&str; 5] = [
    "preparing:5",
    "intent-before-fsync:5",
    "before-send:5",
    "outcome-before-fsync:5",
    "reply-to-agent:5",
];

/// The stage under a program that ends at that point, and the setup without it.
async fn armed(point: &'static str) -> (UndoStage, Setup) {
    let UndoStage { scripted, gate } = UndoStage::new().await;
    let setup = gate.stop().await;
    let armed = setup.clone().program(beside(PROGRAM));
    let armed = armed.environment("TOOLGATE_FAILPOINT", point);
    let gate = armed.start().await;
    (UndoStage { scripted, gate }, setup)
}

/// 003-64, 004-14: killed in the midst of the undo of a task, and asked for again: each call is taken back once,
/// or it is known that nobody knows, and a person's word ends that.
#[tokio::test]
async fn a_killed_undo_of_a_task_is_gone_on_with() {
    build();
    for point in MIDST {
        let (stage, setup) = armed(point).await;
        for key in ["a", "b", "c"] {
            stage.in_task("draft", key).await;
        }
        let task = stage.task().await;
        let undo = ["undo", "--task", &task, "--why", "it went astray"];
        let (code, _) = stage.runs("rita", &undo).await;
        assert_ne!(code, 0, "{point}: toolgate was killed before it answered");
        let UndoStage { scripted, mut gate } = stage;
        gate.wait().await;
        let gate = setup.start().await;
        let stage = UndoStage { scripted, gate };
        assert_eq!(stage.binned()[..1], [json!("c")], "{point}: the last first");
        assert!(!stage.binned().contains(&json!("a")), "{point}: one by one");
        let (code, said) = stage.runs("rita", &undo).await;
        let was_unknown = code != 0;
        if was_unknown {
            let (_, listed) = stage.runs("rita", &["undo", "--list", "--json"]).await;
            let undos = listed
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut unknown = undos.filter(|undo| undo["state"] == "unknown");
            let open = unknown
                .next()
                .unwrap_or_else(|| panic!("{point}: {said} {listed}"));
            let by = open["by"].as_str().unwrap();
            let words = ["calls", "resolve", by, "--applied", "--why", "seen"];
            let (code, told) = stage.runs("rita", &words).await;
            assert_eq!(code, 0, "{point}: {said} {told}");
        }
        let (code, said) = stage.runs("rita", &undo).await;
        assert_eq!(code, 0, "{point}: {said}");
        let mut binned = stage.binned();
        binned.sort_by_key(Value::to_string);
        let is_sent = binned.contains(&json!("b"));
        binned.retain(|name| *name != "b");
        assert_eq!(binned, [json!("a"), json!("c")], "{point}: {said}");
        let sent = stage.sent("bin").len();
        assert_eq!(sent, 2 + usize::from(is_sent), "{point}: each at most once");
        assert!(is_sent || was_unknown, "{point}: {said}");
        let has_begun = point != "preparing:5";
        assert!(
            has_begun || !was_unknown,
            "{point}: nothing of it had begun"
        );
    }
}
