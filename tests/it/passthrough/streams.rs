//! Event streams: event by event, broken off, taken up again.

use super::{both, done, progress, stage, stage_in};
use crate::harness::answer::Block;
use crate::harness::scripted_server::event;
use crate::harness::until;
use serde_json::json;

/// Issue 2: each event and comment is here while the server still withholds the next.
#[tokio::test]
async fn streams_arrive_event_by_event() {
    let (scripted, gate) = stage().await;
    for agent in both(&gate).await {
        for (method, params) in [
            (
                "tools/call",
                json!({ "name": "read", "_meta": { "progressToken": "p" } }),
            ),
            (
                "resources/read",
                json!({ "uri": "x:y", "_meta": { "progressToken": "p" } }),
            ),
        ] {
            scripted.forget();
            let server = scripted.holds(method);
            server.send(": still there\n\n".to_owned()).await.unwrap();
            let message = agent.request(method, params);
            let mut reading = agent.post(&message).await;
            let first = loop {
                match reading.next().await.unwrap() {
                    Block::Comment(comment) => break comment,
                    // A legacy stream begins with an event that only carries an id.
                    Block::Event { message: None, .. } => {}
                    other @ Block::Event { .. } => panic!("{other:?}"),
                }
            };
            assert_eq!(first, " still there");
            for step in 1..4 {
                server.send(event(&progress(step))).await.unwrap();
                assert_eq!(reading.message().await, progress(step));
                // A bare sign of life stays one.
                for comment in ["", " {\"x\": 1}", "\u{1f9fe}"] {
                    server.send(format!(":{comment}\n\n")).await.unwrap();
                    assert_eq!(
                        reading.next().await,
                        Some(Block::Comment(comment.to_owned()))
                    );
                }
            }
            // Where a comment was said is kept, also when nobody has read yet.
            let together = [
                event(&progress(4)),
                ": a\n\n".to_owned(),
                event(&progress(5)),
                ": b\n\n".to_owned(),
            ];
            server.send(together.concat()).await.unwrap();
            assert_eq!(reading.message().await, progress(4));
            assert_eq!(reading.next().await, Some(Block::Comment(" a".to_owned())));
            assert_eq!(reading.message().await, progress(5));
            assert_eq!(reading.next().await, Some(Block::Comment(" b".to_owned())));
            let id = scripted
                .sees(method, |seen| seen.method() == method)
                .await
                .body["id"]
                .clone();
            server.send(event(&done(&id))).await.unwrap();
            assert_eq!(reading.message().await["id"], message["id"]);
            assert_eq!(reading.next().await, None, "the answer ends the stream");
        }
    }
}

/// threat-model §3B B11: an agent that stops reading loses what is on the way; what it called is
/// finished and recorded.
#[tokio::test]
async fn an_agent_that_does_not_read_holds_nothing_up() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().at("/mcp/oracle");
    let server = scripted.holds("tools/call");
    server.send(event(&progress(0))).await.unwrap();
    let unread = agent
        .post(&agent.request(
            "tools/call",
            json!({ "name": "write", "_meta": { "progressToken": "p" } }),
        ))
        .await;
    let id = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await
        .body["id"]
        .clone();
    let mut long = progress(1);
    long["params"]["message"] = json!("x".repeat(1 << 18));
    for _ in 0..200 {
        server.send(event(&long)).await.unwrap();
    }
    server.send(event(&done(&id))).await.unwrap();
    let entries = gate.entries(1).await;
    assert_eq!(
        (&entries[0]["tool"], &entries[0]["outcome"]),
        (&json!("oracle__write"), &json!("answered"))
    );
    drop(unread);
}

