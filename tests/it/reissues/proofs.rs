//! What shows that an agent has read an answer and gone on, and what does not.

use super::{
    ADD, BOT, PLACES, RESET, SLOW, bot, git, in_place, in_session, is_replayed, loses, policy, ran,
    setup, stage, words,
};
use crate::harness::agent::Agent;
use crate::harness::replay::untold;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::stdio::Launched;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::{Value, json};
use std::cell::Cell;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// How three calls go: the first, another one, the first again.
async fn is_joined(agent: &Agent, place: Option<(&str, &str)>) -> bool {
    let request = |tool: &str| match place {
        Some(place) => in_place(agent, tool, place),
        None => agent.request("tools/call", json!({ "name": tool, "arguments": {} })),
    };
    for tool in [ADD, RESET] {
        let answer = agent.answered(&request(tool)).await;
        assert!(!is_replayed(&answer), "{answer}");
    }
    is_replayed(&agent.answered(&request(ADD)).await)
}

/// Calls in one place that come later and later, until one of them shows that its agent went on.
async fn goes_on(agent: &Agent, (member, name): (&str, &str)) {
    let tries = Cell::new(0);
    until("the agent has gone on", || async {
        tries.set(tries.get() + 1);
        let arguments = json!({ "path": tries.get().to_string() });
        let meta = json!({ member: name });
        let other = json!({ "name": RESET, "arguments": arguments, "_meta": meta });
        agent.ask("tools/call", other).await;
        let again = in_place(agent, ADD, (member, name));
        let again = agent.answered(&again).await;
        (!is_replayed(&again)).then_some(())
    })
    .await;
}

/// 004-01: calls that were sent side by side say nothing of each other.
#[tokio::test]
async fn parallel_calls_show_nothing_of_each_other() {
    let (server, gate) = stage().await;
    let agent = bot(&gate);
    let (slow, add) = (
        in_session(&agent, SLOW, "one"),
        in_session(&agent, ADD, "one"),
    );
    // The second waits for its turn in the session until the first one is answered.
    let mut first = agent.post(&slow).await;
    let mut second = agent.post(&add).await;
    assert_eq!(server.executions().len(), 1);
    server.release();
    assert!(!is_replayed(&first.whole().await) && !is_replayed(&second.whole().await));
    server.release();
    for tool in [SLOW, ADD] {
        let again = agent.answered(&in_session(&agent, tool, "one")).await;
        assert!(is_replayed(&again), "{tool}: {again}");
    }
    assert_eq!(ran(&server), ["git_push", "git_add"]);
}

