//! What a refusal says of a budget that is used up.

use super::*;

/// Two calls that take what there is, and the next, which is refused.
async fn third(tool: &str, budget: &str, limits: &str) -> (Vec<Value>, Value) {
    let contracts = CONTRACTS.replace("secrets: []", &format!("secrets: [], budget: {budget}"));
    let bank = Bank::of(&contracts, &format!("budgets: {{ global: {limits} }}\n")).await;
    let mut done = Vec::new();
    for n in 0..2 {
        let answer = anew(&bank.agent(), "bank__note", json!({ "n": n })).await;
        assert_eq!(code(&answer), None, "{answer}");
        done.push(answer["result"]["_meta"][DECISION]["action_id"].clone());
    }
    let refused = anew(&bank.agent(), tool, json!({ "n": 2 })).await;
    (done, refused)
}

/// 003-40, 003-88, 003-91: of several limits that are used up the refusal names all, first what stops
/// the call without asking a person; it says what the task has done, and a tool's own limit only where the task
/// may go on without the tool.
#[tokio::test]
async fn a_refusal_names_what_is_used_up_and_what_was_done() {
    let table = [
        (
            "{ cost: 1 }",
            "{ max_steps: 2, max_cost: 2, on_limit: { steps: ask } }",
            "budget_exceeded",
            "cost",
            "limit of cost;",
        ),
        (
            "{ cost: 1 }",
            "{ max_steps: 2, max_cost: 2, on_limit: { steps: degrade } }",
            "budget_exceeded",
            "cost",
            "limits of cost and steps;",
        ),
        (
            "{}",
            "{ max_steps: 2, max_tool_calls: 2 }",
            "budget_exceeded",
            "steps",
            "limits of steps and tool_calls;",
        ),
        (
            "{ max_calls_per_task: 2 }",
            "{ max_tool_calls: 2, max_steps: 9 }",
            "budget_exceeded",
            "tool_calls",
            "limit of tool_calls; left: 7 steps",
        ),
        (
            "{ max_calls_per_task: 2 }",
            "{ max_tool_calls: 9 }",
            "budget_calls_exceeded",
            "calls_per_task",
            "may call the tool 2 times, and has",
        ),
    ];
    for (budget, limits, expected, dimension, words) in table {
        let (done, refused) = third("bank__note", budget, limits).await;
        assert_eq!(code(&refused).as_deref(), Some(expected), "{refused}");
        let decision = &refused["result"]["_meta"][DECISION];
        assert_eq!(decision["dimension"], dimension, "{limits}: {refused}");
        assert_eq!(decision["evidence"], json!(done), "{limits}: {refused}");
        let said = refused["result"]["content"][0]["text"].as_str().unwrap();
        assert!(said.contains(words), "{limits}: {said}");
        assert!(!said.contains("Only tools that"), "{limits}: {said}");
        for action in &done {
            assert!(said.contains(action.as_str().unwrap()), "{said}");
        }
    }
    let limits = "{ max_steps: 2, max_cost: 2, on_limit: { steps: degrade, cost: degrade } }";
    let (_, refused) = third("bank__note", "{ cost: 1 }", limits).await;
    let said = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("Only tools that change nothing"), "{said}");
    let (_, read) = third("bank__look", "{ cost: 1 }", limits).await;
    assert_eq!(code(&read), None, "{read}");
}
