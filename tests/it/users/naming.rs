//! Who may say for whom an agent asks, and how.

use super::{CALLERS, behind, bot, desk, order, orders, shop};
use crate::harness::agent::Agent;
use crate::harness::gate::{Gate, runs};
use crate::harness::replay::stored;
use crate::harness::setup::Setup;
use crate::harness::tool_server::Behaviour;
use serde_json::{Value, json};

fn named(user: Value) -> Value {
    let mut call = order(json!({ "sku": "a" }), None);
    call["_meta"]["dev.toolgate/user"] = user;
    call
}

async fn words(agent: &Agent, params: Value) -> String {
    let answer = agent.ask("tools/call", params).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

/// The users of the calls that were judged, `-` for none.
async fn recorded(gate: &Gate, count: usize) -> Vec<String> {
    let entries = gate.entries(count).await;
    let named = |entry: &Value| {
        let named = entry["user_id"].as_str();
        let named = named.filter(|_| entry["agent_id"].is_string());
        named.unwrap_or("-").to_owned()
    };
    entries.iter().map(named).collect()
}

/// 001-03, 003-94: an agent that is not trusted to name users is refused in words that say what to
/// do, in observe mode, too, and so is a name that hides or misleads: nothing runs.
#[tokio::test]
async fn only_a_trusted_agent_names_users() {
    for mode in ["enforce", "observe"] {
        let server = orders(Behaviour::Answers).await;
        let gate = shop(&server, "").mode(mode).start().await;
        let plain = gate.agent().token("token-of-the-agent-plain");
        let odd = [
            "",
            " ada",
            "ada ",
            "a\u{200b}da",
            "\u{202e}ada",
            "a\nb",
            "a\tb",
            "ada\u{fe0f}",
            "ada\u{1107f}",
            "ada\u{e000}",
            "ada\u{ffff}",
        ];
        let long = "a".repeat(257);
        let odd = odd.iter().copied().chain([long.as_str()]);
        let odd: Vec<Value> = odd.map(|name| json!(name)).collect();
        let no_text = [
            json!(null),
            json!(7),
            json!(["ada"]),
            json!({ "name": "ada" }),
        ];
        for legacy in [false, true] {
            let (plain, bot) = if legacy {
                (plain.initialized().await, bot(&gate).initialized().await)
            } else {
                (plain.clone(), bot(&gate))
            };
            let said = words(&plain, named(json!("ada"))).await;
            assert!(said.contains("`users: meta`"), "{said}");
            for name in odd.iter().chain(&no_text) {
                let said = words(&bot, named(name.clone())).await;
                assert!(said.contains("1 to 256 bytes"), "{name}: {said}");
            }
            let read = json!({ "uri": "x:y", "_meta": { "dev.toolgate/user": "ada" } });
            let answer = plain.ask("resources/read", read).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        assert_eq!(server.executions().len(), 0);
        let refused = "toolgate_refused_messages_total{reason=\"no_user\"}";
        assert!(gate.metric(refused).await > 20.0);
    }
}

/// 003-94: the header counts with the token of its front end only, and is no stranger's: twice, or no
/// name, is refused; so are a header and a message that name two.
#[tokio::test]
async fn a_front_end_names_users_in_its_header() {
    let server = orders(Behaviour::Answers).await;
    let gate = shop(&server, "").start().await;
    let call = || order(json!({ "sku": "a" }), None);
    desk(&gate, "ada").ask("tools/call", call()).await;
    let nobody = gate
        .agent()
        .token("token-of-the-front-end")
        .header("x-agent-id", "desk");
    nobody.ask("tools/call", call()).await;
    let foreign = gate
        .agent()
        .token("token-of-the-agent-plain")
        .header("x-user-id", "ada");
    foreign.ask("tools/call", call()).await;
    let both = |user: &str| behind(&gate, "both", user);
    both("ada").ask("tools/call", named(json!("ada"))).await;
    assert_eq!(recorded(&gate, 4).await, ["ada", "-", "-", "ada"]);
    assert_eq!(server.executions().len(), 4);
    let said = words(&both("ada"), named(json!("bob"))).await;
    assert!(said.contains("name two users"), "{said}");
    let said = words(&desk(&gate, "ada"), named(json!("ada"))).await;
    assert!(said.contains("not trusted to name users"), "{said}");
    let twice = desk(&gate, "ada").header("X-User-Id", "ada");
    let odd = ["", "a\u{202e}da", &"a".repeat(257)].map(|user| desk(&gate, user));
    for agent in odd.iter().chain([&twice]) {
        let mut refused = agent.post(&agent.request("tools/call", call())).await;
        assert_eq!(refused.head.status, 400, "{:?}", agent.own);
        let said = refused.whole().await["error"]["message"].to_string();
        assert!(said.contains("1 to 256 bytes"), "{said}");
    }
    assert_eq!(server.executions().len(), 4);
}

/// 003-94: where a front end can name users, a request that came through it and names none is refused:
/// a name that got lost makes no two people one. The agent's own token needs none.
#[tokio::test]
async fn a_front_end_that_loses_a_name_is_refused() {
    let server = orders(Behaviour::Answers).await;
    let callers = format!(
        "{CALLERS}\n  - {{ agent: mixed, token: token-of-the-agent-mixed, front_end: gateway, tenant: t_1 }}"
    );
    let gate = shop(&server, "").callers(&callers).start().await;
    let call = || order(json!({ "sku": "a" }), None);
    let front_end = gate.agent().token("token-of-the-front-end");
    let lost = front_end.header("x-agent-id", "mixed");
    for agent in [lost.clone(), lost.header("x-userid", "ada")] {
        let said = words(&agent, call()).await;
        assert!(said.contains("names no user"), "{said}");
    }
    assert_eq!(server.executions().len(), 0);
    let own = gate.agent().token("token-of-the-agent-mixed");
    for agent in [behind(&gate, "mixed", "ada"), own] {
        let answer = agent.ask("tools/call", call()).await;
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    }
    assert_eq!(recorded(&gate, 2).await, ["ada", "-"]);
}

/// 003-94: an agent that needs users does nothing for nobody, and reads how to name one.
#[tokio::test]
async fn a_needed_user_is_asked_for() {
    let server = orders(Behaviour::Answers).await;
    let gate = shop(&server, "").start().await;
    let modern = gate.agent().token("token-of-the-agent-strict");
    let legacy = modern.initialized().await;
    let opening = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "_meta": { "dev.toolgate/user": "ada" } });
    let refused = modern.legacy("initialize", opening).await;
    assert!(refused.words().contains("with each request"), "{refused:?}");
    for agent in [modern, legacy] {
        assert!(agent.tools().await.contains(&"shop__order".to_owned()));
        let mut misspelt = order(json!({ "sku": "a" }), None);
        misspelt["_meta"]["dev.toolgate/users"] = json!("ada");
        for call in [order(json!({ "sku": "a" }), None), misspelt] {
            let said = words(&agent, call).await;
            assert!(said.contains("dev.toolgate/user"), "{said}");
        }
        let before = server.executions().len();
        let answer = stored(&agent.ask("tools/call", named(json!("ada"))).await);
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
        assert_eq!(server.executions().len(), 1, "{before}");
    }
}

