//! Agents that open the page of a held call for their person (`open_page`, guarantees §7): that they
//! did so allows nothing.

use super::{HoldingGate, policy};
use crate::harness::answer::code;
use serde_json::{Value, json};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn params() -> Value {
    let meta = json!({ "dev.toolgate/idempotencyKey": "k" });
    json!({ "name": "bank__slow", "arguments": { "n": 1 }, "_meta": meta })
}

/// In 2026-07-28 the call is answered by the question, and sent again once the page is open; it runs once
/// a person has allowed it there, and not before.
#[tokio::test]
async fn an_agent_is_asked_to_open_the_page() {
    let stage = HoldingGate::with_pages(&policy(", open_page: true")).await;
    let bot = stage.bot();
    let asks = async |more: Value, declared: Value| {
        let mut request = bot.request("tools/call", params());
        for (name, value) in more.as_object().unwrap() {
            request["params"][name] = value.clone();
        }
        request["params"]["_meta"][CAPABILITIES] = declared;
        bot.answered(&request).await
    };
    let opens = json!({ "elicitation": { "url": {} } });
    let first = asks(json!({}), opens.clone()).await["result"].clone();
    assert_eq!(first["resultType"], "input_required", "{first}");
    let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    let asked = &first["inputRequests"]["approval"];
    assert_eq!(asked["method"], "elicitation/create", "{first}");
    let page = format!("https://gate.example/approvals/{hold}");
    assert_eq!(asked["params"]["url"], json!(page), "{first}");
    assert_eq!(asked["params"]["mode"], "url", "{first}");
    stage.allows(&hold).await;
    let back = json!({
        "inputResponses": { "approval": { "action": "accept" } },
        "requestState": first["requestState"],
    });
    // Another agent's state is nobody's.
    let foreign = {
        let cat = stage.cat();
        let mut request = cat.request("tools/call", params());
        request["params"]["requestState"] = first["requestState"].clone();
        request["params"]["_meta"][CAPABILITIES] = opens.clone();
        cat.answered(&request).await
    };
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    assert_eq!(stage.scripted.executions(), 0);
    let answer = asks(back.clone(), opens.clone()).await;
    assert_eq!(
        answer["result"]["content"][0]["text"], r#"{"n":1}"#,
        "{answer}"
    );
    let again = asks(back, opens).await;
    let replayed = &again["result"]["_meta"]["dev.toolgate/decision"]["replayed"];
    assert_eq!(replayed, &json!(true), "{again}");
    assert_eq!(stage.scripted.executions(), 1);
    let seen = stage.scripted.seen();
    let sent = seen
        .iter()
        .find(|seen| seen.method() == "tools/call")
        .unwrap();
    assert!(
        sent.body["params"].get("inputResponses").is_none(),
        "{}",
        sent.body
    );
}

/// In a session the question is put in the stream of the call; `accept` allows nothing; once a person has
/// decided, the agent hears that the page is done with, and then the answer.
#[tokio::test]
async fn a_session_is_asked_beside_the_call() {
    let stage = HoldingGate::with_pages(&policy(", open_page: true")).await;
    let bot = stage
        .bot()
        .declaring(json!({ "elicitation": { "form": {}, "url": {} } }))
        .await;
    let mut stream = bot.post(&bot.request("tools/call", params())).await;
    let asked = stream.message().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let hold = stage.holds(1).await[0]["id"].clone();
    assert_eq!(asked["params"]["elicitationId"], hold, "{asked}");
    let opened = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } });
    bot.post(&opened).await;
    let listed = bot.ask("tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    assert_eq!(stage.scripted.executions(), 0);
    assert_eq!(stage.holds(1).await[0]["id"], hold, "it waits");
    stage.allows(hold.as_str().unwrap()).await;
    let done = stream.message().await;
    assert_eq!(
        done["method"], "notifications/elicitation/complete",
        "{done}"
    );
    assert_eq!(done["params"]["elicitationId"], hold, "{done}");
    let answer = stream.message().await;
    assert_eq!(
        answer["result"]["content"][0]["text"], r#"{"n":1}"#,
        "{answer}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// An agent that says nothing of pages, or whose contract does not ask for them, reads what other agents read.
#[tokio::test]
async fn nobody_else_is_asked() {
    for (policy, declared) in [
        (
            policy(", open_page: true"),
            json!({ "elicitation": { "form": {} } }),
        ),
        (policy(""), json!({ "elicitation": { "url": {} } })),
    ] {
        let stage = HoldingGate::with_pages(&policy).await;
        let bot = stage.bot();
        let mut params = params();
        params["name"] = json!("bank__pay");
        let mut request = bot.request("tools/call", params);
        request["params"]["_meta"][CAPABILITIES] = declared;
        let answer = bot.answered(&request).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("approval_pending"),
            "{answer}"
        );
        assert_eq!(stage.scripted.executions(), 0);
    }
}
