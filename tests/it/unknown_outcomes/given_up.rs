//! What an operator gives up, where the contract names a look at the server.

use super::*;
use crate::harness::setup::{contract, undo};

/// What an operator has given up stays given up, whatever a look at the server would find; and the
/// agent that sends it again is told so at once.
#[tokio::test]
async fn a_look_ends_nothing_that_was_given_up() {
    let content = json!([{ "type": "text", "text": "orders" }]);
    let found = json!({ "content": content, "structuredContent": { "orders": [1] }, "resultType": "complete" });
    let server = Script::new()
        .tool("pay", Behaviour::HangsUp)
        .tool("finds", Behaviour::Says(found))
        .start()
        .await;
    let probe = ", idempotency: { probe: { tool: oracle__finds, arguments: { key: arguments#/key }, found: /orders, absent_after: 1s } }";
    let policy = |more: &str| {
        format!(
            "contracts:\n{}\n  {PAY}: {}\n  oracle__finds: {}\n",
            undo(PAY),
            contract(PAY, "write", more),
            contract("oracle__finds", "read", "")
        )
    };
    let setup = Setup::new().server("oracle", &server).policy(&policy(""));
    let gate = setup.operators(&tokens()).start().await;
    let id = unknown(&gate.agent(), "given up").await;
    let door = gate.operators.to_string();
    let gives_up = ["resolve", &id, "--why", "nobody knows", "--abandon"];
    let (code, out, err) = calls(&gate.setup, Some(&door), &gives_up).await;
    assert_eq!(code, 0, "{out}{err}");
    let gate = gate.stop().await.policy(&policy(probe)).start().await;
    let again = gate
        .agent()
        .modern_call(PAY, json!({ "key": "given up" }))
        .await;
    assert_eq!(again.refusal(), "outcome_unknown");
    let payments = server.executions().into_iter();
    let payments = payments.filter(|execution| execution.tool == "pay");
    assert_eq!(payments.count(), 1);
}
