//! Tasks that go in circles are stopped, and agents that do what they read go on.

use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};

const CALLERS: &str = "\n  - { agent: ann, token: token-of-agent-ann, tenant: t_001 }\n";

const POLICY: &str = "
contracts:
  oracle__read: { purpose: test, actions: [read], secrets: [], permission: { tenant: /tenant }, arguments: { properties: { n: {} } } }
  oracle__poll: { purpose: test, actions: [read], secrets: [] }
repetition: { warn: 2, stop: 4, ping_pong: 4, refusals: 4 }
";

/// So many calls pass before the task is stopped.
const MOST: usize = 4;

/// A tool and its arguments.
type Call = (&'static str, Value);
/// The call of each turn.
type Act = fn(usize) -> Call;

async fn stage() -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["read", "poll"].map(tool).to_vec()).await;
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: POLICY.to_owned(),
        observe: false,
    };
    (scripted, Gate::start(settings).await)
}

/// Makes a call in a task of its own name.
async fn call(gate: &Gate, task: &str, (name, arguments): Call) -> Value {
    let params = json!({ "name": format!("oracle__{name}"), "arguments": arguments, "_meta": { "dev.toolgate/task": task } });
    gate.agent()
        .token("token-of-agent-ann")
        .ask("tools/call", params)
        .await
}

/// What a refusal tells the model to do: the sentences after the one that says whether the tool
/// ran.
fn next_step(answer: &Value) -> String {
    let words = answer["result"]["content"][0]["text"].as_str().unwrap();
    words
        .split_once("did not run. ")
        .or_else(|| words.split_once("did not run again. "))
        .map(|(_, next)| next.to_owned())
        .unwrap_or_default()
}

/// 003-115, 003-119, 003-P2a, guarantees §6: an agent that goes in circles with calls that nothing
/// else is against is stopped after so many, without any budget: it reads that this is final, and
/// to do something else or to report; soon nothing more is sent.
#[tokio::test]
async fn a_task_that_goes_in_circles_is_stopped() {
    let (scripted, gate) = stage().await;
    // What was refused is no part of a circle, so that each call of two gets as far as one alone.
    let agents: [(&str, Act, usize); 2] = [
        ("the same", |_| ("poll", json!({ "n": 1 })), MOST),
        ("two in turn", |n| ("poll", json!({ "n": n % 2 })), 2 * MOST),
    ];
    for (task, act, most) in agents {
        scripted.forget();
        let mut stopped = Vec::new();
        for n in 0..20 {
            let answer = call(&gate, task, act(n)).await;
            let Some(code) = code(&answer) else { continue };
            assert_eq!(code, "loop_detected", "{task}: {answer}");
            assert_eq!(
                answer["result"]["_meta"]["dev.toolgate/decision"]["final"], true,
                "{task}: {answer}"
            );
            assert_eq!(
                next_step(&answer),
                "Don't send it again: do something else, or report what is missing."
            );
            // Whichever of two in turn it is, it has run before.
            let words = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert!(words.contains("The tool did not run again. "), "{words}");
            stopped.push(n);
        }
        assert_eq!(stopped[0], MOST, "{task}");
        assert!(scripted.executions() <= most, "{task}: {stopped:?}");
        assert!(
            (2 * most..20).all(|n| stopped.contains(&n)),
            "{task}: {stopped:?}"
        );
        assert_eq!(
            code(&call(&gate, task, ("poll", json!({ "n": 7 }))).await),
            None,
            "something else is tried"
        );
    }
    let entries = gate.entries(42).await;
    assert!(
        entries
            .iter()
            .filter(|entry| entry["aborted_reason"] == "loop_detected")
            .count()
            >= 16 + 12
    );
}

/// 003-107, 003-P2b, guarantees §2, §6: an agent that does not listen, simulated, is told so beside
/// each refusal after as many as the policy says, whatever they are for and whichever way it goes
/// wrong. Each refusal keeps its own code, and nothing was sent. Doing something right ends it.
#[tokio::test]
async fn an_agent_that_does_not_listen_is_told() {
    let (scripted, gate) = stage().await;
    let wrong = |n: usize| match n % 3 {
        0 => ("read", json!({ "tenant": "t_999", "n": n })),
        1 => ("read", json!({ "tenant": "t_001", "m": n })),
        _ => ("nothing", json!({})),
    };
    for round in 0..2 {
        for n in 0..MOST + 3 {
            let refused = call(&gate, "deaf", wrong(n)).await;
            let own = ["tenant_mismatch", "schema_invalid", "tool_not_allowlisted"][n % 3];
            assert_eq!(code(&refused).as_deref(), Some(own), "{n}: {refused}");
            let text = refused.to_string();
            assert_eq!(
                text.contains("one call after the other was refused"),
                n >= MOST,
                "{n}: {refused}"
            );
            assert_eq!(
                text.contains("The task goes in circles: "),
                n >= MOST,
                "what the model reads, {n}: {refused}"
            );
        }
        let other = call(&gate, "another", wrong(0)).await;
        assert_eq!(
            code(&other).as_deref(),
            Some("tenant_mismatch"),
            "each task has a row of its own"
        );
        let right = call(&gate, "deaf", ("poll", json!({ "n": round }))).await;
        assert_eq!((code(&right), scripted.executions()), (None, round + 1));
    }
}

/// guarantees §4: a refusal says what to do next, and an agent that does it goes on.
#[tokio::test]
async fn an_agent_that_listens_goes_on() {
    let (scripted, gate) = stage().await;
    for n in 0..3 * MOST {
        let refused = call(&gate, "t", ("read", json!({ "tenant": "t_999", "n": n }))).await;
        assert_eq!(
            next_step(&refused),
            "Call again with the caller's own tenant."
        );
        assert_eq!(
            code(&call(&gate, "t", ("read", json!({ "tenant": "t_001", "n": n }))).await),
            None
        );
    }
    assert_eq!(scripted.executions(), 3 * MOST);
}
