//! The second proof: a call of unknown outcome is sent again under the key that its tool server knows it
//! by, when its agent comes again, and ends by a good answer alone (guarantees §4).

use super::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls are sent twice at most in one go; two answers of the server are said to prove that nothing ran.
fn own_key(more: &str) -> String {
    format!(
        ", idempotency: {{ derive: [/key], upstream: {{ meta: com.bank/key{more} }}, attempts: 2, not_executed: [409, -32050] }}"
    )
}

fn sent_keys(server: &ScriptedServer) -> Vec<String> {
    let seen = server.seen();
    let calls = seen.iter().filter(|seen| name(seen) == "pay");
    let key = |seen: &Seen| seen.body["params"]["_meta"]["com.bank/key"].to_string();
    calls.map(key).collect()
}

/// The agent asks again until the server was called `count` times: it may not as often as it likes.
async fn asks_until_sent(gate: &Gate, server: &ScriptedServer, count: usize) -> Answer {
    until("the call is sent again", || async {
        let answer = pay(gate, "k").await;
        assert!(times(server, "pay") <= count, "one sending for each answer");
        (times(server, "pay") == count).then_some(answer)
    })
    .await
}

/// An enemy carries the call out and says the opposite, in each way that its contract takes for proof. None
/// of it frees the key: each sending has the same one, and only a good answer ends the call, which then is
/// that answer. Each sending has an entry.
#[tokio::test]
async fn a_server_that_says_the_opposite_frees_nothing() {
    let server = ScriptedServer::with(vec![tool("pay"), tool("look")]).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    server.answers(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Reply::Status(503),
        2 => Reply::Status(409),
        3 => Reply::Message(json!({ "error": { "code": -32050, "message": "nothing was done" } })),
        4 => Reply::Result(json!({ "content": [], "isError": true, "resultType": "complete" })),
        _ => Reply::Result(
            json!({ "content": [{ "type": "text", "text": "receipt 7" }], "resultType": "complete" }),
        ),
    });
    let gate = setup(&server, &own_key(""), "").start().await;
    let action = lost(&gate, "k").await;
    assert_eq!(times(&server, "pay"), 2, "twice in one go");
    for count in 3..=5 {
        let answer = asks_until_sent(&gate, &server, count).await;
        assert_eq!(answer.refusal(), "outcome_unknown", "{count}: {answer:?}");
    }
    let done = asks_until_sent(&gate, &server, 6).await;
    assert!(done.text().contains("receipt 7"), "{done:?}");
    assert!(pay(&gate, "k").await.text().contains("receipt 7"));
    assert_eq!(times(&server, "pay"), 6, "it is known");
    let keys: BTreeSet<String> = sent_keys(&server).into_iter().collect();
    assert!(keys.len() == 1 && !keys.contains("null"), "{keys:?}");
    let told = until("each sending has its entry", || async {
        let entries = gate.ledger().await;
        let resent = entries
            .iter()
            .filter(|entry| entry["method"] == "resend" && entry["probe_of"] == action);
        let told = resent.map(|entry| entry["decided_by"].as_str().unwrap().to_owned());
        let told: Vec<String> = told.collect();
        (told.len() >= 4).then_some(told)
    })
    .await;
    let nothing = "upstream key: proves nothing";
    assert_eq!(
        told,
        [nothing, nothing, nothing, "upstream key: it has run"]
    );
}

/// What was not sent under a key, or under this one, is not sent again under it: the server would not know
/// the two apart. Neither is it once the server may have forgotten the key.
#[tokio::test]
async fn only_a_key_that_was_sent_and_is_remembered_counts() {
    let forgets = own_key(", window: 2s, margin: 1s");
    let cases = [
        (PROBE.to_owned(), own_key("")),
        (
            own_key(""),
            own_key("").replace("com.bank/key", "com.bank/other"),
        ),
        (forgets.clone(), forgets),
    ];
    for (before, now) in cases {
        let server = ScriptedServer::with(vec![tool("pay"), tool("look")]).await;
        server.answers(|_| Reply::Status(503));
        let gate = setup(&server, &before, "").start().await;
        lost(&gate, "k").await;
        let sent = times(&server, "pay");
        let lost_at = std::time::Instant::now();
        let stopped = gate.stop().await;
        let gate = stopped.policy(&policy(&now)).unwatched().start().await;
        until("the server may have forgotten", || async {
            (lost_at.elapsed() > std::time::Duration::from_millis(1_100)).then_some(())
        })
        .await;
        for _ in 0..3 {
            assert_eq!(pay(&gate, "k").await.refusal(), "outcome_unknown");
        }
        assert_eq!(times(&server, "pay"), sent, "{before}, then {now}");
    }
}

/// After a kill, the same call is sent again under the same key, and ends.
#[tokio::test]
async fn the_key_outlives_a_kill() {
    let server = ScriptedServer::with(vec![tool("pay"), tool("look")]).await;
    server.answers(|_| Reply::Status(503));
    let mut gate = setup(&server, &own_key(""), "").start().await;
    lost(&gate, "k").await;
    gate.kill().await;
    server.answers(|_| {
        Reply::Result(json!({ "content": [{ "type": "text", "text": "receipt 8" }], "resultType": "complete" }))
    });
    let gate = gate.setup.clone().start().await;
    let done = asks_until_sent(&gate, &server, 3).await;
    assert!(done.text().contains("receipt 8"), "{done:?}");
    let keys: BTreeSet<String> = sent_keys(&server).into_iter().collect();
    assert_eq!((times(&server, "pay"), keys.len()), (3, 1));
}
