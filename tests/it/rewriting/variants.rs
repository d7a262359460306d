//! Steps and the variant that a call becomes, with its key.

use super::TOKEN;
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::table::rows;
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::{Value, json};

/// A tool with two uses, of which the second one is not everybody's and changes something.
const VARIED: &str = "contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__file:
    purpose: a test
    actions: [read, write]
    permission: anyone
    secrets: []
    arguments: { properties: { action: { type: string }, id: {}, reason: { type: string } } }
    variants:
      by: /action
      cases:
        list: { actions: [read] }
        delete:
          actions: [write]
          side_effect: { writes: test, rollback: { tool: oracle__undo } }
          permission: { roles: [janitor] }
          arguments: { required: [id], properties: { id: { type: string } } }
          rules: [ { code: no_reason, when: \"!has(arguments.reason)\" } ]
";

const PEOPLE: &str =
    "  - { agent: bot, token: token-of-the-bot-of-tenant-one, tenant: t_001, roles: [teller] }
  - { agent: janitor, token: token-of-the-janitor-bot-one, tenant: t_001, roles: [janitor] }
";

/// Token, what becomes of the arguments, the code of the refusal, and the variant.
const VARIANTS: &str = r#"
bot                          | {"action":"delete","reason":"old"} | rbac_denied    | delete
token-of-the-janitor-bot-one | {"action":"delete"}                | no_reason      | delete
token-of-the-janitor-bot-one | {"action":"delete","id":1}         | schema_invalid | delete
token-of-the-janitor-bot-one | {"action":"Delete","reason":"old"} | schema_invalid |
token-of-the-janitor-bot-one | {"action":"delete","reason":"old"} |                | delete
"#;

/// 002-32, policy §1 decision 11: whether a step or a hook makes another use of the call, the final
/// arguments choose the variant: its permission, its schema, its rules, and whether the call is a
/// side effect that runs once.
#[tokio::test]
async fn the_final_arguments_choose_the_variant() {
    let steps = |set: &str| format!("{VARIED}    rewrite: [ {{ name: it, set: {set} }} ]\n");
    let hooks = HookServer::start().await;
    let lines = hooks.hooks(&[("it", "before", "oracle__file")], "");
    for [token, made, code, variant] in rows(VARIANTS) {
        let token = if token == "bot" { TOKEN } else { token };
        let made: Value = serde_json::from_str(made).unwrap();
        let variant = Some(variant).filter(|variant| !variant.is_empty());
        let pointers: serde_json::Map<_, _> = made
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (format!("/{name}"), value.clone()))
            .collect();
        let by_step = (steps(&Value::Object(pointers).to_string()), "");
        for (policy, more) in [by_step, (VARIED.to_owned(), lines.as_str())] {
            let says = made.clone();
            hooks.says(move |_| HookReply::Json(json!({ "arguments": says })));
            let server = Script::new().tool("file", Behaviour::Answers).start().await;
            let gate = Setup::new()
                .server("oracle", &server)
                .callers(PEOPLE)
                .policy(&policy)
                .more(more)
                .start()
                .await;
            let agent = gate.agent().token(token);
            let given = json!({ "action": "list", "id": "a" });
            for replayed in [false, true] {
                let answer = agent.modern_call("oracle__file", given.clone()).await;
                assert_eq!(answer.refusal(), code, "{made} {more}: {answer:?}");
                let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
                assert_eq!(
                    decision["replayed"] == true,
                    replayed && code.is_empty(),
                    "a side effect runs once: {decision}"
                );
            }
            assert_eq!(
                server.executions().len(),
                usize::from(code.is_empty()),
                "{made}"
            );
            let entry = gate.entries(2).await.remove(0);
            assert_eq!(entry["variant"].as_str(), variant, "{entry}");
            assert_eq!(entry["rewritten_by"], json!(["it"]), "{entry}");
        }
    }
}

/// guarantees §3, 004-24: what a call is known by is its agent's to say. A hook that gives it
/// another key, or one at all, blocks it; one that answers with the arguments it was told does not.
#[tokio::test]
async fn no_hook_gives_a_call_another_key() {
    let own = json!({ "type": "object", "properties": { "n": {}, "idempotency_key": { "type": "string" } } });
    let named =
        json!({ "type": "object", "properties": { "n": {}, "request": { "type": "string" } } });
    let hooks = HookServer::start().await;
    for (schema, section, holder) in [
        (&own, "derive: arguments", "idempotency_key"),
        (&named, "upstream: { argument: request }", "request"),
        (&named, "expose: true", "idempotency_key"),
    ] {
        let server = Script::new()
            .tool_with("pay", schema, Behaviour::Answers)
            .start()
            .await;
        let section = format!(", idempotency: {{ {section} }}");
        let contract = contract("oracle__pay", "write", &section);
        let undo = undo("oracle__pay");
        let policy = format!("contracts:\n{undo}\n  oracle__pay: {contract}\n");
        let lines = hooks.hooks(&[("it", "before", "*")], "");
        let gate = Setup::new()
            .server("oracle", &server)
            .policy(&policy)
            .more(&lines)
            .start()
            .await;
        let agent = gate.agent();
        for given in [json!({ "n": 1 }), json!({ "n": 1, holder: "mine" })] {
            hooks.says(move |_| HookReply::Json(json!({ "arguments": { holder: "another" } })));
            let answer = agent.modern_call("oracle__pay", given.clone()).await;
            assert_eq!(answer.refusal(), "hook_blocked", "{section} {given}");
            assert!(
                answer.words().contains("have another idempotency key"),
                "{answer:?}"
            );
            let entry = gate.entries(1).await.remove(0);
            assert_eq!(
                (&entry["stage"], &entry["decided_by"]),
                (&json!("rewrite"), &json!("hook it")),
                "{entry}"
            );
        }
        assert_eq!(server.executions().len(), 0, "{section}");
        hooks.says(|told| {
            let mut arguments = told.body["arguments"].clone();
            arguments["n"] = json!(2);
            HookReply::Json(json!({ "arguments": arguments }))
        });
        let mine = json!({ "n": 1, holder: "mine" });
        for replayed in [false, true] {
            let answer = agent.modern_call("oracle__pay", mine.clone()).await;
            let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
            assert_eq!(
                decision["replayed"] == true,
                replayed,
                "{section}: {answer:?}"
            );
        }
        assert_eq!(server.executions().len(), 1, "{section}");
    }
}

/// guarantees §3, 002-32: the key that an agent gave counts for what the call has become, too.
#[tokio::test]
async fn the_key_counts_for_the_variant_that_a_call_becomes() {
    let schema = json!({ "type": "object", "properties": { "action": {}, "id": {}, "idempotency_key": {} } });
    let server = Script::new()
        .tool_with("file", &schema, Behaviour::Answers)
        .start()
        .await;
    let policy = "contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__file:
    purpose: a test
    actions: [read, write]
    permission: anyone
    secrets: []
    side_effect: { writes: test, rollback: { tool: oracle__undo } }
    variants:
      by: /action
      cases: { list: { actions: [read] }, delete: { actions: [write], idempotency: { derive: [/id] } } }
    rewrite: [ { name: it, set: { /action: delete } } ]
";
    let gate = Setup::new()
        .server("oracle", &server)
        .policy(policy)
        .start()
        .await;
    let agent = gate.agent();
    for (key, runs) in [("one", 1), ("one", 1), ("two", 2)] {
        let given = json!({ "action": "list", "id": "a", "idempotency_key": key });
        assert!(agent.modern_call("oracle__file", given).await.is_done());
        assert_eq!(server.executions().len(), runs, "{key}");
    }
}

/// 002-32: a call that its agent may not make is not made another one first.
#[tokio::test]
async fn no_step_makes_a_variant_good() {
    let server = Script::new().tool("file", Behaviour::Answers).start().await;
    let policy = format!("{VARIED}    rewrite: [ {{ name: it, set: {{ /action: list }} }} ]\n");
    let gate = Setup::new()
        .server("oracle", &server)
        .callers(PEOPLE)
        .policy(&policy)
        .start()
        .await;
    let given = json!({ "action": "delete", "id": "a", "reason": "old" });
    assert_eq!(
        gate.agent()
            .token(TOKEN)
            .modern_call("oracle__file", given.clone())
            .await
            .refusal(),
        "rbac_denied"
    );
    assert_eq!(server.executions().len(), 0);
    let janitor = gate.agent().token("token-of-the-janitor-bot-one");
    for _ in 0..2 {
        assert!(
            janitor
                .modern_call("oracle__file", given.clone())
                .await
                .is_done()
        );
    }
    assert_eq!(server.executions().len(), 2, "what it has become is a read");
}
