//! A legacy agent at a server of 2026-07-28 only.

use super::{Bridge, answers, last};
use crate::harness::scripted_server::{Reply, event};
use serde_json::{Value, json};

const META: &str = "io.modelcontextprotocol";

fn meta<'a>(body: &'a Value, key: &str) -> &'a Value {
    &body["params"]["_meta"][format!("{META}/{key}")]
}

/// `initialize`, `notifications/initialized`, `ping`: answered by toolgate, from what the server
/// said to `server/discover`.
#[tokio::test]
async fn the_handshake_is_answered_from_discover() {
    let bridge = Bridge::modern().await;
    bridge.server.instructs("be careful");
    let agent = bridge.legacy_agent().await;
    assert_eq!(agent.ask("ping", json!({})).await["result"], json!({}));
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
    let answer = bridge
        .gate
        .agent()
        .at("s")
        .legacy("initialize", params)
        .await;
    let result = &answer.message()["result"];
    assert_eq!(result["protocolVersion"], "2025-06-18", "{result}");
    assert!(result["serverInfo"]["name"].is_string(), "{result}");
    assert!(result["capabilities"]["resources"].is_object(), "{result}");
    assert!(result.get("supportedVersions").is_none() && result.get("ttlMs").is_none());
    // Nothing of it came to the server.
    assert!(bridge.server.initialized().is_empty());
    assert!(
        bridge.server.seen().is_empty(),
        "{:#?}",
        bridge.server.seen()
    );
}

/// `tools/list`: only what a legacy agent knows; the header keyword goes.
#[tokio::test]
async fn definitions_are_those_of_the_revision() {
    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    let listed = agent.ask("tools/list", json!({})).await;
    assert!(!listed.to_string().contains("x-mcp-header"), "{listed}");
    for key in ["resultType", "ttlMs", "cacheScope"] {
        assert!(listed["result"].get(key).is_none(), "{listed}");
    }
    let own = bridge.modern_agent().ask("tools/list", json!({})).await;
    assert!(own.to_string().contains("x-mcp-header"), "{own}");
}

/// `tools/call`, `prompts/get`, `resources/read`, `completion/complete` and the lists: with the
/// envelope, the mirrored headers and what the agent said of itself; answers without what is new.
#[tokio::test]
async fn every_request_is_stamped_and_every_answer_is_plain() {
    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    answers(
        &bridge.server,
        json!({
            "resultType": "complete", "ttlMs": 5, "cacheScope": "public", "acme": [1.0, 1e2],
            "content": [], "prompts": [], "resources": [], "resourceTemplates": [], "messages": [],
            "contents": [], "completion": { "values": [] },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "s", "version": "1" }, "acme/x": 1 },
        }),
    );
    let prompt = json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } });
    let requests = [
        (
            "tools/call",
            json!({ "name": "read", "arguments": { "region": "eu" } }),
            Some("read"),
        ),
        (
            "prompts/get",
            json!({ "name": "p", "arguments": {} }),
            Some("p"),
        ),
        ("resources/read", json!({ "uri": "x:1" }), Some("x:1")),
        ("prompts/list", json!({}), None),
        ("resources/list", json!({}), None),
        ("resources/templates/list", json!({}), None),
        ("completion/complete", prompt, None),
    ];
    for (method, params, name) in requests {
        let answer = agent.ask(method, params).await;
        let result = answer["result"]
            .as_object()
            .unwrap_or_else(|| panic!("{method}: {answer}"));
        for key in ["resultType", "ttlMs", "cacheScope"] {
            assert!(!result.contains_key(key), "{method}: {answer}");
        }
        assert!(answer["result"]["_meta"][format!("{META}/serverInfo")].is_null());
        let seen = last(&bridge.server, method);
        assert_eq!(
            meta(&seen.body, "protocolVersion"),
            "2026-07-28",
            "{method}"
        );
        assert_eq!(meta(&seen.body, "clientInfo")["name"], "agent", "{method}");
        let capabilities = meta(&seen.body, "clientCapabilities");
        assert_eq!(capabilities["roots"], json!({}), "{method}: {capabilities}");
        assert_eq!(seen.header("mcp-method"), Some(method));
        assert_eq!(seen.header("mcp-name"), name, "{method}");
        assert_eq!(seen.header("mcp-session-id"), None);
    }
    let call = last(&bridge.server, "tools/call");
    assert_eq!(call.header("mcp-param-region"), Some("eu"));
}

