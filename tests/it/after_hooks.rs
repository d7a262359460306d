//! Programs of the operator's that hear how a call ended (001-30, 001-33 … 001-36, 001-A8): once,
//! whatever became of it, with the final arguments; nobody waits for them, and nothing they do
//! changes an answer.

use crate::harness::agent::Agent;
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::hook_server::{HookReply, HookServer, Told};
use crate::harness::setup::{Setup, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Each tool, what it does and what its contract says.
const TOOLS: [(&str, &str); 9] = [
    (
        "answers",
        "actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, idempotency: { derive: arguments }",
    ),
    ("says", "actions: [read]"),
    ("long", "actions: [read]"),
    (
        "fails",
        "actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }",
    ),
    ("errs", "actions: [read]"),
    (
        "never",
        "actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, budget: { timeout_ms: 300 }",
    ),
    ("broken", "actions: [read]"),
    ("held", "actions: [read]"),
    ("hidden", "actions: [read], owner_only: true"),
];

async fn stage(
    hooks: &HookServer,
    hook: &[(&str, &str, &str)],
    more: &str,
) -> (ToolServer, Gate, Agent) {
    let content = |text: &str| json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" });
    let mut failed = content("no");
    failed["isError"] = json!(true);
    let behaviours = [
        Behaviour::Answers,
        Behaviour::Says(content("said")),
        Behaviour::Says(content(&"x".repeat(300 << 10))),
        Behaviour::Says(failed),
        Behaviour::Error(-32010),
        Behaviour::Never,
        Behaviour::HangsUp,
        Behaviour::Held,
        Behaviour::Answers,
    ];
    let mut script = Script::new();
    let mut policy = format!("contracts:\n{}\n", undo("oracle__answers"));
    for ((tool, contract), behaviour) in TOOLS.into_iter().zip(behaviours) {
        script = script.tool(tool, behaviour);
        let rewrite = "rewrite: [ { name: source, set: { /source: toolgate } } ]";
        writeln!(
            policy,
            "  oracle__{tool}: {{ purpose: a test, secrets: [], {contract}, {rewrite} }}"
        )
        .unwrap();
    }
    let server = script.start().await;
    let gate = Setup::new()
        .server("oracle", &server)
        .policy(&policy)
        .more(&hooks.hooks(hook, more))
        .start()
        .await;
    let agent = gate.agent();
    (server, gate, agent)
}

/// What was told of the calls of one tool.
fn of<'t>(told: &'t [Told], tool: &str) -> Vec<&'t Value> {
    told.iter()
        .map(|told| &told.body)
        .filter(|body| body["tool"] == tool)
        .collect()
}

/// 001-30, 001-33, 001-34, 001-A8: exactly once for each call that was handed to its tool server:
/// answered, failed, with an error, too late, broken off, cancelled; with the final arguments, and
/// with the result or the error. Not for what was refused, nor for an answer that is told again.
#[tokio::test]
async fn an_after_hook_hears_of_each_ending_once() {
    let hooks = HookServer::start().await;
    let (server, gate, agent) = stage(&hooks, &[("it", "after", "oracle__*")], "").await;
    for (tool, outcome, error) in [
        ("answers", "answered", Value::Null),
        ("says", "answered", Value::Null),
        ("long", "answered", Value::Null),
        ("fails", "answered", Value::Null),
        ("errs", "answered", json!(-32010)),
        ("never", "unknown", json!("outcome_unknown")),
        ("broken", "failed", json!("upstream_failed")),
    ] {
        let answer = agent
            .modern_call(&format!("oracle__{tool}"), json!({ "n": 1 }))
            .await;
        until(&format!("{tool} is told"), || async {
            (!of(&hooks.told(), tool).is_empty()).then_some(())
        })
        .await;
        let told = hooks.told();
        let body = of(&told, tool)[0];
        assert_eq!(
            body["arguments"],
            json!({ "n": 1, "source": "toolgate" }),
            "{body}"
        );
        assert_eq!(
            (&body["type"], &body["outcome"]),
            (&json!("toolgate.after"), &json!(outcome)),
            "{body}"
        );
        assert_eq!(body["error"]["code"], error, "{body}");
        judge_result(tool, body, &answer);
    }
    is_told_of_a_cancelled_call(&hooks, &server, &agent).await;
    // Refused, and replayed: neither was handed to the tool server.
    assert_eq!(
        agent.modern_call("oracle__hidden", json!({})).await.error(),
        -32602
    );
    assert!(
        agent
            .modern_call("oracle__answers", json!({ "n": 1 }))
            .await
            .is_done()
    );
    // What is told last comes last: a call of before that was to be told again would have been.
    agent.modern_call("oracle__says", json!({ "n": 2 })).await;
    until("the last is told", || async {
        (of(&hooks.told(), "says").len() == 2).then_some(())
    })
    .await;
    let metrics = || async { gate.operators("/metrics").await };
    let delivered = "toolgate_after_hooks_total{outcome=\"delivered\"} 9\n";
    until("all is counted", || async {
        metrics().await.contains(delivered).then_some(())
    })
    .await;
    assert_eq!(hooks.told().len(), 9, "{:#?}", hooks.told());
    judge_ids(&gate, &hooks).await;
}

