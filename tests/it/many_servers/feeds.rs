//! What servers tell of their own accord, joined into one stream.

use super::{server, settings, two};
use crate::harness::answer::Reading;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, event};
use crate::harness::stdio::Launched;
use serde_json::{Value, json};

#[tokio::test]
async fn an_agent_hears_of_resources_of_all_servers_under_its_own_subscription() {
    let (north, south, gate) = two(Offers::default(), Offers::default()).await;
    let agent = gate.agent();
    let wanted = json!({ "resourceSubscriptions": ["north://1", "south://1"] });
    let request = agent.request("subscriptions/listen", json!({ "notifications": wanted }));
    let mut stream = agent.post(&request).await;
    let label = |message: &Value| {
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
    };
    let acknowledged = stream.message().await;
    assert_eq!(
        acknowledged["method"], "notifications/subscriptions/acknowledged",
        "{acknowledged}"
    );
    assert_eq!(label(&acknowledged), request["id"], "{acknowledged}");
    assert!(
        acknowledged["params"]["notifications"]["resourceSubscriptions"].is_array(),
        "{acknowledged}"
    );
    for (scripted, uri) in [
        (&north, "north://1"),
        (&south, "south://1"),
        (&north, "north://1"),
    ] {
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } });
        scripted.tells(note).await;
        let heard = stream.message().await;
        assert_eq!(
            heard["method"], "notifications/resources/updated",
            "{heard}"
        );
        assert_eq!(
            (&heard["params"]["uri"], label(&heard)),
            (&json!(uri), request["id"].clone()),
            "{heard}"
        );
    }
}

fn note(what: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": format!("notifications/{what}"), "params": params })
}

/// Reads until everything in `expected` was said, each under the id of the subscription; returns
/// what was said.
async fn hears(stream: &mut Reading, id: &Value, expected: &[&str]) -> Vec<Value> {
    let mut said: Vec<Value> = Vec::new();
    while !expected.iter().all(|what| {
        said.iter()
            .any(|said| said["method"] == format!("notifications/{what}"))
    }) {
        let message = stream.message().await;
        assert_eq!(
            &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id,
            "{message}"
        );
        said.push(message);
    }
    said
}

/// protocol §1.8: a server that breaks off takes no other with it; when it is back it is listened
/// to again, and the agent hears what it may have missed.
#[tokio::test]
async fn a_feed_that_broke_off_is_opened_again() {
    let (north, south, gate) = two(Offers::default(), Offers::default()).await;
    let wanted = json!({
        "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["south://1"],
    });
    let agent = gate.agent();
    let request = agent.request("subscriptions/listen", json!({ "notifications": wanted }));
    let mut stream = agent.post(&request).await;
    let acknowledged = stream.message().await;
    assert_eq!(
        acknowledged["params"]["notifications"], wanted,
        "{acknowledged}"
    );
    for round in 0..2 {
        south.down();
        north
            .tells(note("resources/list_changed", &json!({ "north": round })))
            .await;
        let said = hears(&mut stream, &request["id"], &["resources/list_changed"]).await;
        assert_eq!(
            (said.len(), &said[0]["params"]["north"]),
            (1, &json!(round)),
            "{said:?}"
        );
        south.up().await;
        // Its lists may have changed while nobody listened.
        let missed = [
            "prompts/list_changed",
            "resources/list_changed",
            "resources/updated",
        ];
        let said = hears(&mut stream, &request["id"], &missed).await;
        assert_eq!(
            (said.len(), &said[2]["params"]["uri"]),
            (3, &json!("south://1")),
            "{said:?}"
        );
        for (scripted, name) in [(&south, "south"), (&north, "north")] {
            scripted
                .tells(note("prompts/list_changed", &json!({ name: round })))
                .await;
            let said = hears(&mut stream, &request["id"], &["prompts/list_changed"]).await;
            assert_eq!(
                (said.len(), &said[0]["params"][name]),
                (1, &json!(round)),
                "{said:?}"
            );
        }
    }
}

