//! The example contract of the documents, code by code (003-21 … 003-33). The tool's own schema is
//! open, so that every refusal is the contract's.

mod deadline;

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::stdio::Launched;
use crate::harness::table::rows;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The documents' values (003-30).
const CONTRACT: &str = r#"
contracts:
  billing__delete_draft_invoice:
    { purpose: Delete a draft., actions: [write], permission: anyone, side_effect: { writes: drafts, rollback: { tool: billing__create_invoice } }, secrets: [] }
  billing__create_invoice:
    purpose: Create a draft invoice for the caller's tenant.
    actions: [write]
    side_effect:
      writes: invoices(draft)
      rollback: { tool: billing__delete_draft_invoice, arguments: { id: result#/id } }
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

/// The same with its sections `idempotency` and `budget` (003-51, 003-61, 003-62), beside a tool
/// that uses up the same task.
const SECTIONS: &str = "
    idempotency: { derive: [/tenant_id, /customer_id, /amount], ttl: 1h }
    budget: { max_calls_per_task: 1, timeout_ms: 3000, cost: 1 }
  billing__void_invoice: { purpose: Voids an invoice., actions: [write], permission: anyone, side_effect: { writes: invoices, rollback: { tool: billing__create_invoice } }, budget: { cost: 2 }, secrets: [] }
budgets: { global: { max_cost: 2 } }
";

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [billing_admin] }
  - { agent: reader, token: token-of-the-reader, tenant: t_001, roles: [viewer] }
";

const CLERK: &str = "token-of-the-clerk";

const READER: &str = "token-of-the-reader";

const CREATE: &str = "billing__create_invoice";

/// The legal call (003-31) with one member changed; `null` takes it away.
fn with(key: &str, value: Value) -> Value {
    let mut arguments =
        json!({ "tenant_id": "t_001", "currency": "CNY", "amount": 1200, "customer_id": "c_123" });
    if value.is_null() {
        arguments.as_object_mut().unwrap().remove(key);
    } else {
        arguments[key] = value;
    }
    arguments
}

/// Row, caller, tool, the argument that is another than usual, its value (`-`: none; `c*n`: so many
/// letters), and the code of the refusal, if there is one.
const CASES: &str = r#"
003-31                 | clerk  | billing__create_invoice    | memo        | "fine"    |
003-21 no contract     | clerk  | billing__drop_everything   |             | -         | tool_not_allowlisted
003-21 no such tool    | clerk  | billing__no_such           |             | -         | tool_not_allowlisted
003-22                 | reader | billing__create_invoice    |             | -         | rbac_denied
003-23 003-32          | clerk  | billing__create_invoice    | tenant_id   | "t_999"   | tenant_mismatch
003-23 missing         | clerk  | billing__create_invoice    | tenant_id   | -         | tenant_mismatch
003-23 not text        | clerk  | billing__create_invoice    | tenant_id   | ["t_001"] | tenant_mismatch
003-24 0               | clerk  | billing__create_invoice    | amount      | 0         | amount_out_of_range
003-24 1               | clerk  | billing__create_invoice    | amount      | 1         |
003-24 max             | clerk  | billing__create_invoice    | amount      | 5000000   |
003-24 max + 1         | clerk  | billing__create_invoice    | amount      | 5000001   | amount_out_of_range
003-24 missing         | clerk  | billing__create_invoice    | amount      | -         | amount_out_of_range
003-24 text            | clerk  | billing__create_invoice    | amount      | "1200"    | amount_out_of_range
003-24 negative        | clerk  | billing__create_invoice    | amount      | -1        | amount_out_of_range
003-24 fraction        | clerk  | billing__create_invoice    | amount      | 0.5       | amount_out_of_range
003-24 list            | clerk  | billing__create_invoice    | amount      | [1200]    | amount_out_of_range
003-25 EUR             | clerk  | billing__create_invoice    | currency    | "EUR"     | currency_not_allowed
003-25 USD             | clerk  | billing__create_invoice    | currency    | "USD"     |
003-25 lower case      | clerk  | billing__create_invoice    | currency    | "usd"     | currency_not_allowed
003-25 missing         | clerk  | billing__create_invoice    | currency    | -         | currency_not_allowed
003-26 empty           | clerk  | billing__create_invoice    | customer_id | ""        | customer_id_invalid
003-26 64              | clerk  | billing__create_invoice    | customer_id | c*64      |
003-26 65              | clerk  | billing__create_invoice    | customer_id | c*65      | customer_id_invalid
003-26 64 code points  | clerk  | billing__create_invoice    | customer_id | 顾*64     |
003-26 65 code points  | clerk  | billing__create_invoice    | customer_id | 顾*65     | customer_id_invalid
003-26 missing         | clerk  | billing__create_invoice    | customer_id | -         | customer_id_invalid
003-26 number          | clerk  | billing__create_invoice    | customer_id | 7         | customer_id_invalid
003-39                 | clerk  | billing__create_invoice    | memo        | 7         | schema_invalid
003-39 length          | clerk  | billing__create_invoice    | memo        | c*21      | schema_invalid
"#;

/// Requirement, token, tool, arguments, and the code; none: the call passes.
type RowCase = (
    &'static str,
    &'static str,
    &'static str,
    Value,
    Option<&'static str>,
);

fn cases() -> Vec<RowCase> {
    let case = |[row, caller, tool, argument, value, code]: [&'static str; 6]| {
        let value = match (value, value.split_once('*')) {
            ("-", _) => Value::Null,
            (_, Some((letter, times))) => json!(letter.repeat(times.parse().unwrap())),
            _ => serde_json::from_str(value).unwrap(),
        };
        let token = if caller == "reader" { READER } else { CLERK };
        let code = Some(code).filter(|code| !code.is_empty());
        (row, token, tool, with(argument, value), code)
    };
    rows(CASES).into_iter().map(case).collect()
}

async fn stage() -> (ScriptedServer, Gate) {
    staged(CONTRACT.to_owned()).await
}

async fn staged(policy: String) -> (ScriptedServer, Gate) {
    let tools = [
        "create_invoice",
        "drop_everything",
        "void_invoice",
        "find_invoice",
    ];
    let scripted = ScriptedServer::with(tools.map(tool).to_vec()).await;
    let servers = vec![("billing", scripted.url())];
    let gate = Gate::start(Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy,
        observe: false,
    })
    .await;
    (scripted, gate)
}

