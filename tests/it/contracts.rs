//! What a contract says beyond who may call: variants, drafts, what errors mean, and arguments that
//! must be there.

mod drafts;
mod probes;
mod undo;
mod unkeyed;

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::{Settings, Setup};
use serde_json::{Value, json};

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [clerk] }
  - { agent: chief, token: token-of-the-chief, tenant: t_001, roles: [clerk, chief] }
";

const POLICY: &str = r#"
contracts:
  billing__create:
    purpose: Create a draft.
    actions: [write]
    permission: { tenant: /tenant_id }
    idempotency: { derive: arguments, ttl: 1h }
    side_effect: { writes: invoices(draft), rollback: { tool: billing__discard, arguments: { id: result#/invoice/id, by: "action#" } } }
    secrets: []
    audit: [customer]
  billing__send:
    purpose: Send a draft.
    actions: [notify]
    permission: anyone
    confirms: { tool: billing__create, draft: /id, result: /invoice/id }
    side_effect: { writes: post, rollback: { tool: billing__recall } }
    secrets: []
  billing__discard: { purpose: Discard a draft., actions: [write], side_effect: { writes: invoices(draft), rollback: { tool: billing__create } }, secrets: [], permission: { roles: [clerk] } }
  billing__recall: { purpose: Recalls what was sent or charged., actions: [write], permission: anyone, side_effect: { writes: post, rollback: { tool: billing__send } }, secrets: [] }
  billing__record:
    purpose: Several things with one record.
    actions: [read, write]
    permission: anyone
    secrets: []
    audit: [id]
    variants:
      by: /action
      cases:
        list: { actions: [read] }
        delete:
          actions: [write]
          permission: { roles: [chief] }
          budget: { max_calls_per_task: 2 }
          side_effect: { writes: records(deleted), rollback: { tool: billing__recall } }
  billing__get_*: { purpose: Look., actions: [read], secrets: [] }
  billing__charge:
    purpose: Charge.
    actions: [write]
    permission: { roles: [clerk] }
    idempotency: { derive: [/n] }
    output:
      errors:
        - { says: busy, means: retryable }
        - { at: /error/code, equals: NO_ACCOUNT, means: not_executed }
        - { says: wire cut, means: unknown }
        - { code: -32603, means: failed }
    side_effect: { writes: charges, rollback: { tool: billing__recall } }
    secrets: []
"#;

async fn stage() -> (ScriptedServer, Gate) {
    let names = [
        "create", "send", "discard", "record", "get_one", "get_two", "put", "charge",
    ];
    let scripted = ScriptedServer::with(names.map(tool).to_vec()).await;
    let servers = vec![("billing", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: POLICY.to_owned(),
        observe: false,
    };
    (scripted, Gate::start(settings).await)
}

fn result(structured: &Value) -> Reply {
    Reply::Result(
        json!({ "content": [], "structuredContent": structured, "resultType": "complete" }),
    )
}

/// A call in `task`.
async fn call(agent: &Agent, task: &str, name: &str, arguments: Value) -> Value {
    let params = json!({ "name": format!("billing__{name}"), "arguments": arguments, "_meta": { "dev.toolgate/task": task } });
    agent.ask("tools/call", params).await
}

fn draft(customer: &str) -> Value {
    json!({ "tenant_id": "t_001", "customer": customer })
}

fn decision(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.toolgate/decision"]
}

/// 002-32, 003-22, 003-27: the argument chooses what a call needs and what it is counted as; what
/// chooses nothing is refused.
#[tokio::test]
async fn an_argument_chooses_between_variants() {
    let (scripted, gate) = stage().await;
    let [clerk, chief] =
        ["clerk", "chief"].map(|who| gate.agent().token(&format!("token-of-the-{who}")));
    let record = |action: Value, id: u32| json!({ "action": action, "id": id });
    for (agent, arguments, expected) in [
        (&clerk, record(json!("list"), 1), None),
        (&clerk, record(json!("delete"), 1), Some("rbac_denied")),
        (&clerk, record(json!("Delete"), 1), Some("schema_invalid")),
        (&clerk, json!({ "id": 1 }), Some("schema_invalid")),
        (&chief, record(json!("purge"), 1), Some("schema_invalid")),
        (&chief, record(json!("list"), 1), None),
        (&chief, record(json!("delete"), 1), None),
        (&chief, record(json!("delete"), 2), None),
        (&chief, record(json!("list"), 2), None),
        (
            &chief,
            record(json!("delete"), 3),
            Some("budget_calls_exceeded"),
        ),
        (&chief, record(json!("list"), 3), None),
    ] {
        let before = scripted.executions();
        let answer = call(agent, "t", "record", arguments.clone()).await;
        assert_eq!(code(&answer).as_deref(), expected, "{arguments}: {answer}");
        assert_eq!(
            scripted.executions() - before,
            usize::from(expected.is_none())
        );
    }
    let unknown = call(&chief, "t", "record", record(json!("purge"), 1)).await;
    assert_eq!(decision(&unknown)["pointer"], "/action");
    assert!(
        unknown["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("one of delete, list"),
        "{unknown}"
    );
    let entries = gate.entries(12).await;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry["variant"].as_str(), entry["state"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told[..3],
        [
            (Some("list"), "collect"),
            (Some("delete"), "execute"),
            (None, "execute")
        ]
    );
    assert_eq!(
        (entries[6]["actions"].clone(), entries[6]["writes"].clone()),
        (json!(["write"]), json!("records(deleted)"))
    );
}

/// 002-16, 002-30: one contract for several tools of a server; a tool that no contract is for stays
/// hidden.
#[tokio::test]
async fn a_pattern_is_a_contract_for_what_it_matches() {
    let (_scripted, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-clerk");
    let tools = agent.tools().await;
    assert!(
        tools.contains(&"billing__get_one".to_owned())
            && tools.contains(&"billing__get_two".to_owned()),
        "{tools:?}"
    );
    assert!(!tools.contains(&"billing__put".to_owned()), "{tools:?}");
    assert_eq!(code(&call(&agent, "t", "get_two", json!({})).await), None);
    assert_eq!(
        code(&call(&agent, "t", "put", json!({})).await).as_deref(),
        Some("tool_not_allowlisted")
    );
}

/// What the server answers; what the agent reads of it: code, meaning, retry; whether the same call
/// is sent again.
type ErrorCase = (
    Result<Value, Value>,
    Option<&'static str>,
    Option<&'static str>,
    &'static str,
    bool,
);

/// 003-50, guarantees §4: what an error means is what the contract says: whether the call may be
/// sent again, was not done, is over, or may have been done.
#[tokio::test]
async fn an_error_means_what_the_contract_says() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-clerk");
    let error = |text: &str, structured: Value| {
        json!({ "content": [{ "type": "text", "text": text }], "structuredContent": structured, "isError": true,
            "resultType": "complete" })
    };
    let protocol = json!({ "jsonrpc": "2.0", "error": { "code": -32603, "message": "internal" } });
    let none = json!({});
    let cases: [ErrorCase; 5] = [
        (
            Ok(error("the bank is busy", none.clone())),
            None,
            Some("retryable"),
            "same_key",
            true,
        ),
        (
            Ok(error("no", json!({ "error": { "code": "NO_ACCOUNT" } }))),
            None,
            Some("not_executed"),
            "never",
            false,
        ),
        (
            Ok(error("wire cut", none.clone())),
            Some("outcome_unknown"),
            Some("unknown"),
            "never",
            false,
        ),
        (Ok(error("other", none)), None, None, "never", false),
        (Err(protocol), None, None, "never", false),
    ];
    for (n, (answered, expected, meaning, retry, again)) in cases.into_iter().enumerate() {
        scripted.forget();
        let is_result = answered.is_ok();
        scripted.answers(move |_| match &answered {
            Ok(result) => Reply::Result(result.clone()),
            Err(message) => Reply::Message(message.clone()),
        });
        let first = call(&agent, "t", "charge", json!({ "n": n })).await;
        if is_result {
            assert_eq!(code(&first).as_deref(), expected, "{n}: {first}");
            assert_eq!(
                (
                    decision(&first)["error"].as_str(),
                    decision(&first)["retry"].as_str()
                ),
                (meaning, Some(retry)),
                "{n}"
            );
        } else {
            assert_eq!(first["error"]["code"], -32603, "{first}");
        }
        let _second = call(&agent, "t", "charge", json!({ "n": n })).await;
        assert_eq!(scripted.executions(), if again { 2 } else { 1 }, "{n}");
    }
}

/// 002-05, 002-11: a server that is there only after the policy was loaded is compared with it as
/// well, before anything of it can be called.
#[tokio::test]
async fn a_tool_that_comes_later_is_compared_with_its_contract() {
    let schema = json!({ "type": "object", "properties": { "tenant": { "type": "string" } } });
    let scripted = ScriptedServer::with(vec![
        json!({ "name": "pay", "inputSchema": schema }),
        tool("read"),
    ])
    .await;
    scripted.down();
    let policy = "contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay: { purpose: Pay., actions: [write], permission: { tenant: /tenant_id }, side_effect: { writes: test, rollback: { tool: bank__undo } }, secrets: [] }
  bank__read: { purpose: Look., actions: [read], secrets: [] }
";
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .callers(CALLERS)
        .policy(policy);
    let gate = setup.begin().await;
    let agent = gate.agent().token("token-of-the-clerk");
    let call = json!({ "name": "bank__pay", "arguments": { "tenant": "t_001" } });
    scripted.up().await;
    crate::harness::until("the server is there", || async {
        let answer = agent.ask("tools/call", call.clone()).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("tool_not_allowlisted"),
            "{answer}"
        );
        (agent.tools().await == ["bank__read"]).then_some(())
    })
    .await;
    let answer = agent.ask("tools/call", call).await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("tool_not_allowlisted"),
        "{answer}"
    );
    let withheld = gate.readiness().await["servers"][0]["withheld"].to_string();
    assert!(
        withheld.contains("its input schema has no `tenant_id`"),
        "{withheld}"
    );
    assert_eq!(scripted.executions(), 0);
}

/// 002-05, 002-11: a tool without the argument that its contract decides by is withheld, and
/// operators are told why.
#[tokio::test]
async fn a_tool_that_its_contract_cannot_hold_is_withheld() {
    let schema = |argument: &str| json!({ "name": "pay", "inputSchema": { "type": "object", "properties": { argument: { "type": "string" } } } });
    let scripted = ScriptedServer::with(vec![schema("tenant")]).await;
    let policy = "contracts:\n  bank__pay:\n    purpose: Pay.\n    actions: [write]\n    permission: { tenant: /tenant_id }\n    \
                  side_effect: { writes: test, rollback: { tool: bank__undo } }\n    secrets: []\n  bank__undo: { purpose: Takes it \
                  back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: bank__pay } } }\n";
    let servers = vec![("bank", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: policy.to_owned(),
        observe: false,
    };
    let gate = Gate::start(settings).await;
    let agent = gate.agent().token("token-of-the-clerk");
    assert_eq!(agent.tools().await, [""; 0]);
    let refused = agent.call("bank__pay", json!({ "tenant": "t_001" })).await;
    assert_eq!(code(&refused).as_deref(), Some("tool_not_allowlisted"));
    assert_eq!(scripted.executions(), 0);
    let withheld = &gate.readiness().await["servers"][0]["withheld"];
    let why = "`bank__pay`: its input schema has no `tenant_id`, by which its contract decides (`permission.tenant`)";
    assert_eq!(withheld, &json!([why]));
    assert!(
        gate.entries(1).await[0]["decided_by"]
            .as_str()
            .unwrap()
            .contains("no `tenant_id`")
    );
    let (exit, out, _) = run(&gate.setup, &["check", "--connect", "."]).await;
    assert_eq!(exit, 1, "{out}");
    assert!(
        out.contains("error: the tool's input schema has no `tenant_id`, so the tool is withheld"),
        "{out}"
    );
    insta::assert_snapshot!(
        "check_connect",
        regex::Regex::new("policy [0-9a-f]{12}")
            .unwrap()
            .replace(&out, "policy VERSION")
    );
    // The server mends it.
    scripted.changes_tools(vec![schema("tenant_id")]).await;
    let listed = || async { (agent.tools().await == ["bank__pay"]).then_some(()) };
    crate::harness::until("the tool is offered", listed).await;
    assert_eq!(
        code(
            &agent
                .call("bank__pay", json!({ "tenant_id": "t_001" }))
                .await
        ),
        None
    );
}
