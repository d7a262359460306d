//! Slips in a policy that would leave its author with a bound that binds nothing: what `check` says
//! of each, what does not load, and what an agent reads where a rule cannot be judged.

mod elsewhere;

use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Settings, Setup};
use serde_json::{Value, json};

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, roles: [clerk, finance] }
";

/// What the bank lists.
fn tools() -> Vec<Value> {
    let transfer = json!({
        "type": "object",
        "properties": {
            "amount": { "type": "integer" },
            "iban": { "type": "string" },
            "note": { "type": ["string", "null"] },
            "lines": { "type": "array", "items": { "type": "object", "properties": { "price": { "type": "number" } } } },
        },
    });
    let open = json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": true });
    let text = json!({ "type": "string" });
    let moving = json!({ "type": "object", "properties": {
        "kind": { "enum": ["in", "out"] }, "reference": text, "token": text, "note": text } });
    vec![
        json!({ "name": "transfer", "inputSchema": transfer }),
        json!({ "name": "get_balance", "inputSchema": { "type": "object", "properties": { "iban": { "type": "string" } } } }),
        json!({ "name": "get_rates", "inputSchema": { "type": "object", "properties": { "currency": { "type": "string" } } } }),
        json!({ "name": "open", "inputSchema": open }),
        json!({ "name": "move", "inputSchema": moving }),
        tool("delete_account"),
    ]
}

/// Slips of each kind, and beside them what is right and looks alike.
const SLIPS: &str = r#"
groups: { away: [bank__delete_acount] }
layers:
  global: { deny: [bank__get_balanec, "bank__wipe*", "bank__delet_*", "*__opne*", "group:away"] }
contracts:
  bank__transfer:
    purpose: Pay.
    actions: [read]
    secrets: []
    permission: { roles: [clerk, finanec] }
    arguments:
      properties:
        amuont: { maximum: 100 }
        iban: { maximum: 5, type: integer }
        lines: { items: { properties: { price: { minLength: 1 }, prize: { minimum: 1 } } } }
    rules:
      - { code: too_much, when: "arguments.amuont > 100" }
      - { code: no_truth, when: "arguments.amount" }
      - { code: other_kind, when: "has(arguments.note) && arguments.amount > '100'" }
      - { code: no_role, when: "!('finence' in caller.roles)" }
      - { code: fine, when: "arguments.note == null || arguments.note.contains('x')" }
    idempotency: { derive: [/ibna] }
    audit: [ibann]
  bank__get_*:
    purpose: Look.
    actions: [read]
    secrets: []
    permission: { roles: [clerk], resource: { pointer: /iban, allow: ["DE*"] } }
    rules: [ { code: nowhere, when: "arguments.nothing == 'x'" } ]
  bank__open:
    purpose: Open.
    actions: [read]
    secrets: []
    arguments: { properties: { b: { type: string } } }
    rules: [ { code: fine, when: "has(arguments.c) && arguments.c > 5" } ]
  bank__move:
    purpose: Move.
    actions: [write]
    additive: true
    permission: anyone
    secrets: [/tokn]
    idempotency: { derive: arguments, upstream: { argument: refrence } }
    variants:
      by: /kind
      cases:
        in: { actions: [write] }
        owt: { actions: [write], arguments: { properties: { note: { maximum: 5 } } } }
  bank__gte_r*: { purpose: Look., actions: [read], secrets: [], owner_only: true }
  bank__wait_*: { purpose: Look., actions: [read], secrets: [], owner_only: true }
  bank__delete_acocunt: { purpose: Away., actions: [read], secrets: [] }
  bank__yet_to_come: { purpose: Later., actions: [read], secrets: [] }
"#;

/// Without the slips that need neither pins nor a connection.
fn known_later() -> String {
    SLIPS
        .replace("finanec", "finance")
        .replace("finence", "finance")
}

fn setup(scripted: &ScriptedServer, policy: &str) -> Setup {
    Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .callers(CALLERS)
        .policy(policy)
}

fn told(out: &str) -> String {
    regex::Regex::new("policy [0-9a-f]{12}")
        .unwrap()
        .replace_all(out, "policy VERSION")
        .into_owned()
}

