//! Calls that are given up: what agents that leave end, and what servers hear of it.

use super::{both, done, progress, stage, stage_in};
use crate::harness::agent::modern;
use crate::harness::scripted_server::{Reply, ScriptedServer, event, tool};
use crate::harness::setup::Setup;
use crate::harness::stdio::Launched;
use serde_json::json;

/// protocol §3.4: a legacy agent's cancellation reaches the server under the server's id of the
/// request.
#[tokio::test]
async fn a_legacy_cancellation_arrives_under_our_id() {
    let (scripted, gate) = stage().await;
    let [_, agent] = both(&gate).await;
    // So that the agent's ids and ours differ.
    agent.ask("prompts/list", json!({})).await;
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
        let mut message = agent.request(method, params);
        message["id"] = json!(format!("the agent's {method}"));
        server.send(event(&progress(1))).await.unwrap();
        let mut reading = agent.post(&message).await;
        assert_eq!(reading.message().await, progress(1));
        let sent = scripted
            .sees(method, |seen| seen.method() == method)
            .await
            .body["id"]
            .clone();
        let note = json!({ "requestId": message["id"], "reason": "changed my mind", "x": {} });
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": note });
        assert_eq!(agent.post(&note).await.head.status, 202);
        let seen = scripted
            .sees("the cancellation", |seen| {
                seen.method() == "notifications/cancelled"
            })
            .await;
        let expected = json!({ "requestId": sent, "reason": "changed my mind", "x": {} });
        assert_eq!(seen.body["params"], expected);
        assert_ne!(sent, message["id"]);
    }
}

/// 001-59, guarantees §4 and protocol §1.7: a modern agent that goes away ends a read upstream; a
/// side effect is finished and recorded.
#[tokio::test]
async fn an_agent_that_leaves_ends_reads_but_no_side_effects() {
    let (scripted, gate) = stage_in(false).await;
    let agent = gate.agent().at("/mcp/oracle");
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
        server.send(event(&progress(1))).await.unwrap();
        let mut reading = agent.post(&agent.request(method, params)).await;
        assert_eq!(reading.message().await, progress(1));
        let id = scripted
            .sees(method, |seen| seen.method() == method)
            .await
            .body["id"]
            .clone();
        drop(reading);
        scripted.closed(&id).await;
    }
    let entries = gate.entries(1).await;
    assert_eq!(
        (&entries[0]["tool"], &entries[0]["outcome"]),
        (&json!("oracle__read"), &json!("failed"))
    );

    scripted.forget();
    let server = scripted.holds("tools/call");
    server.send(event(&progress(1))).await.unwrap();
    let mut reading = agent
        .post(&agent.request(
            "tools/call",
            json!({ "name": "write", "_meta": { "progressToken": "p" } }),
        ))
        .await;
    assert_eq!(reading.message().await, progress(1));
    let id = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await
        .body["id"]
        .clone();
    drop(reading);
    // Another agent is served meanwhile, so toolgate has had its turn to notice.
    agent.ask("prompts/list", json!({})).await;
    server.send(event(&progress(2))).await.unwrap();
    assert!(!scripted.closed_ids().contains(&id));
    server.send(event(&done(&id))).await.unwrap();
    let entries = gate.entries(4).await;
    let of = |tool: &str| {
        entries
            .iter()
            .find(|entry| entry["tool"] == tool)
            .map(|entry| entry["outcome"].clone())
    };
    assert_eq!(of("oracle__write"), Some(json!("answered")), "{entries:?}");
    assert_eq!(of("oracle__x:y"), Some(json!("failed")), "{entries:?}");
}

/// protocol §1.7 and §3.4: an agent need not wait for a server's first word to be rid of a read.
#[tokio::test]
async fn a_read_ends_before_the_server_has_said_anything() {
    let (scripted, gate) = stage_in(false).await;
    scripted.answers(|_| Reply::Silence);
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
            let (message, poster) = (agent.request(method, params), agent.clone());
            let cancellation = json!({ "requestId": message["id"] });
            let posting = tokio::spawn(async move { poster.post(&message).await.whole().await });
            let id = scripted
                .sees(method, |seen| seen.method() == method)
                .await
                .body["id"]
                .clone();
            if agent.is_legacy() {
                let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancellation });
                assert_eq!(agent.post(&note).await.head.status, 202);
                let answer = posting.await.unwrap();
                assert!(answer.to_string().contains("cancelled"), "{answer}");
            } else {
                posting.abort();
            }
            scripted.closed(&id).await;
        }
    }
}

