//! What a call that waits as a task may keep of what its server asks, and what ends the waiting
//! whatever the server does (protocol §4.3).

use super::*;

const SAMPLED: &str = "sampling/createMessage";
const MIB: usize = 1 << 20;

fn asks(id: &str, method: &str, words: &str) -> String {
    let params =
        json!({ "message": words, "requestedSchema": { "type": "object", "properties": {} } });
    event(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

impl TaskStage {
    /// The server takes no answers any more, and asks this often for what the agent cannot do.
    async fn is_deaf_and_asks(&self, times: usize) {
        self.crossing.server.leaves_notifications();
        for number in 0..times {
            let asked = asks(&format!("s-{number}"), SAMPLED, "say something");
            self.says.send(asked).await.unwrap();
        }
        let server = &self.crossing.server;
        server.sees("the first refusal", is_answer("s-0")).await;
    }

    /// The task has failed, and nobody knows what its tool did.
    async fn has_failed(&self) {
        let told = self.becomes("failed").await;
        let words = told["error"]["message"].as_str().unwrap();
        assert!(words.contains("outcome_unknown"), "{told}");
        self.is_unknown().await;
    }
}

/// Questions of one call take 4 MiB at most: one more reads why it is not asked, and the same again is
/// asked once there is room. The call goes on, once.
#[tokio::test]
async fn questions_of_a_task_take_so_many_bytes() {
    let stage = TaskStage::of("pay").await;
    let server = &stage.crossing.server;
    let long = "x".repeat(MIB + MIB / 4);
    for id in ["l-1", "l-2", "l-3", "l-4"] {
        stage.says.send(asks(id, ELICITED, &long)).await.unwrap();
    }
    let refused = server.sees("the refusal", is_answer("l-4")).await;
    let words = refused.body["error"]["message"].as_str().unwrap();
    assert!(words.contains("4 MiB"), "{:?}", refused.body);
    let keys = stage.asked().await;
    assert_eq!(keys.len(), 4);
    for key in &keys {
        stage.answers(key).await;
    }
    for id in ["q-1", "l-1", "l-2", "l-3"] {
        server.sees("the answer", is_answer(id)).await;
    }
    stage.says.send(asks("l-5", ELICITED, &long)).await.unwrap();
    let told = stage.becomes("input_required").await;
    assert_eq!(told["inputRequests"].as_object().unwrap().len(), 1);
    stage.finishes().await;
    stage.becomes("completed").await;
    assert_eq!(server.executions(), 1);
}

/// A server that takes no answers, and asks on, keeps no agent from cancelling: the cancellation
/// reaches it before its questions are refused one by one.
#[tokio::test]
async fn a_deaf_server_hears_that_a_task_is_cancelled() {
    let stage = TaskStage::of("pay").await;
    stage.is_deaf_and_asks(20).await;
    let params = json!({ "taskId": stage.id() });
    let cancel = knowing(&stage.alice, "tasks/cancel", params);
    let gone = stage.alice.answered(&cancel).await;
    assert_eq!(gone["result"]["resultType"], "complete", "{gone}");
    let server = &stage.crossing.server;
    let is_cancelled = |seen: &Seen| seen.method() == "notifications/cancelled";
    server.sees("the cancellation", is_cancelled).await;
    stage.becomes("cancelled").await;
    stage.is_unknown().await;
}

/// toolgate stops while a server takes no answers: that nobody knows the outcome is recorded, and so
/// the same call reads after the restart.
#[tokio::test]
async fn a_deaf_server_leaves_no_task_behind() {
    let mut stage = TaskStage::of("pay").await;
    stage.is_deaf_and_asks(12).await;
    let before = stage.crossing.server.executions();
    let setup = stage.crossing.gate.stop().await;
    stage.crossing.gate = setup.start().await;
    stage.alice = agent(&stage.crossing.gate, Towards::Legacy, ALICE).await;
    let again = stage.again().await;
    assert_eq!(code(&again).as_deref(), Some("outcome_unknown"), "{again}");
    assert_eq!(stage.crossing.server.executions(), before);
}

/// The server has forgotten the session, and its stream stays open: the answer that does not arrive
/// says so, and the task ends.
#[tokio::test]
async fn an_answer_to_a_forgotten_session_ends_the_task() {
    let stage = TaskStage::of("pay").await;
    let keys = stage.asked().await;
    stage.crossing.server.forgets_sessions();
    stage.answers(&keys[0]).await;
    stage.has_failed().await;
}

/// Something before the server refuses the agent's answer: the agent is told, what was asked is asked
/// still, and the next answer arrives.
#[tokio::test]
async fn an_answer_that_is_refused_on_its_way_can_be_given_again() {
    let stage = TaskStage::of("pay").await;
    let server = &stage.crossing.server;
    let keys = stage.asked().await;
    for status in [503, 429, 401] {
        server.refuses_notifications(Some(status));
        let told = stage.answers(&keys[0]).await;
        let words = told["error"]["message"].as_str().unwrap();
        assert!(words.contains("can be answered again"), "{told}");
        assert_eq!(stage.asked().await, keys);
    }
    server.refuses_notifications(None);
    let told = stage.answers(&keys[0]).await;
    assert!(told["result"].is_object(), "{told}");
    assert_eq!(stage.stands().await["status"], "working");
    stage.finishes().await;
    assert_eq!(server.executions(), 1);
}

/// The same where nobody answers anything: the server is asked whether it knows the session. One that
/// does is left alone.
#[tokio::test]
async fn a_forgotten_session_is_noticed() {
    let (server, setup) = Crossing::setup(Towards::Legacy, POLICY, "").await;
    let setup = setup.server_member("ping_after: 1s");
    let crossing = Crossing {
        gate: setup.start().await,
        server,
        towards: Towards::Legacy,
    };
    let stage = TaskStage::at(crossing, "pay").await;
    let server = &stage.crossing.server;
    let is_ping = |seen: &Seen| seen.method() == "ping";
    server.sees("that it is asked", is_ping).await;
    assert_eq!(stage.stands().await["status"], "input_required");
    server.forgets_sessions();
    stage.has_failed().await;
}

/// Another call finds that the session is gone: the task that waits in it is looked after at once.
#[tokio::test]
async fn another_call_finds_the_session_gone() {
    let stage = TaskStage::of("pay").await;
    stage.crossing.server.forgets_sessions();
    let read = knowing(
        &stage.alice,
        "tools/call",
        json!({ "name": "read", "arguments": {} }),
    );
    let other = stage.alice.answered(&read).await;
    assert_eq!(code(&other), None, "{other}");
    let told = stage.becomes("failed").await;
    assert!(told.to_string().contains("outcome_unknown"), "{told}");
}

/// A question is judged, and recorded, when its server asks it, however often its agent asks how the
/// task stands.
#[tokio::test]
async fn a_question_is_recorded_once() {
    let stage = TaskStage::of("pay").await;
    for _ in 0..3 {
        assert_eq!(stage.asked().await.len(), 1);
    }
    let key = stage.asked().await.remove(0);
    stage.answers(&key).await;
    let server = &stage.crossing.server;
    server.sees("the answer", is_answer("q-1")).await;
    stage.finishes().await;
    stage.becomes("completed").await;
    let entries = stage.crossing.gate.entries(2).await;
    let asked = entries.iter().filter(|entry| entry["method"] == ELICITED);
    assert_eq!(asked.count(), 1, "{entries:#?}");
}
