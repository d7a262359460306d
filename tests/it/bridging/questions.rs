//! What servers ask of agents of the other era: sampling, elicitation, roots.

use super::{Bridge, last};
use crate::harness::agent::Agent;
use crate::harness::scripted_server::{Reply, Seen, event};
use serde_json::{Value, json};

const ELICITED: &str = "elicitation/create";

fn form() -> Value {
    json!({ "message": "who?", "requestedSchema": { "type": "object", "properties": {} } })
}

/// The result by which a modern server asks.
fn asks(state: &str) -> Value {
    json!({
        "resultType": "input_required", "requestState": state,
        "inputRequests": {
            "name": { "method": ELICITED, "params": form() },
            "where": { "method": "roots/list", "params": {} },
        },
    })
}

/// A modern server's questions are requests on the call's own stream; the answers go back with the
/// server's state, in rounds; the tool's answer is the answer. The agent's call is sent anew in each
/// round, and is one call in the ledger.
#[tokio::test]
async fn a_legacy_agent_is_asked_by_requests() {
    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    bridge.server.answers(|seen| {
        let params = &seen.body["params"];
        Reply::Result(match params["requestState"].as_str() {
            None => asks("one"),
            Some("one") => asks("two"),
            Some(_) => json!({ "content": [{ "type": "text", "text": params["inputResponses"]["name"]["content"]["x"] }], "resultType": "complete" }),
        })
    });
    let call = agent.request(
        "tools/call",
        json!({ "name": "write", "arguments": { "n": 1 } }),
    );
    let mut answer = agent.post(&call).await;
    for round in 0..2 {
        for method in [ELICITED, "roots/list"] {
            let asked = answer.message().await;
            assert_eq!(asked["method"], method, "{asked}");
            let result = match method {
                ELICITED => {
                    json!({ "action": "accept", "content": { "x": format!("bob {round}") } })
                }
                _ => json!({ "roots": [] }),
            };
            let told = agent
                .post(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
                .await;
            assert_eq!(told.head.status, 202);
        }
    }
    let last_word = answer.whole().await;
    assert_eq!(
        last_word["result"]["content"][0]["text"], "bob 1",
        "{last_word}"
    );
    assert_eq!(bridge.server.executions(), 3);
    let seen = last(&bridge.server, "tools/call");
    assert_eq!(seen.body["params"]["arguments"], json!({ "n": 1 }));
    let entries = bridge.gate.entries(5).await;
    let calls = entries.iter().filter(|entry| entry["tool"] == "s__write");
    assert_eq!(calls.count(), 1, "{entries:#?}");
}

/// A program that has not said that it can be asked is not, and one that refuses ends the call with
/// words; the tool is not asked to go on.
#[tokio::test]
async fn a_legacy_agent_that_cannot_be_asked_reads_why() {
    let bridge = Bridge::modern().await;
    bridge.server.answers(|_| Reply::Result(asks("one")));
    let mute = bridge.modern_agent().declaring(json!({})).await;
    let answer = mute.call("write", json!({ "n": 1 })).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer.to_string().contains("has not declared"), "{answer}");
    assert_eq!(bridge.server.executions(), 1);

    let agent = bridge.legacy_agent().await;
    let call = agent.request(
        "tools/call",
        json!({ "name": "write", "arguments": { "n": 2 } }),
    );
    let mut answer = agent.post(&call).await;
    let asked = answer.message().await;
    let error = json!({ "code": -32603, "message": "no" });
    agent
        .post(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }))
        .await;
    let last_word = answer.whole().await;
    assert_eq!(last_word["result"]["isError"], true, "{last_word}");
    assert_eq!(bridge.server.executions(), 2);
}

/// A server that asks for ever is told no after ten rounds.
#[tokio::test]
async fn rounds_have_an_end() {
    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    bridge.server.answers(|_| {
        Reply::Result(json!({ "resultType": "input_required", "requestState": "again" }))
    });
    let answer = agent.call("read", json!({})).await;
    assert!(answer.to_string().contains("asked more often"), "{answer}");
    assert_eq!(bridge.server.executions(), 10);
}

/// A modern call with capabilities.
fn round(agent: &Agent, tool: &str, more: &Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": { "n": 1 } });
    for (key, value) in more.as_object().into_iter().flatten() {
        params[key] = value.clone();
    }
    let mut message = agent.request("tools/call", params);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "elicitation": {}, "sampling": {} });
    message
}

