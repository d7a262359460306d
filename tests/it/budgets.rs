//! Budgets under load: many tasks of many agents at once, each allowed less than it tries
//! (003-105).

use crate::harness::agent::Agent;
use crate::harness::answer::{Answer, code};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::{until, until_or};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Agents; each names its tasks as the others do, and shares no budget with them.
const AGENTS: [&str; 4] = ["ann", "bob", "cem", "dot"];
/// Tasks of each agent, two of each kind.
const TASKS: usize = 8;
/// Calls that each task tries.
const TRIES: usize = 40;
/// Calls under way at once; toolgate takes 256.
const AT_ONCE: usize = 200;

const POLICY: &str = "contracts:
  oracle__add: { purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: notes, rollback: { tool: oracle__remove } }, budget: { max_calls_per_task: 10 } }
  oracle__remove: { purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: notes, rollback: { tool: oracle__add } } }
  oracle__dear: { purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: notes, rollback: { tool: oracle__remove } }, budget: { cost: 2.5 } }
  oracle__read: { purpose: a test, actions: [read], secrets: [] }
budgets: { global: { max_tool_calls: 16, max_cost: 19 } }
";

/// What the tasks of one kind call, how many of their calls may run, and what the others are
/// refused with.
struct BudgetKind {
    tools: [&'static str; 2],
    most: usize,
    code: &'static str,
    dimension: &'static str,
}

const KINDS: [BudgetKind; 4] = [
    BudgetKind {
        tools: ["add", "add"],
        most: 10,
        code: "budget_calls_exceeded",
        dimension: "calls_per_task",
    },
    BudgetKind {
        tools: ["remove", "remove"],
        most: 16,
        code: "budget_exceeded",
        dimension: "tool_calls",
    },
    BudgetKind {
        tools: ["remove", "read"],
        most: 16,
        code: "budget_exceeded",
        dimension: "tool_calls",
    },
    // Seven of 2.5 units each; an eighth is more than 19.
    BudgetKind {
        tools: ["dear", "dear"],
        most: 7,
        code: "budget_exceeded",
        dimension: "cost",
    },
];

fn kind(task: usize) -> &'static BudgetKind {
    &KINDS[task % KINDS.len()]
}

async fn stage() -> (ToolServer, Gate) {
    let tools = ["add", "remove", "dear", "read"];
    let script = tools.iter().fold(Script::new(), |script, tool| {
        script.tool(tool, Behaviour::Answers)
    });
    let server = script.start().await;
    let caller = |agent: &str| {
        format!(
            "  - {{ agent: {agent}, token: \"{}\", tenant: t_001 }}\n",
            token(agent)
        )
    };
    let setup = Setup::new().server("oracle", &server).policy(POLICY);
    let setup = setup.callers(&AGENTS.map(caller).concat());
    // More than there are cores: calls overtake each other between any two steps.
    (
        server,
        setup.environment("TOKIO_WORKER_THREADS", "4").start().await,
    )
}

fn token(agent: &str) -> String {
    format!("token-of-the-agent-{agent}")
}

/// One call of a task, in a session of its own, so that it waits for no other.
async fn call(agent: &Agent, task: usize, one: (&str, usize)) -> Answer {
    let (name, n) = one;
    let meta = json!({ "dev.toolgate/task": format!("task {task}"), "dev.toolgate/session": format!("{task} {n}") });
    let arguments = json!({ "agent": name, "task": task, "n": n });
    let tool = format!("oracle__{}", kind(task).tools[n % 2]);
    agent
        .modern(
            "tools/call",
            json!({ "name": tool, "arguments": arguments, "_meta": meta }),
        )
        .await
}

/// The sum of the series of a metric whose labels hold all of these.
fn sum(page: &str, metric: &str, labels: &[&str]) -> f64 {
    let series = page.lines().filter(|line| {
        line.strip_prefix(metric)
            .is_some_and(|rest| rest.starts_with([' ', '{']))
    });
    let series = series.filter(|line| labels.iter().all(|label| line.contains(label)));
    series
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum()
}

/// How many of the values have which key.
fn counted<T>(values: &[T], key: impl Fn(&T) -> String) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(key(value)).or_default() += 1;
    }
    counts
}

#[expect(clippy::cast_precision_loss, reason = "a count of calls")]
fn number(count: usize) -> f64 {
    count as f64
}

/// 003-27, 003-40, 003-105, 003-119: 32 tasks try 40 calls each, all at once. In each exactly as
/// many run as its budget allows, the tool server's own count says so, all others are refused with
/// that budget's code, and metrics and ledger say the same.
#[tokio::test]
async fn no_task_runs_more_than_its_budget_allows() {
    let (server, gate) = stage().await;
    let calls = (0..TRIES)
        .flat_map(|n| (0..TASKS).flat_map(move |task| AGENTS.map(|name| (name, task, n))));
    let calls = calls.map(|(name, task, n)| {
        let agent = gate.agent().token(&token(name));
        async move { (name, task, call(&agent, task, (name, n)).await) }
    });
    let answers: Vec<(&str, usize, Answer)> = stream::iter(calls)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let tasks = AGENTS.len() * TASKS;
    let (tried, allowed) = (
        tasks * TRIES,
        tasks / KINDS.len() * KINDS.iter().map(|kind| kind.most).sum::<usize>(),
    );
    assert_eq!(answers.len(), tried);

    let ran = server.executions();
    let by_task = counted(&ran, |one| {
        format!(
            "{} {}",
            one.arguments["agent"].as_str().unwrap(),
            one.arguments["task"]
        )
    });
    let answered = counted(&answers, |(name, task, answer)| {
        format!("{name} {task} {}", answer.refusal())
    });
    for name in AGENTS {
        for task in 0..TASKS {
            let BudgetKind { most, code, .. } = kind(task);
            assert_eq!(
                by_task.get(&format!("{name} {task}")),
                Some(most),
                "{name}, task {task}: executions"
            );
            let told =
                ["", code].map(|code| answered.get(&format!("{name} {task} {code}")).copied());
            assert_eq!(
                told,
                [Some(*most), Some(TRIES - most)],
                "{name}, task {task}: {answered:?}"
            );
        }
    }
    for (name, task, answer) in answers.iter().filter(|(.., answer)| !answer.is_done()) {
        let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
        assert_eq!(
            decision["dimension"],
            kind(*task).dimension,
            "{name}, task {task}: {answer:?}"
        );
        assert!(answer.words().contains("did not run"), "{answer:?}");
    }

    judge_metrics(&gate, tasks, (tried, allowed)).await;

    judge_ledger(&gate, (tried, allowed)).await;
}

