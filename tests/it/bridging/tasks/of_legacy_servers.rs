//! Agents of 2026-07-28, and tasks of a legacy server.

use super::*;
use crate::harness::scripted_server::event;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// A task as such a server tells of it.
pub(super) fn task(status: &str) -> Value {
    json!({
        "taskId": "t-1", "status": status, "createdAt": "2025-11-25T00:00:00Z",
        "lastUpdatedAt": "2025-11-25T00:00:00Z", "ttl": 60_000, "pollInterval": 50,
    })
}

/// The same as an agent of 2026-07-28 reads it.
fn told(status: &str) -> Value {
    json!({
        "taskId": "t-1", "status": status, "createdAt": "2025-11-25T00:00:00Z",
        "lastUpdatedAt": "2025-11-25T00:00:00Z", "ttlMs": 60_000, "pollIntervalMs": 50,
        "resultType": "complete",
    })
}

/// A server whose tools are `read` and `write`, which have to become tasks, `may`, which may, and
/// `plain`, which does not. What the first request for a task's result reads is in the test's
/// hands; a later one is answered with this at once.
pub async fn stage(result: Value) -> (Stage, Sender<String>) {
    stage_for("", result).await
}

/// The same for these callers besides.
pub async fn stage_for(callers: &str, result: Value) -> (Stage, Sender<String>) {
    let supporting = |name: &str, support: &str| {
        let mut tool = tool(name);
        tool["execution"] = json!({ "taskSupport": support });
        tool
    };
    let tools = vec![
        supporting("read", "required"),
        supporting("write", "required"),
        supporting("may", "optional"),
        tool("plain"),
    ];
    let stage = Stage::for_callers(false, tools, callers).await;
    stage.stands(task("working"));
    let (says, held) = channel(16);
    let held: Mutex<Option<Receiver<String>>> = Mutex::new(Some(held));
    let (standing, polls) = (stage.standing.clone(), stage.polls.clone());
    stage.server.answers(move |seen| {
        let is_task = seen.body["params"]["task"].is_object();
        Reply::Result(match seen.method() {
            "tools/call" if is_task => json!({ "task": task("working") }),
            "tools/call" => json!({ "content": text("at once") }),
            "tasks/get" => {
                polls.fetch_add(1, Ordering::SeqCst);
                let told = standing.lock().unwrap().clone();
                if told.get("error").is_some_and(Value::is_string) {
                    let error = json!({ "code": -32602, "message": "no such task" });
                    return Reply::Message(json!({ "jsonrpc": "2.0", "error": error }));
                }
                told
            }
            "tasks/result" => match held.lock().unwrap().take() {
                Some(held) => return Reply::Stream(held),
                None if result["code"].is_i64() => {
                    return Reply::Message(json!({ "jsonrpc": "2.0", "error": result }));
                }
                None => result.clone(),
            },
            "tasks/cancel" => task("cancelled"),
            _ => json!({}),
        })
    });
    (stage, says)
}

pub(super) fn done(words: &str) -> Value {
    json!({ "content": text(words), "_meta": { RELATED: { "taskId": "t-1" } } })
}

/// A request of an agent that can be asked, and that knows tasks or does not.
pub(super) fn request(agent: &Agent, method: &str, params: Value, knows: bool) -> Value {
    let mut request = agent.request(method, params);
    let mut capabilities = json!({ "elicitation": {} });
    if knows {
        capabilities["extensions"] = json!({ EXTENSION: {} });
    }
    request["params"]["_meta"][CAPABILITIES] = capabilities;
    request
}

pub(super) async fn ask(agent: &Agent, method: &str, params: Value) -> Value {
    agent.answered(&request(agent, method, params, true)).await
}

/// What the server asks in the stream of a request.
pub(super) fn question() -> String {
    question_of("q-1")
}

