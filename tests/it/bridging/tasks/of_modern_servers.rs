//! Legacy agents, and tasks of a server of 2026-07-28.

use super::*;

/// A task as such a server tells of it.
fn task(status: &str) -> Value {
    json!({
        "taskId": "t-1", "status": status, "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": 60_000, "pollIntervalMs": 50,
    })
}

fn completed(words: &str) -> Value {
    let mut task = task("completed");
    task["result"] = json!({ "content": text(words), "resultType": "complete" });
    task
}

fn asking() -> Value {
    let params =
        json!({ "message": "who?", "requestedSchema": { "type": "object", "properties": {} } });
    let mut task = task("input_required");
    task["inputRequests"] = json!({ "name": { "method": ELICITED, "params": params } });
    task
}

/// Every call becomes a task; the answers to its questions complete it.
pub async fn stage() -> Stage {
    let stage = Stage::with(true, ["read", "write"].map(tool).to_vec()).await;
    stage.stands(task("working"));
    let (standing, polls) = (stage.standing.clone(), stage.polls.clone());
    stage.server.answers(move |seen| {
        Reply::Result(match seen.method() {
            "tools/call" => {
                let mut made = task("working");
                made["resultType"] = json!("task");
                made
            }
            "tasks/get" => {
                polls.fetch_add(1, Ordering::SeqCst);
                let mut told = standing.lock().unwrap().clone();
                if told.get("error").is_some_and(Value::is_string) {
                    let error = json!({ "code": -32602, "message": "no such task" });
                    return Reply::Message(json!({ "jsonrpc": "2.0", "error": error }));
                }
                told["resultType"] = json!("complete");
                told
            }
            "tasks/update" => {
                let name = &seen.body["params"]["inputResponses"]["name"]["content"]["x"];
                *standing.lock().unwrap() = completed(name.as_str().unwrap());
                json!({ "resultType": "complete" })
            }
            "tasks/cancel" => {
                *standing.lock().unwrap() = task("cancelled");
                json!({ "resultType": "complete" })
            }
            _ => json!({ "resultType": "complete" }),
        })
    });
    stage
}

fn bob() -> Value {
    json!({ "action": "accept", "content": { "x": "bob" } })
}

/// Protocol §6.3: an agent that knows nothing of tasks reads the result of one; its questions are
/// requests in the stream of the call. The tool is called once.
#[tokio::test]
async fn a_call_that_becomes_a_task_is_waited_for() {
    let stage = stage().await;
    let agent = stage.legacy_agent().await;
    let request = agent.request("tools/call", call("write", 1, None));
    let mut reading = agent.post(&request).await;
    stage.is_polled().await;
    stage.stands(asking());
    let asked = answers(&agent, &mut reading, bob()).await;
    assert!(asked["params"].get("_meta").is_none(), "{asked}");
    let answer = reading.whole().await;
    assert_eq!(answer["result"]["content"], text("bob"), "{answer}");
    assert!(answer["result"].get("resultType").is_none(), "{answer}");
    assert_eq!(stage.server.executions(), 1);
    assert_eq!(stage.count("tasks/update"), 1);
    for seen in stage.server.seen() {
        let declared = &seen.body["params"]["_meta"][CAPABILITIES]["extensions"];
        assert!(declared[EXTENSION].is_object(), "{:#}", seen.body);
    }
    let named =
        |seen: &Seen| seen.method() == "tasks/get" && seen.header("mcp-name") == Some("t-1");
    assert!(stage.server.seen().iter().any(named));

    // What a task ends with is its last word.
    let mut sly = completed("again?");
    sly["result"] = json!({ "resultType": "input_required", "requestState": "more" });
    stage.stands(sly);
    agent.ask("tools/call", call("write", 2, None)).await;
    assert_eq!(stage.server.executions(), 2);
}

