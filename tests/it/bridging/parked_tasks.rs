//! A legacy server asks in the middle of an ordinary call, and the agent of 2026-07-28 knows tasks: it
//! holds one of toolgate's own (protocol §4.3). Whatever becomes of it, the tool runs once.

use super::crossings::{ALICE, BOB, Crossing, ELICITED, Towards, agent, call};
use super::last;
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::replay::stored;
use crate::harness::scripted_server::{Seen, event};
use crate::harness::until;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

mod bounds;
mod broken;
mod unknown;

const POLICY: &str = "
contracts:
  s__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  s__pay: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: s__undo } }, secrets: [], idempotency: { derive: arguments } }
  s__read: { purpose: test, actions: [read], secrets: [] }
";

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A call that has become a task.
pub struct TaskStage {
    pub crossing: Crossing,
    pub alice: Agent,
    says: Sender<String>,
    /// The parameters of its call.
    pub call: Value,
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
    pub async fn of(tool: &str) -> Self {
        Self::under(POLICY, tool).await
    }

    async fn under(policy: &str, tool: &str) -> Self {
        Self::at(Crossing::new(Towards::Legacy, policy, "").await, tool).await
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
    pub async fn asked(&self) -> Vec<String> {
        let told = self.stands().await;
        assert_eq!(told["status"], "input_required", "{told}");
        let requests = told["inputRequests"].as_object().unwrap();
        assert!(requests.values().all(|asked| asked["method"] == ELICITED));
        requests.keys().cloned().collect()
    }

    pub async fn answers(&self, key: &str) -> Value {
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

    pub async fn finishes(&self) {
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

    /// Another policy is in force soon; the one that was.
    fn policy(&self, other: impl FnOnce(String) -> String) -> String {
        let file = self.crossing.gate.setup.directory().join("policy.yaml");
        let before = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file.with_extension("new"), other(before.clone())).unwrap();
        std::fs::rename(file.with_extension("new"), &file).unwrap();
        before
    }

    /// toolgate is killed, and started again.
    pub async fn restarts(&mut self) {
        self.crossing.gate.kill().await;
        let setup = self.crossing.gate.setup.clone();
        self.crossing.gate = setup.start().await;
        self.alice = agent(&self.crossing.gate, Towards::Legacy, ALICE).await;
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
        (stored(&again)["result"]["content"][0]["text"] == "paid").then_some(())
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

/// The tool of a task is closed to its agent while the task asks, or once it has ended: the agent reads
/// neither what it asks nor its result, and not that nobody knows. It can still cancel it. Once the
/// tool is open again it reads on.
#[tokio::test]
async fn a_task_whose_tool_is_closed_is_told_as_it_stands() {
    let stage = TaskStage::of("pay").await;
    let server = &stage.crossing.server;
    let keys = stage.asked().await;
    let open = stage.policy(|open| open.replace("s__pay", "s__other"));
    let told = until("the tool is closed", || async {
        let told = stage.stands().await;
        (told["status"] != "input_required").then_some(told)
    });
    let told = told.await;
    assert_eq!(told["status"], "working", "{told}");
    assert!(told.to_string().contains("not open"), "{told}");
    assert!(told.get("inputRequests").is_none(), "{told}");
    let late = stage.answers(&keys[0]).await;
    assert_eq!(late["error"]["code"], -32602, "{late}");
    assert!(!server.seen().iter().any(is_answer("q-1")), "no answer");
    stage.policy(|_| open);
    stage.becomes("input_required").await;
    stage.answers(&keys[0]).await;
    server.sees("the answer", is_answer("q-1")).await;
    stage.finishes().await;
    stage.becomes("completed").await;
    stage.policy(|open| open.replace("s__pay", "s__other"));
    let told = stage.becomes("failed").await;
    assert!(told.to_string().contains("has answered"), "{told}");
    assert!(!told.to_string().contains("paid"), "{told}");

    let stage = TaskStage::of("pay").await;
    let server = &stage.crossing.server;
    stage.policy(|open| open.replace("s__pay", "s__other"));
    stage.becomes("working").await;
    let params = json!({ "taskId": stage.id() });
    let cancel = knowing(&stage.alice, "tasks/cancel", params);
    let gone = stage.alice.answered(&cancel).await;
    assert_eq!(gone["result"]["resultType"], "complete", "{gone}");
    let refused = server.sees("the refusal", is_answer("q-1")).await;
    assert!(refused.body["error"].is_object(), "{:?}", refused.body);
    let is_told = |seen: &Seen| seen.method() == "notifications/cancelled";
    server.sees("that the call is cancelled", is_told).await;
    let told = stage.becomes("cancelled").await;
    assert!(told.to_string().contains("outcome_unknown"), "{told}");
    let entries = stage.crossing.gate.ledger().await;
    let is_cancel = |entry: &Value| entry.to_string().contains("tasks/cancel");
    assert!(entries.iter().any(is_cancel), "{entries:#?}");
    assert_eq!(server.executions(), 1);
}