/// A legacy server's question parks the call: the agent reads `input_required`, comes back with the
/// answer, and the call that waited goes on. The tool runs once.
#[tokio::test]
async fn a_modern_agent_is_asked_by_the_answer() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let question = json!({ "jsonrpc": "2.0", "id": "q-1", "method": ELICITED, "params": form() });
    says.send(event(&question)).await.unwrap();
    let asked = agent.answered(&round(&agent, "write", &json!({}))).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (key, request) = result["inputRequests"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    assert_eq!(request["method"], ELICITED);
    assert_eq!(request["params"], form());
    let state = &result["requestState"];
    let first = last(&bridge.server, "tools/call");

    let reply = json!({ "action": "accept", "content": { "x": 1 } });
    let next = json!({ "requestState": state, "inputResponses": { key: reply } });
    let answering = async {
        let answer = |seen: &Seen| seen.body["id"] == "q-1" && seen.method().is_empty();
        let said = bridge.server.sees("the agent's answer", answer).await;
        assert_eq!(said.body["result"], reply);
        let result = json!({ "content": [{ "type": "text", "text": "done" }] });
        let done = json!({ "jsonrpc": "2.0", "id": first.body["id"], "result": result });
        says.send(event(&done)).await.unwrap();
    };
    let again = round(&agent, "write", &next);
    let (done, ()) = tokio::join!(agent.answered(&again), answering);
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    assert_eq!(done["result"]["resultType"], "complete");
    assert_eq!(bridge.server.executions(), 1, "the call was sent once");

    // The state is used up: another round of the same is answered from what is kept, never sent.
    let used = agent.answered(&round(&agent, "write", &next)).await;
    assert_eq!(bridge.server.executions(), 1, "{used}");
}

/// A state that is nobody's, another agent's or another call's leads nowhere, and nothing is sent.
#[tokio::test]
async fn a_foreign_state_leads_nowhere() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let question = json!({ "jsonrpc": "2.0", "id": 5, "method": ELICITED, "params": form() });
    says.send(event(&question)).await.unwrap();
    let asked = agent.answered(&round(&agent, "write", &json!({}))).await;
    let state = asked["result"]["requestState"].clone();
    let mut other = round(
        &agent,
        "write",
        &json!({ "requestState": state, "inputResponses": {} }),
    );
    other["params"]["arguments"] = json!({ "n": 2 });
    for refused in [
        other,
        round(
            &agent,
            "write",
            &json!({ "requestState": "toolgate-parked:0", "inputResponses": {} }),
        ),
    ] {
        let answer = agent.answered(&refused).await;
        assert!(
            answer["result"]["resultType"] != "complete" || answer["result"]["isError"] == true,
            "{answer}"
        );
    }
    assert_eq!(bridge.server.executions(), 1);
}

/// toolgate dies while a call is parked: the state leads to no call any more, the outcome is unknown,
/// and the tool is not run again.
#[tokio::test]
async fn a_call_that_was_parked_over_a_restart_is_unknown() {
    let mut bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let question = json!({ "jsonrpc": "2.0", "id": 5, "method": ELICITED, "params": form() });
    says.send(event(&question)).await.unwrap();
    let asked = agent.answered(&round(&agent, "write", &json!({}))).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let setup = bridge.gate.setup.clone();
    bridge.gate.kill().await;
    let gate = setup.start().await;
    let agent = gate.agent().at("s");
    let next = json!({ "requestState": result["requestState"], "inputResponses": { "question-1": { "action": "decline" } } });
    let answer = agent.answered(&round(&agent, "write", &next)).await;
    let refusal = crate::harness::answer::code(&answer);
    assert_eq!(refusal.as_deref(), Some("outcome_unknown"), "{answer}");
    assert_eq!(bridge.server.executions(), 1);
}

/// A question that the agent has not declared is refused to the server, and the call goes on.
#[tokio::test]
async fn an_undeclared_question_is_refused() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let question = json!({ "jsonrpc": "2.0", "id": 5, "method": "roots/list" });
    says.send(event(&question)).await.unwrap();
    let question = json!({ "jsonrpc": "2.0", "id": 6, "method": ELICITED, "params": form() });
    says.send(event(&question)).await.unwrap();
    let message = agent.request("tools/call", json!({ "name": "write", "arguments": {} }));
    let answering = async {
        let roots = bridge
            .server
            .sees("the roots", |seen| seen.body["id"] == 5)
            .await;
        assert_eq!(roots.body["result"]["roots"], json!([]));
        let refused = bridge
            .server
            .sees("the refusal", |seen| {
                seen.body["id"] == 6 && seen.method().is_empty()
            })
            .await;
        assert!(refused.body["error"].is_object(), "{:?}", refused.body);
        let first = last(&bridge.server, "tools/call");
        let done = json!({ "jsonrpc": "2.0", "id": first.body["id"], "result": { "content": [] } });
        says.send(event(&done)).await.unwrap();
    };
    let (done, ()) = tokio::join!(agent.answered(&message), answering);
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
}