/// What `check --connect` says, of slips that `check` alone does not see.
async fn told_by_listing(setup: &Setup) -> String {
    setup.write();
    let (exit, out, wrong) = run(setup, &["check", "."]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{out}");
    let (exit, out, wrong) = run(setup, &["check", "--connect", "."]).await;
    assert_eq!((exit, wrong.as_str()), (1, ""), "{out}");
    told(&out)
}

/// Issue 15 part 5, 002-11, 003-114: what the pins tell is an error at load, each with its place and
/// the nearest name; toolgate does not start with it.
#[tokio::test]
async fn slips_that_pins_tell_do_not_load() {
    let scripted = ScriptedServer::with(tools()).await;
    let contract = "contracts: { bank__open: { purpose: Open., actions: [read], secrets: [] } }\n";
    let sound = setup(&scripted, contract).more("pins: toolgate.pins.yaml");
    sound.write();
    let (exit, said, wrong) = run(&sound, &["pins", "approve", "--all"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    let slips = sound.policy(SLIPS);
    slips.write();
    let (exit, out, wrong) = run(&slips, &["check", "."]).await;
    assert_eq!((exit, wrong.as_str()), (1, ""), "{out}");
    insta::assert_snapshot!("slips_by_pins", told(&out));
    let (exit, out, wrong) = run(&slips, &["serve", "--config", "toolgate.yaml"]).await;
    assert!(
        exit == 1 && wrong.contains("the tool has no argument `amuont`"),
        "{out}{wrong}"
    );
    // `pins approve` goes without the pins, so that what they tell never keeps them as they are.
    let slips = slips.policy(&known_later());
    slips.write();
    let (exit, out, wrong) = run(&slips, &["pins", "approve", "--all"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{out}");
}

/// The same by what the servers list: there a tool that is not listed is not there.
#[tokio::test]
async fn slips_that_listings_tell_are_errors() {
    let scripted = ScriptedServer::with(tools()).await;
    let told = told_by_listing(&setup(&scripted, &known_later())).await;
    insta::assert_snapshot!("slips_by_listing", told);
}

/// 002-05, 002-11: a tool that lacks an argument which its contract bounds is withheld; one whose
/// schema says that other names may come is not.
#[tokio::test]
async fn a_bound_of_nothing_withholds_the_tool() {
    let contract = |tool: &str, bound: &str| {
        format!(
            "  bank__{tool}: {{ purpose: test, actions: [read], secrets: [], arguments: {{ properties: {{ {bound} }} }} }}\n"
        )
    };
    let variants = "  bank__get_rates:\n    purpose: test\n    actions: [read]\n    secrets: []\n    variants:\n      by: /currency\n      \
                    cases: { EUR: { actions: [read], arguments: { properties: { curency: { maxLength: 3 } } } } }\n";
    let policy = [
        "contracts:\n".to_owned(),
        contract(
            "transfer",
            "lines: { items: { properties: { prize: { maximum: 9 } } } }",
        ),
        contract("get_balance", "ibna: { maxLength: 34 }"),
        contract("open", "b: { maximum: 5 }"),
        contract("delete_account", "id: { maximum: 5 }"),
        variants.to_owned(),
    ]
    .concat();
    let scripted = ScriptedServer::with(tools()).await;
    let gate = Gate::start(Settings {
        servers: vec![("bank", scripted.url())],
        callers: CALLERS,
        more: "",
        policy,
        observe: false,
    })
    .await;
    let agent = gate.agent().token("token-of-the-clerk");
    assert_eq!(agent.tools().await, ["bank__open", "bank__delete_account"]);
    let answer = agent
        .call("bank__get_balance", json!({ "iban": "x" }))
        .await;
    assert_eq!(code(&answer).as_deref(), Some("tool_not_allowlisted"));
    let bound = agent.call("bank__open", json!({ "b": 6 })).await;
    assert_eq!(code(&bound).as_deref(), Some("schema_invalid"), "{bound}");
    assert_eq!(scripted.executions(), 0);
    let withheld = gate.readiness().await["servers"][0]["withheld"].to_string();
    for words in [
        "`bank__transfer`: its input schema has no `lines.*.prize`, by which its contract decides (`arguments.properties.lines.items.properties.prize`)",
        "`bank__get_balance`: its input schema has no `ibna`, by which its contract decides (`arguments.properties.ibna`)",
        "`bank__get_rates`: its input schema has no `curency`, by which its contract decides (`variants.cases.EUR.arguments.properties.curency`)",
    ] {
        assert!(withheld.contains(words), "{words}: {withheld}");
    }
}

/// Issue 15 part 5, 002-05: the same of a bound under any other keyword, of a case as well; `check
/// --connect` says where, and what may be meant.
#[tokio::test]
async fn a_bound_of_nothing_under_any_keyword_withholds_the_tool() {
    let policy = r#"contracts:
  bank__transfer:
    purpose: test
    actions: [read]
    secrets: []
    arguments: { not: { required: [note, ibna] } }
  bank__get_balance:
    purpose: test
    actions: [read]
    secrets: []
    arguments: { if: { required: [iban] }, then: { patternProperties: { "^ibna$": { maxLength: 34 } } } }
  bank__get_rates:
    purpose: test
    actions: [read]
    secrets: []
    arguments: { minProperties: 1 }
    variants: { by: /currency, cases: { EUR: { actions: [read], arguments: { dependentRequired: { curency: [currency] } } } } }
  bank__open: { purpose: test, actions: [read], secrets: [], arguments: { not: { required: [b] } } }
"#;
    let scripted = ScriptedServer::with(tools()).await;
    let setup = setup(&scripted, policy);
    setup.write();
    let (exit, out, wrong) = run(&setup, &["check", "--connect", "."]).await;
    assert_eq!((exit, wrong.as_str()), (1, ""), "{out}");
    for told in [
        "error: the tool's input schema has no `ibna`, so the tool is withheld\n  --> ./policy.yaml:6:42",
        "error: the tool's input schema has nothing that `^ibna$` matches, so the tool is withheld\n  --> ./policy.yaml:11:73",
        "error: the tool's input schema has no `curency`, so the tool is withheld\n  --> ./policy.yaml:17:99",
    ] {
        assert!(out.contains(told), "{told}: {out}");
    }
    assert_eq!(out.matches("did you mean `iban`?").count(), 2, "{out}");
    assert!(out.contains("did you mean `currency`?"), "{out}");
    let gate = setup.start().await;
    let agent = gate.agent().token("token-of-the-clerk");
    assert_eq!(agent.tools().await, ["bank__open"]);
    let withheld = gate.readiness().await["servers"][0]["withheld"].to_string();
    for words in [
        "`bank__transfer`: its input schema has no `ibna`, by which its contract decides (`arguments.not.required.1`)",
        "`bank__get_balance`: its input schema has nothing that `^ibna$` matches, by which its contract decides (`arguments.then.patternProperties.^ibna$`)",
        "`bank__get_rates`: its input schema has no `curency`, by which its contract decides (`variants.cases.EUR.arguments.dependentRequired.curency`)",
    ] {
        assert!(withheld.contains(words), "{words}: {withheld}");
    }
}

/// 003-24, 003-41: a rule that fails over what the schema lets through is refused with
/// `rule_failed`; log, metric, ledger and `explain` name the rule. What the agent left out is refused
/// by the rule's own code.
#[tokio::test]
async fn a_rule_that_fails_is_the_operators_problem() {
    let policy = "contracts:
  bank__transfer:
    purpose: Pay.
    actions: [read]
    secrets: []
    rules: [ { code: too_much, when: \"100 / arguments.amount < 5\", expected: less } ]
";
    let scripted = ScriptedServer::with(tools()).await;
    let gate = Gate::start(Settings {
        servers: vec![("bank", scripted.url())],
        callers: CALLERS,
        more: "",
        policy: policy.to_owned(),
        observe: false,
    })
    .await;
    let agent = gate.agent().token("token-of-the-clerk");
    for (arguments, expected) in [
        (json!({ "amount": 0 }), Some("rule_failed")),
        (json!({}), Some("too_much")),
        (json!({ "amount": 50 }), Some("too_much")),
        (json!({ "amount": 10 }), None),
    ] {
        let answer = agent.call("bank__transfer", arguments.clone()).await;
        assert_eq!(code(&answer).as_deref(), expected, "{arguments}: {answer}");
        if expected == Some("rule_failed") {
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert!(
                !text.contains("too_much") && text.contains("Ask an operator"),
                "{text}"
            );
        }
    }
    assert_eq!(scripted.executions(), 1);
    let entries = gate.entries(4).await;
    assert_eq!(
        entries[0]["decided_by"],
        "rule too_much failed: it divides by zero"
    );
    assert_eq!(entries[1]["decided_by"], "rule too_much");
    judge_told(gate).await;
}

/// What operators read of the failed rule.
async fn judge_told(gate: Gate) {
    let log = gate.log();
    let line = log
        .lines()
        .find(|line| line.contains("a rule of a contract cannot be judged"))
        .unwrap_or_else(|| panic!("{log}"));
    assert!(
        line.contains("bank__transfer")
            && line.contains("too_much")
            && line.contains("it divides by zero"),
        "{line}"
    );
    let metrics = gate.operators("/metrics").await;
    let is_counted = |line: &str| {
        line.starts_with("toolgate_calls_total{") && line.contains("code=\"rule_failed\"")
    };
    assert!(metrics.lines().any(is_counted), "{metrics}");
    let setup = gate.stop().await;
    let (exit, said, wrong) = run(
        &setup,
        &[
            "explain",
            "--config",
            "toolgate.yaml",
            "--agent",
            "clerk",
            "--tool",
            "bank__transfer",
            "--arguments",
            "{\"amount\": 0}",
        ],
    )
    .await;
    assert_eq!((exit, wrong.as_str()), (1, ""), "{said}");
    assert!(
        said.contains(
            "rules       refused  rule_failed: `too_much` cannot be judged: it divides by zero"
        ),
        "{said}"
    );
}

/// A caller of which nobody knows the model may lose tools without a word: `check` and `doctor` name
/// it, unless the configuration says which schemas it is shown.
#[tokio::test]
async fn a_caller_without_a_model_is_told_of() {
    let union = json!({ "type": "object", "anyOf": [{ "required": ["a"] }, { "required": ["b"] }],
        "properties": { "a": { "type": "string" }, "b": { "type": "string" } } });
    let tools = vec![
        json!({ "name": "either", "inputSchema": union }),
        tool("plain"),
    ];
    let scripted = ScriptedServer::with(tools).await;
    let callers = "
  - { agent: bare, token: token-of-agent-bare }
  - { agent: known, token: token-of-agent-known, model: openai/gpt-5 }
  - { agent: fitted, token: token-of-agent-fitted, schemas: { profile: portable } }
  - { agent: chosen, token: token-of-agent-chosen, schemas: { profile: none } }
  - { agent: blind, token: token-of-agent-blind }
";
    let policy = "layers: { agent: { blind: { deny: [bank__either] } } }
contracts:
  bank__either: { purpose: test, actions: [read], secrets: [] }
  bank__plain: { purpose: test, actions: [read], secrets: [] }
";
    let setup = setup(&scripted, policy).callers(callers);
    setup.write();
    let warning = "the caller `bare` has no `model`, and providers refuse or drop tools whose schema is a choice at its root: bank__either";
    let told = |out: &str| out.matches("has no `model`").count();
    let (exit, out, _) = run(&setup, &["check", "--connect", "."]).await;
    assert!(
        exit == 0 && out.contains(warning) && told(&out) == 1,
        "{out}"
    );
    let (exit, out, _) = run(&setup, &["doctor", "--config", "toolgate.yaml"]).await;
    assert!(
        exit == 0 && out.contains(warning) && told(&out) == 1,
        "{out}"
    );
    let setup = setup.more("pins: toolgate.pins.yaml");
    setup.write();
    let (exit, said, wrong) = run(&setup, &["pins", "approve", "--all"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    for verb in [&["check", "."][..], &["check", "--connect", "."]] {
        let (exit, out, _) = run(&setup, verb).await;
        assert!(
            exit == 0 && out.contains(warning) && told(&out) == 1,
            "{out}"
        );
    }
}
