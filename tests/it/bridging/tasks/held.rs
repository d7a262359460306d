//! Tasks that agents of 2026-07-28 hold at a legacy server, and more than one request about one of them.

use super::of_legacy_servers::{
    ask, done, question, question_of, request, result_request, stage, task,
};
use super::*;
use crate::harness::scripted_server::event;
use tokio::sync::mpsc::Sender;

/// A task that its agent holds, and that waits for an answer; what the server says where its result is
/// asked for is in the test's hands.
async fn asking() -> (Stage, Sender<String>, Agent) {
    let (stage, says) = stage(done("too late")).await;
    let agent = stage.gate.agent().at("s");
    ask(&agent, "tools/call", call("write", 1, None)).await;
    stage.stands(task("input_required"));
    (stage, says, agent)
}

async fn get(agent: &Agent) -> Value {
    ask(agent, "tasks/get", json!({ "taskId": "t-1" })).await
}

async fn update(agent: &Agent, key: &str, reply: &Value) -> Value {
    let params = json!({ "taskId": "t-1", "inputResponses": { key: reply } });
    ask(agent, "tasks/update", params).await
}

/// The names of the questions that are shown.
fn keys(told: &Value) -> Vec<String> {
    let requests = told["result"]["inputRequests"].as_object();
    let requests = requests.unwrap_or_else(|| panic!("nothing is asked: {told}"));
    requests.keys().cloned().collect()
}

fn is_answer(id: &'static str) -> impl Fn(&Seen) -> bool {
    move |seen: &Seen| seen.body["id"] == id && seen.method().is_empty()
}

/// Two requests at once for how a task stands share what it asks: it has one name, is refused by
/// neither, and its answer arrives.
#[tokio::test]
async fn two_who_ask_at_once_read_one_question() {
    let (stage, says, agent) = asking().await;
    let telling = async {
        let both = || async { (stage.polls.load(Ordering::SeqCst) >= 2).then_some(()) };
        until("both have asked", both).await;
        says.send(question()).await.unwrap();
    };
    let (one, two, ()) = tokio::join!(get(&agent), get(&agent), telling);
    let key = keys(&get(&agent).await).remove(0);
    for told in [one, two] {
        // On a slow machine one of them has waited long enough before the question came.
        assert!(keys(&told).iter().all(|shown| *shown == key), "{told}");
    }
    assert_eq!(stage.count("tasks/result"), 1);
    let reply = json!({ "action": "accept", "content": { "x": 1 } });
    update(&agent, &key, &reply).await;
    let said = stage.server.sees("the answer", is_answer("q-1")).await;
    assert_eq!(said.body["result"], reply, "{:#}", said.body);
    let answers = stage.server.seen();
    let answers = answers.iter().filter(|seen| is_answer("q-1")(seen));
    assert_eq!((answers.count(), stage.server.executions()), (1, 1));
}

/// While an answer is on its way to a server that takes long to take it, what the task asks next is
/// shown, and is answered, on the one request for its result.
#[tokio::test]
async fn an_answer_on_its_way_stops_nobody() {
    let (stage, says, agent) = asking().await;
    says.send(question()).await.unwrap();
    let first = keys(&get(&agent).await).remove(0);
    stage.server.leaves_notifications();
    let reply = |n: u32| json!({ "action": "accept", "content": { "x": n } });
    let (one, two) = (reply(1), reply(2));
    let meanwhile = async {
        stage
            .server
            .sees("the first answer", is_answer("q-1"))
            .await;
        says.send(question_of("q-2")).await.unwrap();
        let second = keys(&get(&agent).await).remove(0);
        let is_told = async {
            let said = stage
                .server
                .sees("the second answer", is_answer("q-2"))
                .await;
            assert_eq!(said.body["result"], two, "{:#}", said.body);
        };
        tokio::select! {
            _ = update(&agent, &second, &two) => {}
            () = is_told => {}
        }
    };
    tokio::join!(update(&agent, &first, &one), meanwhile);
    for (id, reply) in [("q-1", &one), ("q-2", &two)] {
        let said = stage.server.sees("each answer", is_answer(id)).await;
        assert_eq!(said.body["result"], *reply, "{:#}", said.body);
    }
    assert_eq!(stage.count("tasks/result"), 1);
}