/// guarantees §4: a round without the state, a server's word that it asks in a way that its era does
/// not know, and an error in a later round are no ways to have a call run twice.
#[tokio::test]
async fn no_round_is_a_new_call() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let question = json!({ "jsonrpc": "2.0", "id": 5, "method": ELICITED, "params": form() });
    says.send(event(&question)).await.unwrap();
    let asked = agent.answered(&round(&agent, "write", &json!({}))).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let stateless = json!({ "inputResponses": { "question-1": { "action": "decline" } } });
    let answer = agent.answered(&round(&agent, "write", &stateless)).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(bridge.server.executions(), 1, "{answer}");

    let bridge = Bridge::legacy().await;
    bridge.server.answers(|_| Reply::Result(asks("mine")));
    let agent = bridge.modern_agent();
    let answer = agent.answered(&round(&agent, "write", &json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert!(answer["result"].get("requestState").is_none(), "{answer}");
    agent.answered(&round(&agent, "write", &stateless)).await;
    assert_eq!(bridge.server.executions(), 1);

    let bridge = Bridge::modern().await;
    let agent = bridge.legacy_agent().await;
    bridge
        .server
        .answers(|seen| match seen.body["params"]["requestState"].as_str() {
            None => Reply::Result(json!({ "resultType": "input_required", "requestState": "one" })),
            Some(_) => Reply::Status(503),
        });
    let answer = agent.call("write", json!({ "n": 3 })).await;
    let refusal = crate::harness::answer::code(&answer);
    assert_eq!(refusal.as_deref(), Some("outcome_unknown"), "{answer}");
    agent.call("write", json!({ "n": 3 })).await;
    assert_eq!(bridge.server.executions(), 2, "two rounds of one call");
}

/// Questions that come at once are put to the agent together, sixteen at most; of what is more the
/// server reads that it asks too much, and the call goes on.
#[tokio::test]
async fn a_call_asks_so_much_at_once() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let question =
        |n| event(&json!({ "jsonrpc": "2.0", "id": n, "method": ELICITED, "params": form() }));
    let questions: String = (0..20).map(question).collect();
    says.send(questions).await.unwrap();
    let answering = async {
        for n in 0..20 {
            let is_it = |seen: &Seen| seen.body["id"] == n && seen.method().is_empty();
            bridge.server.sees("an answer to each", is_it).await;
        }
        let id = last(&bridge.server, "tools/call").body["id"].clone();
        let done = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } });
        says.send(event(&done)).await.unwrap();
    };
    let asking = async {
        let mut more = json!({});
        loop {
            let asked = agent.answered(&round(&agent, "write", &more)).await;
            let Some(requests) = asked["result"]["inputRequests"].as_object() else {
                return asked;
            };
            assert!(requests.len() <= 16, "{asked}");
            let declined = |key: &String| (key.clone(), json!({ "action": "decline" }));
            let replies: serde_json::Map<_, _> = requests.keys().map(declined).collect();
            let state = &asked["result"]["requestState"];
            more = json!({ "requestState": state, "inputResponses": replies });
        }
    };
    let (done, ()) = tokio::join!(asking, answering);
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    assert_eq!(bridge.server.executions(), 1);
    let told = bridge.server.seen();
    let told = told.iter().filter(|seen| seen.method().is_empty());
    assert_eq!(told.count(), 20, "each has one answer");
}

/// A server that goes on talking once it has asked keeps nobody from asking its agent.
#[tokio::test]
async fn chatter_delays_no_question() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let question = json!({ "jsonrpc": "2.0", "id": 5, "method": ELICITED, "params": form() });
    says.send(event(&question)).await.unwrap();
    let log = json!({ "level": "info", "data": "still here" });
    let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": log });
    let chatter = async {
        while says.send(event(&log)).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let call = round(&agent, "write", &json!({}));
    let asked = tokio::select! {
        asked = agent.answered(&call) => asked,
        () = chatter => unreachable!("it talks for ever"),
    };
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(bridge.server.executions(), 1);
}
