//! A legacy server asks in the middle of an ordinary call, and the agent of 2026-07-28 knows tasks: it
//! holds one of toolgate's own (protocol §4.3). Whatever becomes of it, the tool runs once.

use super::crossings::{ALICE, BOB, Crossing, ELICITED, Towards, agent, call, replaced};
use super::last;
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Seen, event};
use crate::harness::until;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

mod bounds;

const POLICY: &str = "
contracts:
  s__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: s__pay } } }
  s__pay: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: s__undo } }, secrets: [] }
  s__read: { purpose: test, actions: [read], secrets: [] }
";

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// How often toolgate is killed right after a task was told as done.
const KILLS_AFTER_THE_END: usize = 8;
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A call that has become a task.
struct TaskStage {
    crossing: Crossing,
    alice: Agent,
    says: Sender<String>,
    /// The parameters of its call.
    call: Value,
    handle: Value,
}

/// A request of an agent that can be asked and knows tasks.
fn knowing(agent: &Agent, method: &str, params: Value) -> Value {
    let mut request = agent.request(method, params);
    request["params"]["_meta"][CAPABILITIES] =
        json!({ "elicitation": {}, "extensions": { EXTENSION: {} } });
    request
}

fn question(id: &str) -> String {
    let params =
        json!({ "message": id, "requestedSchema": { "type": "object", "properties": {} } });
    event(&json!({ "jsonrpc": "2.0", "id": id, "method": ELICITED, "params": params }))
}

fn is_answer(id: &'static str) -> impl Fn(&Seen) -> bool {
    move |seen| seen.body["id"] == id && seen.method().is_empty()
}

/// What is told of a task.
async fn stands(agent: &Agent, id: &Value) -> Value {
    let asked = knowing(agent, "tasks/get", json!({ "taskId": id }));
    agent.answered(&asked).await["result"].clone()
}

/// The task once it has that status.
async fn becomes(agent: &Agent, id: &Value, status: &str) -> Value {
    until(&format!("the task is {status}"), || async {
        let told = stands(agent, id).await;
        (told["status"] == status).then_some(told)
    })
    .await
}

impl TaskStage {
    async fn of(tool: &str) -> Self {
        Self::at(Crossing::new(Towards::Legacy, POLICY, "").await, tool).await
    }

    async fn at(crossing: Crossing, tool: &str) -> Self {
        let alice = crossing.agent(ALICE).await;
        let (says, _) = tokio::sync::mpsc::channel(1);
        let mut stage = Self {
            crossing,
            alice,
            says,
            call: json!({ "name": tool, "arguments": {} }),
            handle: Value::Null,
        };
        stage.begins(0).await;
        stage
    }

    /// Makes another call, of this number.
    async fn begins(&mut self, number: usize) {
        self.says = self.crossing.server.holds("tools/call");
        self.says.send(question("q-1")).await.unwrap();
        self.call["arguments"]["n"] = json!(number + 1);
        let asked = knowing(&self.alice, "tools/call", self.call.clone());
        let handle = self.alice.answered(&asked).await["result"].clone();
        assert_eq!(handle["resultType"], "task", "{handle}");
        assert_eq!(handle["status"], "input_required", "{handle}");
        self.handle = handle;
    }

    fn id(&self) -> &Value {
        &self.handle["taskId"]
    }

    async fn stands(&self) -> Value {
        stands(&self.alice, self.id()).await
    }

    async fn becomes(&self, status: &str) -> Value {
        becomes(&self.alice, self.id(), status).await
    }

    /// The names of what is asked now.
    async fn asked(&self) -> Vec<String> {
        let told = self.stands().await;
        assert_eq!(told["status"], "input_required", "{told}");
        let requests = told["inputRequests"].as_object().unwrap();
        assert!(requests.values().all(|asked| asked["method"] == ELICITED));
        requests.keys().cloned().collect()
    }

    async fn answers(&self, key: &str) -> Value {
        let reply = json!({ "action": "accept", "content": { "x": key } });
        let update = json!({ "taskId": self.id(), "inputResponses": { key: reply } });
        self.alice
            .answered(&knowing(&self.alice, "tasks/update", update))
            .await
    }

    /// The same call once more, under a new id.
    async fn again(&self) -> Value {
        let again = knowing(&self.alice, "tools/call", self.call.clone());
        self.alice.answered(&again).await
    }

    async fn finishes(&self) {
        let is_call = |seen: &Seen| {
            let params = &seen.body["params"];
            seen.method() == "tools/call" && params["arguments"] == self.call["arguments"]
        };
        let sent = self.crossing.server.sees("the call", is_call).await;
        let id = sent.body["id"].clone();
        let result = json!({ "content": [{ "type": "text", "text": "paid" }] });
        let done = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        self.says.send(event(&done)).await.unwrap();
    }

    /// What nobody knows the end of is told so, and sent no more.
    async fn is_unknown(&self) {
        until("the outcome is unknown", || async {
            let again = self.again().await;
            (code(&again).as_deref() == Some("outcome_unknown")).then_some(())
        })
        .await;
        assert_eq!(self.crossing.server.executions(), 1);
    }
}