/// guarantees §4: how a task ended is the answer of its call, and of one that its server knows no more
/// nobody knows how it ended. Nothing is called again.
#[tokio::test]
async fn what_a_task_ended_with_is_the_answer() {
    let stage = stage().await;
    let agent = stage.legacy_agent().await;
    let mut failed = task("failed");
    failed["error"] = json!({ "code": -32000, "message": "no funds" });
    let mut lost = task("working");
    lost["error"] = json!("lost");
    for (n, standing, words) in [
        (1, failed, "no funds"),
        (2, task("cancelled"), "was cancelled"),
    ] {
        stage.stands(standing);
        for _ in 0..2 {
            let answer = agent.ask("tools/call", call("write", n, None)).await;
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            assert!(answer.to_string().contains(words), "{answer}");
        }
    }
    assert_eq!(stage.server.executions(), 2);
    stage.stands(lost);
    for _ in 0..2 {
        let answer = agent.ask("tools/call", call("write", 3, None)).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("outcome_unknown"),
            "{answer}"
        );
    }
    assert_eq!(stage.server.executions(), 3);
}

/// A task that cannot ask its agent is cancelled, and so is one of a read that its agent no longer
/// waits for.
#[tokio::test]
async fn a_task_that_nobody_waits_for_is_cancelled() {
    let stage = stage().await;
    let mute = stage.gate.agent().at("s").declaring(json!({})).await;
    stage.stands(asking());
    let answer = mute.ask("tools/call", call("write", 1, None)).await;
    assert!(answer.to_string().contains("has not declared"), "{answer}");
    assert_eq!(stage.count("tasks/cancel"), 1);

    stage.stands(task("working"));
    let agent = stage.legacy_agent().await;
    let request = agent.request("tools/call", call("read", 1, None));
    let _reading = agent.post(&request).await;
    stage.is_polled().await;
    let params = json!({ "requestId": request["id"] });
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    agent.post(&note).await;
    until("the task is cancelled", || async {
        (stage.count("tasks/cancel") == 2).then_some(())
    })
    .await;
}

/// An agent that asks for a task holds it: it asks how it stands, lists it, waits for its result and
/// cancels it in its own words. Another agent's session knows no such task.
#[tokio::test]
async fn a_task_that_was_asked_for_is_held() {
    let stage = stage().await;
    let agent = stage.legacy_agent().await;
    let legacy = |status: &str| {
        json!({
            "taskId": "t-1", "status": status, "createdAt": "2026-07-28T00:00:00Z",
            "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttl": 60_000, "pollInterval": 50,
        })
    };
    let params = call("write", 1, Some(json!({ "ttl": 1_000 })));
    let made = agent.ask("tools/call", params).await;
    assert_eq!(made["result"]["task"], legacy("working"), "{made}");
    assert!(made["result"].get("resultType").is_none(), "{made}");
    let id = json!({ "taskId": "t-1" });
    let stands = agent.ask("tasks/get", id.clone()).await;
    assert_eq!(stands["result"], legacy("working"), "{stands}");
    let listed = agent.ask("tasks/list", json!({})).await;
    let all = json!([legacy("working")]);
    assert_eq!(listed["result"]["tasks"], all, "{listed}");
    let merged = stage.gate.legacy("/mcp").await;
    let listed = merged.ask("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"], json!([]), "{listed}");
    let params = call("s__read", 1, Some(json!({})));
    merged.ask("tools/call", params).await;
    let listed = merged.ask("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"], all, "{listed}");
    let stranger = stage.legacy_agent().await;
    let listed = stranger.ask("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"], json!([]), "{listed}");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let answer = stranger.ask(method, id.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }

    let mut reading = agent.post(&agent.request("tasks/result", id.clone())).await;
    stage.is_polled().await;
    stage.stands(asking());
    let asked = answers(&agent, &mut reading, bob()).await;
    assert_eq!(asked["params"]["_meta"][RELATED], id, "{asked}");
    let ended = reading.whole().await;
    assert_eq!(ended["result"]["content"], text("bob"), "{ended}");
    assert_eq!(ended["result"]["_meta"][RELATED], id, "{ended}");

    let cancelled = agent.ask("tasks/cancel", id).await;
    assert_eq!(cancelled["result"], legacy("cancelled"), "{cancelled}");
    assert_eq!(stage.server.executions(), 2);
}

