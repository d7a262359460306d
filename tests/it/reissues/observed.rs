//! What each regime would have joined where nothing is enforced.

use super::{ADD, BOT, RESET, bot, contract, git, in_session, is_replayed, policy, ran};
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::{Value, json};

/// Where nothing is enforced it is counted what each regime would have joined.
#[tokio::test]
async fn observe_mode_counts_what_regimes_would_join() {
    let server = git().await;
    let setup = Setup::new().server("git", &server).policy(&policy(""));
    let gate = setup.callers(BOT).mode("observe").start().await;
    let agent = bot(&gate);
    for tool in [ADD, ADD, RESET, ADD] {
        let answer: Value = agent.call(tool, json!({})).await;
        assert!(!is_replayed(&answer), "{answer}");
    }
    assert_eq!(ran(&server).len(), 4);
    let series = |regime: &str| format!("toolgate_would_join_total{{regime=\"{regime}\"}}");
    let counted = [
        gate.metric(&series("keyed")).await,
        gate.metric(&series("declared")).await,
        gate.metric(&series("retry")).await,
    ];
    assert_eq!(counted.map(|count| count.to_string()), ["0", "2", "1"]);
    let entries = gate.entries(4).await;
    let would: Vec<_> = entries
        .iter()
        .map(|entry| entry["would_join"].clone())
        .collect();
    assert_eq!(
        would,
        [
            json!(null),
            json!(["declared", "retry"]),
            json!(null),
            json!(["declared"])
        ]
    );
}

/// What each regime would have joined, by call.
async fn would_join(gate: &Gate, calls: usize) -> Vec<Value> {
    let entries = gate.entries(calls).await;
    let would = entries.iter().map(|entry| entry["would_join"].clone());
    would.collect()
}

/// What its server calls idempotent would be joined to a call in flight and to one with the same trace,
/// and to no other (004-02, 004-03).
#[tokio::test]
async fn observe_mode_counts_idempotent_calls_in_flight_and_by_trace() {
    let definition = |name: &str| {
        let hints = json!({ "idempotentHint": true });
        json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": hints })
    };
    let script = Script::new().definition(definition("git_tag"), Behaviour::Answers);
    let server = script
        .definition(definition("git_fetch"), Behaviour::Held)
        .start()
        .await;
    let contracts = contract("git__git_tag", "") + &contract("git__git_fetch", "");
    let setup = Setup::new()
        .server("git", &server)
        .policy(&format!("contracts:\n{contracts}"));
    let gate = setup.callers(BOT).mode("observe").start().await;
    let agent = bot(&gate);
    for trace in ["a", "a", "b"] {
        let traceparent = format!("00-{}-00f067aa0ba902b7-01", trace.repeat(32));
        let meta = json!({ "traceparent": traceparent });
        let params = json!({ "name": "git__git_tag", "arguments": {}, "_meta": meta });
        agent.answered(&agent.request("tools/call", params)).await;
    }
    let would = would_join(&gate, 3).await;
    let one_trace = json!(["declared", "retry"]);
    assert_eq!(would, [json!(null), one_trace, json!(["declared"])]);
    let request = || in_session(&agent, "git__git_fetch", "one");
    let mut first = agent.post(&request()).await;
    let mut second = agent.post(&request()).await;
    until("both run", || async {
        (server.executions().len() == 5).then_some(())
    })
    .await;
    server.release();
    server.release();
    first.whole().await;
    second.whole().await;
    let would = would_join(&gate, 5).await;
    let mut would = would[3..].to_vec();
    would.sort_by_key(Value::is_array);
    assert_eq!(would, [json!(null), json!(["declared", "retry"])]);
}