/// The same for an agent on standard input, which has one server.
#[tokio::test]
async fn an_agent_on_standard_input_hears_again_of_a_server_that_came_back() {
    let scripted = server("north", Offers::default()).await;
    let gate = Gate::start(settings(vec![("north", scripted.url())])).await;
    let data = gate.path("launched");
    let mut agent = Launched::start(&gate.setup, &["--data", data.to_str().unwrap()], false).await;
    let wanted = json!({ "notifications": { "promptsListChanged": true } });
    let listen = gate.agent().request("subscriptions/listen", wanted);
    agent.say(&listen).await;
    assert_eq!(
        agent.hears().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    scripted.down();
    scripted.up().await;
    let missed = agent.hears().await;
    assert_eq!(
        missed["method"], "notifications/prompts/list_changed",
        "{missed}"
    );
    scripted
        .tells(note("prompts/list_changed", &json!({ "x": 1 })))
        .await;
    let said = agent.hears().await;
    assert_eq!(
        (&said["method"], &said["params"]["x"]),
        (&missed["method"], &json!(1)),
        "{said}"
    );
    agent.end().await;
}

/// A server that was listened to and comes back as one that refuses it: the log says so, the agent
/// looks again at what it may have missed, and the others go on.
#[tokio::test]
async fn a_feed_that_is_refused_when_it_is_opened_again_is_reported() {
    let (north, south, gate) = two(Offers::default(), Offers::default()).await;
    let agent = gate.agent();
    let wanted = json!({ "notifications": { "promptsListChanged": true } });
    let request = agent.request("subscriptions/listen", wanted);
    let mut stream = agent.post(&request).await;
    assert_eq!(
        stream.message().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    south.answers(|_| {
        Reply::Message(json!({ "jsonrpc": "2.0", "error": { "code": -32601, "message": "no" } }))
    });
    south.scripts_subscriptions();
    south.down();
    south.up().await;
    hears(&mut stream, &request["id"], &["prompts/list_changed"]).await;
    let log = gate.log();
    assert!(log.contains("refuses a subscription that it had"), "{log}");
    north
        .tells(note("prompts/list_changed", &json!({ "north": 1 })))
        .await;
    let said = hears(&mut stream, &request["id"], &["prompts/list_changed"]).await;
    assert_eq!(said[0]["params"]["north"], 1, "{said:?}");
}

/// A server that is slow to take a subscription delays no other, and what each honours is added up.
#[tokio::test]
async fn servers_are_subscribed_to_side_by_side() {
    let (north, south, gate) = two(Offers::default(), Offers::default()).await;
    let agent = gate.agent();
    let wanted =
        json!({ "promptsListChanged": true, "resourceSubscriptions": ["a:1", "a:2", "a:3"] });
    let request = agent.request("subscriptions/listen", json!({ "notifications": wanted }));
    let poster = agent.clone();
    let mut hands = Vec::new();
    for scripted in [&north, &south] {
        scripted.is_listened_to().await;
        hands.push(scripted.holds("subscriptions/listen"));
        scripted.scripts_subscriptions();
    }
    let posting = tokio::spawn(async move { poster.post(&request).await });
    // Both are asked before either has answered.
    let mut asked = Vec::new();
    for scripted in [&north, &south] {
        asked.push(
            scripted
                .sees("the subscription", |seen| {
                    seen.method() == "subscriptions/listen"
                })
                .await,
        );
    }
    let honours = [
        json!({ "promptsListChanged": true, "resourceSubscriptions": ["a:2", "never asked for"] }),
        json!({ "promptsListChanged": false, "resourceSubscriptions": ["a:1", "a:2"], "unasked": true }),
    ];
    for ((hand, seen), notifications) in hands.iter().zip(&asked).zip(honours) {
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": seen.body["id"] });
        let params = json!({ "_meta": meta, "notifications": notifications });
        hand.send(": a moment\n\n".to_owned()).await.unwrap();
        hand.send(event(&note("subscriptions/acknowledged", &params)))
            .await
            .unwrap();
    }
    let acknowledged = posting.await.unwrap().message().await;
    let expected = json!({ "promptsListChanged": true, "resourceSubscriptions": ["a:2", "a:1"] });
    assert_eq!(
        acknowledged["params"]["notifications"], expected,
        "{acknowledged}"
    );
}
