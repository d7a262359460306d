//! Legacy sessions that a server has forgotten, as after a restart: found out before a call that changes something, where
//! that is possible, and never by sending such a call twice.

use super::{Case, Kind, POLICY, Stage, code};
use crate::puppet::{Answer, Seen};
use crate::stage::Agent;
use serde_json::{Value, json};

/// How a ping is answered.
type Says = Box<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// A call that the server runs and answers as it should.
fn good(name: &str) -> Case {
    Case { name: name.to_owned(), status: 400, kind: Kind::Empty, runs: true, then: 1 }
}

async fn made(agent: &Agent, case: &Case, tool: &str) -> Value {
    case.sent(agent, (tool, 1)).await.remove(0)
}

fn is_done(answer: &Value) -> bool {
    answer["result"]["content"].is_array() && code(answer).is_empty()
}

fn pings(stage: &Stage) -> usize {
    stage.puppet.seen().iter().filter(|seen| seen.method() == "ping").count()
}

/// FINDINGS F1, SEMANTICS §4: without a ping the call itself finds out, and nobody knows what became of it. It is not sent
/// again; other calls go on in a new session, and a read is sent again at once.
#[tokio::test]
async fn a_session_that_is_gone_is_no_proof() {
    let stage = Stage::new(", ping_after: 1h", POLICY).await;
    let agent = stage.gate.agent().initialized().await;
    assert!(is_done(&made(&agent, &good("first"), "pay").await));
    stage.puppet.forgets_sessions();
    let lost = good("lost");
    for _ in 0..2 {
        let told = made(&agent, &lost, "pay").await;
        assert_eq!(code(&told), "outcome_unknown", "{told}");
    }
    assert!(is_done(&made(&agent, &good("second"), "pay").await), "in a new session");
    stage.puppet.forgets_sessions();
    assert!(is_done(&made(&agent, &good("look"), "read").await), "a read is sent again");
    assert_eq!((stage.came(&lost), stage.came(&good("second")), pings(&stage)), ((0, 0), (1, 1), 0));
}

/// FINDINGS F1: a server that was restarted is found out by a ping, and its next call runs once, in a new session.
#[tokio::test]
async fn an_idle_session_is_pinged_before_a_write() {
    let stage = Stage::new(", ping_after: 1ms", POLICY).await;
    let agent = stage.gate.agent().initialized().await;
    for (number, what) in ["first", "second", "third"].into_iter().enumerate() {
        let before = stage.puppet.sessions();
        let case = good(what);
        assert!(is_done(&made(&agent, &case, "pay").await), "{what}");
        assert_eq!(stage.came(&case), (1, 1), "{what}");
        assert!(number == 0 || stage.puppet.sessions() == before + 1, "{what}: a session of its own");
        stage.puppet.forgets_sessions();
    }
    assert_eq!(stage.puppet.executions(), 3);
}

/// The same for servers that say otherwise that they do not know a session, and for those that say something else to a ping:
/// any answer to it says that the session is known, and one that does not come says nothing.
#[tokio::test]
async fn what_a_ping_is_answered_with_decides() {
    let error = |id: &Value, code: i64| {
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "no" } }).to_string()
    };
    let json = "application/json";
    let cases: [(&str, bool, Says); 7] = [
        (
            "it has no such method",
            false,
            Box::new(move |seen| Answer::Said(200, json, error(&seen.body["id"], -32601))),
        ),
        ("nor under a status", false, Box::new(move |seen| Answer::Said(400, json, error(&seen.body["id"], -32601)))),
        ("it answers", false, Box::new(|_| Answer::Result(json!({})))),
        ("it says nothing", false, Box::new(|_| Answer::Silence)),
        ("it names no request", true, Box::new(move |_| Answer::Said(400, json, error(&Value::Null, -32000)))),
        ("it has no session", true, Box::new(move |seen| Answer::Said(404, json, error(&seen.body["id"], -32001)))),
        ("a proxy says so", true, Box::new(|_| Answer::Said(503, "text/plain", "no healthy upstream".to_owned()))),
    ];
    let stage = Stage::new(", ping_after: 1ms", POLICY).await;
    for (what, opens, says) in cases {
        let agent = stage.gate.agent().initialized().await;
        assert!(is_done(&made(&agent, &good(&format!("{what}: first")), "read").await), "{what}");
        stage.puppet.answers(move |seen| match seen.method() {
            "ping" => says(seen),
            _ => Answer::Result(json!({ "content": [], "resultType": "complete" })),
        });
        stage.puppet.forget();
        let before = stage.puppet.sessions();
        assert!(is_done(&made(&agent, &good(&format!("{what}: then")), "pay").await), "{what}");
        let opened = stage.puppet.sessions() - before;
        assert_eq!((pings(&stage), stage.puppet.executions(), opened), (1, 1, usize::from(opens)), "{what}");
    }
}

/// Nobody is asked about a session that was heard of just now, nor for a read; and what cannot be reached was not sent.
#[tokio::test]
async fn a_ping_that_finds_nobody_sends_nothing() {
    let stage = Stage::new(", ping_after: 1ms", POLICY).await;
    let agent = stage.gate.agent().initialized().await;
    assert!(is_done(&made(&agent, &good("first"), "read").await));
    assert_eq!(pings(&stage), 0);
    stage.puppet.down();
    let lost = good("lost");
    let told = made(&agent, &lost, "pay").await;
    assert_eq!(code(&told), "upstream_unavailable", "{told}");
    stage.puppet.up().await;
    crate::harness::until("the same call runs", || async {
        let told = made(&agent, &lost, "pay").await;
        assert!(is_done(&told) || code(&told) == "upstream_unavailable", "{told}");
        is_done(&told).then_some(())
    })
    .await;
    assert_eq!(stage.came(&lost), (1, 1));
}
