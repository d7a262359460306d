//! Observe mode says what enforce mode would have refused.

use crate::harness::agent::Agent;
use crate::harness::gate::{Gate, runs};
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::table::rows;
use serde_json::{Value, json};

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [payer] }
";

const POLICY: &str = r#"
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__pay:
    purpose: test
    actions: [write]
    permission: { roles: [payer], tenant: /tenant_id }
    rules: [ { code: too_much, when: "arguments.amount > 100" } ]
    budget: { max_calls_per_task: 2 }
    side_effect: { writes: test, rollback: { tool: oracle__undo } }
    secrets: []
  oracle__keyed: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, idempotency: { require: true }, secrets: [] }
  oracle__read: { purpose: test, actions: [read], secrets: [] }
  oracle__send: { purpose: test, actions: [notify], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, confirms: { tool: oracle__pay, draft: /id, result: /id }, secrets: [] }
budgets: { agent: { clerk: { max_steps: 20 } } }
repetition: { warn: 2, stop: 3 }
"#;

/// A call of the clerk in the task of that name.
async fn call(gate: &Gate, tool: &str, arguments: &Value, task: &str) -> Value {
    let params =
        json!({ "name": tool, "arguments": arguments, "_meta": { "dev.toolgate/task": task } });
    gate.agent()
        .token("token-of-the-clerk")
        .ask("tools/call", params)
        .await
}

/// Tool, arguments, task, and the code of what enforce mode would have refused with.
const ROWS: &str = r#"
oracle__hidden | {}                             | a | tool_not_allowlisted
oracle__pay    | {"amount":1,"tenant_id":"t_999"}   | a | tenant_mismatch
oracle__pay    | {"amount":101,"tenant_id":"t_001"} | a | too_much
oracle__keyed  | {}                             | a | idempotency_key_required
oracle__pay    | {"amount":1,"tenant_id":"t_001"}   | b |
oracle__pay    | {"amount":2,"tenant_id":"t_001"}   | b |
oracle__pay    | {"amount":3,"tenant_id":"t_001"}   | b | budget_calls_exceeded
oracle__read   | {"q":1}                        | c |
oracle__read   | {"q":1}                        | c |
oracle__read   | {"q":1}                        | c |
oracle__read   | {"q":1}                        | c | loop_detected
"#;

/// What enforce mode would have refused stands in the same records and metrics, and the calls go
/// through. Tried for the steps `visible`, `permission`, `rules`, `repetition`, `idempotency` and
/// `budget`.
#[tokio::test]
async fn observe_mode_says_what_enforce_mode_would_refuse() {
    let scripted = ScriptedServer::with(
        ["pay", "read", "hidden", "keyed", "send"]
            .map(tool)
            .to_vec(),
    )
    .await;
    let servers = vec![("oracle", scripted.url())];
    let gate = Gate::start(Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: POLICY.to_owned(),
        observe: true,
    })
    .await;
    let rows = rows(ROWS);
    for (index, [tool, arguments, task, expected]) in rows.iter().enumerate() {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let expected = Some(*expected).filter(|code| !code.is_empty());
        let answer = call(&gate, tool, &arguments, task).await;
        assert_eq!(
            crate::harness::answer::code(&answer),
            None,
            "nothing is refused: {answer}"
        );
        let entry = gate.entries(index + 1).await.pop().unwrap();
        assert_eq!(
            (&entry["outcome"], entry["would_refuse"].as_str()),
            (&json!("answered"), expected),
            "{entry}"
        );
        if let Some(code) = expected {
            let series = format!(
                "toolgate_calls_total{{server=\"oracle\",tool=\"{tool}\",outcome=\"answered\",code=\"{code}\"}}"
            );
            assert!(gate.metric(&series).await >= 1.0, "{series}");
        }
    }
    assert_eq!(scripted.executions(), rows.len());
    // Nothing is claimed, so that no draft is known; nor is there one where an earlier step would
    // refuse.
    let answer = call(&gate, "oracle__send", &json!({ "id": "inv_1" }), "d").await;
    assert_eq!(crate::harness::answer::code(&answer), None, "{answer}");
    let entries = gate.entries(rows.len() + 1).await;
    let sent = entries.last().unwrap();
    assert_eq!(
        (sent.get("would_refuse"), &sent["unasked"]),
        (None, &json!(["confirms"])),
        "{sent}"
    );
    assert!(
        entries[..rows.len()]
            .iter()
            .all(|entry| entry.get("unasked").is_none()),
        "{entries:#?}"
    );
    let (_, listed, _) = runs(&gate.setup, "ledger list --data data --code loop_detected").await;
    assert!(listed.contains("(loop_detected)"), "{listed}");
}