/// A configuration in which nobody could name the user does not load.
#[tokio::test]
async fn users_that_nobody_could_name_are_an_error() {
    let server = orders(Behaviour::Answers).await;
    for (from, to, said) in [
        (
            "users: meta }",
            "users: one, needs_user: true }",
            "one person is behind this agent",
        ),
        (
            "users: meta }",
            "needs_user: true }",
            "nothing could name the user",
        ),
        (
            "users: meta }",
            "users: metta }",
            "expected one of `one`, `meta`",
        ),
    ] {
        let setup = shop(&server, "").callers(&CALLERS.replace(from, to));
        setup.write();
        let checked = setup.run(&["check", "--config", "toolgate.yaml"]).await;
        let out = String::from_utf8_lossy(&checked.stdout).into_owned();
        let out = out + &String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.code(), Some(1), "{out}");
        assert!(out.contains(said), "{out}");
    }
    for taken in ["X-Agent-Id", "idempotency-key", "Mcp-Session-Id", "cookie"] {
        let setup = shop(&server, "");
        let setup = setup.instead("user_header: x-user-id", &format!("user_header: {taken}"));
        let said = says(&setup, "check").await;
        assert!(
            said.contains("says something else already"),
            "{taken}: {said}"
        );
    }
}

async fn says(setup: &Setup, verb: &str) -> String {
    setup.write();
    let ended = setup.run(&[verb, "--config", "toolgate.yaml"]).await;
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// 003-94: where several people are behind an agent that names none, `check` says it of front ends, and
/// `doctor` of what the ledger has seen, until the configuration says who is there.
#[tokio::test]
async fn agents_that_name_nobody_are_named() {
    let taken_for_one = "equal calls of two people behind it are taken for one";
    let server = orders(Behaviour::Answers).await;
    let setup = shop(&server, "").instead(", user_header: x-user-id", "");
    let said = says(&setup, "check").await;
    let of_desk = "the front end `gateway` names no users of `desk`";
    assert!(
        said.contains(of_desk) && said.contains(taken_for_one),
        "{said}"
    );
    assert_eq!(said.matches(taken_for_one).count(), 1, "{said}");
    let setup = shop(&server, "");
    assert!(!says(&setup, "check").await.contains(taken_for_one));
    let gate = setup.start().await;
    let plain = gate.agent().token("token-of-the-agent-plain");
    let (one, two) = (plain.initialized().await, plain.initialized().await);
    let buys = async |agent: &Agent, sku: &str| {
        agent
            .ask("tools/call", order(json!({ "sku": sku }), None))
            .await;
    };
    buys(&one, "a").await;
    buys(&two, "b").await;
    let in_turn = gate.stop().await;
    assert!(!says(&in_turn, "doctor").await.contains(taken_for_one));
    let gate = in_turn.start().await;
    let plain = gate.agent().token("token-of-the-agent-plain");
    let (one, two) = (plain.initialized().await, plain.initialized().await);
    for sku in ["c", "d"] {
        buys(&one, sku).await;
        buys(&two, &sku.repeat(2)).await;
    }
    let setup = gate.stop().await;
    let said = says(&setup, "doctor").await;
    let of_plain = "the agent `plain` worked in several sessions at once";
    assert!(
        said.contains(of_plain) && said.contains(taken_for_one),
        "{said}"
    );
    let (_, checked, _) = runs(&setup, "check --data data").await;
    assert!(checked.contains(of_plain), "{checked}");
    let one = "agent: plain, users: one,";
    let known = setup.callers(&CALLERS.replace("agent: plain,", one));
    assert!(!says(&known, "doctor").await.contains(taken_for_one));
}
