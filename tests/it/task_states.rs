//! Where a task is: as its agent says, or as its calls tell (003-04, 003-08, 003-10, 003-73 …
//! 003-85).

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::until;
use serde_json::{Value, json};

const POLICY: &str = r#"
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: bank__pay } } }
  bank__pay:
    purpose: test
    actions: [write]
    side_effect: { writes: test, rollback: { tool: bank__undo } }
    rules: [ { code: too_much, when: "arguments.amount > 100" } ]
    idempotency: { require: true }
    budget: { max_calls_per_task: 2 }
    secrets: []
  bank__look: { purpose: test, actions: [read], secrets: [] }
"#;

async fn stage(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["pay", "look", "drop"].map(tool).to_vec()).await;
    let servers = vec![("bank", scripted.url())];
    let settings = Settings {
        servers,
        callers: "",
        more: "",
        policy: POLICY.to_owned(),
        observe,
    };
    (scripted, Gate::start(settings).await)
}

/// A call of `task`; `state`: what its agent reports, if anything.
async fn call(agent: &Agent, (task, state): (&str, Value), name: &str, arguments: Value) -> Value {
    let mut meta = json!({ "dev.toolgate/task": task });
    meta["dev.toolgate/idempotencyKey"] = json!(format!("{task}-{arguments}"));
    if !state.is_null() {
        meta["dev.toolgate/state"] = state;
    }
    let params = json!({ "name": format!("bank__{name}"), "arguments": arguments, "_meta": meta });
    agent.ask("tools/call", params).await
}

fn amount(amount: u32) -> Value {
    json!({ "amount": amount })
}

