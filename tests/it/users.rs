//! Several people behind one agent: what one of them asks for, has and is answered is no other's
//! (guarantees §3, §5, §7; threat-model §3C C4, C8).

mod belongings;
mod budgets;
mod naming;
mod records;

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::replay::stored;
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

/// An agent that may name users, one that may not, and one behind a front end that names them.
pub const CALLERS: &str = "  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1, users: meta, needs_user: false }\n  \
     - { agent: plain, token: token-of-the-agent-plain, tenant: t_1 }\n  \
     - { agent: desk, front_end: gateway, tenant: t_1, needs_user: false }\n  \
     - { agent: both, front_end: gateway, tenant: t_1, users: meta }\n  \
     - { agent: strict, token: token-of-the-agent-strict, users: meta }";

pub const FRONT_ENDS: &str = "front_ends: [ { name: gateway, token: token-of-the-front-end, header: x-agent-id, user_header: x-user-id } ]";

/// The agent `desk` behind the front end, for `user`.
pub fn desk(gate: &Gate, user: &str) -> Agent {
    behind(gate, "desk", user)
}

/// An agent behind the front end, for `user`.
pub fn behind(gate: &Gate, agent: &str, user: &str) -> Agent {
    let front_end = gate.agent().token("token-of-the-front-end");
    front_end
        .header("x-agent-id", agent)
        .header("x-user-id", user)
}

/// A call of the agent for `user`, with more members of `_meta`.
pub async fn call_for(agent: &Agent, user: &str, call: Value) -> Value {
    let mut params = call;
    params["_meta"]["dev.toolgate/user"] = json!(user);
    agent.ask("tools/call", params).await
}

pub fn order(arguments: Value, key: Option<&str>) -> Value {
    let mut params = json!({ "name": "shop__order" });
    params["arguments"] = arguments;
    if let Some(key) = key {
        params["_meta"]["dev.toolgate/idempotencyKey"] = json!(key);
    }
    params
}

fn decision(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.toolgate/decision"]
}

/// Whether it is the stored answer of an earlier call; of a call that was answered.
pub fn is_replay(answer: &Value) -> bool {
    let text = &stored(answer)["result"]["content"][0]["text"];
    assert_eq!(text, "done", "{answer}");
    decision(answer)["replayed"] == true
}

/// A shop, with more in the contract of its tool.
pub fn shop(server: &ToolServer, more: &str) -> Setup {
    shop_of(server, "[/sku]", more)
}

/// The same where other calls are one.
fn shop_of(server: &ToolServer, derive: &str, more: &str) -> Setup {
    let more = format!(", idempotency: {{ derive: {derive} }}{more}");
    let order = contract("shop__order", "write", &more);
    let policy = format!(
        "contracts:\n  shop__order: {order}\n{}\n",
        undo("shop__order")
    );
    let setup = Setup::new().server("shop", server).policy(&policy);
    setup.callers(CALLERS).more(FRONT_ENDS)
}

async fn orders(behaviour: Behaviour) -> ToolServer {
    Script::new().tool("order", behaviour).start().await
}

pub fn bot(gate: &Gate) -> Agent {
    gate.agent().token("token-of-the-agent-bot")
}

/// 003-94, 004-02, 004-24: equal calls of two people are two orders, with a derived key and with a
/// given one, on every wire; whom nobody names is a third. Each is answered again with its own.
#[tokio::test]
async fn equal_calls_of_two_users_are_two_calls() {
    let server = orders(Behaviour::Answers).await;
    let gate = shop(&server, "").start().await;
    let (modern, legacy) = (bot(&gate), bot(&gate).initialized().await);
    let mut expected = 0;
    for (agent, sku) in [(&modern, "a"), (&legacy, "b")] {
        for key in [None, Some(format!("order-{sku}"))] {
            let key = key.as_deref();
            let call = || order(json!({ "sku": sku }), key);
            for user in ["ada", "bob", "Ada"] {
                assert!(!is_replay(&call_for(agent, user, call()).await), "{user}");
            }
            assert!(!is_replay(&agent.ask("tools/call", call()).await));
            expected += 4;
            assert_eq!(server.executions().len(), expected, "{key:?}");
            for user in ["ada", "bob", "Ada"] {
                assert!(is_replay(&call_for(agent, user, call()).await), "{user}");
            }
            assert!(is_replay(&agent.ask("tools/call", call()).await));
        }
    }
    for user in ["ada", "bob"] {
        for legacy in [false, true] {
            let agent = desk(&gate, user);
            let agent = if legacy {
                agent.initialized().await
            } else {
                agent
            };
            let answer = agent.ask("tools/call", order(json!({ "sku": "c" }), None));
            assert_eq!(is_replay(&answer.await), legacy, "{user}");
        }
    }
    assert_eq!(server.executions().len(), expected + 2);
    let told = format!("{:?}", server.requests());
    assert!(!told.contains("dev.toolgate/user"), "{told}");
}

