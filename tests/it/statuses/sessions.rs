//! Legacy sessions that a server has forgotten, as after a restart: found out before a call that
//! changes something, where that is possible, and never by sending such a call twice.

use super::{EffectKind, POLICY, StatusCase, StatusGate, code};
use crate::harness::agent::Agent;
use crate::harness::scripted_server::{Reply, Seen};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How a ping is answered.
type SessionReply = Box<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// A call that the server runs and answers as it should.
fn good(name: &str) -> StatusCase {
    StatusCase {
        name: name.to_owned(),
        status: 400,
        kind: EffectKind::Empty,
        runs: true,
        then: 1,
    }
}

async fn made(agent: &Agent, case: &StatusCase, tool: &str) -> Value {
    case.sent(agent, (tool, 1)).await.remove(0)
}

fn is_done(answer: &Value) -> bool {
    answer["result"]["content"].is_array() && code(answer).is_empty()
}

fn pings(stage: &StatusGate) -> usize {
    stage
        .scripted
        .seen()
        .iter()
        .filter(|seen| seen.method() == "ping")
        .count()
}

/// threat-model §13 F1, guarantees §4: without a ping the call itself finds out, and nobody knows
/// what became of it. It is not sent again; other calls go on in a new session, and a read is sent
/// again at once.
#[tokio::test]
async fn a_session_that_is_gone_is_no_proof() {
    let stage = StatusGate::new(", ping_after: 1h", POLICY).await;
    let agent = stage.gate.agent().initialized().await;
    assert!(is_done(&made(&agent, &good("first"), "pay").await));
    stage.scripted.forgets_sessions();
    let lost = good("lost");
    for _ in 0..2 {
        let told = made(&agent, &lost, "pay").await;
        assert_eq!(code(&told), "outcome_unknown", "{told}");
    }
    assert!(
        is_done(&made(&agent, &good("second"), "pay").await),
        "in a new session"
    );
    stage.scripted.forgets_sessions();
    assert!(
        is_done(&made(&agent, &good("look"), "read").await),
        "a read is sent again"
    );
    assert_eq!(
        (
            stage.came(&lost),
            stage.came(&good("second")),
            pings(&stage)
        ),
        ((0, 0), (1, 1), 0)
    );
}

/// threat-model §13 F1: a server that was restarted is found out by a ping, and its next call runs
/// once, in a new session.
#[tokio::test]
async fn an_idle_session_is_pinged_before_a_write() {
    let stage = StatusGate::new(", ping_after: 1ms", POLICY).await;
    let agent = stage.gate.agent().initialized().await;
    for (number, what) in ["first", "second", "third"].into_iter().enumerate() {
        let before = stage.scripted.sessions();
        let case = good(what);
        assert!(is_done(&made(&agent, &case, "pay").await), "{what}");
        assert_eq!(stage.came(&case), (1, 1), "{what}");
        assert!(
            number == 0 || stage.scripted.sessions() == before + 1,
            "{what}: a session of its own"
        );
        stage.scripted.forgets_sessions();
    }
    assert_eq!(stage.scripted.executions(), 3);
}

/// The same for servers that say otherwise that they do not know a session, and for those that say
/// something else to a ping: any answer to it says that the session is known, and one that does not
/// come says nothing.
#[tokio::test]
async fn what_a_ping_is_answered_with_decides() {
    let stage = StatusGate::new(", ping_after: 1ms", POLICY).await;
    for (what, opens, says) in pings_answered() {
        let agent = stage.gate.agent().initialized().await;
        assert!(
            is_done(&made(&agent, &good(&format!("{what}: first")), "read").await),
            "{what}"
        );
        stage.scripted.answers(move |seen| match seen.method() {
            "ping" => says(seen),
            _ => Reply::Result(json!({ "content": [], "resultType": "complete" })),
        });
        stage.scripted.forget();
        let (before, deleted) = (stage.scripted.sessions(), stage.scripted.deleted());
        assert!(
            is_done(&made(&agent, &good(&format!("{what}: then")), "pay").await),
            "{what}"
        );
        let opened = stage.scripted.sessions() - before;
        assert_eq!(
            (pings(&stage), stage.scripted.executions(), opened),
            (1, 1, usize::from(opens)),
            "{what}"
        );
        assert_eq!(
            stage.scripted.deleted(),
            deleted,
            "{what}: nobody knows what goes on in it"
        );
    }
}