/// toolgate is killed while a task is waited for: nobody knows how it ends, and nothing makes it a
/// second time. The handle of one that its agent holds is given again.
#[tokio::test]
async fn a_task_is_not_made_again_after_a_kill() {
    let mut stage = stage().await;
    let mut history = KillHistory::begins();
    let agent = stage.legacy_agent().await;
    let held = call("write", 2, Some(json!({})));
    let handle = agent.ask("tools/call", held.clone()).await;
    assert_eq!(handle["result"]["task"]["taskId"], "t-1", "{handle}");
    history.tells(&held, &handle);
    let request = agent.request("tools/call", call("write", 1, None));
    let _reading = agent.post(&request).await;
    stage.is_polled().await;
    assert_eq!(stage.server.executions(), 2);
    let setup = stage.gate.setup.clone();
    history.kills(&mut stage.gate).await;
    stage.gate = setup.start().await;
    let agent = stage.legacy_agent().await;
    let answer = agent.ask("tools/call", call("write", 1, None)).await;
    history.tells(&call("write", 1, None), &answer);
    assert_eq!(
        code(&answer).as_deref(),
        Some("outcome_unknown"),
        "{answer}"
    );
    let again = agent.ask("tools/call", held).await;
    assert_eq!(again["result"]["task"], handle["result"]["task"], "{again}");
    history.tells(&call("write", 2, None), &again);
    assert_eq!(stage.server.executions(), 2);
    history.holds(&stage.server, stage.gate, 1).await;
}

/// The introduction says to agents of 2025-11-25 that they may ask for tasks, and to no older ones.
#[tokio::test]
async fn tasks_are_announced_to_agents_that_know_them() {
    let stage = stage().await;
    for (revision, knows) in [("2025-11-25", true), ("2025-06-18", false)] {
        let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
        let agent = stage.gate.agent().at("s");
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = agent.post(&message).await.whole().await;
        let calls = &answer["result"]["capabilities"]["tasks"]["requests"]["tools"]["call"];
        assert_eq!(calls.is_object(), knows, "{answer}");
    }
}

/// An agent whose session has ended reads no result of a task any more: the server is asked no longer
/// how it stands. Another session's task goes on being asked after.
#[tokio::test]
async fn an_ended_session_waits_for_no_task() {
    let stage = stage().await;
    stage.server.answers(|seen| {
        let params = &seen.body["params"];
        let is_call = seen.method() == "tools/call";
        let mut told = task("working");
        told["resultType"] = json!(if is_call { "task" } else { "complete" });
        told["taskId"] = match params.get("taskId") {
            Some(id) => id.clone(),
            None => json!(format!("t-{}", params["arguments"]["n"])),
        };
        Reply::Result(told)
    });
    let polls = |id: &str| {
        let seen = stage.server.seen();
        let is_it =
            |seen: &&Seen| seen.method() == "tasks/get" && seen.body["params"]["taskId"] == *id;
        seen.iter().filter(is_it).count()
    };
    let polled = async |id: &str, times: usize| {
        let is_enough = || async { (polls(id) >= times).then_some(()) };
        until("the task is asked after", is_enough).await;
    };
    let mut waiting = Vec::new();
    for (n, id) in [(1, "t-1"), (2, "t-2")] {
        let agent = stage.legacy_agent().await;
        agent
            .ask("tools/call", call("write", n, Some(json!({}))))
            .await;
        let result = agent.request("tasks/result", json!({ "taskId": id }));
        let reading = agent.post(&result).await;
        polled(id, 2).await;
        waiting.push((agent, reading));
    }
    waiting[0].0.delete().await;
    let (ended, goes_on) = (polls("t-1"), polls("t-2"));
    polled("t-2", goes_on + 20).await;
    let since = polls("t-1") - ended;
    assert!(since <= 1, "{since} times, one of which was on its way");
}