/// 003-94, 004-02, 004-24: where only what is sent again is the same, it is the same for its own user.
#[tokio::test]
async fn a_call_that_is_sent_again_is_its_users() {
    let server = orders(Behaviour::Answers).await;
    let gate = shop_of(&server, "retry", "").start().await;
    let (modern, legacy) = (bot(&gate), bot(&gate).initialized().await);
    let call = || order(json!({ "sku": "a" }), None);
    for (agent, before) in [(&modern, 0), (&legacy, 4)] {
        for is_again in [false, true] {
            for user in ["ada", "bob", "Ada"] {
                let answer = call_for(agent, user, call()).await;
                assert_eq!(is_replay(&answer), is_again, "{user}");
            }
            let nobodys = agent.ask("tools/call", call()).await;
            assert_eq!(is_replay(&nobodys), is_again);
            assert_eq!(server.executions().len(), before + 4);
        }
    }
    for user in ["ada", "bob"] {
        for is_again in [false, true] {
            let answer = desk(&gate, user).ask("tools/call", call()).await;
            assert_eq!(is_replay(&answer), is_again, "{user}");
        }
    }
    assert_eq!(server.executions().len(), 10);
}

/// 004-24: another person's key is as good as none: it is in conflict with nothing.
#[tokio::test]
async fn a_key_of_another_user_is_no_conflict() {
    let server = orders(Behaviour::Answers).await;
    let gate = shop(&server, "").start().await;
    for (user, sku) in [("ada", "a"), ("bob", "b")] {
        let call = order(json!({ "sku": sku }), Some("order-1"));
        assert!(!is_replay(&call_for(&bot(&gate), user, call).await));
    }
    let other = order(json!({ "sku": "b" }), Some("order-1"));
    let answer = call_for(&bot(&gate), "ada", other).await;
    assert_eq!(
        decision(&answer)["code"],
        "idempotency_conflict",
        "{answer}"
    );
    assert_eq!(server.executions().len(), 2);
}

/// guarantees §3: a call joins one in flight of its own user only.
#[tokio::test]
async fn nobody_joins_the_call_of_another_user() {
    let server = orders(Behaviour::Held).await;
    let gate = shop(&server, "").start().await;
    let agent = bot(&gate);
    let call = |user| call_for(&agent, user, order(json!({ "sku": "a" }), None));
    let all = async { tokio::join!(call("ada"), call("ada"), call("bob"), call("bob")) };
    let released = async {
        until("two orders under way", || async {
            (server.most_held() == 2).then_some(())
        })
        .await;
        server.release();
        server.release();
    };
    let ((one, two, three, four), ()) = tokio::join!(all, released);
    let replays = [one, two, three, four].map(|answer| is_replay(&answer));
    assert_ne!(replays[0], replays[1], "one of ada's joined the other");
    assert_ne!(replays[2], replays[3], "one of bob's joined the other");
    assert_eq!(server.executions().len(), 2);
}

/// 004-27: after a kill the calls of each are still known as its own.
#[tokio::test]
async fn a_restart_keeps_users_apart() {
    let server = orders(Behaviour::Answers).await;
    let mut gate = shop(&server, "").start().await;
    let call = || order(json!({ "sku": "a" }), None);
    assert!(!is_replay(&call_for(&bot(&gate), "ada", call()).await));
    gate.kill().await;
    let gate = gate.setup.clone().start().await;
    assert!(is_replay(&call_for(&bot(&gate), "ada", call()).await));
    assert!(!is_replay(&call_for(&bot(&gate), "bob", call()).await));
    assert_eq!(server.executions().len(), 2);
}

/// 004-27: what was recorded before an agent named users is found by its calls that name none, and by
/// no user's.
#[tokio::test]
async fn calls_from_before_users_are_nobodys() {
    let server = orders(Behaviour::Answers).await;
    let before = CALLERS
        .replace(", users: meta", "")
        .replace(", needs_user: false", "");
    let gate = shop(&server, "").callers(&before).start().await;
    let call = || order(json!({ "sku": "a" }), None);
    assert!(!is_replay(&bot(&gate).ask("tools/call", call()).await));
    let setup = gate.stop().await.callers(CALLERS);
    let gate = setup.start().await;
    assert!(is_replay(&bot(&gate).ask("tools/call", call()).await));
    assert!(!is_replay(&call_for(&bot(&gate), "ada", call()).await));
    assert_eq!(server.executions().len(), 2);
}