/// Reported state, tool, arguments, the code that is read (none: the tool answered), and the
/// entry's state, event, code and the state before.
type Step = (
    Value,
    &'static str,
    Value,
    Option<&'static str>,
    [Option<&'static str>; 4],
);

/// The life of one task, call by call.
fn life() -> Vec<Step> {
    let reported = |state: &str| json!(state);
    let none = Value::Null;
    let too_early = Some("state_out_of_order");
    vec![
        (
            reported("execute"),
            "pay",
            amount(1),
            too_early,
            [Some("execute"), Some("fail"), too_early, None],
        ),
        (
            reported("summarize"),
            "look",
            json!({}),
            too_early,
            [Some("summarize"), Some("fail"), too_early, None],
        ),
        (
            reported("collect"),
            "look",
            json!({}),
            None,
            [Some("collect"), Some("exit"), None, None],
        ),
        (
            none.clone(),
            "look",
            json!({}),
            None,
            [Some("collect"), Some("exit"), None, None],
        ),
        (
            reported("plan"),
            "pay",
            amount(1),
            Some("planned"),
            [Some("plan"), Some("exit"), None, Some("collect")],
        ),
        // A step that would be refused ends the plan, whatever it is refused for.
        (
            reported("plan"),
            "drop",
            json!({}),
            Some("tool_not_allowlisted"),
            [
                Some("plan"),
                Some("fail"),
                Some("tool_not_allowlisted"),
                None,
            ],
        ),
        (
            reported("execute"),
            "pay",
            amount(1),
            too_early,
            [Some("execute"), Some("fail"), too_early, Some("collect")],
        ),
        (
            reported("plan"),
            "pay",
            amount(1),
            Some("planned"),
            [Some("plan"), Some("exit"), None, Some("collect")],
        ),
        (
            reported("plan"),
            "pay",
            amount(101),
            Some("too_much"),
            [Some("plan"), Some("fail"), Some("too_much"), None],
        ),
        (
            reported("plan"),
            "pay",
            amount(1),
            Some("planned"),
            [Some("plan"), Some("exit"), None, Some("collect")],
        ),
        (
            reported("plan"),
            "look",
            json!({}),
            Some("planned"),
            [Some("plan"), Some("exit"), None, Some("plan")],
        ),
        (
            reported("execute"),
            "pay",
            amount(1),
            None,
            [Some("execute"), Some("exit"), None, Some("plan")],
        ),
        (
            reported("execute"),
            "look",
            json!({}),
            None,
            [Some("execute"), Some("exit"), None, Some("execute")],
        ),
        (
            none,
            "pay",
            amount(2),
            None,
            [Some("execute"), Some("exit"), None, None],
        ),
        (
            reported("execute"),
            "pay",
            amount(3),
            Some("budget_calls_exceeded"),
            [
                Some("execute"),
                Some("fail"),
                Some("budget_calls_exceeded"),
                Some("execute"),
            ],
        ),
        (
            reported("summarize"),
            "look",
            json!({}),
            None,
            [Some("summarize"), Some("exit"), None, Some("execute")],
        ),
        (
            reported("summarize"),
            "pay",
            amount(4),
            Some("schema_invalid"),
            [Some("execute"), Some("fail"), Some("schema_invalid"), None],
        ),
        (
            reported("thinking"),
            "look",
            json!({}),
            Some("schema_invalid"),
            [Some("collect"), Some("fail"), Some("schema_invalid"), None],
        ),
        // In doubt back to asking; for what is left, with what is left of the budget.
        (
            reported("collect"),
            "look",
            json!({}),
            None,
            [Some("collect"), Some("exit"), None, Some("summarize")],
        ),
        (
            reported("plan"),
            "pay",
            amount(3),
            Some("budget_calls_exceeded"),
            [
                Some("plan"),
                Some("fail"),
                Some("budget_calls_exceeded"),
                Some("collect"),
            ],
        ),
    ]
}

/// 003-04, 003-10, 003-73 … 003-79, 003-81 … 003-85, 003-P3b: every state with its ways in and out,
/// also those that fail, on both wires.
#[tokio::test]
async fn a_task_is_held_to_what_its_agent_reports() {
    let (scripted, gate) = stage(false).await;
    let mut count = 0;
    for (wire, agent) in [
        ("modern", gate.agent()),
        ("legacy", gate.agent().initialized().await),
    ] {
        scripted.forget();
        let mut paid = Vec::new();
        for (number, (state, name, arguments, expected, recorded)) in life().into_iter().enumerate()
        {
            let what = format!("{wire}, step {number}: {state} {name} {arguments}");
            let before = scripted.executions();
            let answer = call(&agent, (wire, state.clone()), name, arguments).await;
            assert_eq!(code(&answer).as_deref(), expected, "{what}: {answer}");
            assert_eq!(
                scripted.executions() - before,
                usize::from(expected.is_none()),
                "{what}"
            );
            count += 1;
            let entry = gate.entries(count).await.pop().unwrap();
            let found = ["state", "event", "aborted_reason", "state_before"]
                .map(|field| entry[field].as_str());
            assert_eq!(found, recorded, "{what}: {entry}");
            assert_eq!(
                (&entry["task"], entry["trace_id"].is_string()),
                (&json!(wire), true),
                "003-80: {entry}"
            );
            assert_eq!(
                entry["params_hash"].as_str().unwrap().len(),
                64,
                "003-78: {entry}"
            );
            assert_eq!(
                entry["result_hash"].is_string(),
                expected.is_none(),
                "003-78: {entry}"
            );
            if recorded[0] == Some("execute") && name == "pay" && expected.is_none() {
                paid.push(entry["action_id"].clone());
                assert!(
                    entry["budget_remaining"]["calls_per_task"].is_u64(),
                    "003-85: {entry}"
                );
            }
            let decision = &answer["result"]["_meta"]["dev.toolgate/decision"];
            let summary = state == "summarize" && expected.is_none();
            assert_eq!(
                decision["evidence"],
                if summary { json!(paid) } else { Value::Null },
                "003-76: {what}"
            );
            if expected == Some("planned") {
                let text = answer["result"]["content"][0]["text"].as_str().unwrap();
                assert!(
                    text.contains("did not run") && answer["result"]["isError"] == true,
                    "{text}"
                );
                assert_eq!(
                    (&entry["outcome"], &entry["attempts"]),
                    (&json!("planned"), &json!(0))
                );
            }
        }
        assert!(
            scripted
                .seen()
                .iter()
                .all(|seen| !seen.body.to_string().contains("dev.toolgate/state"))
        );
    }
    let data = gate.path("data");
    let (_, planned, _) = run(
        &gate.setup,
        &[
            "ledger",
            "list",
            "--state",
            "plan",
            "--outcome",
            "planned",
            "--data",
            data.to_str().unwrap(),
        ],
    )
    .await;
    assert_eq!(planned.lines().count(), 1 + 8, "{planned}");
}

/// 003-74: what a plan lacks is said as it will be said later, and a plan takes nothing: neither a
/// key nor a budget.
#[tokio::test]
async fn a_plan_is_judged_as_the_call_will_be() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.agent();
    let meta = json!({ "dev.toolgate/task": "t", "dev.toolgate/state": "plan" });
    let params = json!({ "name": "bank__pay", "arguments": amount(1), "_meta": meta });
    let answer = agent.ask("tools/call", params).await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("idempotency_key_required"),
        "{answer}"
    );
    for _ in 0..5 {
        let answer = call(&agent, ("t", json!("plan")), "pay", amount(1)).await;
        assert_eq!(code(&answer).as_deref(), Some("planned"), "{answer}");
        let left = &answer["result"]["_meta"]["dev.toolgate/decision"]["budget_remaining"];
        assert_eq!(left["calls_per_task"], 1, "{answer}");
    }
    assert_eq!(scripted.executions(), 0);
    assert_eq!(
        code(&call(&agent, ("t", json!("execute")), "pay", amount(1)).await),
        None
    );
    assert_eq!(scripted.executions(), 1);
}

/// A plan is not sent in observe mode either; everything else is.
#[tokio::test]
async fn observe_mode_sends_no_plan() {
    let (scripted, gate) = stage(true).await;
    for (state, expected) in [
        ("plan", Some("planned")),
        ("execute", None),
        ("summarize", None),
        ("Plan", Some("schema_invalid")),
    ] {
        let before = scripted.executions();
        let answer = call(&gate.agent(), ("t", json!(state)), "look", json!({})).await;
        assert_eq!(code(&answer).as_deref(), expected, "{state}: {answer}");
        assert_eq!(
            scripted.executions() - before,
            usize::from(expected.is_none()),
            "{state}"
        );
    }
}

/// Where a task is outlives the process.
#[tokio::test]
async fn a_task_is_where_it_was_after_a_crash() {
    let (scripted, mut gate) = stage(false).await;
    call(&gate.agent(), ("t", json!("plan")), "pay", amount(1)).await;
    assert_eq!(
        code(&call(&gate.agent(), ("t", json!("execute")), "pay", amount(1)).await),
        None
    );
    gate.kill().await;
    let gate = gate.setup.clone().start().await;
    let answer = until("the summary", || async {
        let answer = call(&gate.agent(), ("t", json!("summarize")), "look", json!({})).await;
        code(&answer).is_none().then_some(answer)
    })
    .await;
    let evidence = &answer["result"]["_meta"]["dev.toolgate/decision"]["evidence"];
    assert_eq!(
        (evidence.as_array().map(Vec::len), scripted.executions()),
        (Some(1), 2),
        "{answer}"
    );
}
