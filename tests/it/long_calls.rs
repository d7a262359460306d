//! Calls that take long, as tasks of agents that know them (guarantees §7, protocol §6.4).

mod held_rounds;

use crate::harness::agent::Agent;
use crate::harness::answer::{Reading, code};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CALLERS: &str = "  - { agent: bot, token: token-of-the-agent-bot }\n  \
     - { agent: cat, token: token-of-the-agent-cat }";

/// A tool server that answers the calls of its tools when the scenario says so, in the order in which
/// they come.
struct LongStage {
    scripted: ScriptedServer,
    gate: Gate,
    open: Arc<Mutex<VecDeque<oneshot::Sender<Reply>>>>,
}

impl LongStage {
    /// Before a server of these capabilities, whose calls are tasks at once.
    async fn before(capabilities: Value) -> Self {
        let tools = [("bank__look", "read"), ("bank__pay", "write")];
        Self::with(capabilities, |setup| setup.contracts(&tools)).await
    }

    /// The same, with contracts of its own.
    async fn with(capabilities: Value, contracts: impl FnOnce(Setup) -> Setup) -> Self {
        let tools = ["look", "pay", "undo"].map(tool).to_vec();
        let scripted = ScriptedServer::start(Offers {
            capabilities,
            tools,
            ..Offers::default()
        })
        .await;
        let open: Arc<Mutex<VecDeque<_>>> = Arc::default();
        let kept = open.clone();
        scripted.answers(move |seen| {
            if seen.method() != "tools/call" {
                return Reply::Result(json!({ "resultType": "complete" }));
            }
            let (answer, answers) = oneshot::channel();
            kept.lock().unwrap().push_back(answer);
            Reply::Later(answers)
        });
        let setup = Setup::new()
            .server_with(
                "bank",
                &format!("url: \"{}\", task_after: 1ms", scripted.url()),
            )
            .open_sides()
            .callers(CALLERS);
        Self {
            scripted,
            gate: contracts(setup).start().await,
            open,
        }
    }

    async fn new() -> Self {
        Self::before(json!({ "tools": {} })).await
    }

    fn bot(&self) -> Agent {
        self.gate.agent().token("token-of-the-agent-bot")
    }

    /// The call of `tool`, once it is at the server.
    async fn call(&self, nth: usize) -> Seen {
        let calls = || {
            self.scripted
                .seen()
                .into_iter()
                .filter(|seen| seen.method() == "tools/call")
        };
        until("a call", || async { calls().nth(nth) }).await
    }

    /// Answers the first call that waits.
    async fn answers(&self, result: Value) {
        let next = until("a call that waits", || async {
            self.open.lock().unwrap().pop_front()
        })
        .await;
        drop(next.send(Reply::Result(result)));
    }
}

/// Asks as an agent that declares with the request that it knows tasks.
async fn knowing(agent: &Agent, method: &str, params: Value) -> Value {
    let mut request = agent.request(method, params);
    request["params"]["_meta"][CAPABILITIES] =
        json!({ "elicitation": {}, "extensions": { EXTENSION: {} } });
    agent.answered(&request).await
}

async fn calls(agent: &Agent, tool: &str, key: &str) -> Value {
    let meta = json!({ "dev.toolgate/idempotencyKey": key });
    let params = json!({ "name": format!("bank__{tool}"), "arguments": { "n": 1 }, "_meta": meta });
    knowing(agent, "tools/call", params).await["result"].clone()
}

async fn asks(agent: &Agent, method: &str, id: &str) -> Value {
    knowing(agent, method, json!({ "taskId": id })).await
}

/// How the task stands once that is no longer `status`.
async fn after(agent: &Agent, id: &str, status: &str) -> Value {
    until("another status of a task", || async {
        let told = asks(agent, "tasks/get", id).await["result"].clone();
        (told["status"] != status).then_some(told)
    })
    .await
}

/// The id of the task that the call has become.
fn task(handle: &Value) -> String {
    assert_eq!(handle["resultType"], "task", "{handle}");
    assert_eq!(handle["status"], "working", "{handle}");
    assert!(
        handle["ttlMs"].as_u64().is_some_and(|ttl| ttl > 3_600_000),
        "{handle}"
    );
    handle["taskId"].as_str().unwrap().to_owned()
}

fn paid() -> Value {
    json!({ "content": [{ "type": "text", "text": "paid" }], "resultType": "complete" })
}

