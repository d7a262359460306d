//! The tool with which an agent asks for the undo of a call of its own: where a contract says so, and never of
//! another's call.

use super::{RITA, UndoStage, decision, done, name_of};
use crate::harness::agent::Agent;
use crate::harness::scripted_server::{Reply, Seen};
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::Mutex;
use tokio::sync::oneshot;

const TOOL: &str = "toolgate__undo";

/// The policy of the stage, whose drafts their agent may have taken back.
fn policy(bin: &str) -> String {
    let plain = super::policy(bin);
    let open = plain.replacen("of: action# }", "of: action# }, agent: true", 1);
    assert_ne!(open, plain);
    open
}

async fn tools(agent: &Agent) -> Vec<Value> {
    let listed = agent.modern("tools/list", json!({})).await.message();
    listed["result"]["tools"].as_array().unwrap().clone()
}

async fn asks(agent: &Agent, arguments: Value, meta: Value) -> Value {
    let call = json!({ "name": TOOL, "arguments": arguments, "_meta": meta });
    agent.modern("tools/call", call).await.message()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
}

fn state(answer: &Value) -> &Value {
    &answer["result"]["structuredContent"]["state"]
}

/// Listed for who may use such a contract, under no server's address, and not there for others.
#[tokio::test]
async fn the_tool_is_listed_where_a_contract_says_so() {
    let is_listed = |tools: &[Value]| tools.iter().any(|tool| tool["name"] == TOOL);
    let stage = UndoStage::of(&policy("ask: never")).await;
    let listed = tools(&stage.bot()).await;
    assert!(is_listed(&listed), "{listed:?}");
    let own = listed.iter().find(|tool| tool["name"] == TOOL).unwrap();
    assert_eq!(own["inputSchema"]["required"], json!(["action_id"]));
    let of_bank = tools(&stage.bot().at("/mcp/bank")).await;
    assert!(!is_listed(&of_bank), "{of_bank:?}");
    let plain = UndoStage::new().await;
    assert!(!is_listed(&tools(&plain.bot()).await));
    let id = plain.made("draft", "k").await;
    let answer = asks(&plain.bot(), json!({ "action_id": id }), json!({})).await;
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
    assert_eq!(plain.sent("bin"), Vec::<Value>::new());
    let shut = policy("ask: never") + "layers:\n  agent: { cat: { deny: [\"bank__draft\"] } }\n";
    let shut = UndoStage::of(&shut).await;
    assert!(!is_listed(&tools(&shut.cat()).await), "its tool is denied");
    assert!(is_listed(&tools(&shut.bot()).await));
}

/// 003-64: the agent's word makes the same undo as an operator's: once, as a row of its own.
#[tokio::test]
async fn an_agent_has_its_call_taken_back() {
    let stage = UndoStage::of(&policy("ask: never")).await;
    let id = stage.made("draft", "k").await;
    let said = json!({ "action_id": id, "why": "wrong name" });
    let answer = asks(&stage.bot(), said.clone(), json!({})).await;
    assert_eq!(
        (state(&answer), &answer["result"]["isError"]),
        (&json!("done"), &json!(false)),
        "{answer}"
    );
    assert_eq!(decision(&answer)["outcome"], "answered", "{answer}");
    assert_eq!(
        answer["result"]["structuredContent"]["arguments"],
        Value::Null,
        "what was kept of the result before anything was taken out is not the agent's to read"
    );
    let row = stage.row_of(&id).await;
    assert_eq!(row["tool"], "bank__bin", "{row}");
    let again = asks(&stage.bot(), said, json!({})).await;
    assert!(
        again["result"]["isError"] == true && text(&again).contains("taken back already"),
        "{again}"
    );
    let (code, told) = stage.undoes(&id).await;
    assert!(code == 1 && told.contains("taken back already"), "{told}");
    assert_eq!(stage.sent("bin").len(), 1);
    until("a row for each time it was asked for", || async {
        let entries = stage.gate.ledger().await;
        let asked = entries.iter().filter(|entry| entry["tool"] == TOOL);
        (asked.count() == 2).then_some(())
    })
    .await;
}