/// A task that ends though its question has no answer is told as ended.
#[tokio::test]
async fn a_task_ends_without_an_answer() {
    let (stage, says, agent) = asking().await;
    says.send(question()).await.unwrap();
    assert_eq!(keys(&get(&agent).await).len(), 1);
    stage.stands(task("completed"));
    let id = result_request(&stage).await.body["id"].clone();
    let ended = json!({ "jsonrpc": "2.0", "id": id, "result": done("anyway") });
    says.send(event(&ended)).await.unwrap();
    let told = get(&agent).await;
    assert_eq!(
        told["result"]["result"]["content"],
        text("anyway"),
        "{told}"
    );
    assert_eq!(stage.count("tasks/result"), 1);
    let refused = stage.server.sees("the refusal", is_answer("q-1")).await;
    assert!(refused.body["error"].is_object(), "{:#}", refused.body);
}

/// The message that answers the request for the result.
async fn ends(stage: &Stage, member: &str, with: Value) -> String {
    let id = result_request(stage).await.body["id"].clone();
    event(&json!({ "jsonrpc": "2.0", "id": id, member: with }))
}

/// A server forgets the session in which a task has asked: the agent's answer goes to no other session,
/// which may ask something else under the same id, and the task is asked after in the new one.
#[tokio::test]
async fn an_answer_goes_to_the_session_that_asked() {
    let (stage, says, agent) = asking().await;
    says.send(question()).await.unwrap();
    let key = keys(&get(&agent).await).remove(0);
    stage.server.forgets_sessions();
    let read = ask(&agent, "tools/call", call("plain", 1, None)).await;
    assert_eq!(read["result"]["content"], text("at once"), "{read}");
    update(&agent, &key, &json!({ "action": "decline" })).await;
    stage.stands(task("completed"));
    let told = get(&agent).await;
    assert_eq!(
        told["result"]["result"]["content"],
        text("too late"),
        "{told}"
    );
    // What comes in a session that it has forgotten the server does not see.
    assert!(!stage.server.seen().iter().any(is_answer("q-1")));
    assert_eq!(stage.count("tasks/result"), 2);
}

/// Where the connection breaks on which a task has asked, its result is fetched all the same once it has
/// ended.
#[tokio::test]
async fn a_broken_connection_hides_no_ending() {
    let (stage, says, agent) = asking().await;
    says.send(question()).await.unwrap();
    assert_eq!(keys(&get(&agent).await).len(), 1);
    drop(says);
    stage.stands(task("completed"));
    let told = get(&agent).await;
    assert_eq!(
        told["result"]["result"]["content"],
        text("too late"),
        "{told}"
    );
    assert_eq!(stage.count("tasks/result"), 2);
}

/// A task that is said to have ended asks nobody: what it asks is refused, all of it, and its result is
/// waited for meanwhile.
#[tokio::test]
async fn what_an_ended_task_asks_is_refused() {
    let (stage, says, agent) = asking().await;
    stage.stands(task("completed"));
    let telling = async {
        for id in ["q-1", "q-2", "q-3"] {
            says.send(question_of(id)).await.unwrap();
            let refused = stage.server.sees("the refusal", is_answer(id)).await;
            assert!(refused.body["error"].is_object(), "{:#}", refused.body);
        }
        let ended = ends(&stage, "result", done("anyway")).await;
        says.send(ended).await.unwrap();
    };
    let (told, ()) = tokio::join!(get(&agent), telling);
    assert_eq!(
        told["result"]["result"]["content"],
        text("anyway"),
        "{told}"
    );
    assert_eq!(stage.count("tasks/result"), 1);
}

