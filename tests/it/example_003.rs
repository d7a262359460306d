//! The example contract of the documents, code by code (003-21 … 003-32). The tool's own schema is open, so that every
//! refusal is the contract's.

use crate::puppet::{Puppet, tool};
use crate::stage::{Gate, Launched, Settings, code};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The documents' values (003-30).
const CONTRACT: &str = r#"
contracts:
  billing__create_invoice:
    purpose: Create a draft invoice for the caller's tenant.
    actions: [write]
    permission: { roles: [billing_admin], tenant: /tenant_id }
    arguments: { properties: { memo: { type: string, maxLength: 20 } } }
    rules:
      - code: amount_out_of_range
        when: "!has(arguments.amount) || type(arguments.amount) != int || arguments.amount < 1 || arguments.amount > 5000000"
        expected: "`amount`: a whole number from 1 to 5000000"
      - code: currency_not_allowed
        when: "!has(arguments.currency) || !(arguments.currency in ['CNY', 'USD'])"
        expected: "`currency`: CNY or USD"
      - code: customer_id_invalid
        when: "!has(arguments.customer_id) || size(arguments.customer_id) < 1 || size(arguments.customer_id) > 64"
        expected: "`customer_id`: 1 to 64 characters"
    secrets: []
    audit: [customer_id]
"#;

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [billing_admin] }
  - { agent: reader, token: token-of-the-reader, tenant: t_001, roles: [viewer] }
";

const CLERK: &str = "token-of-the-clerk";
const READER: &str = "token-of-the-reader";
const CREATE: &str = "billing__create_invoice";

/// The legal call (003-31) with one member changed; `null` takes it away.
fn with(key: &str, value: Value) -> Value {
    let mut arguments = json!({ "tenant_id": "t_001", "currency": "CNY", "amount": 1200, "customer_id": "c_123" });
    if value.is_null() {
        arguments.as_object_mut().unwrap().remove(key);
    } else {
        arguments[key] = value;
    }
    arguments
}

/// Requirement, token, tool, arguments, and the code; none: the call passes.
fn cases() -> Vec<(&'static str, &'static str, &'static str, Value, Option<&'static str>)> {
    let long = |letters| "c".repeat(letters);
    vec![
        ("003-31", CLERK, CREATE, with("memo", json!("fine")), None),
        ("003-21 no contract", CLERK, "billing__drop_everything", with("", Value::Null), Some("tool_not_allowlisted")),
        ("003-21 no such tool", CLERK, "billing__no_such", with("", Value::Null), Some("tool_not_allowlisted")),
        ("003-22", READER, CREATE, with("", Value::Null), Some("rbac_denied")),
        ("003-23 003-32", CLERK, CREATE, with("tenant_id", json!("t_999")), Some("tenant_mismatch")),
        ("003-23 missing", CLERK, CREATE, with("tenant_id", Value::Null), Some("tenant_mismatch")),
        ("003-23 not text", CLERK, CREATE, with("tenant_id", json!(["t_001"])), Some("tenant_mismatch")),
        ("003-24 0", CLERK, CREATE, with("amount", json!(0)), Some("amount_out_of_range")),
        ("003-24 1", CLERK, CREATE, with("amount", json!(1)), None),
        ("003-24 max", CLERK, CREATE, with("amount", json!(5_000_000)), None),
        ("003-24 max + 1", CLERK, CREATE, with("amount", json!(5_000_001)), Some("amount_out_of_range")),
        ("003-24 missing", CLERK, CREATE, with("amount", Value::Null), Some("amount_out_of_range")),
        ("003-24 text", CLERK, CREATE, with("amount", json!("1200")), Some("amount_out_of_range")),
        ("003-24 negative", CLERK, CREATE, with("amount", json!(-1)), Some("amount_out_of_range")),
        ("003-24 fraction", CLERK, CREATE, with("amount", json!(0.5)), Some("amount_out_of_range")),
        ("003-24 list", CLERK, CREATE, with("amount", json!([1200])), Some("amount_out_of_range")),
        ("003-25 EUR", CLERK, CREATE, with("currency", json!("EUR")), Some("currency_not_allowed")),
        ("003-25 USD", CLERK, CREATE, with("currency", json!("USD")), None),
        ("003-25 lower case", CLERK, CREATE, with("currency", json!("usd")), Some("currency_not_allowed")),
        ("003-25 missing", CLERK, CREATE, with("currency", Value::Null), Some("currency_not_allowed")),
        ("003-26 empty", CLERK, CREATE, with("customer_id", json!("")), Some("customer_id_invalid")),
        ("003-26 64", CLERK, CREATE, with("customer_id", json!(long(64))), None),
        ("003-26 65", CLERK, CREATE, with("customer_id", json!(long(65))), Some("customer_id_invalid")),
        ("003-26 64 code points", CLERK, CREATE, with("customer_id", json!("顾".repeat(64))), None),
        (
            "003-26 65 code points",
            CLERK,
            CREATE,
            with("customer_id", json!("顾".repeat(65))),
            Some("customer_id_invalid"),
        ),
        ("003-26 missing", CLERK, CREATE, with("customer_id", Value::Null), Some("customer_id_invalid")),
        ("003-26 number", CLERK, CREATE, with("customer_id", json!(7)), Some("customer_id_invalid")),
        ("003-39", CLERK, CREATE, with("memo", json!(7)), Some("schema_invalid")),
        ("003-39 length", CLERK, CREATE, with("memo", json!(long(21))), Some("schema_invalid")),
    ]
}