/// The same under another id.
pub(super) fn question_of(id: &str) -> String {
    let params = json!({
        "message": "who?", "requestedSchema": { "type": "object", "properties": {} },
        "_meta": { RELATED: { "taskId": "t-1" } },
    });
    event(&json!({ "jsonrpc": "2.0", "id": id, "method": ELICITED, "params": params }))
}

pub(super) async fn result_request(stage: &Stage) -> Seen {
    let is_it = |seen: &Seen| seen.method() == "tasks/result";
    stage.server.sees("the request for the result", is_it).await
}

/// Protocol §6.3: a tool that runs only as a task is called as one; an agent that knows none reads its
/// result, after questions by rounds. It is called once.
#[tokio::test]
async fn a_tool_that_runs_only_as_a_task_can_be_called() {
    let (stage, says) = stage(done("unused")).await;
    let agent = stage.gate.agent().at("s");
    says.send(question()).await.unwrap();
    let params = call("write", 1, Some(json!({ "ttl": 1 })));
    let asked = agent
        .answered(&request(&agent, "tools/call", params.clone(), false))
        .await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let first = stage.server.seen().remove(0);
    // The agent's own `task` says nothing in its revision.
    assert_eq!(first.body["params"]["task"], json!({ "ttl": 3_600_000 }));

    let mut next = request(&agent, "tools/call", params, false);
    next["params"]["requestState"] = asked["result"]["requestState"].clone();
    next["params"]["inputResponses"] = json!({ "question-1": { "action": "decline" } });
    let answering = async {
        let is_answer = |seen: &Seen| seen.body["id"] == "q-1" && seen.method().is_empty();
        let said = stage.server.sees("the answer", is_answer).await;
        assert_eq!(said.body["result"]["action"], "decline");
        let id = &result_request(&stage).await.body["id"];
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": done("written") });
        says.send(event(&answer)).await.unwrap();
    };
    let (answer, ()) = tokio::join!(agent.answered(&next), answering);
    assert_eq!(answer["result"]["content"], text("written"), "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(
        (stage.server.executions(), stage.count("tasks/result")),
        (1, 1)
    );

    // What may become a task, or cannot, is called as ever.
    for name in ["may", "plain"] {
        let answer = agent
            .answered(&request(&agent, "tools/call", call(name, 1, None), false))
            .await;
        assert_eq!(answer["result"]["content"], text("at once"), "{answer}");
    }
}

/// guarantees §4: where the connection breaks on which a task's result is waited for, the result is
/// asked for again, and not the call. An error that a task ends with says not that it did nothing.
#[tokio::test]
async fn the_result_of_a_task_is_asked_for_again() {
    let (stage, says) = stage(done("written")).await;
    let agent = stage.gate.agent().at("s");
    let params = call("write", 1, None);
    let first = request(&agent, "tools/call", params, false);
    let breaking = async {
        result_request(&stage).await;
        drop(says);
    };
    let (answer, ()) = tokio::join!(agent.answered(&first), breaking);
    assert_eq!(answer["result"]["content"], text("written"), "{answer}");
    assert_eq!(
        (stage.server.executions(), stage.count("tasks/result")),
        (1, 2)
    );

    let error = json!({ "code": -32000, "message": "no funds" });
    let (stage, says) = super::of_legacy_servers::stage(error).await;
    drop(says);
    stage.stands(task("failed"));
    let agent = stage.gate.agent().at("s");
    for _ in 0..2 {
        let again = request(&agent, "tools/call", call("write", 1, None), false);
        let answer = agent.answered(&again).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer.to_string().contains("no funds"), "{answer}");
    }
    assert_eq!(stage.server.executions(), 1);
}