/// Errors: −32602 of a resource is −32002, errors about the envelope are toolgate's own, and what a
/// program lacks is said as a result.
#[tokio::test]
async fn errors_are_those_of_the_era() {
    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    let says = |code: i64| {
        bridge.server.answers(move |_| {
            let data = json!({ "requiredCapabilities": { "sampling": {} } });
            let error = json!({ "code": code, "message": "m", "data": data });
            Reply::Message(json!({ "jsonrpc": "2.0", "error": error }))
        });
    };
    says(-32602);
    let gone = agent.ask("resources/read", json!({ "uri": "x:1" })).await;
    assert_eq!(gone["error"]["code"], -32002, "{gone}");
    says(-32022);
    let odd = agent.ask("prompts/get", json!({ "name": "p" })).await;
    assert_eq!(odd["error"]["code"], -32603, "{odd}");
    says(-32021);
    let lacks = agent.call("read", json!({})).await;
    assert_eq!(lacks["result"]["isError"], true, "{lacks}");
    assert!(lacks.to_string().contains("sampling"), "{lacks}");
}

/// `logging/setLevel`: kept, and sent with every request; what is logged arrives.
#[tokio::test]
async fn a_log_level_travels_with_each_request() {
    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    answers(
        &bridge.server,
        json!({ "content": [], "resultType": "complete" }),
    );
    let bad = agent
        .ask("logging/setLevel", json!({ "level": "loud" }))
        .await;
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
    agent.call("read", json!({ "n": 1 })).await;
    assert!(meta(&last(&bridge.server, "tools/call").body, "logLevel").is_null());
    let set = agent
        .ask("logging/setLevel", json!({ "level": "info" }))
        .await;
    assert_eq!(set["result"], json!({}), "{set}");
    let says = bridge.server.holds("tools/call");
    let call = agent.request(
        "tools/call",
        json!({ "name": "read", "arguments": { "n": 2 } }),
    );
    let answer = agent.post(&call);
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "hello" } });
    says.send(event(&note)).await.unwrap();
    let mut answer = answer.await;
    assert_eq!(answer.message().await["params"]["data"], "hello");
    let seen = last(&bridge.server, "tools/call");
    assert_eq!(meta(&seen.body, "logLevel"), "info");
    let result = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": { "content": [], "resultType": "complete" } });
    says.send(event(&result)).await.unwrap();
    assert!(answer.whole().await["result"].is_object());
    assert!(
        bridge
            .server
            .seen()
            .iter()
            .all(|seen| seen.method() != "logging/setLevel")
    );
}

/// Progress comes under the agent's own token; a cancellation closes the server's stream.
#[tokio::test]
async fn progress_and_cancellation_cross() {
    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    let says = bridge.server.holds("tools/call");
    let call = agent.request(
        "tools/call",
        json!({ "name": "read", "arguments": {}, "_meta": { "progressToken": "mine" } }),
    );
    let (answer, seen) = tokio::join!(
        async {
            let progress = json!({ "progressToken": "mine", "progress": 1 });
            let note =
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress });
            says.send(event(&note)).await.unwrap();
            agent.post(&call).await
        },
        bridge
            .server
            .sees("the call", |seen| seen.method() == "tools/call")
    );
    let mut answer = answer;
    assert_eq!(answer.message().await["params"]["progressToken"], "mine");
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call["id"] } });
    agent.post(&note).await;
    bridge.server.closed(&seen.body["id"]).await;
}

/// `resources/subscribe`: a subscription that is opened anew with each wish; changes of lists
/// arrive on the session's own stream, without what only the new era has.
#[tokio::test]
async fn a_session_hears_what_changes() {
    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    let mut stream = agent.get(None).await;
    bridge.server.is_listened_to().await;
    for uri in ["x:1", "x:2"] {
        let answer = agent
            .ask("resources/subscribe", json!({ "uri": uri }))
            .await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    let gone = agent
        .ask("resources/unsubscribe", json!({ "uri": "x:1" }))
        .await;
    assert_eq!(gone["result"], json!({}), "{gone}");
    let updated = |uri: &str| json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } });
    bridge.server.tells(updated("x:2")).await;
    let heard = stream.message().await;
    assert_eq!(heard, updated("x:2"), "no subscription id, nothing else");
    bridge
        .server
        .tells(json!({ "jsonrpc": "2.0", "method": "notifications/prompts/list_changed" }))
        .await;
    let heard = stream.message().await;
    assert_eq!(heard["method"], "notifications/prompts/list_changed");
    assert!(
        bridge
            .server
            .seen()
            .iter()
            .all(|seen| !seen.method().starts_with("resources/"))
    );
    agent.delete().await;
}
