//! Failed calls of a task: in all, in a row, and of one tool (003-92).

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
    staged(POLICY).await
}

async fn staged(policy: &str) -> (ScriptedServer, Gate) {
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
        policy: policy.to_owned(),
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

/// 003-92: a tool that failed so often in a row is not called again in its task: nothing is sent, and the
/// agent reads to go another way, which it can. A success of the tool starts over; other tasks are
/// not concerned; an operator closes the circuit again.
#[tokio::test]
async fn the_circuit_of_a_tool_opens_for_its_task() {
    let limits = POLICY.split_once("budgets:").unwrap().0;
    let limits = format!("{limits}budgets: {{ global: {{ max_tool_failures: 2 }} }}\n");
    let (scripted, gate) = staged(&limits).await;
    for (wire, agent) in [
        ("modern", gate.agent()),
        ("legacy", gate.agent().initialized().await),
    ] {
        for name in ["read", "pay"] {
            let (task, other) = (format!("{wire}-{name}"), format!("{wire}-{name}-2"));
            let way_out = if name == "read" { "pay" } else { "read" };
            let calls = [
                (name, "fails"),
                (name, "works"),
                (name, "breaks"),
                // What another tool does is nothing to this one.
                (way_out, "works"),
                (name, "fails"),
            ];
            for (number, (tool, does)) in calls.into_iter().enumerate() {
                let before = scripted.executions();
                let answer = call(&agent, &task, (tool, does, number)).await;
                assert_eq!(scripted.executions(), before + 1, "{task}: {answer}");
            }
            let before = scripted.executions();
            let refused = call(&agent, &task, (name, "works", 9)).await;
            assert_eq!(
                code(&refused).as_deref(),
                Some("budget_exceeded"),
                "{refused}"
            );
            let decision = &refused["result"]["_meta"]["dev.toolgate/decision"];
            assert_eq!(decision["dimension"], "tool_failures", "{refused}");
            assert_eq!(
                decision["budget_remaining"]["tool_failures"], 0,
                "{refused}"
            );
            let words = refused["result"]["content"][0]["text"].as_str().unwrap();
            for said in [
                "has failed 2 times in a row",
                "did not run",
                "Use another tool",
            ] {
                assert!(words.contains(said), "{said}: {words}");
            }
            assert_eq!(scripted.executions(), before, "{task}");
            for (task, tool) in [(&task, way_out), (&other, name)] {
                let answer = call(&agent, task, (tool, "works", 10)).await;
                assert_eq!(code(&answer), None, "{task} {tool}: {answer}");
            }
        }
    }
}
