//! A look at the server about an unknown outcome is told in the ledger, as what it is.

use super::*;
use crate::harness::setup::{contract, undo};
use std::time::{Duration, Instant};

/// A look: the tool, the contract's words, the outcome and the finding that the ledger has.
type Look = (&'static str, &'static str, &'static str, &'static str);

const LOOKS: [Look; 4] = [
    ("finds", "absent_after: 1s", "answered", "probe: found"),
    (
        "misses",
        "nothing: [[]], absent_after: 1s",
        "answered",
        "probe: absent",
    ),
    (
        "misses",
        "absent_after: 1s",
        "answered",
        "probe: empty, and `probe.nothing` does not say what that means",
    ),
    ("breaks", "absent_after: 1s", "failed", "probe: unclear"),
];

async fn stage_of(server: &ToolServer, probe: &str, words: &str) -> Gate {
    let probing = format!(
        ", idempotency: {{ probe: {{ tool: oracle__{probe}, arguments: {{ key: arguments#/key }}, found: /orders, {words} }} }}"
    );
    let policy = format!(
        "contracts:\n{}\n  {PAY}: {}\n  oracle__{probe}: {}\n",
        undo(PAY),
        contract(PAY, "write", &probing),
        contract(&format!("oracle__{probe}"), "read", "")
    );
    let setup = Setup::new().server("oracle", server).policy(&policy);
    setup.start().await
}

/// 003-94, guarantees §2: each look has an entry of its own, which says what it was about, what came
/// and what that shows; it is no call of the agent's. The wait for it is the server's time.
#[tokio::test]
async fn a_look_is_told_in_the_ledger() {
    let shows = |orders: Value| {
        let content = json!([{ "type": "text", "text": "orders" }]);
        Behaviour::Says(
            json!({ "content": content, "structuredContent": { "orders": orders }, "resultType": "complete" }),
        )
    };
    let server = Script::new()
        .tool("pay", Behaviour::HangsUp)
        .tool("finds", shows(json!([{ "id": 1 }])))
        .tool("misses", shows(json!([])))
        .tool("breaks", Behaviour::HangsUp)
        .start()
        .await;
    for (probe, words, outcome, finding) in LOOKS {
        let gate = stage_of(&server, probe, words).await;
        let pay = async || gate.agent().modern_call(PAY, json!({ "key": words })).await;
        let first = decision(&pay().await)["action_id"].clone();
        let lost = Instant::now();
        until("the call can no longer be on its way", || async {
            (lost.elapsed() > Duration::from_millis(1_100)).then_some(())
        })
        .await;
        let again = decision(&pay().await)["action_id"].clone();
        let entries = gate.entries(3).await;
        let look = the_look(&entries);
        is_told(look, outcome, finding);
        let tool = format!("oracle__{probe}");
        assert_eq!((&look["tool"], &look["probe_of"]), (&json!(tool), &first));
        let asked = entries
            .iter()
            .find(|entry| entry["action_id"] == again)
            .unwrap();
        assert_eq!(look["trace_id"], asked["trace_id"]);
        // A call that runs then waits for its server once more.
        if finding != "probe: absent" {
            assert_eq!(asked["upstream_ms"], look["upstream_ms"], "{asked}");
        }
        is_listed_as_a_look(&gate.setup, look, first.as_str().unwrap()).await;
    }
}

/// The one entry of a look.
fn the_look(entries: &[Value]) -> &Value {
    let looks = entries.iter().filter(|entry| entry["method"] == "probe");
    let looks: Vec<&Value> = looks.collect();
    assert_eq!(looks.len(), 1, "{entries:?}");
    looks[0]
}

/// What came, and what that shows.
fn is_told(look: &Value, outcome: &str, finding: &str) {
    let names = ["outcome", "decided_by", "stage", "actions", "attempts"];
    let read = names.map(|name| &look[name]);
    let wanted = [
        json!(outcome),
        json!(finding),
        json!("idempotency"),
        json!(["read"]),
        json!(1),
    ];
    assert_eq!(read, wanted.each_ref(), "{look}");
    let is_answered = outcome == "answered";
    assert_eq!(look["result_hash"].is_string(), is_answered, "{look}");
    assert_eq!(look["fault"].is_string(), !is_answered, "{look}");
}

/// By its method and in the story of its call; not among calls.
async fn is_listed_as_a_look(setup: &Setup, look: &Value, first: &str) {
    let ledger = async |more: &[&str]| {
        let read = ["ledger", "--config", "toolgate.yaml"];
        let (code, out, err) = words(&setup.run(&[&read, more].concat()).await);
        assert_eq!(code, 0, "{err}");
        out
    };
    let id = look["action_id"].as_str().unwrap();
    let listed = ledger(&["list", "--method", "probe"]).await;
    assert!(
        listed.lines().count() == 2 && listed.contains(id),
        "{listed}"
    );
    assert!(
        !ledger(&["list", "--method", "tools/call"])
            .await
            .contains(id)
    );
    let story = ledger(&["show", first]).await;
    let finding = look["decided_by"].as_str().unwrap();
    assert!(
        story.contains(&format!("{finding}, by {id} of ")),
        "{story}"
    );
}
