//! Slips in what a policy says of other tools than its contracts', of results and of headers: each
//! would fail open or be paid twice.

use super::{CALLERS, setup, told, told_by_listing};
use crate::harness::gate::run;
use crate::harness::scripted_server::ScriptedServer;
use crate::harness::setup::Setup;
use serde_json::{Value, json};

/// What the bank lists.
fn tools() -> Vec<Value> {
    let closed = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let (text, none) = (json!({ "type": "string" }), json!([]));
    let pay = closed(
        json!({ "to": text, "amount": { "type": "integer" }, "mode": { "anyOf": [{ "enum": ["a", "b"] }, { "type": "null" }] } }),
        none.clone(),
    );
    let cost = closed(json!({ "cost": { "type": "number" } }), none.clone());
    let items = json!({ "type": "array", "items": closed(json!({ "id": text, "iban": text }), none.clone()) });
    let found = closed(json!({ "items": items }), none.clone());
    let open = json!({ "type": "object", "properties": { "cost": { "type": "number" } } });
    vec![
        json!({ "name": "pay", "inputSchema": pay, "outputSchema": cost }),
        json!({ "name": "find", "inputSchema": closed(json!({ "id": text }), json!(["id"])), "outputSchema": found }),
        json!({ "name": "get_user", "inputSchema": pay, "outputSchema": open }),
        json!({ "name": "git_push", "inputSchema": pay }),
        json!({ "name": "delete_account", "inputSchema": pay }),
    ]
}

const POLICY: &str = r#"
layers: { global: { deny: ["bank__get_users*", "bank__git_push_*", "bank__delet_account*"] } }
repetition: { except: [bank__gti_push, bank__git_push] }
contracts:
  bank__pay:
    purpose: Pay.
    actions: [write]
    additive: true
    permission: anyone
    secrets: []
    budget: { cost: 1, cost_from: /cots }
    idempotency:
      derive: [/to]
      probe: { tool: bank__find, arguments: { idd: "arguments#/too" }, found: /items, nothing: [[]] }
    variants: { by: /mode, cases: { a: { actions: [write] }, bb: { actions: [write] } } }
  bank__find:
    purpose: Look.
    actions: [read]
    secrets: []
    results: { redact: [{ pointer: /itemz }, { pointer: "/items/*/ibna" }, { pointer: "/items/*/iban" }] }
  bank__get_user: { purpose: Look., actions: [read], secrets: [], budget: { cost: 1, cost_from: /cots } }
  bank__git_push:
    purpose: Look.
    actions: [read]
    secrets: []
    arguments: { propertyNames: { not: { pattern: "^[$]" } } }
    variants: { by: /amount, cases: { a: { actions: [read] } } }
"#;