/// The agent's tool is one more door: beside an operator at the same time one undo is made, and neither is told that
/// it was anything else.
#[tokio::test]
async fn agent_and_operator_at_once_undo_once() {
    let stage = UndoStage::of(&policy("ask: never")).await;
    let id = stage.made("draft", "k").await;
    let (release, held) = oneshot::channel();
    let held = Mutex::new(Some(held));
    stage.scripted.answers(move |seen| {
        let held = held.lock().unwrap().take_if(|_| name_of(seen) == "bin");
        held.map_or_else(|| done(&json!({})), Reply::Later)
    });
    let said = json!({ "action_id": id });
    let body = json!({ "why": "a typo" });
    let bot = stage.bot();
    let frees = async {
        let is_undo = |seen: &Seen| name_of(seen) == "bin";
        stage.scripted.sees("the undo", is_undo).await;
        // An operator and an agent who come while it is on its way are told so.
        let (status, late) = stage.asks(RITA, &id, &body).await;
        let error = late["error"].as_str().unwrap_or_default();
        assert!(status == 409 && error.contains("right now"), "{late}");
        let late = asks(&bot, said.clone(), json!({})).await;
        assert!(text(&late).contains("right now"), "{late}");
        assert!(release.send(done(&json!({}))).is_ok());
    };
    let (agents, (status, operators), ()) = tokio::join!(
        asks(&bot, said.clone(), json!({})),
        stage.asks(RITA, &id, &body),
        frees
    );
    let of_agent = state(&agents) == "done";
    let of_operator = status == 200 && operators["state"] == "done";
    assert!(of_agent || of_operator, "{agents} {operators}");
    let is_told = |words: &str| words.contains("right now") || words.contains("already");
    assert!(of_agent || is_told(text(&agents)), "{agents}");
    let error = operators["error"].as_str().unwrap_or_default();
    assert!(
        of_operator || status == 409 && is_told(error),
        "{operators}"
    );
    assert_eq!(stage.sent("bin").len(), 1);
}

/// Another agent's call, one of another task, and one that is not there are alike: not known.
#[tokio::test]
async fn nobody_elses_call_is_taken_back() {
    let stage = UndoStage::of(&policy("ask: never")).await;
    let id = stage.made("draft", "k").await;
    let in_task = |task: &str| json!({ "dev.toolgate/task": task });
    let meta = json!({ "dev.toolgate/idempotencyKey": "t", "dev.toolgate/task": "one" });
    let call = json!({ "name": "bank__draft", "arguments": { "name": "b" }, "_meta": meta });
    let made = stage.bot().modern("tools/call", call).await.message();
    let of_task = decision(&made)["action_id"].as_str().unwrap().to_owned();
    let nobodys = "0198f1a2-0000-7000-8000-000000000000".to_owned();
    for (agent, id, meta) in [
        (stage.cat(), &id, json!({})),
        (stage.bot(), &id, in_task("one")),
        (stage.bot(), &of_task, json!({})),
        (stage.bot(), &of_task, in_task("two")),
        (stage.bot(), &nobodys, json!({})),
    ] {
        let answer = asks(&agent, json!({ "action_id": id }), meta.clone()).await;
        assert!(
            text(&answer).contains("no call of yours"),
            "{meta}: {answer}"
        );
        assert_eq!(answer["result"]["isError"], true);
    }
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    let answer = asks(
        &stage.bot(),
        json!({ "action_id": of_task }),
        in_task("one"),
    )
    .await;
    assert_eq!(state(&answer), "done", "{answer}");
}

/// Where the contract of the undo wants a person, the agent's word is not one; it goes on once a person has
/// allowed it.
#[tokio::test]
async fn an_agents_undo_waits_for_a_person() {
    let stage = UndoStage::of(&policy("approvers: [finance]")).await;
    let id = stage.made("draft", "k").await;
    let answer = asks(&stage.bot(), json!({ "action_id": id }), json!({})).await;
    assert_eq!(state(&answer), "requested", "{answer}");
    let hold = answer["result"]["structuredContent"]["approval_id"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned();
    assert!(
        text(&answer).contains("a person has to allow it first"),
        "{answer}"
    );
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    assert_eq!(stage.decides("allow", &hold).await.0, 0);
    stage.until_taken_back(&id).await;
    assert_eq!(stage.sent("bin").len(), 1);
}

/// Arguments that are none of the tool's are refused, and ask for nothing.
#[tokio::test]
async fn unfit_arguments_ask_for_nothing() {
    let stage = UndoStage::of(&policy("ask: never")).await;
    let id = stage.made("draft", "k").await;
    for arguments in [
        json!({}),
        json!({ "action_id": "9f3c2a17" }),
        json!({ "action_id": 7 }),
        json!({ "action_id": id, "dry_run": true }),
        json!({ "action_id": id, "why": 7 }),
        json!({ "action_id": id, "why": "two\nlines" }),
        json!({ "action_id": id, "why": "" }),
    ] {
        let answer = asks(&stage.bot(), arguments.clone(), json!({})).await;
        assert_eq!(
            decision(&answer)["code"],
            "schema_invalid",
            "{arguments}: {answer}"
        );
    }
    let (_, listed) = stage.runs("rita", &["undo", "--list"]).await;
    assert!(listed.contains("no undo is asked for"), "{listed}");
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
}