/// protocol §4.3 (8) and §3.1: a legacy server that has read a request and not begun to answer is
/// told under our id that nobody waits for it: the agent cancelled it, went away from what ends
/// with it, or it took too long.
#[tokio::test]
async fn a_legacy_server_hears_of_a_cancellation_before_its_first_word() {
    let (scripted, gate) = stage_in(false).await;
    let agent = gate.legacy("/mcp/oracle").await;
    agent.ask("prompts/list", json!({})).await;
    scripted.answers(|_| Reply::Silence);
    let (read, write) = (
        ("tools/call", "name", "read"),
        ("tools/call", "name", "write"),
    );
    let resource = ("resources/read", "uri", "x:y");
    // What changes something does not end with its agent.
    for ((method, key, what), leaves) in [
        (read, false),
        (read, true),
        (write, false),
        (resource, false),
        (resource, true),
    ] {
        scripted.forget();
        let message = agent.request(method, json!({ key: what }));
        let (poster, request) = (agent.clone(), message.clone());
        let posting = tokio::spawn(async move { poster.post(&request).await.whole().await });
        let sent = scripted
            .sees(method, |seen| seen.method() == method)
            .await
            .body["id"]
            .clone();
        assert_ne!(sent, message["id"], "so that the ids can be told apart");
        if leaves {
            posting.abort();
        } else {
            let note = json!({ "requestId": message["id"], "reason": "changed my mind" });
            let note =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": note });
            assert_eq!(agent.post(&note).await.head.status, 202);
        }
        let seen = scripted
            .sees("the cancellation", |seen| {
                seen.method() == "notifications/cancelled"
            })
            .await;
        let reason = if leaves {
            "the agent went away"
        } else {
            "changed my mind"
        };
        assert_eq!(
            seen.body["params"],
            json!({ "requestId": sent, "reason": reason }),
            "{what}"
        );
    }
}

/// The same when it took too long, and for an agent on standard input; a server that leaves even
/// the notification unanswered holds nobody up.
#[tokio::test]
async fn a_server_that_never_answers_is_told_and_not_waited_for() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = Setup::new().server_with(
        "oracle",
        &format!("url: \"{}\", timeout: 1s", scripted.url()),
    );
    let gate = setup.contracts(&[("oracle__read", "read")]).start().await;
    scripted.answers(|_| Reply::Silence);
    scripted.leaves_notifications();
    let agent = gate.agent().at("oracle").declaring(json!({})).await;
    let answer = agent.legacy_call("read", json!({})).await;
    assert_eq!(answer.refusal(), "upstream_failed", "{answer:?}");
    let sent = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await
        .body["id"]
        .clone();
    let seen = scripted
        .sees("the cancellation", |seen| {
            seen.method() == "notifications/cancelled"
        })
        .await;
    assert_eq!(seen.body["params"]["requestId"], sent);

    let launched = gate.setup.directory().join("launched");
    for legacy in [true, false] {
        scripted.forget();
        let mut agent =
            Launched::start(&gate.setup, &["--data", launched.to_str().unwrap()], legacy).await;
        let mut params = json!({ "name": "read" });
        if !legacy {
            params = modern("tools/call", params)["params"].clone();
        }
        agent.say(&json!({ "jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": params })).await;
        let sent = scripted
            .sees("the call", |seen| seen.method() == "tools/call")
            .await
            .body["id"]
            .clone();
        let note = json!({ "requestId": "mine" });
        agent
            .say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": note }))
            .await;
        scripted.closed(&sent).await;
        if legacy {
            let told = scripted
                .sees("the cancellation", |seen| {
                    seen.method() == "notifications/cancelled"
                })
                .await;
            assert_eq!(told.body["params"], json!({ "requestId": sent }));
        } else {
            // On the modern wire the closed connection is all that is said.
            assert!(
                !scripted
                    .seen()
                    .iter()
                    .any(|seen| seen.method() == "notifications/cancelled")
            );
        }
        agent.end().await;
    }
}

/// A request that may wait for ever does not keep toolgate from ending with the agent that launched
/// it.
#[tokio::test]
async fn waiting_for_a_task_ends_with_the_agent() {
    let (scripted, gate) = stage().await;
    scripted.answers(|seen| match seen.method() {
        "tools/call" => Reply::Result(json!({ "task": { "taskId": "t-1", "status": "working" } })),
        _ => Reply::Silence,
    });
    let data = gate.path("launched");
    let mut agent = Launched::start(&gate.setup, &["--data", data.to_str().unwrap()], true).await;
    agent
        .ask("tools/call", json!({ "name": "read", "task": {} }))
        .await;
    let params = json!({ "taskId": "t-1" });
    agent
        .say(&json!({ "jsonrpc": "2.0", "id": 99, "method": "tasks/result", "params": params }))
        .await;
    scripted
        .sees("the question for the result", |seen| {
            seen.method() == "tasks/result"
        })
        .await;
    agent.end().await;
}