const HOOKS: &str = "hooks:
  - { name: watch, url: \"http://127.0.0.1:9/\", secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=, on: before,
      tools: [bank__pya, bank__pay, \"bank__delete_acount*\", \"bank__later_*\"] }
";

fn bank(scripted: &ScriptedServer, policy: &str) -> Setup {
    setup(scripted, policy).more(HOOKS)
}

/// 004-13, 003-114: what the servers list tells of slips outside of arguments, and the line that sums
/// up is the last and counts all of them.
#[tokio::test]
async fn slips_outside_of_arguments_are_told_by_listings() {
    let scripted = ScriptedServer::with(tools()).await;
    let told = told_by_listing(&bank(&scripted, POLICY)).await;
    insta::assert_snapshot!("slips_elsewhere_by_listing", told);
}

/// The same by pins: a `before` hook of none is told at load, as an error where all tools of its server
/// are approved.
#[tokio::test]
async fn slips_outside_of_arguments_are_told_by_pins() {
    let scripted = ScriptedServer::with(tools()).await;
    let contract = "contracts: { bank__pay: { purpose: Pay., actions: [read], secrets: [] } }\n";
    let setup = bank(&scripted, contract).more("pins: toolgate.pins.yaml");
    setup.write();
    let (exit, out, _) = run(&setup, &["pins", "approve", "--all"]).await;
    assert_eq!(exit, 0, "{out}");
    let (exit, out, _) = run(&setup, &["check", "."]).await;
    let words =
        "no pin is of a tool `bank__delete_acount*`, so the hook may never hear of its calls";
    assert!(
        exit == 1 && out.contains(&format!("error: {words}")),
        "{out}"
    );
    let setup = setup.instead("pins: toolgate.pins.yaml", "pins: { require: false }");
    setup.write();
    let (exit, out, _) = run(&setup, &["check", "."]).await;
    assert!(
        exit == 0 && out.contains(&format!("warning: {words}")),
        "{out}"
    );
}

/// Below an `$id` a `$ref` would mean something else than what is judged here.
#[tokio::test]
async fn a_schema_within_has_no_id_of_its_own() {
    let scripted = ScriptedServer::with(tools()).await;
    let contract = "contracts: { bank__pay: { purpose: Pay., actions: [read], secrets: [], \
                    arguments: { properties: { to: { $id: b } } } } }\n";
    let setup = bank(&scripted, contract);
    setup.write();
    let (exit, out, _) = run(&setup, &["check", "."]).await;
    assert_eq!(exit, 1, "{out}");
    insta::assert_snapshot!("an_id_within", told(&out));
}

/// 001-A9: a provider that no caller's model is of, and nearly one's, is an error.
#[tokio::test]
async fn a_misspelt_provider_is_an_error() {
    let scripted = ScriptedServer::with(tools()).await;
    let contract = |provider: &str| {
        format!(
            "contracts: {{ bank__pay: {{ purpose: Pay., actions: [read], secrets: [], providers_allowed: [{provider}] }} }}\n"
        )
    };
    let callers = CALLERS.replace("roles:", "model: openai/gpt-5, roles:");
    for (provider, exit, words) in [
        ("opnai", 1, "error: no caller has a model of `opnai`"),
        (
            "openai/gpt-4",
            0,
            "warning: no caller has a model of `openai/gpt-4`",
        ),
        (
            "anthropic",
            0,
            "warning: no caller has a model of `anthropic`",
        ),
        ("openai", 0, "0 errors, "),
        ("openai/gpt-5", 0, "0 errors, "),
    ] {
        let setup = bank(&scripted, &contract(provider)).callers(&callers);
        setup.write();
        let (code, out, _) = run(&setup, &["check", "."]).await;
        assert!(code == exit && out.contains(words), "{provider}: {out}");
        if exit == 1 {
            insta::assert_snapshot!("a_misspelt_provider", told(&out));
        }
    }
}

/// A server's `fence_header` is no header of a key: each call would have two of it.
#[tokio::test]
async fn two_headers_of_one_name_are_an_error() {
    let scripted = ScriptedServer::with(tools()).await;
    let contract = |header: &str| {
        format!(
            "contracts: {{ bank__pay: {{ purpose: Pay., actions: [write], additive: true, permission: anyone, secrets: [], \
             idempotency: {{ derive: arguments, upstream: {{ header: {header} }} }} }} }}\n"
        )
    };
    for (header, exit) in [("X-Writer", 1), ("Idempotency-Key", 0)] {
        let setup = Setup::new()
            .server_with(
                "bank",
                &format!("url: \"{}\", fence_header: x-writer", scripted.url()),
            )
            .callers(CALLERS)
            .policy(&contract(header));
        setup.write();
        let (code, out, _) = run(&setup, &["check", "."]).await;
        let is_told = out.contains(
            "`x-writer` is the server's `fence_header`, so each call would have two of it",
        );
        assert_eq!((code, is_told), (exit, exit == 1), "{out}");
        if exit == 1 {
            insta::assert_snapshot!("two_headers_of_one_name", told(&out));
        }
    }
}
