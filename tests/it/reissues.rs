//! Which calls are one where a contract says `idempotency: { derive: retry }`: what is sent again is
//! answered as before, and what is meant again runs (004-01, 004-08, 004-11).

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::stdio::Launched;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use std::fmt::Write as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

mod corpus;
mod observed;
mod places;
mod proofs;
mod random;
mod unknowns;

const CLIENT: &str = "token-of-the-bot-that-adds";
const BOT: &str = "  - { agent: bot, token: token-of-the-bot-that-adds }\n";
const ADD: &str = "git__git_add";
const RESET: &str = "git__git_reset";
const SLOW: &str = "git__git_push";
/// Its server says that a second one changes nothing.
const SLOW_HINTED: &str = "git__git_fetch";
/// What names a place of its own.
const PLACES: [&str; 2] = ["dev.toolgate/session", "dev.toolgate/task"];

/// A contract of a write that anybody may call.
fn contract(tool: &str, keys: &str) -> String {
    format!(
        "  {tool}: {{ purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: test, \
         rollback: {{ manual: by hand }} }}{keys} }}\n"
    )
}

/// The oracle with git's tools; `git_push` and `git_fetch` wait until they are released.
async fn git() -> ToolServer {
    let annotated = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": { "idempotentHint": true } });
    Script::new()
        .tool("git_add", Behaviour::Answers)
        .tool("git_reset", Behaviour::Answers)
        .tool("git_push", Behaviour::Held)
        .definition(annotated("git_tag"), Behaviour::Answers)
        .definition(annotated("git_fetch"), Behaviour::Held)
        .tool("git_status", Behaviour::Answers)
        .start()
        .await
}

fn policy(keys: &str) -> String {
    let mut yaml = "contracts:\n".to_owned();
    for tool in [ADD, RESET, SLOW, SLOW_HINTED, "git__git_tag"] {
        yaml += &contract(tool, keys);
    }
    writeln!(
        yaml,
        "  git__git_status: {{ purpose: test, actions: [read], secrets: [] }}"
    )
    .unwrap();
    yaml
}

fn setup(server: &ToolServer) -> Setup {
    Setup::new()
        .server("git", server)
        .policy(&policy(", idempotency: { derive: retry }"))
}

async fn stage() -> (ToolServer, Gate) {
    let server = git().await;
    let gate = setup(&server).callers(BOT).start().await;
    (server, gate)
}

fn bot(gate: &Gate) -> Agent {
    gate.agent().token(CLIENT)
}

fn is_replayed(answer: &Value) -> bool {
    answer["result"]["_meta"]["dev.toolgate/decision"]["replayed"] == true
}

fn words(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no words: {answer}"))
}

/// The tools that ran, in their order.
fn ran(server: &ToolServer) -> Vec<String> {
    let executions = server.executions().into_iter();
    executions.map(|execution| execution.tool).collect()
}

fn in_session(agent: &Agent, tool: &str, session: &str) -> Value {
    in_place(agent, tool, (PLACES[0], session))
}

/// A call that names the place where it is made.
fn in_place(agent: &Agent, tool: &str, (member, name): (&str, &str)) -> Value {
    let meta = json!({ member: name });
    let params = json!({ "name": tool, "arguments": { "path": "b.rs" }, "_meta": meta });
    agent.request("tools/call", params)
}

/// A call whose agent is gone when its answer comes.
async fn loses(gate: &Gate, server: &ToolServer, request: &Value) {
    let agent = bot(gate);
    let bytes = agent.encoded(&agent.mirrored(request), request.to_string().as_bytes());
    let before = server.executions().len();
    let mut connection = TcpStream::connect(gate.agents).await.unwrap();
    connection.write_all(&bytes).await.unwrap();
    until("the call runs", || async {
        (server.executions().len() > before).then_some(())
    })
    .await;
    drop(connection);
}

