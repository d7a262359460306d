//! Calls of several rounds, and calls that a probe asks after.

use super::{UNKNOWN, call, heard};
use crate::harness::answer::Answer;
use crate::harness::scripted_server::{self, ScriptedServer, tool};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Rounds: what a tool asks for is passed through and never replayed as the final answer; each
/// round is sent once, whichever calls are the same, and the ledger says why.
#[tokio::test]
async fn rounds_are_sent_once_each() {
    for (regime, because) in [("arguments", "declared"), ("retry", "same_rounds")] {
        sends_rounds_once(&format!(", idempotency: {{ derive: {regime} }}"), because).await;
    }
}

async fn sends_rounds_once(keys: &str, because: &str) {
    let asks = json!({ "resultType": "input_required", "requestState": "one",
        "inputRequests": { "sure": { "method": "elicitation/create",
            "params": { "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } } } });
    let scripted = ScriptedServer::with(vec![tool("pay")]).await;
    scripted.answers(move |seen| {
        let done = seen.body["params"]["inputResponses"].is_object();
        let result =
            json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" });
        scripted_server::Reply::Result(if done { result } else { asks.clone() })
    });
    let members = format!("url: \"{}\"", scripted.url());
    let policy = format!(
        "contracts:\n{}\n  oracle__pay: {}\n",
        undo("oracle__pay"),
        contract("oracle__pay", "write", keys)
    );
    let setup = Setup::new()
        .server_with("oracle", &members)
        .policy(&policy)
        .open_sides();
    let gate = setup.start().await;
    let agent = gate.agent();
    let round = async |responses: Option<Value>, state: &Value| {
        let mut params = json!({ "name": "oracle__pay", "arguments": { "key": "k" } });
        if let Some(responses) = responses {
            params["inputResponses"] = responses;
            params["requestState"] = state.clone();
        }
        let mut message = crate::harness::agent::modern("tools/call", params);
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": {} });
        agent.sends(&message).await
    };
    let first = round(None, &Value::Null).await;
    let state = first.message()["result"]["requestState"].clone();
    assert_eq!(
        first.message()["result"]["resultType"],
        "input_required",
        "{first:?}"
    );
    let answers = json!({ "sure": { "action": "accept", "content": {} } });
    assert_eq!(heard(&round(Some(answers.clone()), &state).await), "Done");
    assert_eq!(scripted.executions(), 2);
    assert_eq!(heard(&round(Some(answers), &state).await), "Replayed");
    assert_eq!(scripted.executions(), 2);
    let entries = gate.ledger().await;
    let [.., done, again] = entries.as_slice() else {
        panic!("{entries:?}");
    };
    assert_eq!(again["because"], because, "{again}");
    assert_eq!(again["same_as"], done["action_id"], "{done} {again}");
}

/// guarantees §4, `input_required`: a retry of an earlier round that comes late is not sent again,
/// before the end, after it, and when the round after it was not executed; it is given what the
/// call's last round was.
#[tokio::test]
async fn late_retries_of_earlier_rounds_stay_here() {
    let scripted = ScriptedServer::with(vec![tool("pay")]).await;
    scripted.answers(|seen| match seen.body["params"]["requestState"].as_str() {
        None => scripted_server::Reply::Result(
            json!({ "resultType": "input_required", "requestState": "one" }),
        ),
        Some("one") => scripted_server::Reply::Result(
            json!({ "resultType": "input_required", "requestState": "two" }),
        ),
        Some(_) => scripted_server::Reply::Status(429),
    });
    let members = format!("url: \"{}\", not_executed: [429]", scripted.url());
    let setup = Setup::new()
        .server_with("oracle", &members)
        .contracts(&[("oracle__pay", "write")])
        .open_sides();
    let gate = setup.start().await;
    let agent = gate.agent();
    let round = async |state: &Value| {
        let mut params = json!({ "name": "oracle__pay", "arguments": { "key": "k" } });
        if state.is_string() {
            params["requestState"] = state.clone();
        }
        let message = crate::harness::agent::modern("tools/call", params);
        agent.sends(&message).await
    };
    let state = |answer: &Answer| answer.message()["result"]["requestState"].clone();
    let one = state(&round(&Value::Null).await);
    let two = state(&round(&one).await);
    assert_eq!(scripted.executions(), 2);
    for early in [&Value::Null, &one, &Value::Null, &one] {
        assert_eq!(state(&round(early).await), two, "what is asked now");
    }
    assert_eq!(
        scripted.executions(),
        2,
        "earlier rounds are not sent again"
    );
    assert_eq!(round(&two).await.refusal(), "upstream_unavailable");
    let refused = scripted.executions();
    for early in [&Value::Null, &one] {
        assert_eq!(
            round(early).await.refusal(),
            "outcome_unknown",
            "that a later round did not run says nothing of it"
        );
    }
    assert_eq!(scripted.executions(), refused);
    scripted.answers(|_| {
        scripted_server::Reply::Result(json!({ "content": [], "resultType": "complete" }))
    });
    assert_eq!(heard(&round(&two).await), "Done");
    for early in [&Value::Null, &one, &two] {
        assert_eq!(heard(&round(early).await), "Replayed");
    }
    assert_eq!(scripted.executions(), refused + 1);
}

/// The look, what the contract says of it, what the agent reads when it asks again, and how often the
/// call was sent then.
const LOOKS: [(&str, &str, &str, usize); 8] = [
    ("finds", "absent_after: 1h", "Replayed", 1),
    (
        "misses",
        "nothing: [[]], absent_after: 1s",
        "Code(\"outcome_unknown\")",
        2,
    ),
    (
        "misses",
        "nothing: [[]], absent_after: 1h",
        "Code(\"outcome_unknown\")",
        1,
    ),
    ("misses", "absent_after: 1s", "Code(\"outcome_unknown\")", 1),
    (
        "counts",
        "nothing: [0], absent_after: 1s",
        "Code(\"outcome_unknown\")",
        2,
    ),
    ("counts", "nothing: [], absent_after: 1s", "Replayed", 1),
    ("counts", "absent_after: 1s", "Code(\"outcome_unknown\")", 1),
    ("breaks", "absent_after: 1s", "Code(\"outcome_unknown\")", 1),
];

/// What a read that the contract names finds ends an unknown outcome, on both wires: done, surely
/// not done, or nothing.
#[tokio::test]
async fn a_probe_ends_an_unknown_outcome() {
    let shows = |orders: Value| {
        let content = json!([{ "type": "text", "text": "orders" }]);
        Behaviour::Says(
            json!({ "content": content, "structuredContent": { "orders": orders }, "resultType": "complete" }),
        )
    };
    let script = Script::new()
        .tool("pay", Behaviour::HangsUp)
        .tool("finds", shows(json!([{ "id": 1 }])));
    let server = script
        .tool("misses", shows(json!([])))
        .tool("counts", shows(json!(0)))
        .tool("breaks", Behaviour::Status(500))
        .start()
        .await;
    for (probe, words, again, asked) in LOOKS {
        let probing = format!(
            ", idempotency: {{ probe: {{ tool: oracle__{probe}, arguments: {{ key: arguments#/key }}, found: /orders, \
             {words} }} }}"
        );
        let policy = format!(
            "contracts:\n{}\n  oracle__pay: {}\n  oracle__{probe}: {{ purpose: a look, actions: [read], secrets: [] }}\n",
            undo("oracle__pay"),
            contract("oracle__pay", "write", &probing)
        );
        let gate = Setup::new()
            .server("oracle", &server)
            .policy(&policy)
            .start()
            .await;
        for wire in ["modern", "legacy"] {
            let arguments = json!({ "key": format!("{probe}-{words}-{wire}") });
            let first = call(&gate, wire, "oracle__pay", &arguments).await;
            assert_eq!(heard(&first), format!("{UNKNOWN:?}"), "{probe}, {wire}");
            // A look that finds nothing proves something only once the call can no longer be on its
            // way; what proves nothing then, never does.
            let lost = Instant::now();
            until("the call can no longer be on its way", || async {
                let is_soon = words.ends_with("1s");
                (!is_soon || lost.elapsed() > Duration::from_millis(1_100)).then_some(())
            })
            .await;
            let told = heard(&call(&gate, wire, "oracle__pay", &arguments).await);
            let calls = server.executions().into_iter();
            let calls = calls
                .filter(|execution| execution.tool == "pay" && execution.arguments == arguments);
            assert_eq!(calls.count(), asked, "{probe}, {words}, {wire}");
            assert_eq!(told, again, "{probe}, {words}, {wire}");
        }
    }
}