async fn judge_metrics(gate: &Gate, tasks: usize, (tried, allowed): (usize, usize)) {
    let metrics = gate.operators("/metrics").await;
    let refused = |code: &str| {
        let kinds = KINDS
            .iter()
            .filter(|kind| kind.code == code)
            .map(|kind| TRIES - kind.most);
        tasks / KINDS.len() * kinds.sum::<usize>()
    };
    for code in ["budget_exceeded", "budget_calls_exceeded"] {
        let label = format!("code=\"{code}\"");
        let counted = sum(
            &metrics,
            "toolgate_calls_total",
            &[&label, "outcome=\"refused\""],
        );
        assert!(
            (counted - number(refused(code))).abs() < 0.5,
            "{code}: {counted} of {}",
            refused(code)
        );
    }
    let sent = sum(&metrics, "toolgate_tool_calls_total", &[]);
    assert!(
        (sent - number(allowed)).abs() < 0.5,
        "{sent} were sent, {allowed} are allowed: executed over budget"
    );
    let all = sum(&metrics, "toolgate_calls_total", &[]);
    assert!((all - number(tried)).abs() < 0.5, "{all} were judged");
}

/// The ledger's rate of overruns is what was configured, too, and nothing that was refused was
/// sent.
async fn judge_ledger(gate: &Gate, (tried, allowed): (usize, usize)) {
    let words = || format!("{tried} entries; log:\n{}", gate.log());
    let look = || async { Some(gate.ledger().await).filter(|entries| entries.len() >= tried) };
    let entries: Vec<Value> = until_or(words, look).await;
    let sent: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["attempts"] != 0)
        .collect();
    assert_eq!((entries.len(), sent.len()), (tried, allowed));
    for entry in &entries {
        let task: usize = entry["task"]
            .as_str()
            .unwrap()
            .trim_start_matches("task ")
            .parse()
            .unwrap();
        let expected = if entry["attempts"] == 0 {
            json!(kind(task).code)
        } else {
            Value::Null
        };
        assert_eq!(entry["aborted_reason"], expected, "{entry}");
    }
}

/// A server whose tool says what it cost, behind a toolgate that lets a task spend 10 on two calls.
async fn bank() -> (ScriptedServer, Gate) {
    let bank = ScriptedServer::with(vec![tool("rate")]).await;
    bank.answers(|seen| match seen.method() {
        "tools/call" => Reply::Result(json!({ "content": [], "structuredContent": { "cost": 1 } })),
        _ => Reply::Result(json!({})),
    });
    let gate = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", bank.url()))
        .policy(
            "contracts:\n  bank__rate: { purpose: a test, actions: [read], secrets: [], budget: { max_calls_per_task: 3, cost: 8, cost_from: /cost } }\n\
             budgets: { global: { max_cost: 10 } }\n",
        )
        .start()
        .await;
    (bank, gate)
}

/// 003-105; policy §4.9: 8 are set aside for a call, and it costs what its result says, also where
/// it changes nothing.
#[tokio::test]
async fn a_read_costs_what_its_result_says() {
    let (bank, gate) = bank().await;
    let agent = gate.agent();
    for n in 0..3 {
        let answer = agent.call("bank__rate", json!({ "n": n })).await;
        assert_eq!(code(&answer), None, "{n}: {answer}");
    }
    let answer = agent.call("bank__rate", json!({ "n": 3 })).await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("budget_calls_exceeded"),
        "{answer}"
    );
    let costs: Vec<Value> = gate
        .entries(4)
        .await
        .iter()
        .map(|entry| entry["cost"].clone())
        .collect();
    assert_eq!(costs, [json!(1.0), json!(1.0), json!(1.0), Value::Null]);
    assert_eq!(bank.executions(), 3);
}

/// guarantees §4: what never left takes nothing of a budget, and is no attempt.
#[tokio::test]
async fn a_call_that_never_left_is_given_back() {
    let (bank, gate) = bank().await;
    let agent = gate.agent();
    bank.down();
    for n in 0..4 {
        let answer = agent.call("bank__rate", json!({ "n": n })).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("upstream_unavailable"),
            "{n}: {answer}"
        );
    }
    for entry in gate.entries(4).await {
        assert_eq!(entry["attempts"].as_u64().unwrap_or(0), 0, "{entry}");
    }
    bank.up().await;
    until("a call is answered again", || async {
        let answer = agent.call("bank__rate", json!({ "n": 9 })).await;
        code(&answer).is_none().then_some(())
    })
    .await;
}