/// 004-08: stage, unstage, stage again, each on a connection of its own and all on one, in a legacy
/// session and without: each runs.
#[tokio::test]
async fn what_an_agent_means_again_runs_again() {
    let three = ["git_add", "git_reset", "git_add"];
    for is_legacy in [true, false] {
        let (server, gate) = stage().await;
        let agent = if is_legacy {
            bot(&gate).initialized().await
        } else {
            bot(&gate)
        };
        for tool in three {
            let answer = agent
                .call(&format!("git__{tool}"), json!({ "path": "a.rs" }))
                .await;
            assert!(!is_replayed(&answer), "{tool}, {is_legacy}: {answer}");
        }
        assert_eq!(ran(&server), three, "{is_legacy}");
        let requests = three.map(|tool| in_session(&agent, &format!("git__{tool}"), "one"));
        for answer in agent.on_one_connection(&requests).await {
            assert!(!is_replayed(&answer), "{is_legacy}: {answer}");
        }
        assert_eq!(ran(&server).len(), 6, "{is_legacy}");
    }
}

/// 004-08: the same over a pipe.
#[tokio::test]
async fn on_a_pipe_what_is_meant_again_runs_again() {
    for is_legacy in [true, false] {
        let server = git().await;
        let setup = setup(&server).callers(BOT);
        setup.write();
        let mut agent = Launched::start(&setup, &["--agent", "bot"], is_legacy).await;
        let path = || json!({ "path": "a.rs" });
        for tool in ["git_add", "git_reset", "git_add"] {
            let answer = agent.call(tool, path()).await;
            assert!(!is_replayed(&answer), "{answer}");
        }
        // Nothing with side effects was called since.
        let answer = agent.call("git_add", path()).await;
        assert!(is_replayed(&answer), "{answer}");
        assert_eq!(ran(&server), ["git_add", "git_reset", "git_add"]);
        agent.end().await;
    }
}

/// 004-01, 004-38: an agent that never read the answer sends its call again, at once or among other
/// calls: it is answered as it was, and told that nothing ran.
#[tokio::test]
async fn what_is_sent_again_is_answered_as_it_was() {
    let (server, gate) = stage().await;
    let (agent, path) = (bot(&gate), json!({ "path": "a.rs" }));
    let first = agent.request("tools/call", json!({ "name": SLOW, "arguments": path }));
    loses(&gate, &server, &first).await;
    server.release();
    let other = agent.call(RESET, path.clone()).await;
    assert!(!is_replayed(&other), "{other}");
    let again = agent.call(SLOW, path.clone()).await;
    assert!(is_replayed(&again), "{again}");
    assert!(words(&again).contains("Nothing ran now"), "{again}");
    assert!(words(&again).contains("`idempotency_key`"), "{again}");
    assert_eq!(again["result"]["content"].as_array().unwrap().len(), 2);
    assert_eq!(ran(&server), ["git_push", "git_reset"]);
    // The key that it was told of runs it.
    server.release();
    let meant = json!({ "path": "a.rs", "idempotency_key": "2" });
    let meant = agent.call(SLOW, meant).await;
    assert!(!is_replayed(&meant), "{meant}");
    assert_eq!(server.executions()[2].arguments, path);
    // The answer that it has read, and what it did then, make the next one a new call.
    server.release();
    let next = agent.call(SLOW, path).await;
    assert!(!is_replayed(&next), "{next}");
    let entries = gate.entries(5).await;
    let told: Vec<_> = entries
        .iter()
        .filter_map(|entry| Some((entry["because"].as_str()?, entry["replayed"] == true)))
        .collect();
    assert_eq!(told, [("within_window", true), ("went_on", false)]);
    assert_eq!(entries[2]["same_as"], entries[2]["claimed_by"]);
}

/// 004-02, 004-31: equal calls join while one is in flight, also of a tool whose calls join then
/// alone.
#[tokio::test]
async fn equal_calls_join_while_one_is_in_flight() {
    for tool in [SLOW, SLOW_HINTED] {
        let (server, gate) = stage().await;
        let agent = bot(&gate);
        let request = || in_session(&agent, tool, "one");
        // A head comes when a call has waited for a while.
        let mut first = agent.post(&request()).await;
        let mut second = agent.post(&request()).await;
        assert_eq!(server.executions().len(), 1, "{tool}");
        // Were the second one to run, it would find its release.
        server.release();
        server.release();
        let (first, second) = (first.whole().await, second.whole().await);
        assert!(!is_replayed(&first) && is_replayed(&second), "{second}");
        assert_eq!(server.executions().len(), 1, "{tool}");
        let entries = gate.entries(2).await;
        assert_eq!(entries[1]["because"], "in_flight", "{tool}");
    }
}

