//! toolgate dies, or its tool server goes or changes, while a call waits as a task.

use super::*;
use crate::bridging::crossings::replaced;
use crate::harness::gate::{Gate, run};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// How often an agent asks after a task whose end cannot be written down.
const ASKED_MEANWHILE: usize = 200;

/// toolgate is killed while a task waits for its agent, or its tool works on after the answer: the
/// same call reads the handle that it was given, the task says that nobody knows how the call ends,
/// to its own agent alone, and nothing is sent or handed on again.
#[tokio::test]
async fn a_task_that_waited_when_toolgate_died_is_unknown() {
    for is_answered in [false, true] {
        let mut stage = TaskStage::of("pay").await;
        let keys = stage.asked().await;
        if is_answered {
            stage.answers(&keys[0]).await;
            let server = &stage.crossing.server;
            server.sees("the answer", is_answer("q-1")).await;
        }
        let before = stage.crossing.server.seen().len();
        stage.crossing.gate.kill().await;
        let setup = stage.crossing.gate.setup.clone();
        stage.crossing.gate = setup.start().await;
        stage.alice = agent(&stage.crossing.gate, Towards::Legacy, ALICE).await;
        for _ in 0..2 {
            let again = stage.again().await;
            assert_eq!(again["result"]["taskId"], *stage.id(), "{again}");
            let told = stage.stands().await;
            assert_eq!(told["status"], "failed", "{told}");
            let words = told["error"]["message"].as_str().unwrap();
            assert!(words.contains("outcome_unknown"), "{told}");
            let late = stage.answers(&keys[0]).await;
            assert_eq!(late["error"]["code"], -32602, "{late}");
        }
        let bob = agent(&stage.crossing.gate, Towards::Legacy, BOB).await;
        let asked = knowing(&bob, "tasks/get", json!({ "taskId": stage.id() }));
        let foreign = bob.answered(&asked).await;
        assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
        let seen = stage.crossing.server.seen().split_off(before);
        assert!(seen.is_empty(), "{seen:#?}");
        assert_eq!(stage.crossing.server.executions(), 1);
        verifies(stage.crossing.gate).await;
    }
}

/// guarantees §2, step 15: the disk takes nothing when the server answers. Until it does the task works,
/// as far as its agent is told; what it is told then is not taken back by a kill.
#[tokio::test]
async fn a_task_is_told_as_done_once_that_is_written_down() {
    let mut stage = TaskStage::of("pay").await;
    let keys = stage.asked().await;
    stage.answers(&keys[0]).await;
    let server = &stage.crossing.server;
    server.sees("the answer", is_answer("q-1")).await;
    let usual = stage.files_grow_to(Rlimit {
        current: Some(1),
        maximum: None,
    });
    stage.finishes().await;
    for _ in 0..ASKED_MEANWHILE {
        let told = stage.stands().await;
        assert_eq!(told["status"], "working", "{told}");
    }
    stage.files_grow_to(usual);
    let told = stage.becomes("completed").await;
    assert_eq!(told["result"]["content"][0]["text"], "paid", "{told}");
    stage.restarts().await;
    let again = stage.again().await;
    assert_eq!(
        stored(&again)["result"]["content"][0]["text"],
        "paid",
        "{again}"
    );
    assert_eq!(stage.crossing.server.executions(), 1, "I1");
}

impl TaskStage {
    /// How large files of toolgate may become from now on; as it was before.
    fn files_grow_to(&self, limit: Rlimit) -> Rlimit {
        let pid = i32::try_from(self.crossing.gate.pid()).unwrap();
        prlimit(Pid::from_raw(pid), Resource::Fsize, limit).unwrap()
    }
}

/// toolgate is killed while a call waits as a task, or parked, and a server that speaks 2026-07-28 takes
/// the place of the one that asked. Answers without the state of a question are no round of the
/// call, which its new server would run once more; and where the server is only down, they do not
/// take the place of the call, whose end is the call's.
#[tokio::test]
async fn answers_begin_no_call_anew_where_the_server_has_changed_its_era() {
    for knows_tasks in [true, false] {
        let mut crossing = Crossing::new(Towards::Legacy, POLICY, "").await;
        let alice = crossing.agent(ALICE).await;
        let says = crossing.server.holds("tools/call");
        says.send(question("q-1")).await.unwrap();
        let params = json!({ "name": "pay", "arguments": { "n": 1 } });
        let of = |agent: &Agent, params: &Value| {
            if knows_tasks {
                return knowing(agent, "tools/call", params.clone());
            }
            call(agent, "pay", params["arguments"].clone())
        };
        let asked = alice.answered(&of(&alice, &params)).await;
        let kind = asked["result"]["resultType"].clone();
        assert_eq!(kind == "task", knows_tasks, "{asked}");
        let setup = crossing.gate.setup.clone();
        crossing.gate.kill().await;
        let new = replaced(&crossing.server, Towards::Modern).await;
        crossing.gate = setup.start().await;
        let alice = agent(&crossing.gate, Towards::Legacy, ALICE).await;
        let answers = json!({ "question-1": { "action": "accept", "content": {} } });
        let mut round = of(&alice, &params);
        round["params"]["inputResponses"] = answers;
        for message in [&round, &of(&alice, &params), &round] {
            let answer = alice.answered(message).await;
            assert_eq!(answer["result"]["resultType"], kind, "{answer}");
            let name = if knows_tasks {
                "taskId"
            } else {
                "requestState"
            };
            assert_eq!(answer["result"][name], asked["result"][name], "{answer}");
        }
        let executions = (crossing.server.executions(), new.executions());
        assert_eq!(executions, (1, 0), "I1: it ran once");
        verifies(crossing.gate).await;
    }
}

/// The server is down for toolgate's own conversation with it, while a call waits as a task in another:
/// answers that come beside the task do not take its place, and its result is the call's.
#[tokio::test]
async fn answers_beside_a_task_lose_no_result_while_the_server_is_down() {
    let stage = TaskStage::of("pay").await;
    let keys = stage.asked().await;
    let server = &stage.crossing.server;
    server.is_listened_to().await;
    server.leaves_introductions();
    server.forgets_first_session();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    server.tells(changed).await;
    until("toolgate finds the server down", || async {
        let read = call(&stage.alice, "read", json!({}));
        let answer = stage.alice.answered(&read).await;
        (code(&answer).as_deref() == Some("upstream_unavailable")).then_some(())
    })
    .await;
    let mut round = knowing(&stage.alice, "tools/call", stage.call.clone());
    round["params"]["inputResponses"] = json!({ &*keys[0]: { "action": "accept" } });
    let answer = stage.alice.answered(&round).await;
    assert_eq!(
        answer["error"]["code"], -32602,
        "it is of sessions: {answer}"
    );
    stage.answers(&keys[0]).await;
    server.sees("the answer", is_answer("q-1")).await;
    stage.finishes().await;
    until("the call has its outcome", || async {
        let again = stage.again().await;
        (stored(&again)["result"]["content"][0]["text"] == "paid").then_some(())
    })
    .await;
    let is_paid = |seen: &Seen| seen.body["params"]["name"] == "pay";
    let paid = server.seen().into_iter().filter(is_paid).count();
    assert_eq!(paid, 1, "I1");
}

async fn verifies(gate: Gate) {
    let setup = gate.stop().await;
    let (status, said, wrong) = run(&setup, &["ledger", "verify", "--data", "data"]).await;
    assert_eq!(status, 0, "I5: {said}{wrong}");
}
