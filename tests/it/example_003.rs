//! The example contract of the documents, code by code (003-21 … 003-33). The tool's own schema is
//! open, so that every refusal is the contract's.

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, event, tool};
use crate::harness::setup::Settings;
use crate::harness::stdio::Launched;
use crate::harness::until;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The documents' values (003-30).
const CONTRACT: &str = r#"
contracts:
  billing__delete_draft_invoice:
    { purpose: Delete a draft., actions: [write], side_effect: { writes: drafts, rollback: { tool: billing__create_invoice } }, secrets: [] }
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
  billing__void_invoice: { purpose: Voids an invoice., actions: [write], side_effect: { writes: invoices, rollback: { tool: billing__create_invoice } }, budget: { cost: 2 }, secrets: [] }
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

/// Requirement, token, tool, arguments, and the code; none: the call passes.
fn cases() -> Vec<(
    &'static str,
    &'static str,
    &'static str,
    Value,
    Option<&'static str>,
)> {
    let long = |letters| "c".repeat(letters);
    vec![
        ("003-31", CLERK, CREATE, with("memo", json!("fine")), None),
        (
            "003-21 no contract",
            CLERK,
            "billing__drop_everything",
            with("", Value::Null),
            Some("tool_not_allowlisted"),
        ),
        (
            "003-21 no such tool",
            CLERK,
            "billing__no_such",
            with("", Value::Null),
            Some("tool_not_allowlisted"),
        ),
        (
            "003-22",
            READER,
            CREATE,
            with("", Value::Null),
            Some("rbac_denied"),
        ),
        (
            "003-23 003-32",
            CLERK,
            CREATE,
            with("tenant_id", json!("t_999")),
            Some("tenant_mismatch"),
        ),
        (
            "003-23 missing",
            CLERK,
            CREATE,
            with("tenant_id", Value::Null),
            Some("tenant_mismatch"),
        ),
        (
            "003-23 not text",
            CLERK,
            CREATE,
            with("tenant_id", json!(["t_001"])),
            Some("tenant_mismatch"),
        ),
        (
            "003-24 0",
            CLERK,
            CREATE,
            with("amount", json!(0)),
            Some("amount_out_of_range"),
        ),
        ("003-24 1", CLERK, CREATE, with("amount", json!(1)), None),
        (
            "003-24 max",
            CLERK,
            CREATE,
            with("amount", json!(5_000_000)),
            None,
        ),
        (
            "003-24 max + 1",
            CLERK,
            CREATE,
            with("amount", json!(5_000_001)),
            Some("amount_out_of_range"),
        ),
        (
            "003-24 missing",
            CLERK,
            CREATE,
            with("amount", Value::Null),
            Some("amount_out_of_range"),
        ),
        (
            "003-24 text",
            CLERK,
            CREATE,
            with("amount", json!("1200")),
            Some("amount_out_of_range"),
        ),
        (
            "003-24 negative",
            CLERK,
            CREATE,
            with("amount", json!(-1)),
            Some("amount_out_of_range"),
        ),
        (
            "003-24 fraction",
            CLERK,
            CREATE,
            with("amount", json!(0.5)),
            Some("amount_out_of_range"),
        ),
        (
            "003-24 list",
            CLERK,
            CREATE,
            with("amount", json!([1200])),
            Some("amount_out_of_range"),
        ),
        (
            "003-25 EUR",
            CLERK,
            CREATE,
            with("currency", json!("EUR")),
            Some("currency_not_allowed"),
        ),
        (
            "003-25 USD",
            CLERK,
            CREATE,
            with("currency", json!("USD")),
            None,
        ),
        (
            "003-25 lower case",
            CLERK,
            CREATE,
            with("currency", json!("usd")),
            Some("currency_not_allowed"),
        ),
        (
            "003-25 missing",
            CLERK,
            CREATE,
            with("currency", Value::Null),
            Some("currency_not_allowed"),
        ),
        (
            "003-26 empty",
            CLERK,
            CREATE,
            with("customer_id", json!("")),
            Some("customer_id_invalid"),
        ),
        (
            "003-26 64",
            CLERK,
            CREATE,
            with("customer_id", json!(long(64))),
            None,
        ),
        (
            "003-26 65",
            CLERK,
            CREATE,
            with("customer_id", json!(long(65))),
            Some("customer_id_invalid"),
        ),
        (
            "003-26 64 code points",
            CLERK,
            CREATE,
            with("customer_id", json!("顾".repeat(64))),
            None,
        ),
        (
            "003-26 65 code points",
            CLERK,
            CREATE,
            with("customer_id", json!("顾".repeat(65))),
            Some("customer_id_invalid"),
        ),
        (
            "003-26 missing",
            CLERK,
            CREATE,
            with("customer_id", Value::Null),
            Some("customer_id_invalid"),
        ),
        (
            "003-26 number",
            CLERK,
            CREATE,
            with("customer_id", json!(7)),
            Some("customer_id_invalid"),
        ),
        (
            "003-39",
            CLERK,
            CREATE,
            with("memo", json!(7)),
            Some("schema_invalid"),
        ),
        (
            "003-39 length",
            CLERK,
            CREATE,
            with("memo", json!(long(21))),
            Some("schema_invalid"),
        ),
    ]
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
        assert_eq!(left, &json!({ "cost": 1.0, "calls_per_task": 0 }));
        let (calls, none) = (json!("calls_per_task"), Value::Null);
        for (agent, tool, arguments, expected, replayed, dimension) in [
            (
                &clerk,
                CREATE,
                own("customer_id", json!("c_other")),
                Some("budget_calls_exceeded"),
                false,
                &calls,
            ),
            // The same call is no further call, whatever the budget says.
            (&clerk, CREATE, own("memo", json!("one")), None, true, &none),
            // The same business keys with another memo: a conflict comes before the budget.
            (
                &clerk,
                CREATE,
                own("memo", json!("two")),
                Some("idempotency_conflict"),
                false,
                &none,
            ),
            (
                &clerk,
                CREATE,
                own("memo", json!(7)),
                Some("schema_invalid"),
                false,
                &none,
            ),
            (
                &reader,
                CREATE,
                own("", Value::Null),
                Some("rbac_denied"),
                false,
                &none,
            ),
            (
                &clerk,
                CREATE,
                own("tenant_id", json!("t_999")),
                Some("tenant_mismatch"),
                false,
                &none,
            ),
            (
                &clerk,
                CREATE,
                own("amount", json!(0)),
                Some("amount_out_of_range"),
                false,
                &none,
            ),
            (
                &clerk,
                CREATE,
                own("currency", json!("EUR")),
                Some("currency_not_allowed"),
                false,
                &none,
            ),
            (
                &clerk,
                CREATE,
                own("customer_id", json!("")),
                Some("customer_id_invalid"),
                false,
                &none,
            ),
            (
                &clerk,
                "billing__void_invoice",
                json!({ "id": legacy }),
                Some("budget_exceeded"),
                false,
                &json!("cost"),
            ),
        ] {
            let answer = within(agent, &task, tool, arguments.clone()).await;
            let expected = (expected.map(str::to_owned), replayed, dimension.clone());
            assert_eq!(
                verdict(&answer),
                expected,
                "{arguments}, legacy: {legacy}: {answer}"
            );
        }
        assert_eq!(scripted.executions(), 1, "legacy: {legacy}");
        // Another task has budgets of its own; one whose cost is used up has its calls left and
        // reads the other code.
        let other = format!("other {task}");
        let void = within(
            &clerk,
            &other,
            "billing__void_invoice",
            json!({ "id": format!("inv_{legacy}") }),
        )
        .await;
        assert_eq!(verdict(&void), (None, false, Value::Null), "{void}");
        let next = within(&clerk, &other, CREATE, own("amount", json!(7))).await;
        assert_eq!(
            verdict(&next),
            (Some("budget_exceeded".to_owned()), false, json!("cost")),
            "{next}"
        );
        let third = within(
            &clerk,
            &format!("third {task}"),
            CREATE,
            own("amount", json!(7)),
        )
        .await;
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

/// A read beside the example, with its deadline.
const FIND: &str = "  billing__find_invoice: { purpose: Finds one., actions: [read], budget: { timeout_ms: 3000 }, secrets: [] }\n";
/// What the ledger may say of the time that a call took which was given up after 3 s: never less,
/// and more only by what a noisy machine needs to notice; the server's own deadline is a minute.
const GIVEN_UP: Range<f64> = 3000.0..15_000.0;

/// 003-51, 003-62: after the example's 3000 ms nobody waits for a slow tool server any more. A read
/// is cancelled: its connection is closed, or on the legacy wire the server is told. A call that
/// changes something has an unknown outcome; as guarantees §4 has it, it is not cancelled but
/// listened for, and its late answer ends that.
#[tokio::test]
async fn the_examples_deadline_is_three_seconds() {
    let policy = format!("{CONTRACT}{SECTIONS}").replace("budgets:", &format!("{FIND}budgets:"));
    let (scripted, gate) = staged(policy).await;
    let slow = Arc::new(Mutex::new(Vec::new()));
    scripted.answers({
        let slow = slow.clone();
        move |seen| {
            if seen.body["params"]["name"] == "find_invoice" {
                return Reply::Silence;
            }
            let (sender, receiver) = tokio::sync::mpsc::channel(1);
            slow.lock().unwrap().push((sender, seen.body["id"].clone()));
            Reply::Stream(receiver)
        }
    });
    let (modern, legacy) = (
        gate.agent().token(CLERK),
        gate.agent().token(CLERK).initialized().await,
    );
    let create = async |agent: &Agent, wire: &str| {
        within(agent, wire, CREATE, with("customer_id", json!(wire))).await
    };
    let find =
        async |agent: &Agent| within(agent, "finding", "billing__find_invoice", json!({})).await;
    let wires = [(&modern, "modern"), (&legacy, "legacy")];
    let creating = join_all(wires.map(|(agent, wire)| create(agent, wire)));
    let finding = join_all(wires.map(|(agent, _)| find(agent)));
    let (created, found) = futures_util::join!(creating, finding);
    for (answers, expected) in [(created, "outcome_unknown"), (found, "upstream_failed")] {
        for answer in answers {
            assert_eq!(code(&answer).as_deref(), Some(expected), "{answer}");
        }
    }
    for entry in gate.entries(4).await {
        let (outcome, reason) = if entry["tool"] == CREATE {
            ("unknown", "outcome_unknown")
        } else {
            ("failed", "upstream_failed")
        };
        assert_eq!(
            (&entry["outcome"], &entry["aborted_reason"]),
            (&json!(outcome), &json!(reason)),
            "{entry}"
        );
        assert!(
            GIVEN_UP.contains(&entry["upstream_ms"].as_f64().unwrap()),
            "{entry}"
        );
        assert_eq!(entry["fault"], "no answer within 3s", "{entry}");
    }
    let calls: Vec<_> = scripted
        .seen()
        .into_iter()
        .filter(|seen| seen.method() == "tools/call")
        .collect();
    assert_eq!(calls.len(), 4, "each was sent once");
    for call in calls
        .iter()
        .filter(|call| call.body["params"]["name"] == "find_invoice")
    {
        let id = &call.body["id"];
        scripted.closed(id).await;
        if call.header("mcp-session-id").is_some() {
            let told = scripted
                .sees("the cancellation", |seen| {
                    seen.method() == "notifications/cancelled"
                })
                .await;
            assert_eq!(&told.body["params"]["requestId"], id, "{told:?}");
        }
    }
    let told = scripted
        .seen()
        .into_iter()
        .filter(|seen| seen.method() == "notifications/cancelled")
        .count();
    let open = slow
        .lock()
        .unwrap()
        .iter()
        .filter(|(sender, _)| !sender.is_closed())
        .count();
    assert_eq!(
        (told, open),
        (1, 2),
        "who may change something is listened for"
    );
    for (late, id) in slow.lock().unwrap().drain(..) {
        let done =
            json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" });
        late.try_send(event(
            &json!({ "jsonrpc": "2.0", "id": id, "result": done }),
        ))
        .unwrap();
    }
    for (agent, wire) in wires {
        let known = until("the late answer counts", || async {
            let again = create(agent, wire).await;
            code(&again).is_none().then_some(again)
        });
        assert_eq!(verdict(&known.await), (None, true, Value::Null), "{wire}");
    }
    assert_eq!(scripted.executions(), 4, "nothing was sent again");
}