async fn is_told_of_a_cancelled_call(hooks: &HookServer, server: &ToolServer, agent: &Agent) {
    // Cancelled by an agent that leaves.
    let leaving = agent.clone();
    let calling = tokio::spawn(async move { leaving.modern_call("oracle__held", json!({})).await });
    until("the call is at its tool server", || async {
        server
            .executions()
            .iter()
            .any(|execution| execution.tool == "held")
            .then_some(())
    })
    .await;
    calling.abort();
    until("the end is told", || async {
        (!of(&hooks.told(), "held").is_empty()).then_some(())
    })
    .await;
    assert_eq!(of(&hooks.told(), "held")[0]["error"]["code"], "cancelled");
}

/// Each call that is told is one of the ledger, and told once.
async fn judge_ids(gate: &Gate, hooks: &HookServer) {
    let entries = gate.entries(11).await;
    let known: BTreeSet<&str> = entries
        .iter()
        .map(|entry| entry["action_id"].as_str().unwrap())
        .collect();
    let told = hooks.told();
    let ids: BTreeSet<&str> = told
        .iter()
        .map(|told| told.body["call_id"].as_str().unwrap())
        .collect();
    assert!(
        ids.len() == 9 && ids.is_subset(&known),
        "{ids:?} of {known:?}"
    );
}

/// What a hook is shown of a result.
fn judge_result(tool: &str, body: &Value, answer: &Answer) {
    match tool {
        "answers" | "says" | "fails" => {
            let mut result = answer.message()["result"].clone();
            result["_meta"].as_object_mut().unwrap().clear();
            result
                .as_object_mut()
                .unwrap()
                .retain(|key, _| key != "_meta");
            assert_eq!(body["result"], result, "{body}");
        }
        // Too long to be shown; how long it is, is said.
        "long" => assert!(
            body.get("result").is_none() && body["bytes"].as_u64() > Some(300 << 10),
            "{body}"
        ),
        _ => assert!(body.get("result").is_none(), "{body}"),
    }
}

/// 001-35, 001-26: while after-hooks hold everything, calls are answered as ever; what is too much
/// for the queue is dropped and counted, and what was in it is told in the end.
#[tokio::test]
async fn a_slow_after_hook_delays_nobody() {
    let hooks = HookServer::start().await;
    hooks.says(|_| HookReply::Held);
    let (_server, gate, agent) =
        stage(&hooks, &[("it", "after", "oracle__says")], ", timeout: 30s").await;
    for n in 0..300 {
        assert!(
            agent
                .modern_call("oracle__says", json!({ "n": n }))
                .await
                .refusal()
                .is_empty()
        );
    }
    let counted = |series: &'static str| {
        let gate = &gate;
        async move {
            gate.operators("/metrics")
                .await
                .contains(series)
                .then_some(())
        }
    };
    until("44 are dropped", || {
        counted("toolgate_after_hooks_total{outcome=\"dropped\"} 44\n")
    })
    .await;
    assert!(hooks.told().len() <= 64, "{}", hooks.told().len());
    hooks.release(300);
    until("256 are told", || {
        counted("toolgate_after_hooks_total{outcome=\"delivered\"} 256\n")
    })
    .await;
    assert_eq!(hooks.told().len(), 256);
}

/// 001-36: an after-hook that fails changes no answer; it is counted, and said only to an operator
/// who debugs.
#[tokio::test]
async fn a_failing_after_hook_changes_nothing() {
    let hooks = HookServer::start().await;
    let (_server, gate, agent) = stage(
        &hooks,
        &[("it", "after", "oracle__says"), ("two", "after", "*")],
        "",
    )
    .await;
    let rows = [
        HookReply::Status(500),
        HookReply::Cut,
        HookReply::Redirects("/elsewhere".to_owned()),
        HookReply::Text("x".repeat(2 << 20)),
    ];
    for (n, says) in rows.iter().enumerate() {
        let said = says.clone();
        hooks.says(move |told| {
            if told.hook == "it" {
                said.clone()
            } else {
                HookReply::Text("garbage".to_owned())
            }
        });
        let answer = agent.modern_call("oracle__says", json!({ "n": n })).await;
        assert_eq!(
            answer.message()["result"]["content"][0]["text"],
            "said",
            "{says:?}: {answer:?}"
        );
        hooks.heard(2 * (n + 1)).await;
    }
    let metrics = || async { gate.operators("/metrics").await };
    for series in ["failed\"} 4\n", "delivered\"} 4\n"] {
        let series = format!("toolgate_after_hooks_total{{outcome=\"{series}");
        until(&series, || async {
            metrics().await.contains(&series).then_some(())
        })
        .await;
    }
    assert!(!gate.log().contains("after-hook"), "{}", gate.log());
}

/// A signal ends toolgate when after-hooks have heard of the last calls, or soon after.
#[tokio::test]
async fn the_last_calls_are_told_at_the_end() {
    let hooks = HookServer::start().await;
    let (_server, mut gate, agent) =
        stage(&hooks, &[("it", "after", "oracle__says")], ", timeout: 30s").await;
    hooks.says(|_| HookReply::Held);
    agent.modern_call("oracle__says", json!({})).await;
    hooks.heard(1).await;
    gate.terminate();
    hooks.release(1);
    assert!(gate.wait().await.success());
    assert_eq!(hooks.told().len(), 1);
}