async fn stage() -> (Puppet, Gate) {
    let puppet = Puppet::with(vec![tool("create_invoice"), tool("drop_everything")]).await;
    let servers = vec![("billing", puppet.url())];
    let gate =
        Gate::start(Settings { servers, callers: CALLERS, more: "", policy: CONTRACT.to_owned(), observe: false })
            .await;
    (puppet, gate)
}

/// 003-21 … 003-32, 003-39: each case has its code on both wires, and what is refused does not reach the tool.
#[tokio::test]
async fn the_example_gives_its_codes_on_both_wires() {
    let (puppet, gate) = stage().await;
    for legacy in [false, true] {
        for (what, token, name, arguments, expected) in cases() {
            puppet.forget();
            let mut agent = gate.agent().token(token);
            if legacy {
                agent = agent.initialized().await;
            }
            let answer = agent.call_anew(name, arguments.clone()).await;
            assert_eq!(code(&answer).as_deref(), expected, "{what}, legacy: {legacy}: {answer}");
            assert_eq!(puppet.executions(), usize::from(expected.is_none()), "{what}, legacy: {legacy}");
            if expected.is_none() {
                let sent = &puppet.seen()[0].body["params"];
                assert_eq!((&sent["name"], &sent["arguments"]), (&json!("create_invoice"), &arguments), "{what}");
            }
        }
    }
}

/// 003-31, 003-32 and C14: an agent that launches toolgate gets the same verdicts.
#[tokio::test]
async fn the_example_gives_its_codes_over_stdio() {
    let (puppet, gate) = stage().await;
    let data = gate.path("launched");
    let args = ["--agent", "clerk", "--data", data.to_str().unwrap()];
    for legacy in [false, true] {
        let mut agent = Launched::start(gate.setup(), &args, legacy).await;
        for (what, token, name, arguments, expected) in cases() {
            if token == CLERK {
                puppet.forget();
                let answer = agent.call_anew(name.strip_prefix("billing__").unwrap(), arguments).await;
                assert_eq!(code(&answer).as_deref(), expected, "{what}, legacy: {legacy}: {answer}");
                assert_eq!(puppet.executions(), usize::from(expected.is_none()), "{what}");
            }
        }
        agent.end().await;
    }
}

/// 003-28, 003-83: what the model reads names the code, the place, what was expected, what to do, and that nothing ran;
/// never the value.
#[tokio::test]
async fn refusals_say_what_to_do_and_never_the_value() {
    const CANARY: &str = "canary-7f3a";
    let (_puppet, gate) = stage().await;
    let cases = [
        ("billing__canary-7f3a", CLERK, with("tenant_id", json!(CANARY))),
        (CREATE, CLERK, with("memo", json!(format!("{CANARY}{CANARY}")))),
        (CREATE, CLERK, with("memo", json!({ CANARY: CANARY }))),
        (CREATE, READER, with("tenant_id", json!(CANARY))),
        (CREATE, CLERK, with("tenant_id", json!(CANARY))),
        (CREATE, CLERK, with("amount", json!(CANARY))),
        (CREATE, CLERK, with("currency", json!(CANARY))),
        (CREATE, CLERK, with("customer_id", json!(CANARY.repeat(7)))),
    ];
    let mut read = String::new();
    for (name, token, arguments) in cases {
        let answer = gate.agent().token(token).call(name, arguments).await;
        assert!(!answer.to_string().contains(CANARY), "{answer}");
        assert!(!gate.log().contains(CANARY), "{}", gate.log());
        let text = answer["result"]["content"][0]["text"].as_str().or(answer["error"]["message"].as_str()).unwrap();
        let code = code(&answer).unwrap();
        assert!(text.starts_with(&code) && text.contains("The tool did not run."), "{text}");
        assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
        writeln!(read, "{text}").unwrap();
    }
    insta::assert_snapshot!(read);
}
