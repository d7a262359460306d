//! Many at once: exactly as many calls run as may, each once, in the order of their session
//! (guarantees §5, §6; 003-85, 004-12, 004-16, 004-17, 004-25, 004-26, 004-28, 004-56).

use crate::harness::agent::{Agent, modern};
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::replay::untold;
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Execution, Script, ToolServer};
use crate::harness::{until, until_or};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

const PAY: &str = "oracle__pay";
/// Calls under way at once; toolgate takes 256.
const AT_ONCE: usize = 200;

/// The next request id: within a session each is used once.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// A token that nobody was given.
const FORGED: u64 = 1 << 50;

/// A tool server with `pay` and `read`, and a budget of so many calls of `pay` in one task.
async fn stage(behaviour: Behaviour, budget: Option<u64>) -> (ToolServer, Gate) {
    let mut script = Script::new();
    for tool in ["pay", "read"] {
        script = script.tool(tool, behaviour.clone());
    }
    let server = script.start().await;
    let budget = budget
        .map(|most| format!(", budget: {{ max_calls_per_task: {most} }}"))
        .unwrap_or_default();
    let policy = format!(
        "contracts:\n{}\n  {PAY}: {}\n  oracle__read: {}\n",
        undo(PAY),
        contract(PAY, "write", &budget),
        contract("oracle__read", "read", "")
    );
    let gate = Setup::new().server("oracle", &server).policy(&policy);
    // More than there are cores: calls overtake each other between any two steps.
    let gate = gate.environment("TOKIO_WORKER_THREADS", "4").start().await;
    (server, gate)
}

/// A call with members of `_meta` beside the envelope's, on the wire that `agent` speaks.
async fn call(agent: &Agent, (tool, key): (&str, &str), meta: &[(&str, Value)]) -> Answer {
    let mut message = modern(
        "tools/call",
        json!({ "name": tool, "arguments": { "key": key } }),
    );
    message["id"] = json!(NEXT.fetch_add(1, Ordering::Relaxed));
    let headers = match agent.session {
        Some(_) => {
            message["params"]["_meta"] = json!({});
            agent.headers()
        }
        None => agent.mirrored(&message),
    };
    for (name, value) in meta {
        message["params"]["_meta"][format!("dev.toolgate/{name}")] = value.clone();
    }
    agent.send(&headers, message.to_string().as_bytes()).await
}

fn decision(answer: &Answer) -> Value {
    answer.message()["result"]["_meta"]["dev.toolgate/decision"].clone()
}

fn left(answer: &Answer) -> u64 {
    let decision = decision(answer);
    decision["budget_remaining"]["calls_per_task"]
        .as_u64()
        .unwrap_or_else(|| panic!("{answer:?}"))
}

fn keys(executions: &[Execution]) -> BTreeSet<String> {
    executions
        .iter()
        .map(|execution| execution.arguments["key"].as_str().unwrap().to_owned())
        .collect()
}

fn token(execution: &Execution) -> u64 {
    execution.fence["token"]
        .as_u64()
        .unwrap_or_else(|| panic!("{execution:?}"))
}

/// guarantees §6: exactly as many calls pass as may under any concurrency, and nobody is told of
/// more than there is.
#[tokio::test]
async fn a_thousand_calls_get_ten_places() {
    let (server, gate) = stage(Behaviour::Answers, Some(10)).await;
    let agent = gate.agent();
    let calls = (0..1000).map(|n| {
        let agent = agent.clone();
        async move {
            let meta = [
                ("task", json!("the task")),
                ("session", json!(format!("session {n}"))),
            ];
            call(&agent, (PAY, &format!("key {n}")), &meta).await
        }
    });
    let answers: Vec<Answer> = stream::iter(calls)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let (done, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.is_done());
    assert_eq!(
        (
            done.len(),
            server.executions().len(),
            keys(&server.executions()).len()
        ),
        (10, 10, 10)
    );
    assert_eq!(refused.len(), 990);
    for answer in refused {
        assert_eq!(
            (answer.refusal().as_str(), left(answer)),
            ("budget_calls_exceeded", 0),
            "{answer:?}"
        );
    }
    let mut told: Vec<u64> = done.into_iter().map(left).collect();
    told.sort_unstable();
    assert!(
        told.iter()
            .zip(0..)
            .all(|(told, there_is)| *told <= there_is),
        "{told:?}"
    );
}