/// How a ping is answered, and whether that opens another session.
fn pings_answered() -> [(&'static str, bool, SessionReply); 7] {
    let error = |id: &Value, code: i64| {
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "no" } })
            .to_string()
    };
    let json = "application/json";
    [
        (
            "it has no such method",
            false,
            Box::new(move |seen| Reply::Said(200, json, error(&seen.body["id"], -32601))),
        ),
        (
            "nor under a status",
            false,
            Box::new(move |seen| Reply::Said(400, json, error(&seen.body["id"], -32601))),
        ),
        ("it answers", false, Box::new(|_| Reply::Result(json!({})))),
        ("it says nothing", false, Box::new(|_| Reply::Silence)),
        (
            "it names no request",
            true,
            Box::new(move |_| Reply::Said(400, json, error(&Value::Null, -32000))),
        ),
        (
            "it has no session",
            true,
            Box::new(move |seen| Reply::Said(404, json, error(&seen.body["id"], -32001))),
        ),
        (
            "nor has anything said so",
            true,
            Box::new(|_| Reply::Status(404)),
        ),
    ]
}

/// What says nothing of the session, as a rate limiter's word, ends none: a call in flight in it,
/// of which nothing is known yet, is answered there, and the one that waits for the ping was not
/// sent.
#[tokio::test]
async fn a_ping_that_fails_ends_no_session() {
    let quick = POLICY.replace(
        "oracle__pay: { purpose",
        "oracle__pay: { budget: { timeout_ms: 1000 }, purpose",
    );
    let stage = StatusGate::new(", ping_after: 1ms", &quick).await;
    let agent = stage.gate.agent().initialized().await;
    let unnamed =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "slow down" } }).to_string();
    let cases: [(u16, &str, String); 4] = [
        (429, "text/plain", "slow down".to_owned()),
        (429, "application/json", unnamed),
        (503, "text/plain", "no healthy upstream".to_owned()),
        (200, "text/html", "please log in".to_owned()),
    ];
    for (status, kind, body) in cases {
        let (ends, end) = oneshot::channel();
        let (end, limited) = (Mutex::new(Some(end)), Arc::new(AtomicBool::new(false)));
        let limits = limited.clone();
        stage.scripted.answers(move |seen| {
            match seen.body["params"]["arguments"]["case"].as_str() {
                Some(name) if name.ends_with("slow") => {
                    Reply::Later(end.lock().unwrap().take().unwrap())
                }
                None if limits.load(Ordering::Relaxed) => Reply::Said(status, kind, body.clone()),
                _ => Reply::Result(json!({ "content": [], "resultType": "complete" })),
            }
        });
        stage.scripted.forget();
        let slow = good(&format!("{status}-{kind}-slow"));
        let quick = good(&format!("{status}-{kind}-quick"));
        let (sessions, deleted) = (stage.scripted.sessions(), stage.scripted.deleted());
        let told = made(&agent, &slow, "pay").await;
        assert_eq!(code(&told), "outcome_unknown", "{status}: {told}");
        limited.store(true, Ordering::Relaxed);
        let told = made(&agent, &quick, "pay").await;
        assert_eq!(code(&told), "upstream_unavailable", "{status}: {told}");
        assert_eq!(
            (stage.scripted.executions(), stage.scripted.deleted()),
            (1, deleted),
            "{status}"
        );
        let done = Reply::Result(json!({ "content": [], "resultType": "complete" }));
        assert!(ends.send(done).is_ok(), "{status}: it is in flight");
        crate::harness::until("the slow call is answered", || async {
            is_done(&made(&agent, &slow, "pay").await).then_some(())
        })
        .await;
        limited.store(false, Ordering::Relaxed);
        assert!(is_done(&made(&agent, &quick, "pay").await), "{status}");
        assert_eq!(
            (stage.scripted.executions(), stage.scripted.deleted()),
            (2, deleted),
            "{status}"
        );
        assert!(
            stage.scripted.sessions() <= sessions.max(1),
            "{status}: no session but the agent's"
        );
    }
}