/// An agent that knows tasks holds one: it asks how it stands, answers what it asks, and reads its
/// result, in the words of its revision. An id that it was not given leads nowhere.
#[tokio::test]
async fn a_task_of_a_legacy_server_is_held() {
    let (stage, says) = stage(done("later")).await;
    let agent = stage.gate.agent().at("s");
    let made = ask(&agent, "tools/call", call("write", 1, None)).await;
    let mut handle = told("working");
    handle["resultType"] = json!("task");
    for (key, value) in handle.as_object().unwrap() {
        assert_eq!(made["result"][key], *value, "{made}");
    }
    assert!(made["result"].get("task").is_none(), "{made}");
    let id = json!({ "taskId": "t-1" });
    let stands = ask(&agent, "tasks/get", id.clone()).await;
    assert_eq!(stands["result"], told("working"), "{stands}");

    stage.stands(task("input_required"));
    says.send(question()).await.unwrap();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let asking = ask(&agent, "tasks/get", id.clone()).await;
        assert_eq!(asking["result"]["status"], "input_required", "{asking}");
        let requests = asking["result"]["inputRequests"].as_object().unwrap();
        let (key, asked) = requests.iter().next().unwrap();
        assert_eq!(
            (asked["method"].as_str(), requests.len()),
            (Some(ELICITED), 1)
        );
        assert!(asked["params"].get("_meta").is_none(), "{asked}");
        keys.push(key.clone());
    }
    assert_eq!(keys[0], keys[1], "one question has one name");
    assert_eq!(stage.count("tasks/result"), 1);
    let reply = json!({ "action": "accept", "content": { "x": 1 } });
    let mut update = id.clone();
    update["inputResponses"] = json!({ "another": reply });
    ask(&agent, "tasks/update", update.clone()).await;
    update["inputResponses"] = json!({ &keys[0]: reply });
    let taken = ask(&agent, "tasks/update", update.clone()).await;
    assert_eq!(
        taken["result"],
        json!({ "resultType": "complete" }),
        "{taken}"
    );
    let is_answer = |seen: &Seen| seen.body["id"] == "q-1" && seen.method().is_empty();
    let said = stage.server.sees("the answer", is_answer).await;
    assert_eq!(said.body["result"], reply);
    ask(&agent, "tasks/update", update).await;
    let answers = stage.server.seen();
    assert_eq!(answers.iter().filter(|seen| is_answer(seen)).count(), 1);

    ends_inside(&stage, &agent, &says).await;
    let gone = ask(&agent, "tasks/cancel", id).await;
    assert_eq!(
        gone["result"],
        json!({ "resultType": "complete" }),
        "{gone}"
    );
    let foreign = ask(&agent, "tasks/get", json!({ "taskId": "t-2" })).await;
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    assert_eq!(stage.server.executions(), 1);
}

/// What the task ended with is inside of what is told of it, as often as it is asked for.
async fn ends_inside(stage: &Stage, agent: &Agent, says: &Sender<String>) {
    stage.stands(task("completed"));
    let asked = result_request(stage).await;
    let answer = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": done("written") });
    says.send(event(&answer)).await.unwrap();
    for words in ["written", "later"] {
        let ended = ask(agent, "tasks/get", json!({ "taskId": "t-1" })).await;
        assert_eq!(ended["result"]["status"], "completed", "{ended}");
        assert_eq!(ended["result"]["result"]["content"], text(words), "{ended}");
    }
}

/// A task that failed ends with its error; one whose result says `isError` has completed.
#[tokio::test]
async fn a_failed_task_ends_as_its_result_says() {
    let failed = json!({ "content": text("no"), "isError": true });
    let error = json!({ "code": -32000, "message": "no funds" });
    for (result, status, member) in [(failed, "completed", "result"), (error, "failed", "error")] {
        let (stage, says) = stage(result).await;
        drop(says);
        let agent = stage.gate.agent().at("s");
        ask(&agent, "tools/call", call("may", 1, None)).await;
        stage.stands(task("failed"));
        // The first request for the result breaks off.
        let id = json!({ "taskId": "t-1" });
        ask(&agent, "tasks/get", id.clone()).await;
        let ended = ask(&agent, "tasks/get", id).await;
        assert_eq!(ended["result"]["status"], status, "{ended}");
        assert!(ended["result"][member].is_object(), "{ended}");
    }
}