/// One after another each is told exactly what is left.
#[tokio::test]
async fn what_is_left_is_counted_down() {
    let (_server, gate) = stage(Behaviour::Answers, Some(3)).await;
    let agent = gate.agent();
    let mut told = Vec::new();
    for key in ["one", "two", "two", "three", "four"] {
        let answer = call(&agent, (PAY, key), &[]).await;
        told.push((answer.refusal(), left(&answer)));
    }
    let expected = [
        ("", 2),
        ("", 1),
        ("", 1),
        ("", 0),
        ("budget_calls_exceeded", 0),
    ];
    assert_eq!(told, expected.map(|(code, left)| (code.to_owned(), left)));
}

/// 004-16, 004-28, 004-60: the first arrivals of one key are one execution; all get its bytes.
#[tokio::test]
async fn a_hundred_first_arrivals_are_one_execution() {
    let (server, gate) = stage(Behaviour::Held, None).await;
    for wire in ["modern", "legacy"] {
        let before = server.executions().len();
        let agent = gate.agent();
        let agent = if wire == "legacy" {
            agent.declaring(json!({})).await
        } else {
            agent
        };
        let calls = (0..100).map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move {
                call(&agent, (PAY, "k"), &[("idempotencyKey", json!(wire))]).await
            })
        });
        let calls: Vec<_> = calls.collect();
        until("the tool runs", || async {
            (server.executions().len() > before).then_some(())
        })
        .await;
        server.release();
        let answers: Vec<Answer> = join_all(calls)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(server.executions().len(), before + 1, "{wire}");
        let replays = answers
            .iter()
            .filter(|answer| decision(answer)["replayed"] == true)
            .count();
        assert_eq!(replays, 99, "{wire}");
        let bytes: BTreeSet<String> = answers.iter().map(answered).collect();
        assert_eq!(bytes.len(), 1, "{wire}: {bytes:?}");
        assert!(
            bytes.first().is_some_and(|bytes| bytes.contains("done")),
            "{bytes:?}"
        );
    }
}

