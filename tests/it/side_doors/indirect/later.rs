//! What agents bring to a task later.

use super::super::*;
use crate::mcp_tasks;

/// threat-model §3E E1: what people have to decide on is not brought to a call's task past them.
/// Each change of a task is recorded.
#[tokio::test]
async fn e1_nothing_is_brought_to_a_held_call_later() {
    let (scripted, gate) = mcp_tasks::stage().await;
    let agent = gate.agent().token(mcp_tasks::TOKENS[0]);
    mcp_tasks::begin(&agent, ("bank__pay", "/mcp"), "short").await;
    scripted.forget();
    let answers = json!({ "taskId": "short", "inputResponses": { "q": { "action": "accept" } } });
    let changes = [
        ("tasks/update", answers.clone()),
        ("tasks/update", json!({ "taskId": "short" })),
        ("tasks/cancel", json!({ "taskId": "short" })),
    ];
    for (method, params) in changes.clone() {
        let answer = agent
            .answered(&mcp_tasks::request(&agent, method, params))
            .await;
        assert!(
            answer["result"].is_object(),
            "nobody decides on it: {answer}"
        );
    }
    assert_eq!(scripted.seen().len(), 3);
    let held =
        mcp_tasks::POLICY.replace("    results:", "    approval: { hold: 0s }\n    results:");
    std::fs::write(gate.path("policy.yaml"), held).unwrap();
    gate.hang_up();
    let refused = until("the contract has an approval", || async {
        let answer = agent
            .answered(&mcp_tasks::request(&agent, "tasks/update", answers.clone()))
            .await;
        answer.get("error").cloned()
    })
    .await;
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("held until people decide"),
        "{refused}"
    );
    scripted.forget();
    for (method, params) in changes {
        let passes = params.get("inputResponses").is_none();
        let answer = agent
            .answered(&mcp_tasks::request(&agent, method, params))
            .await;
        assert_eq!(answer.get("result").is_some(), passes, "{answer}");
    }
    let odd = json!({ "taskId": "short", "input_responses": { "q": { "action": "accept" } } });
    assert!(
        agent
            .answered(&mcp_tasks::request(&agent, "tasks/update", odd))
            .await["error"]
            .is_object()
    );
    assert_eq!(scripted.seen().len(), 2, "{:?}", scripted.seen());
    judge_entries(&gate).await;
}

async fn judge_entries(gate: &Gate) {
    let entries = until("all entries", || async {
        let mut entries = gate.ledger().await;
        entries
            .retain(|entry| entry["method"] == "tasks/update" || entry["method"] == "tasks/cancel");
        let count = |outcome: &str| {
            entries
                .iter()
                .filter(|entry| entry["outcome"] == outcome)
                .count()
        };
        (count("answered") >= 5 && count("refused") >= 3).then_some(entries)
    })
    .await;
    let refused = entries
        .iter()
        .find(|entry| entry["outcome"] == "refused")
        .unwrap();
    assert_eq!(
        (&refused["decided_by"], &refused["tool"]),
        (&json!("approval"), &json!("bank__pay")),
        "{refused}"
    );
    assert!(
        gate.metric("toolgate_side_messages_total{door=\"tasks\",outcome=\"refused\"}")
            .await
            >= 3.0
    );
}