/// What a proxy says while its server is away is not heard from the session: it is pinged before
/// the next write.
#[tokio::test]
async fn a_proxy_keeps_no_session_fresh() {
    const PING_AFTER: Duration = Duration::from_millis(500);
    let stage = StatusGate::new(", ping_after: 500ms", POLICY).await;
    let agent = stage.gate.agent().initialized().await;
    assert!(is_done(&made(&agent, &good("first"), "read").await));
    let since = Instant::now();
    stage
        .scripted
        .answers(|seen| match seen.body["params"]["name"].as_str() {
            Some("read") => Reply::Said(502, "text/plain", "bad gateway".to_owned()),
            _ => Reply::Result(json!({ "content": [], "resultType": "complete" })),
        });
    for number in 0.. {
        let told = made(&agent, &good(&format!("look {number}")), "read").await;
        assert_eq!(code(&told), "upstream_failed", "{told}");
        if since.elapsed() > PING_AFTER {
            break;
        }
    }
    stage.scripted.forgets_sessions();
    let told = made(&agent, &good("then"), "pay").await;
    assert!(is_done(&told), "{told}");
}

/// Nobody is asked about a session that was heard of just now, nor for a read; and what cannot be
/// reached was not sent.
#[tokio::test]
async fn a_ping_that_finds_nobody_sends_nothing() {
    let stage = StatusGate::new(", ping_after: 1ms", POLICY).await;
    let agent = stage.gate.agent().initialized().await;
    assert!(is_done(&made(&agent, &good("first"), "read").await));
    assert_eq!(pings(&stage), 0);
    stage.scripted.down();
    let lost = good("lost");
    let told = made(&agent, &lost, "pay").await;
    assert_eq!(code(&told), "upstream_unavailable", "{told}");
    stage.scripted.up().await;
    crate::harness::until("the same call runs", || async {
        let told = made(&agent, &lost, "pay").await;
        assert!(
            is_done(&told) || code(&told) == "upstream_unavailable",
            "{told}"
        );
        is_done(&told).then_some(())
    })
    .await;
    assert_eq!(stage.came(&lost), (1, 1));
}

/// An agent that ends its session does not end the tool server's as long as a call is in flight in
/// it that may change something: it is answered there.
#[tokio::test]
async fn an_agent_that_leaves_ends_no_call() {
    let stage = StatusGate::new("", POLICY).await;
    let leaving = stage.gate.agent().initialized().await;
    let (ends, end) = oneshot::channel();
    let end = Mutex::new(Some(end));
    stage
        .scripted
        .answers(move |_| Reply::Later(end.lock().unwrap().take().unwrap()));
    let slow = StatusCase {
        status: 400,
        ..good("slow")
    };
    let params = |agent: &Agent| {
        let told = json!({ "case": slow.name });
        let meta = json!({ "dev.toolgate/idempotencyKey": slow.name });
        agent.request(
            "tools/call",
            json!({ "name": "oracle__pay", "arguments": told, "_meta": meta }),
        )
    };
    let deleted = stage.scripted.deleted();
    let message = params(&leaving);
    let call = leaving.answered(&message);
    let gone = async {
        stage
            .scripted
            .sees("the slow call", |seen| seen.method() == "tools/call")
            .await;
        leaving.delete().await;
    };
    tokio::select! {
        answer = call => panic!("it is not answered yet: {answer}"),
        () = gone => {}
    }
    assert_eq!(stage.scripted.deleted(), deleted, "a call is in flight");
    assert!(
        ends.send(Reply::Result(
            json!({ "content": [], "resultType": "complete" })
        ))
        .is_ok()
    );
    let other = stage.gate.agent().initialized().await;
    let again = other.answered(&params(&other)).await;
    assert!(is_done(&again), "{again}");
    assert_eq!(stage.scripted.executions(), 1);
}