/// protocol §3.1: a legacy agent whose connection broke takes the stream up again after the last
/// event it read.
#[tokio::test]
async fn a_broken_legacy_stream_is_taken_up_again() {
    let (scripted, gate) = stage().await;
    let [_, agent] = both(&gate).await;
    let server = scripted.holds("tools/call");
    server.send(event(&progress(1))).await.unwrap();
    server.send(event(&progress(2))).await.unwrap();
    let message = agent.request(
        "tools/call",
        json!({ "name": "write", "_meta": { "progressToken": "p" } }),
    );
    let mut reading = agent.post(&message).await;
    let last = loop {
        if let Some(Block::Event {
            id,
            message: Some(_),
        }) = reading.next().await
        {
            break id.unwrap();
        }
    };
    drop(reading);
    let id = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await
        .body["id"]
        .clone();
    server.send(event(&progress(3))).await.unwrap();
    let mut again = agent.get(Some(&last)).await;
    assert_eq!(again.message().await, progress(2));
    assert_eq!(again.message().await, progress(3));
    server.send(event(&done(&id))).await.unwrap();
    assert_eq!(again.message().await["id"], message["id"]);
    assert_eq!(again.next().await, None);
    assert_eq!(scripted.executions(), 1, "it ran once");
    // What was answered can be read once more, and another session cannot.
    let mut once_more = agent.get(Some(&last)).await;
    assert_eq!(once_more.message().await, progress(2));
    let other = gate.legacy("/mcp/oracle").await;
    assert_eq!(other.get(Some(&last)).await.head.status, 400);
}

/// guarantees §4: a call that a legacy server took is not unsent because its stream cannot be taken
/// up again.
#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_again_leaves_the_outcome_unknown() {
    let (scripted, gate) = stage_in(false).await;
    let agent = gate.legacy("/mcp/oracle").await;
    let server = scripted.holds("tools/call");
    server
        .send("id: 7\nretry: 10\ndata:\n\n".to_owned())
        .await
        .unwrap();
    drop(server);
    let _reading = agent
        .post(&agent.request(
            "tools/call",
            json!({ "name": "write", "_meta": { "progressToken": "p" } }),
        ))
        .await;
    let entries = gate.entries(1).await;
    assert_eq!(entries[0]["outcome"], "unknown", "{entries:?}");
    assert_eq!(scripted.executions(), 1);
}

/// protocol §3.1: what a server says in comments on its standalone stream stands on the agent's,
/// before and after the messages it came between, and not without bound; one that comes before
/// anybody reads is read first.
#[tokio::test]
async fn comments_outside_requests_arrive_in_order() {
    let (scripted, gate) = stage().await;
    let agent = gate.legacy("/mcp/oracle").await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    let log = |number: u32| json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": number } });
    let said = |text: String| async { scripted.says(text).await };
    said(format!(": early\n\n{}", event(&log(0)))).await;
    let mut standalone = agent.get(None).await;
    let mut next = async || loop {
        match standalone.next().await.expect("the stream goes on") {
            // Signs of life of our own.
            Block::Comment(comment) if comment.is_empty() => {}
            Block::Comment(comment) => return json!(comment),
            Block::Event {
                message: Some(message),
                ..
            } => return message["params"]["data"].clone(),
            Block::Event { message: None, .. } => {}
        }
    };
    assert_eq!((next().await, next().await), (json!(" early"), json!(0)));
    for (number, (comment, read)) in [
        (" {\"x\": 1}".to_owned(), " {\"x\": 1}".to_owned()),
        (" a\u{1b}[31mb\u{0}".to_owned(), " a[31mb".to_owned()),
        (
            " ".to_owned() + &"x".repeat(2_000),
            " ".to_owned() + &"x".repeat(1_023),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u32::try_from(number).unwrap() + 1;
        said(format!(":{comment}\n\n{}", event(&log(number)))).await;
        assert_eq!((next().await, next().await), (json!(read), json!(number)));
    }
}

/// protocol §1.8: a server that says on a subscription that it is alive still has things to tell.
#[tokio::test]
async fn a_subscription_outlives_signs_of_life() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().at("/mcp/oracle");
    let wanted = json!({ "notifications": { "resourcesListChanged": true } });
    let mut listening = agent
        .post(&agent.request("subscriptions/listen", wanted))
        .await;
    assert_eq!(
        listening.message().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    scripted.breathes().await;
    scripted
        .tells(json!({ "jsonrpc": "2.0", "method": "notifications/resources/list_changed" }))
        .await;
    assert_eq!(
        listening.message().await["method"],
        "notifications/resources/list_changed"
    );
}