/// A server of that era, which runs whatever tool it is asked for, and knows none named `gone`.
async fn obliging(modern: bool) -> ScriptedServer {
    let server = ScriptedServer::start(Offers {
        modern,
        legacy: !modern,
        tools: vec![tool("pay")],
        ..Offers::default()
    })
    .await;
    server.answers(|seen| {
        let name = seen.body["params"]["name"].as_str().unwrap_or_default();
        if name == "gone" {
            let error = json!({ "code": -32602, "message": "no gone here", "data": { "x": 1 } });
            return Reply::Message(json!({ "jsonrpc": "2.0", "error": error }));
        }
        let content = json!([{ "type": "text", "text": format!("{name} ran") }]);
        Reply::Result(json!({ "content": content, "resultType": "complete" }))
    });
    server
}

/// What an agent reads who calls tools that nobody lists, at an address where they have this prefix;
/// how many of its calls are recorded.
async fn calls_what_nobody_lists(agent: &Agent, prefix: &str, observes: bool) -> usize {
    for own in ["ghost", "spectre"] {
        let answer = agent
            .call(&format!("{prefix}{own}"), json!({ "a": 1 }))
            .await;
        let ran = &answer["result"]["content"][0]["text"];
        assert_eq!(*ran == format!("{own} ran"), observes, "{answer}");
        assert_eq!(answer["error"]["code"] == -32602, !observes, "{answer}");
    }
    let answer = agent.call(&format!("{prefix}gone"), json!({})).await;
    let error = &answer["error"];
    assert_eq!(error["code"], -32602, "{answer}");
    assert_eq!(error["message"] == "no gone here", observes, "{answer}");
    assert_eq!(error["data"] == json!({ "x": 1 }), observes, "{answer}");
    if prefix.is_empty() {
        return 3;
    }
    for nobodys in ["ghost", "other__ghost"] {
        let answer = agent.call(nobodys, json!({})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert_ne!(answer["error"]["message"], "no gone here", "{answer}");
    }
    5
}

/// guarantees §2: a tool that nobody lists is its server's to answer for, whatever the eras and the
/// address; what would be refused is recorded. In enforce mode nothing of it is sent.
#[tokio::test]
async fn a_server_answers_for_what_it_does_not_list() {
    for (mode, modern) in [
        ("observe", true),
        ("observe", false),
        ("enforce", true),
        ("enforce", false),
    ] {
        let server = obliging(modern).await;
        let gate = Setup::new()
            .server_with("oracle", &format!("url: \"{}\"", server.url()))
            .contracts(&[("oracle__pay", "write"), ("oracle__ghost", "write")])
            .mode(mode)
            .start()
            .await;
        let observes = mode == "observe";
        let agents = [
            (gate.agent(), "oracle__"),
            (gate.agent().at("oracle"), ""),
            (gate.legacy("/mcp").await, "oracle__"),
            (gate.legacy("/mcp/oracle").await, ""),
        ];
        let mut recorded = 0;
        for (agent, prefix) in &agents {
            recorded += calls_what_nobody_lists(agent, prefix, observes).await;
        }
        let expected = if observes { 3 * agents.len() } else { 0 };
        assert_eq!(server.executions(), expected, "{mode} {modern}");
        let entries = gate.entries(recorded).await;
        let sent = entries
            .iter()
            .filter(|entry| entry["outcome"] == "answered");
        for entry in sent.clone() {
            assert_eq!(entry["would_refuse"], "tool_not_allowlisted", "{entry}");
            assert!(entry.get("schema_hash").is_none(), "{entry}");
            let by = entry["decided_by"].as_str().unwrap_or_default();
            let has_contract = entry["tool"] == "oracle__ghost";
            assert_eq!(by == "no server offers the tool", has_contract, "{entry}");
        }
        assert_eq!(sent.count(), expected, "{entries:#?}");
    }
}