fn words(told: &Value) -> &str {
    told["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

/// Its agent reads a task once it takes long; the call goes on as it was, is sent once and recorded once,
/// and its result is the task's. Who did not declare tasks waits for the answer.
#[tokio::test]
async fn a_call_that_takes_long_becomes_a_task() {
    let stage = LongStage::new().await;
    let bot = stage.bot();
    for (nth, tool) in ["look", "pay"].into_iter().enumerate() {
        let id = task(&calls(&bot, tool, "k").await);
        let told = asks(&bot, "tasks/get", &id).await["result"].clone();
        assert_eq!(
            (&told["status"], &told["resultType"]),
            (&json!("working"), &json!("complete"))
        );
        stage.answers(paid()).await;
        let told = after(&bot, &id, "working").await;
        assert_eq!(
            (&told["status"], words(&told)),
            (&json!("completed"), "paid"),
            "{told}"
        );
        assert_eq!(stage.scripted.executions(), nth + 1);
        let again = asks(&bot, "tasks/cancel", &id).await;
        assert_eq!(again["result"]["resultType"], "complete", "{again}");
        assert_eq!(after(&bot, &id, "working").await["status"], "completed");
    }
    let ledger = stage.gate.entries(2).await;
    assert_eq!(ledger.len(), 2, "{ledger:?}");
    let plain = async {
        let params = json!({ "name": "bank__look", "arguments": { "n": 2 } });
        bot.ask("tools/call", params).await
    };
    let answers = async {
        stage.call(2).await;
        stage.answers(paid()).await;
    };
    let (plain, ()) = tokio::join!(plain, answers);
    assert_eq!(plain["result"]["content"][0]["text"], "paid", "{plain}");
}

/// The same call again joins the first: it is sent once, and both tasks end with its result.
#[tokio::test]
async fn the_same_call_again_is_sent_once() {
    let stage = LongStage::new().await;
    let first = task(&calls(&stage.bot(), "pay", "k").await);
    stage.call(0).await;
    let second = task(&calls(&stage.bot(), "pay", "k").await);
    assert_ne!(first, second);
    stage.answers(paid()).await;
    for id in [first, second] {
        let told = after(&stage.bot(), &id, "working").await;
        assert_eq!(
            (&told["status"], words(&told)),
            (&json!("completed"), "paid"),
            "{told}"
        );
    }
    assert_eq!(stage.scripted.executions(), 1);
}

/// Killed while it goes on, toolgate says afterwards what it knows: that a write may have run, and it
/// is not sent again; and that a read can be.
#[tokio::test]
async fn a_task_of_before_a_kill_says_that_nobody_knows() {
    let mut stage = LongStage::new().await;
    let read = task(&calls(&stage.bot(), "look", "r").await);
    let write = task(&calls(&stage.bot(), "pay", "k").await);
    stage.call(1).await;
    stage.gate.kill().await;
    stage.gate = stage.gate.setup.clone().start().await;
    let told = after(&stage.bot(), &write, "working").await;
    assert_eq!(
        (&told["status"], &told["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
    assert!(words(&told).starts_with("outcome_unknown"), "{told}");
    let told = after(&stage.bot(), &read, "working").await;
    assert!(words(&told).contains("send the same call again"), "{told}");
    let again = calls(&stage.bot(), "pay", "k").await;
    let again = json!({ "result": again });
    assert_eq!(code(&again).as_deref(), Some("outcome_unknown"), "{again}");
    assert_eq!(stage.scripted.executions(), 2);
}

/// Cancelled, a read is given up, and its server hears of it; a write that was sent goes on, and its
/// task says with what it ended.
#[tokio::test]
async fn a_cancelled_task_says_what_became_of_it() {
    let stage = LongStage::new().await;
    let bot = stage.bot();
    let id = task(&calls(&bot, "look", "r").await);
    stage.call(0).await;
    asks(&bot, "tasks/cancel", &id).await;
    let told = after(&bot, &id, "working").await;
    assert_eq!(told["status"], "cancelled", "{told}");
    let said = told["statusMessage"].as_str().unwrap();
    assert!(!said.contains("did not run"), "it was sent: {said}");
    stage.open.lock().unwrap().clear();
    let id = task(&calls(&bot, "pay", "k").await);
    stage.call(1).await;
    let cancelled = asks(&bot, "tasks/cancel", &id).await;
    assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    let told = asks(&bot, "tasks/get", &id).await["result"].clone();
    assert_eq!(told["status"], "working", "it was sent: {told}");
    stage.answers(paid()).await;
    let told = after(&bot, &id, "working").await;
    assert_eq!(
        (&told["status"], words(&told)),
        (&json!("completed"), "paid"),
        "{told}"
    );
}

/// What its server asks the agent answers by the task, one by one: the next round is sent once all are
/// answered, with the server's own state.
#[tokio::test]
async fn a_task_asks_its_agent() {
    let stage = LongStage::new().await;
    let bot = stage.bot();
    let id = task(&calls(&bot, "pay", "k").await);
    let form = json!({ "method": "elicitation/create", "params": {
        "mode": "form", "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} },
    } });
    let requests = json!({ "one": form, "two": form });
    let question =
        json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "s" });
    stage.answers(question).await;
    let told = after(&bot, &id, "working").await;
    assert_eq!(told["status"], "input_required", "{told}");
    assert_eq!(
        told["inputRequests"].as_object().map(serde_json::Map::len),
        Some(2),
        "{told}"
    );
    assert!(told.get("requestState").is_none(), "{told}");
    let accepted = json!({ "action": "accept", "content": {} });
    for (answers, left) in [
        (json!({ "other": accepted }), vec!["one", "two"]),
        (json!({ "one": accepted }), vec!["two"]),
    ] {
        let params = json!({ "taskId": id, "inputResponses": answers });
        let taken = knowing(&bot, "tasks/update", params).await;
        assert_eq!(
            taken["result"],
            json!({ "resultType": "complete" }),
            "{taken}"
        );
        let told = asks(&bot, "tasks/get", &id).await["result"].clone();
        let open: Vec<_> = told["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(open, left);
    }
    assert_eq!(stage.scripted.executions(), 1);
    let params = json!({ "taskId": id, "inputResponses": { "two": accepted } });
    knowing(&bot, "tasks/update", params.clone()).await;
    let round = stage.call(1).await;
    let sent = &round.body["params"];
    assert_eq!(sent["requestState"], "s", "{sent}");
    assert_eq!(
        sent["inputResponses"],
        json!({ "one": accepted, "two": accepted })
    );
    stage.answers(paid()).await;
    let told = after(&bot, &id, "working").await;
    assert_eq!(
        (&told["status"], words(&told)),
        (&json!("completed"), "paid"),
        "{told}"
    );
    let late = knowing(&bot, "tasks/update", params).await;
    assert_eq!(late["error"]["code"], -32602, "{late}");
    assert_eq!(stage.scripted.executions(), 2);
}

/// A task is its caller's alone, and who did not declare the extension reads what to declare.
#[tokio::test]
async fn a_long_task_is_of_its_caller_alone() {
    let stage = LongStage::new().await;
    let id = task(&calls(&stage.bot(), "look", "r").await);
    let cat = stage.gate.agent().token("token-of-the-agent-cat");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = asks(&cat, method, &id).await;
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        let bare = stage.bot().ask(method, json!({ "taskId": id })).await;
        assert_eq!(bare["error"]["code"], -32021, "{method}: {bare}");
    }
    let told = asks(&stage.bot(), "tasks/get", &id).await;
    assert_eq!(
        told["result"]["status"], "working",
        "nobody has cancelled it: {told}"
    );
}

/// A server that makes tasks itself decides alone: toolgate makes none of its calls.
#[tokio::test]
async fn a_server_with_tasks_decides_by_itself() {
    let stage = LongStage::before(json!({ "tools": {}, "tasks": {} })).await;
    let bot = stage.bot();
    let answers = async {
        stage.call(0).await;
        // Another request there and back: more than a millisecond has passed.
        bot.ask("tools/list", json!({})).await;
        stage.answers(paid()).await;
    };
    let (answer, ()) = tokio::join!(calls(&bot, "look", "r"), answers);
    assert_eq!(answer["content"][0]["text"], "paid", "{answer}");
}

/// Listens for this task as an agent that knows tasks; gives the tasks that it is promised to hear of.
pub async fn listens(agent: &Agent, id: &str) -> (Reading, Value) {
    let wanted = json!({ "notifications": { "taskIds": [id] } });
    let mut request = agent.request("subscriptions/listen", wanted);
    request["params"]["_meta"][CAPABILITIES] = json!({ "extensions": { EXTENSION: {} } });
    let mut listening = agent.post(&request).await;
    let promised = listening.message().await;
    assert_eq!(
        promised["method"],
        "notifications/subscriptions/acknowledged"
    );
    let ids = promised["params"]["notifications"]["taskIds"].clone();
    (listening, ids)
}

/// A subscription that names the task hears how it stands, what its server asks, and its end with the
/// result; another agent's hears nothing.
#[tokio::test]
async fn a_subscription_hears_of_a_long_task() {
    let stage = LongStage::new().await;
    let bot = stage.bot();
    let id = task(&calls(&bot, "pay", "k").await);
    let cat = stage.gate.agent().token("token-of-the-agent-cat");
    let (_foreign, promised) = listens(&cat, &id).await;
    assert_eq!(promised, Value::Null);
    let (mut listening, promised) = listens(&bot, &id).await;
    assert_eq!(promised, json!([id]));
    let mut hears = async |status: &str| {
        let told = listening.message().await;
        assert_eq!(told["method"], "notifications/tasks", "{told}");
        assert_eq!(told["params"]["taskId"], json!(id), "{told}");
        assert_eq!(told["params"]["status"], status, "{told}");
        assert!(told["params"].get("resultType").is_none(), "{told}");
        told["params"].clone()
    };
    hears("working").await;
    let form = json!({ "method": "elicitation/create", "params": {
        "mode": "form", "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} },
    } });
    stage
        .answers(json!({ "resultType": "input_required", "inputRequests": { "one": form } }))
        .await;
    let asked = hears("input_required").await;
    assert_eq!(asked["inputRequests"]["one"], form, "{asked}");
    let answers = json!({ "one": { "action": "accept", "content": {} } });
    let params = json!({ "taskId": id, "inputResponses": answers });
    knowing(&bot, "tasks/update", params).await;
    hears("working").await;
    stage.call(1).await;
    stage.answers(paid()).await;
    let ended = hears("completed").await;
    assert_eq!(words(&ended), "paid", "{ended}");
}