/// 004-01: what was on its way before the answer was written shows nothing, also on one connection.
#[tokio::test]
async fn a_request_that_was_sent_before_the_answer_shows_nothing() {
    let (server, gate) = stage().await;
    let agent = bot(&gate);
    let encoded = |tool: &str| {
        let request = in_session(&agent, tool, "one");
        agent.encoded(&agent.mirrored(&request), request.to_string().as_bytes())
    };
    let mut connection = TcpStream::connect(gate.agents).await.unwrap();
    connection
        .write_all(&[encoded(SLOW), encoded(ADD)].concat())
        .await
        .unwrap();
    until("the first runs", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    server.release();
    until("the second runs", || async {
        (server.executions().len() == 2).then_some(())
    })
    .await;
    drop(connection);
    server.release();
    let again = agent.answered(&in_session(&agent, SLOW, "one")).await;
    assert!(is_replayed(&again), "{again}");
    assert_eq!(ran(&server).len(), 2);
}

/// 004-01: behind a front end, declared or one that says so, only calls that name one session or task
/// show that their agent went on; also under a name that other machines use.
#[tokio::test]
async fn a_front_end_reads_for_nobody() {
    let server = git().await;
    let more = "front_ends: [ { name: front, token: token-of-the-front-end, header: x-agent } ]\nallowed_hosts: [toolgate.example]";
    let callers = "  - { agent: bot, token: token-of-the-bot-that-adds, front_end: front }\n";
    let gate = setup(&server).callers(callers).more(more).start().await;
    let ways = [
        gate.agent()
            .token("token-of-the-front-end")
            .header("x-agent", "bot"),
        bot(&gate).header("X-Forwarded-For", "192.0.2.1"),
        bot(&gate).header("Via", "1.1 front"),
        bot(&gate).header("Host", "toolgate.example"),
    ];
    for (at, agent) in ways.iter().enumerate() {
        for member in PLACES {
            let name = format!("one {at}");
            let place = (member, name.as_str());
            assert!(
                is_joined(agent, Some(place)).await,
                "side by side: {place:?} {agent:?}"
            );
            goes_on(agent, place).await;
        }
    }
    let (agent, before) = (&ways[0], ran(&server).len());
    assert!(is_joined(agent, None).await);
    assert_eq!(ran(&server).len(), before + 2);
}

/// 004-01: each of these ways alone hides who reads.
#[tokio::test]
async fn whoever_says_that_it_passes_on_reads_for_nobody() {
    for (name, value) in [
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-Port", "443"),
        ("Forwarded", "for=192.0.2.1"),
        ("X-Real-IP", "192.0.2.1"),
        ("Via", "1.1 front"),
        ("Host", "toolgate.example"),
    ] {
        let server = git().await;
        let hosts = "allowed_hosts: [toolgate.example]";
        let gate = setup(&server).callers(BOT).more(hosts).start().await;
        let agent = bot(&gate).header(name, value);
        assert!(is_joined(&agent, None).await, "{name}");
        let one = Some((PLACES[0], "one"));
        assert!(is_joined(&agent, one).await, "{name}");
    }
}

/// 004-01: a cancellation that crosses the answer says that nobody has read it.
#[tokio::test]
async fn a_call_that_was_cancelled_was_not_read() {
    let server = git().await;
    let setup = setup(&server).callers(BOT);
    setup.write();
    let mut agent = Launched::start(&setup, &["--agent", "bot"], true).await;
    let first = agent.call("git_add", json!({})).await;
    let cancelled = json!({ "requestId": first["id"] });
    agent
        .say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }))
        .await;
    agent.call("git_reset", json!({})).await;
    let again = agent.call("git_add", json!({})).await;
    assert!(is_replayed(&again), "{again}");
    agent.end().await;
}

/// 004-01: notifications are no requests: they show nothing. The answer's bytes do.
#[tokio::test]
async fn a_slow_answer_on_a_stream_is_read_like_any_other() {
    for is_legacy in [true, false] {
        let (server, gate) = stage().await;
        let agent = if is_legacy {
            bot(&gate).initialized().await
        } else {
            bot(&gate)
        };
        let request = || agent.request("tools/call", json!({ "name": SLOW, "arguments": {} }));
        let mut answering = agent.post(&request()).await;
        server.release();
        assert!(!is_replayed(&answering.whole().await));
        agent.call(RESET, json!({})).await;
        server.release();
        let again = agent.answered(&request()).await;
        assert!(!is_replayed(&again), "{is_legacy}: {again}");
        assert_eq!(ran(&server).len(), 3, "{is_legacy}");
    }
}

/// 004-01: a stream that ends before the answer went through it has delivered none, also where
/// it is taken up again.
#[tokio::test]
async fn an_answer_that_went_another_way_was_not_read() {
    let (server, gate) = stage().await;
    let agent = bot(&gate).initialized().await;
    let request = agent.request("tools/call", json!({ "name": SLOW, "arguments": {} }));
    let answering = agent.post(&request).await;
    drop(answering);
    server.release();
    until("it is answered", || async {
        let entries = gate.ledger().await;
        entries
            .iter()
            .any(|entry| entry["outcome"] == "answered")
            .then_some(())
    })
    .await;
    agent.call(RESET, json!({})).await;
    let again = agent
        .answered(&agent.request("tools/call", json!({ "name": SLOW, "arguments": {} })))
        .await;
    assert!(is_replayed(&again), "{again}");
    assert_eq!(ran(&server), ["git_push", "git_reset"]);
}

