//! What hooks are told of a call, and what not.

use super::{CALLERS, POLICY, TOKEN, given};
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::setup::Setup;
use crate::harness::tool_server::script::digest;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::{Value, json};

/// Names that some models cannot be shown.
fn dotted() -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": ["customer.id"], "properties": {
        "customer.id": { "type": "string" }, "priority": { "enum": [1, 2] }, "note": { "type": "string" },
        "where": { "type": "object", "properties": { "zip.code": { "type": "string" } } } } })
}

/// 001-22, 001-A6, 001-P5: behind a profile that shows tool and arguments under other names, hooks
/// and steps see the tool's own, and what they make is sent under them; the ledger has what was
/// read back and what was sent.
#[tokio::test]
async fn hooks_see_the_names_of_the_tool() {
    let hooks = HookServer::start().await;
    hooks.says(|told| {
        let id = told.body["arguments"]["customer.id"].as_str().unwrap();
        HookReply::Json(json!({ "arguments": { "customer.id": format!("{id}!") } }))
    });
    let callers =
        "  - { agent: bot, token: token-of-the-bot-of-tenant-one, model: google/gemini-3 }\n";
    let own = "order_".repeat(11);
    let policy = format!(
        "contracts: {{ oracle__{own}: {{ purpose: a test, actions: [read], secrets: [],
        rewrite: [ {{ name: note, set: {{ /note: seen, /where/zip.code: \"1\" }} }} ] }} }}\n"
    );
    let server = Script::new()
        .tool_with(&own, &dotted(), Behaviour::Answers)
        .start()
        .await;
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(callers)
        .policy(&policy);
    let gate = setup
        .more(&hooks.hooks(&[("it", "before", "*")], ""))
        .start()
        .await;
    let agent = gate.agent().token(TOKEN);
    let listed = agent.modern("tools/list", json!({})).await;
    let shown = &listed.message()["result"]["tools"][0];
    let name = shown["name"].as_str().unwrap();
    assert!(
        name.starts_with("oracle__order_") && name.len() <= 64,
        "{shown}"
    );
    let id = shown_as(&shown["inputSchema"], "customer_id_");
    let zip = shown_as(&shown["inputSchema"]["properties"]["where"], "zip_code_");
    let answer = agent
        .modern_call(
            name,
            json!({ id: "c", "priority": "2", "where": { zip: "0" } }),
        )
        .await;
    assert!(answer.is_done(), "{answer:?}");
    let made = |id: &str| json!({ "customer.id": id, "priority": 2, "where": { "zip.code": "1" }, "note": "seen" });
    let told = hooks.told();
    assert_eq!(
        (&told[0].body["server"], &told[0].body["tool"]),
        (&json!("oracle"), &json!(own))
    );
    assert_eq!(told[0].body["arguments"], made("c"));
    let execution = server.executions().remove(0);
    assert_eq!(
        (execution.tool.as_str(), &execution.arguments),
        (own.as_str(), &made("c!"))
    );
    judge_entry(&gate.entries(1).await[0], &own, &made("c!"));
}

fn judge_entry(entry: &Value, own: &str, made: &Value) {
    let meant = json!({ "customer.id": "c", "priority": 2, "where": { "zip.code": "0" } });
    assert_eq!(
        (&entry["tool"], &entry["rewritten_by"]),
        (&json!(format!("oracle__{own}")), &json!(["note", "it"]))
    );
    assert_eq!(entry["params_hash"], digest(made));
    assert_eq!(
        entry["original_params_hash"],
        digest(&meant),
        "as the tool's own schema means what was written"
    );
}

/// The name under which a model is shown a property.
fn shown_as(schema: &Value, start: &str) -> String {
    let names = schema["properties"].as_object().unwrap();
    names
        .keys()
        .find(|name| name.starts_with(start) && !name.contains('.'))
        .unwrap()
        .clone()
}

/// policy §1 decision 11 in observe mode: no hook is asked, and so nothing is changed or blocked,
/// and the entry says who was not asked; after-hooks hear of the call as it was sent.
#[tokio::test]
async fn observe_mode_asks_no_hook() {
    let hooks = HookServer::start().await;
    hooks.says(|told| match told.hook.as_str() {
        "before" => HookReply::Json(json!({ "block": true, "arguments": { "amount": 1 } })),
        _ => HookReply::Status(204),
    });
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let lines = hooks.hooks(&[("before", "before", "*"), ("after", "after", "*")], "");
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .policy(POLICY)
        .more(&lines)
        .mode("observe");
    let gate = setup.start().await;
    assert!(
        gate.agent()
            .token(TOKEN)
            .modern_call("oracle__pay", given())
            .await
            .is_done()
    );
    let told = hooks.heard(1).await;
    assert_eq!(server.executions()[0].arguments, given());
    assert_eq!(
        (
            told.len(),
            told[0].hook.as_str(),
            &told[0].body["arguments"]
        ),
        (1, "after", &given()),
        "{told:#?}"
    );
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(
        (entry.get("would_refuse"), entry.get("rewritten_by")),
        (None, None),
        "{entry}"
    );
    assert_eq!(entry["unasked"], json!(["hook before"]), "{entry}");
}

/// 002-27, threat-model §3F F4: hooks, before and after, are told the reference; the value is in
/// the copy that leaves only.
#[tokio::test]
async fn hooks_see_references_and_no_values() {
    const CANARY: &str = "canary-b51e0";
    let hooks = HookServer::start().await;
    hooks.says(|_| HookReply::Json(json!({ "arguments": { "seen": true } })));
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let lines = hooks.hooks(
        &[
            ("one", "before", "oracle__pay"),
            ("two", "after", "oracle__pay"),
        ],
        "",
    );
    let bound =
        "secrets: { key: { env: KEY, for: [ { server: oracle, tool: pay, pointer: /token } ] } }\n";
    let policy = "contracts: { oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }, oracle__pay: { purpose: a test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [/token] } }\n";
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .policy(policy);
    let gate = setup
        .more(&format!("{lines}{bound}"))
        .environment("KEY", CANARY)
        .start()
        .await;
    let written = json!({ "token": "<secret_ref:key>" });
    assert!(
        gate.agent()
            .token(TOKEN)
            .modern_call("oracle__pay", written.clone())
            .await
            .is_done()
    );
    assert_eq!(
        server.executions()[0].arguments,
        json!({ "token": CANARY, "seen": true })
    );
    let told = until("both hooks were told", || async {
        Some(hooks.told()).filter(|told| told.len() == 2)
    })
    .await;
    assert_eq!(told[0].body["arguments"], written);
    for told in told {
        assert!(!told.body.to_string().contains(CANARY), "{}", told.body);
    }
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(
        entry["params_hash"],
        digest(&json!({ "token": "<secret_ref:key>", "seen": true }))
    );
}
