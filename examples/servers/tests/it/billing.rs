//! The billing server as a program, spoken to over its standard input and output.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_examples::billing::Ledger;

use crate::running::Running;

fn start(state: &Path) -> Running {
    Running::stdio(
        env!("CARGO_BIN_EXE_billing-server"),
        &[("BILLING_STATE", state)],
    )
}

fn state_file(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("billing-{test}.json"));
    _ = std::fs::remove_file(&path);
    path
}

fn invoice(amount_cents: i64) -> Value {
    json!({ "tenant_id": "t_001", "customer_id": "c_9", "amount_cents": amount_cents, "currency": "CNY" })
}

#[test]
fn every_effect_is_counted_and_survives_the_server() {
    let state = state_file("effects");
    let mut server = start(&state);
    let first = server.call("create_invoice", &invoice(1200));
    assert_eq!(first["structuredContent"]["status"], "draft", "{first}");
    assert_eq!(first["content"][0]["type"], "text");
    let second = server.call("create_invoice", &invoice(1200));
    assert_ne!(
        first["structuredContent"]["id"], second["structuredContent"]["id"],
        "repetitions are not hidden"
    );
    let ids = [&first, &second].map(|result| json!({ "id": result["structuredContent"]["id"] }));
    server.call("send_invoice", &ids[0]);
    server.call("delete_draft_invoice", &ids[1]);
    drop(server);

    let ledger: Ledger = serde_json::from_str(&std::fs::read_to_string(&state).unwrap()).unwrap();
    let done: Vec<_> = ledger
        .effects
        .iter()
        .map(|effect| (effect.sequence, effect.tool.as_str()))
        .collect();
    assert_eq!(
        done,
        [
            (1, "create_invoice"),
            (2, "create_invoice"),
            (3, "send_invoice"),
            (4, "delete_draft_invoice")
        ]
    );
    assert_eq!(ledger.effects[0].meta["dev.toolgate/fence"], 7);
    let mut again = start(&state);
    let left = again.call("list_invoices", &json!({ "tenant_id": "t_001" }));
    assert_eq!(
        left["structuredContent"]["invoices"]
            .as_array()
            .unwrap()
            .len(),
        1,
        "{left}"
    );
}

#[test]
fn what_cannot_be_done_is_said_and_leaves_no_effect() {
    let state = state_file("refusals");
    let mut server = start(&state);
    let sent = server.call("create_invoice", &invoice(5))["structuredContent"]["id"].take();
    server.call("send_invoice", &json!({ "id": sent }));
    for (tool, arguments, why) in [
        ("create_invoice", invoice(0), "above zero"),
        ("delete_draft_invoice", json!({ "id": sent }), "was sent"),
        ("get_invoice", json!({ "id": "inv_9999" }), "no invoice"),
    ] {
        let refused = server.call(tool, &arguments);
        assert_eq!(refused["isError"], true, "{tool}: {refused}");
        assert!(
            refused["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains(why),
            "{tool}: {refused}"
        );
    }
    let ledger: Ledger = serde_json::from_str(&std::fs::read_to_string(&state).unwrap()).unwrap();
    assert_eq!(ledger.effects.len(), 2);
}

#[test]
fn two_servers_on_one_file_lose_nothing() {
    let state = state_file("shared");
    let many = |state: PathBuf| {
        move || {
            let mut server = start(&state);
            for _ in 0..10 {
                server.call("create_invoice", &invoice(1));
            }
        }
    };
    let other = std::thread::spawn(many(state.clone()));
    many(state.clone())();
    other.join().unwrap();
    let ledger: Ledger = serde_json::from_str(&std::fs::read_to_string(&state).unwrap()).unwrap();
    assert_eq!(
        (ledger.effects.len(), ledger.invoices.len(), ledger.created),
        (20, 20, 20)
    );
}

#[test]
fn legacy_agents_are_served_and_tools_say_what_they_do() {
    let mut server = start(&state_file("legacy"));
    assert_eq!(
        server.initialize(&json!({}))["protocolVersion"],
        "2025-11-25"
    );
    let listed = server.request("tools/list", json!({}), json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let read_only = tools
        .iter()
        .filter(|tool| tool["annotations"]["readOnlyHint"] == true)
        .map(|tool| &tool["name"]);
    let mut read_only: Vec<_> = read_only.filter_map(Value::as_str).collect();
    read_only.sort_unstable();
    assert_eq!(
        (tools.len(), read_only),
        (5, vec!["get_invoice", "list_invoices"])
    );
    assert!(
        tools.iter().all(|tool| tool["outputSchema"].is_object()),
        "{listed}"
    );
}