/// 004-01: what an agent did not wait for is answered as it was beyond the window, for it has never
/// read that.
#[tokio::test]
async fn an_answer_that_nobody_waited_for_outlives_the_window() {
    let server = git().await;
    let keys = ", idempotency: { derive: retry, window: 1s }";
    let setup = Setup::new().server("git", &server).policy(&policy(keys));
    let gate = setup.callers(BOT).start().await;
    let agent = bot(&gate);
    let request = || agent.request("tools/call", json!({ "name": SLOW, "arguments": {} }));
    loses(&gate, &server, &request()).await;
    server.release();
    until("it is answered", || async {
        let entries = gate.ledger().await;
        let mut answered = entries.iter().map(|entry| entry["outcome"] == "answered");
        answered.any(|is_answered| is_answered).then_some(())
    })
    .await;
    agent.call(ADD, json!({})).await;
    until("the window is over", || async {
        let again = agent.call(ADD, json!({})).await;
        (!is_replayed(&again)).then_some(())
    })
    .await;
    let again = agent.answered(&request()).await;
    assert!(is_replayed(&again), "{again}");
    assert_eq!(
        gate.ledger().await.last().unwrap()["because"],
        "settled_late"
    );
    assert_eq!(ran(&server), ["git_push", "git_add", "git_add"]);
}

/// What a replay says is in an error, and in a result of structured content alone, too; in either
/// regime where the agent gave no key.
#[tokio::test]
async fn every_replay_says_that_nothing_ran() {
    for regime in ["retry", "arguments"] {
        says_that_nothing_ran(&format!(", idempotency: {{ derive: {regime} }}")).await;
    }
}

async fn says_that_nothing_ran(keys: &str) {
    let server = Script::new()
        .tool(
            "git_add",
            Behaviour::Says(json!({ "content": [], "structuredContent": { "a": 1 } })),
        )
        .tool("git_reset", Behaviour::Error(-32_050))
        .tool("git_push", Behaviour::Answers)
        .tool("git_tag", Behaviour::Answers)
        .tool("git_status", Behaviour::Answers)
        .start()
        .await;
    let setup = Setup::new().server("git", &server).policy(&policy(keys));
    let gate = setup.callers(BOT).start().await;
    let agent = bot(&gate);
    let calls = |tool: &'static str| {
        let agent = agent.clone();
        async move {
            let first = agent.call(tool, json!({})).await;
            (first, agent.call(tool, json!({})).await)
        }
    };
    let (first, again) = calls(ADD).await;
    assert!(words(&again).contains("Nothing ran now"), "{again}");
    let structured = |answer: &Value| answer["result"]["structuredContent"].clone();
    assert_eq!(structured(&first), structured(&again));
    let (first, again) = calls(RESET).await;
    let message = |answer: &Value| {
        answer["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(message(&again).contains("Nothing ran now"), "{again}");
    assert!(message(&again).ends_with(&message(&first)), "{again}");
    assert_eq!(first["error"]["code"], again["error"]["code"]);
    assert_eq!(ran(&server).len(), 2);
}

/// 004-07: each member of what a server answered is given again byte for byte, as oddly as it was written, in
/// each regime; only the words stand before it where the agent gave no key.
#[tokio::test]
async fn a_replay_is_the_answer_byte_for_byte() {
    let odd = r#""structuredContent":{"z":1.0,  "a":[ 1e2,0.10 ], "\u0061b":"\u00e9\/" },"isError":false,"x-own":{ "b":1 ,"a":2}"#;
    let scripted = ScriptedServer::with(vec![tool("git_add")]).await;
    scripted.answers(move |seen| {
        let id = &seen.body["id"];
        let content = r#"[ {"text":"a  b","type":"text"} ]"#;
        let said =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":{content},{odd}}}}}"#);
        Reply::Said(200, "application/json", said)
    });
    for (regime, key) in [("retry", None), ("arguments", None), ("retry", Some("one"))] {
        let keys = format!(", idempotency: {{ derive: {regime} }}");
        let setup = Setup::new().server_with("git", &format!("url: \"{}\"", scripted.url()));
        let contract = format!("contracts:\n{}", super::contract(ADD, &keys));
        let gate = setup.policy(&contract).callers(BOT).start().await;
        let agent = bot(&gate);
        let mut params = json!({ "name": ADD, "arguments": {} });
        if let Some(key) = key {
            params["_meta"]["dev.toolgate/idempotencyKey"] = json!(key);
        }
        let request = agent.request("tools/call", params);
        let (first, again) = (agent.sends(&request).await, agent.sends(&request).await);
        assert!(is_replayed(&again.message()), "{regime}: {again:?}");
        let told = again.text();
        assert_eq!(told.contains("Nothing ran now"), key.is_none(), "{told}");
        for text in [first.text(), untold(&told)] {
            assert!(text.contains(odd), "{regime} {key:?}: {text}");
            assert!(text.contains(r#"{"text":"a  b","type":"text"}"#), "{text}");
        }
    }
}
