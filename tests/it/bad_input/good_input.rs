//! The same scenery with good input: a table of refusals proves nothing while nothing passes.

use super::{Behaviour, Execution, Script, Setup, governed, json};

#[tokio::test]
async fn good_calls_run_once_on_both_wires_and_are_recorded_as_they_ran() {
    let (oracle, gate) = governed().await;
    let answer = gate
        .agent()
        .modern_call("oracle__write", json!({ "b": 1, "a": "x" }))
        .await;
    assert!(answer.is_done(), "{answer:?}");
    let answer = gate
        .agent()
        .at("oracle")
        .modern_call("write", json!({ "n": 2 }))
        .await;
    assert!(answer.is_done(), "{answer:?}");
    let legacy = gate.agent().declaring(json!({})).await;
    let answer = legacy.legacy_call("oracle__read", json!({ "n": 3 })).await;
    assert!(answer.is_done(), "{answer:?}");
    let (executions, entries) = (oracle.executions(), gate.entries(3).await);
    assert_eq!(
        executions
            .iter()
            .map(|run| run.tool.as_str())
            .collect::<Vec<_>>(),
        ["write", "write", "read"]
    );
    let digests: Vec<String> = executions.iter().map(Execution::digest).collect();
    let recorded: Vec<&str> = entries
        .iter()
        .map(|entry| entry["params_hash"].as_str().unwrap())
        .collect();
    assert_eq!(recorded, digests);
}

#[tokio::test]
async fn a3_an_argument_that_differs_from_a_declared_one_in_case_only_is_refused() {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let oracle = Script::new()
        .tool_with("open", &schema, Behaviour::Answers)
        .start()
        .await;
    let policy = "contracts:
  fs__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  fs__open: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: fs__undo } }, secrets: [], arguments: { properties: { path: { enum: [/ok] } } } }
";
    let gate = Setup::new()
        .server("fs", &oracle)
        .policy(policy)
        .start()
        .await;
    for arguments in [json!({ "Path": "/etc" }), json!({ "path": "/etc" })] {
        let answer = gate
            .agent()
            .modern_call("fs__open", arguments.clone())
            .await;
        assert_eq!(
            answer.refusal(),
            "schema_invalid",
            "{arguments}: {answer:?}"
        );
        assert!(
            !answer.text().contains("/etc"),
            "{arguments}: echoes a value"
        );
    }
    assert!(oracle.executions().is_empty());
    assert!(
        gate.agent()
            .modern_call("fs__open", json!({ "path": "/ok" }))
            .await
            .is_done()
    );
}

/// Three contracts that name what `path` may be, each in its way, and two that let more in.
const NAMES_SOME: &str = "contracts:
  fs__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  fs__by_schema: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: fs__undo } }, secrets: [], arguments: { properties: { path: { enum: [/ok] } } } }
  fs__by_rule: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: fs__undo } }, secrets: [], rules: [ { code: no, when: \"arguments.path != '/ok'\" } ] }
  fs__by_tenant: { purpose: p, actions: [write], side_effect: { writes: test, rollback: { tool: fs__undo } }, secrets: [], permission: { resource: { pointer: /path, allow: [/ok] } } }
  fs__set_free:
    purpose: p
    actions: [write]
    permission: anyone
    side_effect: { writes: test, rollback: { tool: fs__undo } }
    secrets: []
    arguments: { properties: { path: { enum: [/ok] } }, additionalProperties: true }
  fs__unconstrained: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: fs__undo } }, secrets: [] }
";

/// What a tool may take for an argument that the contract constrains, and nobody judged, never
/// comes to it.
#[tokio::test]
async fn a3_an_argument_that_nobody_named_is_refused_where_the_contract_names_some() {
    let open = json!({ "type": "object" });
    let tools = [
        "by_schema",
        "by_rule",
        "by_tenant",
        "set_free",
        "unconstrained",
    ];
    let script = tools.iter().fold(Script::new(), |script, tool| {
        script.tool_with(tool, &open, Behaviour::Answers)
    });
    let oracle = script.start().await;
    let gate = Setup::new()
        .server("fs", &oracle)
        .policy(NAMES_SOME)
        .start()
        .await;
    let legacy = gate.agent().declaring(json!({})).await;
    for tool in &tools[..3] {
        let name = format!("fs__{tool}");
        for alias in ["file", "Path", "PATH", "path ", "pa\u{17f}h", "\u{440}ath"] {
            let arguments = json!({ "path": "/ok", alias: "/etc" });
            for answer in [
                gate.agent().modern_call(&name, arguments.clone()).await,
                legacy.legacy_call(&name, arguments.clone()).await,
            ] {
                let early = answer.text().contains("differ in case only");
                assert!(
                    early || answer.refusal() == "schema_invalid",
                    "{name} {alias}: {answer:?}"
                );
                assert!(
                    !answer.text().contains("/etc"),
                    "{name} {alias}: echoes a value"
                );
            }
        }
    }
    assert!(oracle.executions().is_empty());
    for tool in tools {
        let arguments = if tools[..3].contains(&tool) {
            json!({ "path": "/ok" })
        } else {
            json!({ "path": "/ok", "file": 1 })
        };
        let answer = gate
            .agent()
            .modern_call(&format!("fs__{tool}"), arguments)
            .await;
        assert!(answer.is_done(), "{tool}: {answer:?}");
    }
    assert_eq!(oracle.executions().len(), tools.len());
}
