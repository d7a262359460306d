//! How many tools an agent, those it starts, and a group may call in a span of time.

use crate::harness::answer::{DECISION, code};
use crate::harness::gate::{Gate, runs};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Settings, contract, undo};
use crate::harness::until;
use serde_json::{Value, json};

/// `ann` has two tokens; what `kid` calls counts for `ann`, whose group has `guest`, too.
const CALLERS: &str = "
  - { agent: ann, token: token-of-agent-ann, group: team, limits: { calls: 5, per: 1h } }
  - { agent: ann, token: second-token-of-ann }
  - { agent: kid, token: token-of-agent-kid, parent: ann, limits: { calls: 2, per: 1h } }
  - { agent: guest, token: token-of-a-guest, group: team }
  - { agent: free, token: token-of-who-is-free }
  - { agent: planner, token: token-of-the-planner, limits: { calls: 3, per: 3s } }
";
const GROUPS: &str = "groups: { team: { limits: { calls: 7, per: 1h } } }\n";

async fn stage(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["read", "pay", "hid"].map(tool).to_vec()).await;
    let roles = ", permission: { roles: [boss] }";
    let policy = [
        ("read", "read", ""),
        ("pay", "write", ""),
        ("hid", "read", roles),
    ]
    .map(|(name, action, more)| {
        let tool = format!("oracle__{name}");
        format!("  {tool}: {}\n", contract(&tool, action, more))
    });
    let settings = Settings {
        servers: vec![("oracle", scripted.url())],
        callers: CALLERS,
        more: GROUPS,
        policy: format!("contracts:\n{}\n{}", undo("oracle__pay"), policy.concat()),
        observe,
    };
    (scripted, Gate::start(settings).await)
}

async fn read(gate: &Gate, token: &str) -> Value {
    let agent = gate.agent().token(token);
    agent.call("oracle__read", json!({})).await
}

/// How many of `most` calls pass, one after the other; the others read the rate's code.
async fn passes(gate: &Gate, token: &str, most: usize) -> usize {
    let mut passed = 0;
    for _ in 0..most {
        match code(&read(gate, token).await).as_deref() {
            None => passed += 1,
            Some(refused) => assert_eq!(refused, "rate_exceeded"),
        }
    }
    passed
}

/// Agents share what they have with those they start, and within their group; a refused call says
/// when to come again, uses nothing of what others have, and is not sent. Who has no limit is not
/// held up.
#[tokio::test]
async fn callers_and_groups_call_as_often_as_they_may() {
    let (scripted, gate) = stage(false).await;
    assert_eq!(passes(&gate, "token-of-agent-kid", 4).await, 2, "its own");
    assert_eq!(
        passes(&gate, "second-token-of-ann", 2).await,
        2,
        "of ann's five, two are kid's"
    );
    assert_eq!(
        passes(&gate, "token-of-agent-ann", 3).await,
        1,
        "both tokens"
    );
    // The second entry of ann is of no group: kid's two calls and ann's one are the group's.
    assert_eq!(passes(&gate, "token-of-a-guest", 6).await, 4, "the group's");
    assert_eq!(passes(&gate, "token-of-who-is-free", 20).await, 20);
    assert_eq!(scripted.executions(), 2 + 3 + 4 + 20);

    let refused = read(&gate, "token-of-a-guest").await;
    let decision = &refused["result"]["_meta"][DECISION];
    assert_eq!(decision["stage"], "rate", "{refused}");
    assert_eq!(decision["final"], false, "{refused}");
    let retry = decision["retry"].as_str().unwrap();
    let after_ms: u64 = retry.strip_prefix("after_ms:").unwrap().parse().unwrap();
    let hour_ms = 3_600_000;
    assert!((1..=hour_ms).contains(&after_ms), "{refused}");
    assert_eq!(
        decision["retry_after"],
        after_ms.div_ceil(1000),
        "{refused}"
    );
}

/// The earliest step: of several faults the rate's code is the answer, and a call that comes again
/// while its caller is too fast has not lost its answer.
#[tokio::test]
async fn what_comes_too_fast_is_looked_at_no_further() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.agent().token("token-of-agent-kid");
    let paid = agent.call("oracle__pay", json!({ "n": 1 })).await;
    assert_eq!(code(&paid), None, "{paid}");
    assert_eq!(
        code(&agent.call("oracle__none", json!({})).await).unwrap(),
        "tool_not_allowlisted"
    );
    for name in ["oracle__pay", "oracle__none", "oracle__read"] {
        let refused = agent.call(name, json!({ "n": 1 })).await;
        assert_eq!(
            code(&refused).as_deref(),
            Some("rate_exceeded"),
            "{name}: {refused}"
        );
    }
    assert_eq!(scripted.executions(), 1);
    let entries = gate.entries(5).await;
    let stages: Vec<&str> = entries
        .iter()
        .filter(|entry| entry["aborted_reason"] == "rate_exceeded")
        .map(|entry| entry["stage"].as_str().unwrap())
        .collect();
    assert_eq!(stages, ["rate"; 3]);
}