/// A call of the task of that name.
async fn within(agent: &Agent, task: &str, tool: &str, arguments: Value) -> Value {
    let meta = json!({ "dev.toolgate/task": task });
    agent
        .ask(
            "tools/call",
            json!({ "name": tool, "arguments": arguments, "_meta": meta }),
        )
        .await
}

fn verdict(answer: &Value) -> (Option<String>, bool, Value) {
    let decision = &answer["result"]["_meta"]["dev.toolgate/decision"];
    (
        code(answer),
        decision["replayed"] == true,
        decision["dimension"].clone(),
    )
}

/// 003-13, 003-14, 003-118, 003-21 … 003-32, 003-39: each case has its code on both wires, and what
/// is refused does not reach the tool.
#[tokio::test]
async fn the_example_gives_its_codes_on_both_wires() {
    let (scripted, gate) = stage().await;
    for legacy in [false, true] {
        for (what, token, name, arguments, expected) in cases() {
            scripted.forget();
            let mut agent = gate.agent().token(token);
            if legacy {
                agent = agent.initialized().await;
            }
            let answer = agent.call_anew(name, arguments.clone()).await;
            assert_eq!(
                code(&answer).as_deref(),
                expected,
                "{what}, legacy: {legacy}: {answer}"
            );
            assert_eq!(
                scripted.executions(),
                usize::from(expected.is_none()),
                "{what}, legacy: {legacy}"
            );
            if expected.is_none() {
                let sent = &scripted.seen()[0].body["params"];
                assert_eq!(
                    (&sent["name"], &sent["arguments"]),
                    (&json!("create_invoice"), &arguments),
                    "{what}"
                );
            }
        }
    }
}

/// 003-31, 003-32 and C14: an agent that launches toolgate gets the same verdicts.
#[tokio::test]
async fn the_example_gives_its_codes_over_stdio() {
    let (scripted, gate) = stage().await;
    let data = gate.path("launched");
    let args = ["--agent", "clerk", "--data", data.to_str().unwrap()];
    for legacy in [false, true] {
        let mut agent = Launched::start(&gate.setup, &args, legacy).await;
        for (what, token, name, arguments, expected) in cases() {
            if token == CLERK {
                scripted.forget();
                let answer = agent
                    .call_anew(name.strip_prefix("billing__").unwrap(), arguments)
                    .await;
                assert_eq!(
                    code(&answer).as_deref(),
                    expected,
                    "{what}, legacy: {legacy}: {answer}"
                );
                assert_eq!(
                    scripted.executions(),
                    usize::from(expected.is_none()),
                    "{what}"
                );
            }
        }
        agent.end().await;
    }
}

/// 003-28, 003-83, 002-10: what the model reads names the code, the place, what was expected, what
/// to do, and that nothing ran; never the value.
#[tokio::test]
async fn refusals_say_what_to_do_and_never_the_value() {
    const CANARY: &str = "canary-7f3a";
    let (scripted, gate) = stage().await;
    let cases = [
        (
            "billing__canary-7f3a",
            CLERK,
            with("tenant_id", json!(CANARY)),
        ),
        (
            CREATE,
            CLERK,
            with("memo", json!(format!("{CANARY}{CANARY}"))),
        ),
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
        let text = answer["result"]["content"][0]["text"]
            .as_str()
            .or(answer["error"]["message"].as_str())
            .unwrap();
        let code = code(&answer).unwrap();
        assert!(
            text.starts_with(&code) && text.contains("The tool did not run."),
            "{text}"
        );
        assert!(
            answer["error"].is_object() || answer["result"]["isError"] == true,
            "{answer}"
        );
        writeln!(read, "{text}").unwrap();
    }
    assert_eq!(scripted.executions(), 0);
    insta::assert_snapshot!(read);
}