/// 004-27: sessions and tasks have their own calls.
#[tokio::test]
async fn sessions_have_their_own_calls() {
    for member in PLACES {
        let (server, gate) = stage().await;
        let agent = bot(&gate);
        for name in ["one", "two", "one"] {
            let call = in_place(&agent, ADD, (member, name));
            agent.answered(&call).await;
        }
        assert_eq!(ran(&server).len(), 2, "{member}");
    }
}

/// 004-03: one trace joins also what its server calls idempotent, until its agent has gone on;
/// another trace says nothing.
#[tokio::test]
async fn a_trace_joins_until_its_agent_has_gone_on() {
    let (server, gate) = stage().await;
    let agent = bot(&gate);
    let traced = |tool: &str, trace: char| {
        let trace = trace.to_string().repeat(32);
        let meta = json!({ "traceparent": format!("00-{trace}-00f067aa0ba902b7-01") });
        let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
        agent.request("tools/call", params)
    };
    let (tag, reset) = ("git__git_tag", RESET);
    for (tool, trace, is_again) in [
        (tag, 'a', false),
        (tag, 'a', true),
        // Its server says that a second one changes nothing.
        (tag, 'b', false),
        (reset, 'b', false),
        // All of one run: the second tag is meant.
        (tag, 'b', false),
        (ADD, 'c', false),
        (ADD, 'd', true),
    ] {
        let answer = agent.answered(&traced(tool, trace)).await;
        assert_eq!(is_replayed(&answer), is_again, "{tool} {trace}: {answer}");
    }
    assert_eq!(ran(&server).len(), 5);
    let entries = gate.entries(7).await;
    let because = |at: usize| entries[at]["because"].clone();
    assert_eq!(
        [because(1), because(2), because(4), because(6)],
        ["same_trace", "idempotent_tool", "went_on", "within_window"]
    );
}

/// 004-29: after its window an equal call is a new one.
#[tokio::test]
async fn after_the_window_a_call_is_a_new_one() {
    let server = git().await;
    let keys = ", idempotency: { derive: retry, window: 1s }";
    let setup = Setup::new().server("git", &server).policy(&policy(keys));
    let gate = setup.callers(BOT).start().await;
    let agent = bot(&gate);
    let call = || agent.call(ADD, json!({}));
    assert!(!is_replayed(&call().await));
    assert!(is_replayed(&call().await));
    until("the window is over", || async {
        (!is_replayed(&call().await)).then_some(())
    })
    .await;
    assert_eq!(ran(&server).len(), 2);
    let entries = gate.ledger().await;
    assert_eq!(entries.last().unwrap()["because"], "window_over");
}

/// 004-44: a process that was killed has shown nothing of its agents: what equals a call of before
/// is that call.
#[tokio::test]
async fn after_a_kill_a_call_that_is_sent_again_is_the_same() {
    let (server, mut gate) = stage().await;
    bot(&gate).call(ADD, json!({})).await;
    bot(&gate).call(RESET, json!({})).await;
    gate.kill().await;
    let gate = gate.setup.clone().start().await;
    let again = bot(&gate).call(ADD, json!({})).await;
    assert!(is_replayed(&again), "{again}");
    // Now that it has read it, it goes on.
    bot(&gate).call(RESET, json!({ "path": "b" })).await;
    let meant = bot(&gate).call(ADD, json!({})).await;
    assert!(!is_replayed(&meant), "{meant}");
    assert_eq!(ran(&server).len(), 4);
}

/// 004-11: the argument for a key is shown where a call that is sent again is told of it, and hidden
/// where the contract says so; it never reaches the server.
#[tokio::test]
async fn the_argument_for_a_key_is_shown() {
    for (keys, is_shown) in [
        (", idempotency: { derive: retry }", true),
        (", idempotency: { derive: retry, expose: false }", false),
    ] {
        let server = git().await;
        let setup = Setup::new().server("git", &server).policy(&policy(keys));
        let gate = setup.callers(BOT).start().await;
        let listed = bot(&gate).ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        for tool in tools {
            let shown = &tool["inputSchema"]["properties"]["idempotency_key"];
            let is_read = tool["name"] == "git__git_status";
            assert_eq!(shown.is_object(), is_shown && !is_read, "{tool}");
            let required = tool["inputSchema"]["required"].as_array();
            assert!(required.is_none_or(|names| !names.contains(&json!("idempotency_key"))));
        }
    }
}
