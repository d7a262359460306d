//! Calls that confirm a draft.

use super::{call, decision, draft, result, stage};
use crate::harness::answer::code;
use crate::harness::scripted_server::{Reply, Seen};
use serde_json::{Value, json};

/// Makes drafts under the customer's name.
fn drafts(seen: &Seen) -> Reply {
    let customer = &seen.body["params"]["arguments"]["customer"];
    match customer.as_str() {
        Some("c_bad") => Reply::Result(json!({
            "content": [], "structuredContent": { "invoice": { "id": "inv_bad" } }, "isError": true, "resultType": "complete",
        })),
        Some(customer) => result(&json!({ "invoice": { "id": customer.replace("c_", "inv_") } })),
        None => result(&json!({})),
    }
}

/// 003-P4d, 003-63, 003-65 … 003-72: a draft is confirmed by the task that has made it, by its
/// name; after a restart, too; and the ledger binds the two. Without a draft nothing is sent.
#[tokio::test]
async fn a_draft_is_confirmed_by_its_task_only() {
    let (scripted, gate) = stage().await;
    scripted.answers(drafts);
    let agent = gate.agent().token("token-of-the-clerk");
    let refused = call(&agent, "one", "send", json!({ "id": "inv_1" })).await;
    assert_eq!(
        code(&refused).as_deref(),
        Some("draft_required"),
        "{refused}"
    );
    assert_eq!(decision(&refused)["pointer"], "/id");
    let words = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        words.contains("`billing__create`") && words.contains("did not run"),
        "{words}"
    );
    for customer in ["c_1", "c_bad", "c_2"] {
        let created = call(&agent, "one", "create", draft(customer)).await;
        assert_eq!(code(&created), None);
    }
    let made = scripted.executions();
    for (task, id) in [
        ("one", "inv_3"),
        ("one", "inv_bad"),
        ("two", "inv_1"),
        ("one", "INV_1"),
    ] {
        let answer = call(&agent, task, "send", json!({ "id": id })).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("draft_required"),
            "{task} {id}"
        );
    }
    // The same task of another agent is another task.
    let chief = gate.agent().token("token-of-the-chief");
    assert_eq!(
        code(&call(&chief, "one", "send", json!({ "id": "inv_1" })).await).as_deref(),
        Some("draft_required")
    );
    assert_eq!(scripted.executions(), made, "nothing was sent");
    assert_eq!(
        code(&call(&agent, "one", "send", json!({ "id": "inv_1" })).await),
        None
    );
    assert_eq!(scripted.executions(), made + 1);
    let again = call(&agent, "one", "send", json!({ "id": "inv_1" })).await;
    assert_eq!(
        decision(&again)["replayed"],
        true,
        "a draft is confirmed once"
    );
    assert_eq!(scripted.executions(), made + 1);

    let gate = gate.stop().await.start().await;
    let agent = gate.agent().token("token-of-the-clerk");
    assert_eq!(
        code(&call(&agent, "one", "send", json!({ "id": "inv_2" })).await),
        None,
        "what was made is known"
    );
    assert_eq!(scripted.executions(), made + 2);
    judge_drafts(&gate.entries(12).await);
}

/// What the ledger says of a draft and of the calls that confirm one.
fn judge_drafts(entries: &[Value]) {
    let of = |tool: &str, n: usize| {
        let sent = |entry: &&Value| {
            entry["tool"] == tool && entry["outcome"] == "answered" && entry["replayed"] != true
        };
        entries
            .iter()
            .filter(sent)
            .nth(n)
            .unwrap_or_else(|| panic!("{tool} {n}: {entries:#?}"))
    };
    let (create, first, second) = (
        of("billing__create", 0),
        of("billing__send", 0),
        of("billing__send", 1),
    );
    assert_eq!(
        (&create["writes"], &create["audit"]),
        (&json!("invoices(draft)"), &json!({ "customer": "c_1" }))
    );
    assert_eq!(first["confirms"], create["action_id"]);
    assert_eq!(second["confirms"], of("billing__create", 2)["action_id"]);
    for field in [
        "action_id",
        "request_id",
        "user_id",
        "tenant_id",
        "tool",
        "params_hash",
        "outcome",
        "result_hash",
        "latency_ms",
    ] {
        assert!(!create[field].is_null(), "{field}: {create}");
    }
}
