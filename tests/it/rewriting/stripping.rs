//! Empty optional texts count as absent where the contract says so, whatever made them empty.

use crate::harness::setup::Setup;
use crate::harness::tool_server::script::digest;
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::json;

/// 002-23, 002-24, 002-25, 002-35: an empty optional text does not arrive, an empty required one
/// does, and the ledger calls it a rewrite.
#[tokio::test]
async fn empty_optionals_are_stripped_where_the_contract_says_so() {
    let schema = json!({ "type": "object", "properties": { "to": { "type": "string" }, "cc": { "type": "string", "minLength": 1 } },
        "required": ["to"] });
    for (line, refused) in [
        ("strip_empty_optionals: true", false),
        ("strip_empty_optionals: false", true),
    ] {
        let server = Script::new()
            .tool_with("send", &schema, Behaviour::Answers)
            .start()
            .await;
        let policy = format!(
            "contracts: {{ oracle__send: {{ purpose: a test, actions: [read], secrets: [], {line} }} }}\n"
        );
        let gate = Setup::new()
            .server("oracle", &server)
            .policy(&policy)
            .start()
            .await;
        let written = json!({ "to": "", "cc": "", "idempotency_key": "" });
        let answer = gate
            .agent()
            .modern_call("oracle__send", written.clone())
            .await;
        let entry = gate.entries(1).await.remove(0);
        if refused {
            assert_eq!(answer.refusal(), "schema_invalid", "{answer:?}");
            continue;
        }
        assert!(answer.is_done(), "{answer:?}");
        assert_eq!(server.executions()[0].arguments, json!({ "to": "" }));
        assert_eq!(entry["rewritten_by"], json!(["strip_empty_optionals"]));
        assert_eq!(entry["original_params_hash"], digest(&written));
        assert_eq!(entry["params_hash"], digest(&json!({ "to": "" })));
    }
}

/// 002-23: what a step of the contract empties does not arrive either: what is judged again is what
/// is sent.
#[tokio::test]
async fn what_a_rewrite_empties_is_stripped_too() {
    let schema = json!({ "type": "object", "properties": { "to": { "type": "string" }, "cc": { "type": "string", "minLength": 1 } },
        "required": ["to"] });
    let server = Script::new()
        .tool_with("send", &schema, Behaviour::Answers)
        .start()
        .await;
    let policy = "contracts: { oracle__send: { purpose: a test, actions: [read], secrets: [], strip_empty_optionals: true,
        rewrite: [ { name: no_copies, set: { /cc: \"\" } } ] } }\n";
    let gate = Setup::new()
        .server("oracle", &server)
        .policy(policy)
        .start()
        .await;
    let written = json!({ "to": "a", "cc": "b" });
    let answer = gate.agent().modern_call("oracle__send", written).await;
    assert!(answer.is_done(), "{answer:?}");
    assert_eq!(server.executions()[0].arguments, json!({ "to": "a" }));
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(
        entry["rewritten_by"],
        json!(["no_copies", "strip_empty_optionals"])
    );
    assert_eq!(entry["params_hash"], digest(&json!({ "to": "a" })));
}
