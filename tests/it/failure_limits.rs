//! Failed calls of a task: in all, and in a row (003-92).

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};

const POLICY: &str = "
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__read: { purpose: test, actions: [read], secrets: [] }
  oracle__pay: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [] }
budgets: { global: { max_failures: 4, max_failures_in_a_row: 2 } }
";

async fn stage() -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["read", "pay"].map(tool).to_vec()).await;
    scripted.answers(
        |seen| match seen.body["params"]["arguments"]["does"].as_str() {
            Some("fails") => {
                Reply::Result(json!({ "content": [], "isError": true, "resultType": "complete" }))
            }
            Some("breaks") => Reply::Status(502),
            _ => Reply::Result(json!({ "content": [], "resultType": "complete" })),
        },
    );
    let servers = vec![("oracle", scripted.url())];
    let gate = Gate::start(Settings {
        servers,
        callers: "",
        more: "",
        policy: POLICY.to_owned(),
        observe: false,
    })
    .await;
    (scripted, gate)
}

async fn call(agent: &Agent, task: &str, (name, does, number): (&str, &str, usize)) -> Value {
    let meta = json!({ "dev.toolgate/task": task });
    let arguments = json!({ "does": does, "of": format!("{task}-{number}") });
    agent
        .ask(
            "tools/call",
            json!({ "name": format!("oracle__{name}"), "arguments": arguments, "_meta": meta }),
        )
        .await
}

/// What a task does, call by call, and which budget refuses the call after that; none: it passes.
type Story = (
    &'static [(&'static str, &'static str)],
    Option<&'static str>,
);

const TASKS: [Story; 6] = [
    (&[("read", "fails")], None),
    (
        &[("read", "fails"), ("pay", "fails")],
        Some("failures_in_a_row"),
    ),
    (
        &[("read", "breaks"), ("pay", "breaks")],
        Some("failures_in_a_row"),
    ),
    (
        &[("pay", "fails"), ("read", "works"), ("pay", "fails")],
        None,
    ),
    (
        &[("read", "fails"), ("pay", "works"), ("read", "fails")],
        None,
    ),
    (
        &[
            ("pay", "fails"),
            ("pay", "works"),
            ("pay", "breaks"),
            ("read", "works"),
            ("read", "breaks"),
            ("read", "works"),
            ("read", "fails"),
        ],
        Some("failures"),
    ),
];

/// Each failure counts, however the call failed; a success ends a row and takes nothing from all.
/// What is refused for it is not sent, says which budget it is, and changes nothing.
#[tokio::test]
async fn a_task_stops_after_its_failures() {
    let (scripted, gate) = stage().await;
    for (wire, agent) in [
        ("modern", gate.agent()),
        ("legacy", gate.agent().initialized().await),
    ] {
        for (number, (calls, expected)) in TASKS.into_iter().enumerate() {
            let task = format!("{wire}-{number}");
            for (number, (name, does)) in calls.iter().enumerate() {
                let before = scripted.executions();
                let answer = call(&agent, &task, (name, does, number)).await;
                assert_eq!(
                    scripted.executions(),
                    before + 1,
                    "{task}, {number}: {answer}"
                );
            }
            for name in ["read", "pay"] {
                let before = scripted.executions();
                let answer = call(&agent, &task, (name, "works", calls.len())).await;
                assert_eq!(
                    code(&answer).as_deref(),
                    expected.map(|_| "budget_exceeded"),
                    "{task}: {answer}"
                );
                let decision = &answer["result"]["_meta"]["dev.toolgate/decision"];
                assert_eq!(decision["dimension"].as_str(), expected, "{task}: {answer}");
                assert!(
                    decision["budget_remaining"]["failures_in_a_row"].is_u64(),
                    "{task}: {answer}"
                );
                assert_eq!(
                    scripted.executions() - before,
                    usize::from(expected.is_none()),
                    "{task}"
                );
            }
        }
    }
}