/// The bytes of the result up to our verdict, which comes last.
fn answered(answer: &Answer) -> String {
    let text = untold(&answer.text());
    let result = text
        .split_once("\"result\":")
        .and_then(|(_, result)| result.split_once("\"_meta\""));
    result.unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

/// 004-12, 004-17, 004-20, 004-25, 004-56: the calls of one session run one after another, each
/// with a newer token.
#[tokio::test]
async fn parallel_calls_of_a_session_run_one_after_another() {
    let (server, gate) = stage(Behaviour::Held, None).await;
    for (wire, round) in [("modern", 0), ("legacy", 1)] {
        let agent = gate.agent();
        let agent = if wire == "legacy" {
            agent.declaring(json!({})).await
        } else {
            agent
        };
        let calls = (0..50).map(|n| {
            let agent = agent.clone();
            tokio::spawn(async move {
                call(
                    &agent,
                    (PAY, &format!("{wire} {n}")),
                    &[("session", json!("one"))],
                )
                .await
            })
        });
        let calls: Vec<_> = calls.collect();
        for ran in round * 50 + 1..=round * 50 + 50 {
            let ended = || calls.iter().filter(|call| call.is_finished()).count();
            let words = || {
                format!(
                    "{wire}: call {ran} runs; {} have ended; log:\n{}",
                    ended(),
                    gate.log()
                )
            };
            until_or(words, || async {
                (server.executions().len() >= ran).then_some(())
            })
            .await;
            assert_eq!(server.executions().len(), ran, "two run at once");
            server.release();
        }
        for answer in join_all(calls).await {
            assert!(answer.unwrap().is_done());
        }
        assert_eq!(
            (server.executions().len(), server.most_held()),
            (round * 50 + 50, 1)
        );
        let ran = &server.executions()[round * 50..];
        assert!(
            ran.iter().map(token).is_sorted_by(|one, next| one < next),
            "tokens rise: {ran:?}"
        );
        assert!(
            ran.iter()
                .all(|one| one.fence["session"] == ran[0].fence["session"])
        );
        assert_eq!(keys(ran).len(), 50);
    }
}

/// 004-12: sessions don't wait for each other.
#[tokio::test]
async fn sessions_run_side_by_side() {
    let (server, gate) = stage(Behaviour::Held, None).await;
    let calls = (0..50).map(|n| {
        let agent = gate.agent();
        tokio::spawn(async move {
            call(
                &agent,
                (PAY, &format!("{n}")),
                &[("session", json!(format!("s{n}")))],
            )
            .await
        })
    });
    let calls: Vec<_> = calls.collect();
    // None of them is answered before all of them run.
    until("all fifty run at once", || async {
        (server.most_held() == 50).then_some(())
    })
    .await;
    (0..50).for_each(|_| server.release());
    for answer in join_all(calls).await {
        assert!(answer.unwrap().is_done());
    }
    let (executions, mut tokens) = (server.executions(), BTreeSet::new());
    assert_eq!((executions.len(), keys(&executions).len()), (50, 50));
    assert!(
        executions
            .iter()
            .all(|execution| tokens.insert(token(execution))),
        "no token is used twice"
    );
}

/// guarantees §5: reads of one session are not serialised, and don't wait for a side effect.
#[tokio::test]
async fn reads_wait_for_nobody() {
    let (server, gate) = stage(Behaviour::Held, None).await;
    let tools = std::iter::once(PAY)
        .chain(std::iter::repeat_n("oracle__read", 20))
        .enumerate();
    let calls = tools.map(|(n, tool)| {
        let agent = gate.agent();
        tokio::spawn(async move {
            call(
                &agent,
                (tool, &format!("{n}")),
                &[("session", json!("one"))],
            )
            .await
        })
    });
    let calls: Vec<_> = calls.collect();
    until("all run at once", || async {
        (server.most_held() == 21).then_some(())
    })
    .await;
    (0..21).for_each(|_| server.release());
    for answer in join_all(calls).await {
        assert!(answer.unwrap().is_done());
    }
}

/// 004-17, 004-26, 004-56: a token that an agent gives is checked and never raises ours.
#[tokio::test]
async fn a_stale_token_is_refused_and_a_forged_one_ignored() {
    let (server, gate) = stage(Behaviour::Answers, None).await;
    for agent in [gate.agent(), gate.agent().declaring(json!({})).await] {
        let before = server.executions().len();
        let fenced = async |key: &str, token: Option<u64>| {
            let mut meta = vec![
                ("session", json!("one")),
                ("idempotencyKey", json!(format!("{key} {before}"))),
            ];
            meta.extend(token.map(|token| ("fence", json!({ "token": token }))));
            call(&agent, (PAY, "k"), &meta).await
        };
        let newest = || token(server.executions().last().unwrap());
        assert!(fenced("first", None).await.is_done());
        let stale = newest();
        assert!(
            fenced("second", Some(stale)).await.is_done(),
            "it is the newest"
        );
        let current = newest();
        assert!(current > stale);
        assert_eq!(fenced("third", Some(stale)).await.refusal(), "fenced");
        assert_eq!(server.executions().len(), before + 2, "it did not run");
        assert!(
            fenced("third", Some(current)).await.is_done(),
            "its key was not used up"
        );
        assert!(fenced("fourth", Some(FORGED)).await.is_done());
        assert!(
            newest() > current && newest() < FORGED,
            "the forged one is ours now: {}",
            newest()
        );
        assert!(fenced("fifth", None).await.is_done());
    }
}

/// guarantees §6, 004-25: what a task has used, which keys are taken and which tokens are stale
/// outlives a kill and a new connection, on both wires.
#[tokio::test]
async fn budgets_keys_and_tokens_survive_a_kill() {
    let (server, mut gate) = stage(Behaviour::Answers, Some(4)).await;
    let task = ("task", json!("the task"));
    let pay =
        async |agent: &Agent, key: &str| call(agent, (PAY, key), std::slice::from_ref(&task)).await;
    let told = |answer: &Answer| {
        (
            answer.refusal(),
            decision(answer)["replayed"] == true,
            left(answer),
        )
    };
    let (modern, legacy) = (gate.agent(), gate.agent().declaring(json!({})).await);
    let first = pay(&modern, "modern").await;
    assert_eq!(told(&first), (String::new(), false, 3));
    assert_eq!(
        told(&pay(&legacy, "legacy").await),
        (String::new(), false, 2)
    );
    for left in [1, 0] {
        gate.kill().await;
        gate = gate.setup.clone().start().await;
        let agents = [gate.agent(), gate.agent().declaring(json!({})).await];
        for agent in &agents {
            for key in ["modern", "legacy"] {
                assert_eq!(
                    told(&pay(agent, key).await),
                    (String::new(), true, left + 1),
                    "{key}"
                );
            }
        }
        assert_eq!(answered(&first), answered(&pay(&agents[0], "modern").await));
        let agent = &agents[usize::try_from(left).unwrap()];
        assert_eq!(
            told(&pay(agent, &format!("new {left}")).await),
            (String::new(), false, left)
        );
    }
    for agent in [gate.agent(), gate.agent().declaring(json!({})).await] {
        assert_eq!(
            told(&pay(&agent, "too many").await),
            ("budget_calls_exceeded".to_owned(), false, 0)
        );
    }
    let executions = server.executions();
    assert_eq!((executions.len(), keys(&executions).len()), (4, 4));
    assert!(
        executions
            .iter()
            .map(token)
            .is_sorted_by(|one, next| one < next),
        "no token is given twice"
    );
}
