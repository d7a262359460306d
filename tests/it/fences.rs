//! The fencing token of a call with side effects (guarantees §5): each outcome says under which it
//! ran.

use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::json;

/// 004-25: the entry of an outcome has the token that the call ran under; a later call has a higher
/// one, and one that was refused has none.
#[tokio::test]
async fn an_outcome_has_the_token_that_it_ran_under() {
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let gate = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__pay", "write")])
        .start()
        .await;
    let agent = gate.agent();
    for key in ["one", "two"] {
        agent
            .modern_call("oracle__pay", json!({ "key": key }))
            .await;
    }
    agent.modern_call("oracle__none", json!({})).await;
    let fences: Vec<Option<u64>> = gate
        .entries(3)
        .await
        .iter()
        .map(|entry| entry["fence"].as_u64())
        .collect();
    let [Some(first), Some(second), None] = fences[..] else {
        panic!("{fences:?}");
    };
    assert!(first < second, "{fences:?}");
}