/// A reload gives nothing back where the limit stays, and applies another at once.
#[tokio::test]
async fn a_reload_gives_nothing_back() {
    let (_scripted, gate) = stage(false).await;
    assert_eq!(passes(&gate, "token-of-agent-kid", 3).await, 2);
    let file = gate.path("toolgate.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let reloaded = |limit: &str| {
        let text = text.replace("limits: { calls: 2, per: 1h }", limit);
        std::fs::write(&file, text).unwrap();
        gate.hang_up();
    };
    reloaded("limits: { calls: 2, per: 1h }, model: openai/gpt-5");
    let swapped = "toolgate_reloads_total{outcome=\"swapped\"}";
    until("the other files are in force", || async {
        (gate.metric(swapped).await > 0.5).then_some(())
    })
    .await;
    assert_eq!(passes(&gate, "token-of-agent-kid", 2).await, 0);
    // A limit that becomes narrower counts what was called before.
    reloaded("limits: { calls: 1, per: 24h }");
    until("the limit is narrower", || async {
        (gate.metric(swapped).await > 1.5).then_some(())
    })
    .await;
    assert_eq!(passes(&gate, "token-of-agent-kid", 2).await, 0);
    reloaded("");
    until("kid is as free as ann", || async {
        (passes(&gate, "token-of-agent-kid", 1).await == 1).then_some(())
    })
    .await;
}

/// What the planner says beside a call of its task.
async fn step(gate: &Gate, name: &str, state: &str) -> Option<String> {
    let meta = json!({ "dev.toolgate/task": "t", "dev.toolgate/state": state, "dev.toolgate/idempotencyKey": "key of the payment" });
    let params = json!({ "name": format!("oracle__{name}"), "arguments": {}, "_meta": meta });
    let agent = gate.agent().token("token-of-the-planner");
    code(&agent.ask("tools/call", params).await)
}

/// A call that comes too fast leaves the plan that was made before it: what was planned runs later.
#[tokio::test]
async fn a_call_that_comes_too_fast_leaves_the_plan() {
    let (scripted, gate) = stage(false).await;
    assert_eq!(step(&gate, "read", "collect").await, None);
    until("the plan comes too fast", || async {
        match step(&gate, "pay", "plan").await.as_deref() {
            Some("planned") => None,
            refused => {
                assert_eq!(refused, Some("rate_exceeded"));
                Some(())
            }
        }
    })
    .await;
    until("what was planned may come", || async {
        match step(&gate, "pay", "execute").await.as_deref() {
            Some("rate_exceeded") => None,
            refused => {
                assert_eq!(refused, None);
                Some(())
            }
        }
    })
    .await;
    assert_eq!(scripted.executions(), 2);
}

/// Nobody has judged a call that came too fast: a replay says so, and a sample is not made of it.
#[tokio::test]
async fn what_came_too_fast_is_not_replayed() {
    let (_scripted, gate) = stage(false).await;
    assert_eq!(passes(&gate, "token-of-agent-kid", 2).await, 2);
    let refused = gate
        .agent()
        .token("token-of-agent-kid")
        .call("oracle__hid", json!({}))
        .await;
    let action = refused["result"]["_meta"][DECISION]["action_id"].clone();
    let action = action.as_str().unwrap().to_owned();
    gate.entries(3).await;
    let setup = gate.stop().await;
    for (line, expected) in [
        (format!("ledger replay {action}"), "undecided"),
        (
            "test --replay ledger".to_owned(),
            "nothing of the call was judged",
        ),
        (
            format!("test add {action} --arguments {{}}"),
            "give with --expect",
        ),
    ] {
        let (status, out, err) = runs(&setup, &format!("{line} --config toolgate.yaml")).await;
        let said = out + &err;
        assert!(said.contains(expected), "{line}: {status}\n{said}");
        assert!(!said.contains("another verdict"), "{line}: {said}");
    }
}

/// Observe mode refuses nothing, and records what enforce mode would have refused.
#[tokio::test]
async fn observe_mode_records_what_came_too_fast() {
    let (scripted, gate) = stage(true).await;
    let agent = gate.agent().token("token-of-agent-kid");
    for name in ["read", "read", "read", "hid"] {
        let answer = agent.call(&format!("oracle__{name}"), json!({})).await;
        assert_eq!(code(&answer), None, "{name}: {answer}");
    }
    assert_eq!(scripted.executions(), 4);
    let entries = gate.entries(4).await;
    let foreseen: Vec<&Value> = entries.iter().map(|entry| &entry["would_refuse"]).collect();
    // What is wrong with the call itself says more than that it came too fast.
    assert_eq!(
        foreseen,
        [
            &Value::Null,
            &Value::Null,
            &json!("rate_exceeded"),
            &json!("rbac_denied")
        ]
    );
}
