//! A call that has become a task, and whose next round a person has to allow: a grant covers how it begins,
//! and nobody can grant answers to what was not asked yet (guarantees §7, protocol §6.5).

use super::{LongStage, after, asks, calls, knowing, listens, task, words};
use crate::harness::gate::run;
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};

const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-ann-who-has-the-role, roles: [finance] } ]";
const POLICY: &str = "contracts:
  bank__pay: { purpose: Pay a bill., actions: [pay], permission: anyone, side_effect: { writes: bills, rollback: { tool: bank__undo } }, secrets: [], approval: { ask: on-miss, approvers: [finance], hold: 0s } }
  bank__undo: { purpose: Take it back., actions: [write], permission: anyone, side_effect: { writes: bills, rollback: { tool: bank__pay } }, secrets: [], approval: { ask: never } }
";

impl LongStage {
    async fn granted() -> Self {
        let contracts = |setup: Setup| setup.policy(POLICY).operators(OPERATORS);
        let stage = Self::with(json!({ "tools": {} }), contracts).await;
        let terms = ["--tool", "bank__pay", "--agent", "bot", "--equals", "/n=1"];
        let words = [&["grants", "add", "--why", "each day"][..], &terms].concat();
        assert_eq!(stage.says(&words).await.0, 0);
        stage
    }

    /// Runs `toolgate approvals …` as ann.
    async fn says(&self, words: &[&str]) -> (i32, String) {
        let door = self.gate.operators.to_string();
        let around = ["--config", "toolgate.yaml", "--admin", &door];
        let words = [&["approvals"], words, &around].concat();
        let (code, out, err) = run(&self.gate.setup.operator("ann"), &words).await;
        (code, out + &err)
    }

    /// A task whose server has asked, and whose agent has answered; its id, and that of what is held then.
    async fn answered(&self, nth: usize) -> (String, String) {
        let bot = self.bot();
        let id = task(&calls(&bot, "pay", &format!("k{nth}")).await);
        let form = json!({ "method": "elicitation/create", "params": {
            "mode": "form", "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} },
        } });
        let asked = json!({ "resultType": "input_required", "inputRequests": { "one": form }, "requestState": format!("s{nth}") });
        self.answers(asked).await;
        assert_eq!(
            after(&bot, &id, "working").await["status"],
            "input_required"
        );
        let answers = json!({ "one": { "action": "accept", "content": {} } });
        let params = json!({ "taskId": id, "inputResponses": answers });
        knowing(&bot, "tasks/update", params).await;
        let hold = until("a held round", || async {
            let (_, listed) = self.says(&["list", "--json"]).await;
            let holds = listed
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut pending = holds.filter(|hold| hold["state"] == "pending");
            pending
                .next()
                .map(|hold| hold["id"].as_str().unwrap().to_owned())
        })
        .await;
        (id, hold)
    }
}

/// The task goes on meanwhile, and says for whom it waits, also to who listens; allowed, the round is sent once;
/// denied, or cancelled, it is not sent.
#[tokio::test]
async fn a_round_that_a_person_has_to_allow_keeps_its_task_waiting() {
    let stage = LongStage::granted().await;
    let bot = stage.bot();
    let (id, hold) = stage.answered(1).await;
    let told = asks(&bot, "tasks/get", &id).await["result"].clone();
    assert_eq!(told["status"], "working", "{told}");
    let said = told["statusMessage"].as_str().unwrap();
    assert!(
        said.starts_with("held: needs a person with role finance, until 20"),
        "{said}"
    );
    let (mut listening, _) = listens(&bot, &id).await;
    assert_eq!(listening.message().await["params"]["statusMessage"], said);
    assert_eq!(stage.scripted.executions(), 1, "the round is not sent");
    assert_eq!(
        stage.says(&["allow", &hold, "--why", "it is due"]).await.0,
        0
    );
    let told = listening.message().await;
    assert_eq!(
        told["params"]["statusMessage"], "the call takes long, and goes on",
        "{told}"
    );
    let round = stage.call(1).await;
    assert_eq!(round.body["params"]["requestState"], "s1");
    stage.answers(super::paid()).await;
    let told = after(&bot, &id, "working").await;
    assert_eq!(
        (&told["status"], words(&told)),
        (&json!("completed"), "paid"),
        "{told}"
    );
    let (id, hold) = stage.answered(2).await;
    assert_eq!(stage.says(&["deny", &hold, "--why", "not now"]).await.0, 0);
    let told = after(&bot, &id, "working").await;
    assert_eq!(told["result"]["isError"], true, "{told}");
    assert!(
        words(&told).contains("not now. The tool did not run."),
        "{told}"
    );
    let (id, hold) = stage.answered(3).await;
    asks(&bot, "tasks/cancel", &id).await;
    let told = after(&bot, &id, "working").await;
    assert_eq!(told["status"], "cancelled", "{told}");
    stage.says(&["allow", &hold, "--why", "late"]).await;
    assert_eq!(stage.scripted.executions(), 4);
}