/// guarantees §4: an error in place of the result of a task that has completed is not what it ended
/// with. The agent reads that the result did not come, and may ask again.
#[tokio::test]
async fn an_error_is_no_ending_of_a_completed_task() {
    for standing in ["completed", "input_required"] {
        let (stage, says, agent) = asking().await;
        stage.stands(task(standing));
        let failing = async {
            let error = json!({ "code": -32603, "message": "a bad moment" });
            says.send(ends(&stage, "error", error).await).await.unwrap();
        };
        let (told, ()) = tokio::join!(get(&agent), failing);
        assert!(told["error"].is_object(), "{standing}: {told}");
        let told = get(&agent).await;
        let result = &told["result"];
        assert_eq!(result["status"], "completed", "{standing}: {told}");
        assert_eq!(
            result["result"]["content"],
            text("too late"),
            "{standing}: {told}"
        );
        assert_eq!(stage.server.executions(), 1);
    }
}

/// While the result of a task is waited for, a call of the same agent is asked what the server asks
/// without saying for what: what a task asks names it.
#[tokio::test]
async fn an_open_result_hides_no_call() {
    let (stage, says, agent) = asking().await;
    says.send(question()).await.unwrap();
    assert_eq!(keys(&get(&agent).await).len(), 1);
    let all_listen =
        || async { (stage.server.listeners() == stage.server.sessions()).then_some(()) };
    until("each session is listened to", all_listen).await;
    let _held = stage.server.holds("tools/call");
    let plain = request(&agent, "tools/call", call("plain", 2, None), false);
    let asking = async {
        let is_it = |seen: &Seen| seen.body["params"]["name"] == "plain";
        stage.server.sees("the call", is_it).await;
        let params = json!({ "message": "sure?", "requestedSchema": { "type": "object", "properties": {} } });
        let asked = json!({ "jsonrpc": "2.0", "id": "q-9", "method": ELICITED, "params": params });
        stage.server.tells(asked).await;
    };
    let (asked, ()) = tokio::join!(agent.answered(&plain), asking);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    let words: Vec<_> = requests
        .values()
        .map(|asked| &asked["params"]["message"])
        .collect();
    assert_eq!(words, ["sure?"]);
}

/// The server tells that a task has ended while its agent asks how it stands: word of it on the agent's
/// subscription waits its turn, so that one request for the result is open at a time.
#[tokio::test]
async fn word_of_a_task_takes_its_turn() {
    let (stage, says, agent) = asking().await;
    let wanted = json!({ "notifications": { "taskIds": ["t-1"] } });
    let listen = request(&agent, "subscriptions/listen", wanted, true);
    let mut listening = agent.post(&listen).await;
    let first = listening.message().await;
    assert_eq!(first["params"]["notifications"]["taskIds"], json!(["t-1"]));
    let all_listen =
        || async { (stage.server.listeners() == stage.server.sessions()).then_some(()) };
    until("each session is listened to", all_listen).await;
    stage.stands(task("completed"));
    let telling = async {
        let id = result_request(&stage).await.body["id"].clone();
        let told = task("completed");
        let note =
            json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": told });
        stage.server.tells(note).await;
        for id in ["p-1", "p-2"] {
            let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
            stage.server.tells(ping).await;
            stage.server.sees("that it was read", is_answer(id)).await;
        }
        assert_eq!(stage.count("tasks/result"), 1);
        let ended = json!({ "jsonrpc": "2.0", "id": id, "result": done("first") });
        says.send(event(&ended)).await.unwrap();
    };
    let (told, ()) = tokio::join!(get(&agent), telling);
    assert_eq!(told["result"]["status"], "completed", "{told}");
    let word = listening.message().await;
    assert_eq!(word["params"]["status"], "completed", "{word}");
    assert_eq!(stage.count("tasks/result"), 2);
}