/// The questions are the task's, in rounds; the answers go to the server under its ids; the end is
/// inside the task and, from then on, the answer to the same call. What is another agent's leads
/// nowhere. Agents that know no tasks, and calls of them in the same session, are parked as ever.
#[tokio::test]
async fn a_question_makes_a_task_where_the_agent_knows_tasks() {
    let stage = TaskStage::of("pay").await;
    let (alice, server) = (&stage.alice, &stage.crossing.server);
    let first = stage.asked().await;
    assert_eq!(stage.asked().await, first, "a question keeps its name");
    let again = stage.again().await;
    assert_eq!(again["result"]["taskId"], *stage.id(), "{again}");
    assert_eq!(
        stage.answers("another").await["result"]["resultType"],
        "complete"
    );
    assert_eq!(stage.asked().await, first);
    let bob = stage.crossing.agent(BOB).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let asked = knowing(&bob, method, json!({ "taskId": stage.id() }));
        let answer = bob.answered(&asked).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }

    stage.answers(&first[0]).await;
    let said = server.sees("the first answer", is_answer("q-1")).await;
    assert_eq!(said.body["result"]["content"]["x"], first[0]);
    assert_eq!(stage.stands().await["status"], "working");
    stage.says.send(question("q-2")).await.unwrap();
    stage.becomes("input_required").await;
    let second = stage.asked().await;
    assert_ne!(second, first, "another question has another name");
    // What was answered is answered once.
    stage.answers(&first[0]).await;
    stage.answers(&second[0]).await;
    server.sees("the second answer", is_answer("q-2")).await;
    stage.finishes().await;
    let ended = stage.becomes("completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "paid", "{ended}");
    assert_eq!(stage.becomes("completed").await["result"], ended["result"]);
    until("the call has its outcome", || async {
        let again = stage.again().await;
        (again["result"]["content"][0]["text"] == "paid").then_some(())
    })
    .await;
    let late = stage.answers(&second[0]).await;
    assert_eq!(late["error"]["code"], -32602, "{late}");
    let answers = server.seen().into_iter().filter(is_answer("q-1")).count();
    assert_eq!((server.executions(), answers), (1, 1));
    let undeclared = call(alice, "pay", json!({ "n": 2 }));
    let says = server.holds("tools/call");
    says.send(question("q-3")).await.unwrap();
    let asked = alice.answered(&undeclared).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let discovered = alice.ask("server/discover", json!({})).await;
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert!(extensions[EXTENSION].is_object(), "{discovered}");
}

/// A task that its agent cancels is cancelled at the server, whose question reads an error. Whether the
/// tool has done anything by then nobody knows; of one that changes nothing it does not matter.
#[tokio::test]
async fn a_parked_task_can_be_cancelled() {
    for tool in ["pay", "read"] {
        let stage = TaskStage::of(tool).await;
        let server = &stage.crossing.server;
        let params = json!({ "taskId": stage.id() });
        let cancel = knowing(&stage.alice, "tasks/cancel", params);
        let gone = stage.alice.answered(&cancel).await;
        assert_eq!(gone["result"]["resultType"], "complete", "{gone}");
        let refused = server.sees("the refusal", is_answer("q-1")).await;
        assert!(refused.body["error"].is_object(), "{:?}", refused.body);
        let call = last(server, "tools/call").body["id"].clone();
        let is_it = |seen: &Seen| {
            seen.method() == "notifications/cancelled" && seen.body["params"]["requestId"] == call
        };
        server.sees("that the call is cancelled", is_it).await;
        let told = stage.becomes("cancelled").await;
        let words = told["statusMessage"].as_str().unwrap();
        assert_eq!(words.contains("outcome_unknown"), tool == "pay", "{told}");
        if tool == "pay" {
            stage.is_unknown().await;
        }
    }
}

/// The server's call ends without an answer: the task says that nobody knows, and so does the same
/// call. Its own answer, whatever it is, is what a cancelled task ends with.
#[tokio::test]
async fn a_lost_call_is_unknown() {
    let mut stage = TaskStage::of("pay").await;
    let (says, _) = tokio::sync::mpsc::channel(1);
    drop(std::mem::replace(&mut stage.says, says));
    let told = stage.becomes("failed").await;
    let words = told["error"]["message"].as_str().unwrap();
    assert!(words.contains("outcome_unknown"), "{told}");
    stage.is_unknown().await;
    let late = stage.answers("question-1").await;
    assert_eq!(late["error"]["code"], -32602, "{late}");

    let stage = TaskStage::of("pay").await;
    let cancel = knowing(
        &stage.alice,
        "tasks/cancel",
        json!({ "taskId": stage.id() }),
    );
    let finishing = async {
        let server = &stage.crossing.server;
        server.sees("the refusal", is_answer("q-1")).await;
        stage.finishes().await;
    };
    let (_, ()) = tokio::join!(stage.alice.answered(&cancel), finishing);
    let told = stage.becomes("completed").await;
    assert_eq!(told["result"]["content"][0]["text"], "paid", "{told}");
}

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

/// guarantees §2, step 15: toolgate is killed at once when its agent has read that its task is done. From
/// then on the same call reads what the task ended with: what was told is not taken back.
#[tokio::test]
async fn a_task_that_was_told_as_done_is_done_after_a_kill() {
    let mut stage = TaskStage::of("pay").await;
    for number in 1..=KILLS_AFTER_THE_END {
        let keys = stage.asked().await;
        stage.answers(&keys[0]).await;
        stage.finishes().await;
        let told = until("the task is done", || async {
            let told = stage.stands().await;
            (told["status"] == "completed").then_some(told)
        });
        told.await;
        stage.crossing.gate.kill().await;
        let setup = stage.crossing.gate.setup.clone();
        stage.crossing.gate = setup.start().await;
        stage.alice = agent(&stage.crossing.gate, Towards::Legacy, ALICE).await;
        let again = stage.again().await;
        let content = &again["result"]["content"][0]["text"];
        assert_eq!(content, "paid", "kill {number}: {again}");
        stage.begins(number).await;
    }
    let executions = stage.crossing.server.executions();
    assert_eq!(executions, KILLS_AFTER_THE_END + 1, "I1");
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
        (again["result"]["content"][0]["text"] == "paid").then_some(())
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
