//! The same call of the same agent, in a session of another era or without the capabilities that the
//! first had (guarantees §4): a question or a handle that it does not know is no answer to it, and
//! nothing runs twice.

use super::crossings::{ALICE, Crossing, ELICITED, Towards, call, next_round};
use super::parked_tasks::TaskStage;
use super::tasks::{EXTENSION, Stage, of_legacy_servers, of_modern_servers, text};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::replay::stored;
use crate::harness::scripted_server::Reply;
use crate::harness::until;
use serde_json::{Value, json};

const DECISION: &str = "dev.toolgate/decision";

/// It says that the call has been made, by which action, and not that it has succeeded.
fn is_pending(answer: &Value, what: &str) {
    assert_eq!(
        code(answer).as_deref(),
        Some("outcome_pending"),
        "{what}: {answer}"
    );
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{what}: {answer}");
    let decision = &result["_meta"][DECISION];
    let (holder, own) = (&decision["claimed_by"], &decision["action"]);
    assert!(holder.is_string() && holder != own, "{what}: {answer}");
}

/// A task of toolgate's own is told to those that know tasks; the others read what it ends with, or,
/// once toolgate was killed, that nobody knows.
#[tokio::test]
async fn a_task_of_toolgates_own_is_no_answer_to_who_knows_no_tasks() {
    for is_killed in [false, true] {
        let mut stage = TaskStage::of("pay").await;
        let arguments = stage.call["arguments"].clone();
        let legacy = async |stage: &TaskStage| {
            let agent = stage.crossing.gate.agent().at("s").token(ALICE);
            agent.initialized().await
        };
        let readers = [stage.alice.clone(), legacy(&stage).await];
        for (reader, what) in readers.iter().zip(["undeclared", "legacy"]) {
            let again = reader
                .answered(&call(reader, "pay", arguments.clone()))
                .await;
            is_pending(&again, what);
        }
        if is_killed {
            stage.restarts().await;
            let reader = legacy(&stage).await;
            let again = reader.answered(&call(&reader, "pay", arguments)).await;
            assert_eq!(code(&again).as_deref(), Some("outcome_unknown"), "{again}");
        } else {
            let keys = stage.asked().await;
            stage.answers(&keys[0]).await;
            stage.finishes().await;
            for reader in readers {
                until("the call has its outcome", || async {
                    let again = call(&reader, "pay", arguments.clone());
                    let again = reader.answered(&again).await;
                    (stored(&again)["result"]["content"] == text("paid")).then_some(())
                })
                .await;
            }
        }
        assert_eq!(stage.crossing.server.executions(), 1, "I1");
    }
}

/// The handle of a task that a server has made, in the words of one era, is none in those of the other,
/// nor to an agent of the same that has not asked for a task.
#[tokio::test]
async fn a_servers_task_is_no_answer_to_who_knows_no_tasks() {
    for modern in [true, false] {
        let stage = if modern {
            of_modern_servers::stage().await
        } else {
            of_legacy_servers::stage(json!({})).await.0
        };
        let (new, old) = (stage.gate.agent().at("s"), stage.legacy_agent().await);
        let (holder, others) = if modern {
            (&old, [(&old, false), (&new, true), (&new, false)])
        } else {
            (&new, [(&new, false), (&old, true), (&old, false)])
        };
        let handle = made(&stage, holder, true).await;
        let id = if modern {
            "/result/task/taskId"
        } else {
            "/result/taskId"
        };
        assert_eq!(handle.pointer(id), Some(&json!("t-1")), "{handle}");
        let again = made(&stage, holder, true).await;
        assert_eq!(again.pointer(id), Some(&json!("t-1")), "{again}");
        for (reader, knows) in others {
            let again = made(&stage, reader, knows).await;
            is_pending(&again, &format!("modern server: {modern}, knows: {knows}"));
        }
        assert_eq!(stage.server.executions(), 1, "I1");
    }
}

/// The same call by that agent.
async fn made(stage: &Stage, agent: &Agent, knows: bool) -> Value {
    let mut params = json!({ "name": "write", "arguments": { "n": 1 } });
    params["_meta"]["dev.toolgate/idempotencyKey"] = json!("one");
    let mut request = agent.request("tools/call", params);
    if agent.is_legacy() {
        if knows {
            request["params"]["task"] = json!({ "ttl": 60_000 });
        }
    } else {
        let capabilities = if knows {
            json!({ "extensions": { EXTENSION: {} } })
        } else {
            json!({})
        };
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    }
    assert!(stage.server.executions() <= 1);
    agent.answered(&request).await
}

/// What a server asks by a result is no answer to a legacy session; once it is answered, the answer is.
#[tokio::test]
async fn a_question_is_no_answer_to_who_speaks_another_revision() {
    for towards in [Towards::Modern, Towards::Legacy] {
        let crossing = Crossing::new(towards, super::reissues::POLICY, "").await;
        let new = crossing.gate.agent().at("s").token(ALICE);
        let old = crossing.gate.agent().at("s").token(ALICE);
        let old = old.initialized().await;
        let params =
            json!({ "message": "who?", "requestedSchema": { "type": "object", "properties": {} } });
        let done = json!({ "content": text("paid"), "resultType": "complete" });
        let says = crossing.server.holds("tools/call");
        if towards == Towards::Modern {
            let asked = params.clone();
            crossing.server.answers(move |seen| {
                if seen.body["params"].get("requestState").is_some() {
                    return Reply::Result(done.clone());
                }
                Reply::Result(json!({
                    "resultType": "input_required", "requestState": "one",
                    "inputRequests": { "q": { "method": ELICITED, "params": asked } },
                }))
            });
        } else {
            let asked =
                json!({ "jsonrpc": "2.0", "id": "q-1", "method": ELICITED, "params": params });
            let asked = crate::harness::scripted_server::event(&asked);
            says.send(asked).await.unwrap();
        }
        let first = call(&new, "pay", json!({ "n": 1 }));
        let asked = new.answered(&first).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let again = old.answered(&call(&old, "pay", json!({ "n": 1 }))).await;
        is_pending(&again, &format!("{towards:?}"));
        assert_eq!(crossing.server.executions(), 1, "I1: {towards:?}");
        if towards == Towards::Modern {
            let reply = json!({ "action": "accept", "content": {} });
            let round = next_round(&new, &first, &asked, &reply);
            new.answered(&round).await;
            let again = old.answered(&call(&old, "pay", json!({ "n": 1 }))).await;
            let given = stored(&again)["result"]["content"].clone();
            assert_eq!(given, text("paid"), "{again}");
            assert_eq!(crossing.server.executions(), 2, "two rounds of one call");
        }
    }
}