/// After one call, which has used up the calls of its task: the caller, the argument that is another
/// than before, its value, what the agent reads, and which budget is used up. The same call is no
/// further call, and a conflict comes before the budget.
const AFTER_ONE: &str = r#"
clerk  | customer_id | "c_other" | budget_calls_exceeded | calls_per_task
clerk  | memo        | "one"     | replayed              |
clerk  | memo        | "two"     | idempotency_conflict  |
clerk  | memo        | 7         | schema_invalid        |
reader |             | null      | rbac_denied           |
clerk  | tenant_id   | "t_999"   | tenant_mismatch       |
clerk  | amount      | 0         | amount_out_of_range   |
clerk  | currency    | "EUR"     | currency_not_allowed  |
clerk  | customer_id | ""        | customer_id_invalid   |
"#;

/// 003-27, 003-29, 003-33, 003-40, 003-51, 003-61: with its budget used, 1 of 1, the example
/// refuses the next call with that code; every earlier step's code goes before it, and of two
/// budgets the tool's own before the task's.
#[tokio::test]
async fn the_used_budget_has_its_place_among_the_codes() {
    let (scripted, gate) = staged(format!("{CONTRACT}{SECTIONS}")).await;
    for legacy in [false, true] {
        let (mut clerk, mut reader) = (gate.agent().token(CLERK), gate.agent().token(READER));
        if legacy {
            (clerk, reader) = (clerk.initialized().await, reader.initialized().await);
        }
        scripted.forget();
        let task = format!("task, legacy: {legacy}");
        let own = |key: &str, value: Value| {
            let mut arguments = with(key, value);
            if key != "customer_id" {
                arguments["customer_id"] = json!(format!("c_{legacy}"));
            }
            arguments
        };
        let first = within(&clerk, &task, CREATE, own("memo", json!("one"))).await;
        assert_eq!(verdict(&first), (None, false, Value::Null), "{first}");
        let left = &first["result"]["_meta"]["dev.toolgate/decision"]["budget_remaining"];
        assert_eq!(
            left,
            &json!({ "steps": 999, "cost": 1.0, "calls_per_task": 0 })
        );
        for [caller, key, value, expected, dimension] in rows(AFTER_ONE) {
            let agent = if caller == "reader" { &reader } else { &clerk };
            let arguments = own(key, serde_json::from_str(value).unwrap());
            let answer = within(agent, &task, CREATE, arguments).await;
            let (code, replayed, used) = verdict(&answer);
            let found = match code {
                None if replayed => "replayed",
                _ => code.as_deref().unwrap_or_default(),
            };
            let found = (found, used.as_str().unwrap_or_default());
            assert_eq!(found, (expected, dimension), "{key} {value}: {answer}");
        }
        let void = json!({ "id": legacy });
        let void = within(&clerk, &task, "billing__void_invoice", void).await;
        let used = (Some("budget_exceeded".to_owned()), false, json!("cost"));
        assert_eq!(verdict(&void), used, "{void}");
        assert_eq!(scripted.executions(), 1, "legacy: {legacy}");
        // Another task has budgets of its own; one whose cost is used up has its calls left and
        // reads the other code.
        let other = format!("other {task}");
        let id = json!({ "id": format!("inv_{legacy}") });
        let void = within(&clerk, &other, "billing__void_invoice", id).await;
        assert_eq!(verdict(&void), (None, false, Value::Null), "{void}");
        let next = within(&clerk, &other, CREATE, own("amount", json!(7))).await;
        assert_eq!(
            verdict(&next),
            (Some("budget_exceeded".to_owned()), false, json!("cost")),
            "{next}"
        );
        let third = format!("third {task}");
        let third = within(&clerk, &third, CREATE, own("amount", json!(7))).await;
        assert_eq!(verdict(&third), (None, false, Value::Null), "{third}");
        assert_eq!(scripted.executions(), 3, "legacy: {legacy}");
    }
}

/// 003-27: of calls at the same time exactly as many pass as the contract says.
#[tokio::test]
async fn of_parallel_calls_exactly_the_budget_passes() {
    let (scripted, gate) = staged(format!("{CONTRACT}{SECTIONS}")).await;
    for legacy in [false, true] {
        scripted.forget();
        let mut agent = gate.agent().token(CLERK);
        if legacy {
            agent = agent.initialized().await;
        }
        let task = format!("crowd, legacy: {legacy}");
        let calls = (0..12).map(|n| {
            within(
                &agent,
                &task,
                CREATE,
                with("customer_id", json!(format!("c_{legacy}_{n}"))),
            )
        });
        let mut codes: Vec<_> = join_all(calls).await.iter().map(code).collect();
        codes.sort_unstable();
        let mut expected = vec![None];
        expected.resize(12, Some("budget_calls_exceeded".to_owned()));
        assert_eq!(
            (codes, scripted.executions()),
            (expected, 1),
            "legacy: {legacy}"
        );
    }
}