/// What a legacy server tells of a task reaches the agent that subscribed to it, with its end.
#[tokio::test]
async fn word_of_a_task_is_told_on_a_subscription() {
    let (stage, says) = stage(done("written")).await;
    drop(says);
    let agent = stage.gate.agent().at("s");
    ask(&agent, "tools/call", call("may", 1, None)).await;
    let wanted = json!({ "notifications": { "taskIds": ["t-1", "t-2"] } });
    let listen = request(&agent, "subscriptions/listen", wanted, true);
    let mut listening = agent.post(&listen).await;
    let first = listening.message().await;
    assert_eq!(first["params"]["notifications"]["taskIds"], json!(["t-1"]));
    let mut other = task("working");
    other["taskId"] = json!("t-2");
    // The first request for the result breaks off.
    stage.stands(task("completed"));
    ask(&agent, "tasks/get", json!({ "taskId": "t-1" })).await;
    stage.server.is_listened_to().await;
    for task in [other, task("working"), task("completed")] {
        let note =
            json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task });
        stage.server.tells(note).await;
    }
    for status in ["working", "completed"] {
        let note = listening.message().await;
        assert_eq!(note["method"], "notifications/tasks", "{note}");
        assert_eq!(note["params"]["taskId"], "t-1", "{note}");
        assert_eq!(note["params"]["status"], status, "{note}");
        if status == "completed" {
            assert_eq!(
                note["params"]["result"]["content"],
                text("written"),
                "{note}"
            );
        }
    }
}

/// toolgate is killed while the result of a task is waited for: nobody knows how it ends, and nothing
/// makes it a second time. The handle of one that its agent holds is given again.
#[tokio::test]
async fn a_legacy_task_is_not_made_again_after_a_kill() {
    let (mut stage, _says) = stage(done("late")).await;
    let mut history = KillHistory::begins();
    let agent = stage.gate.agent().at("s");
    let handle = ask(&agent, "tools/call", call("write", 2, None)).await;
    assert_eq!(handle["result"]["taskId"], "t-1", "{handle}");
    history.tells(&call("write", 2, None), &handle);
    let first = request(&agent, "tools/call", call("write", 1, None), false);
    let waiting = {
        let (agent, first) = (agent.clone(), first.clone());
        tokio::spawn(async move {
            agent
                .bytes(agent.encoded(&agent.mirrored(&first), first.to_string().as_bytes()))
                .await
        })
    };
    result_request(&stage).await;
    assert_eq!(stage.server.executions(), 2);
    let setup = stage.gate.setup.clone();
    history.kills(&mut stage.gate).await;
    drop(waiting.await);
    stage.gate = setup.start().await;
    let agent = stage.gate.agent().at("s");
    let first = request(&agent, "tools/call", call("write", 1, None), false);
    let answer = agent.answered(&first).await;
    history.tells(&call("write", 1, None), &answer);
    assert_eq!(
        code(&answer).as_deref(),
        Some("outcome_unknown"),
        "{answer}"
    );
    let again = ask(&agent, "tools/call", call("write", 2, None)).await;
    assert_eq!(again["result"]["taskId"], "t-1", "{again}");
    history.tells(&call("write", 2, None), &again);
    assert_eq!(stage.server.executions(), 2);
    history.holds(&stage.server, stage.gate, 1).await;
}

/// The discovery of a legacy server that makes tasks has the extension.
#[tokio::test]
async fn the_extension_is_announced() {
    let (stage, _says) = stage(done("")).await;
    let agent = stage.gate.agent().at("s");
    let answer = agent.ask("server/discover", json!({})).await;
    let capabilities = &answer["result"]["capabilities"];
    assert!(
        capabilities["extensions"][EXTENSION].is_object(),
        "{answer}"
    );
    assert!(capabilities.get("tasks").is_none(), "{answer}");
}
