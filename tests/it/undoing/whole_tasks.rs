//! What a task has done is taken back, the last call first, up to one that cannot be.

use super::UndoStage;
use serde_json::{Value, json};

impl UndoStage {
    /// Calls a tool in the task `t`, under `key`.
    async fn in_task(&self, tool: &str, key: &str) {
        let meta = json!({ "dev.toolgate/idempotencyKey": key, "dev.toolgate/task": "t" });
        let params =
            json!({ "name": format!("bank__{tool}"), "arguments": { "name": key }, "_meta": meta });
        let answer = self.bot().modern("tools/call", params).await.message();
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
