//! Calls that become tasks: what their server says of them later is shaped as their answer would
//! have been, and nobody hears of another's.

use crate::harness::agent::Agent;
use crate::harness::answer::Reading;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};

pub const POLICY: &str = "
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay:
    purpose: test
    actions: [write]
    permission: anyone
    side_effect: { writes: test, rollback: { tool: bank__undo } }
    secrets: []
    results: { max_bytes: 2048, redact: [ { pointer: /iban }, { pattern: 'tel [0-9]+', with: tel } ] }
";
const CALLERS: &str = "  - { agent: one, token: token-of-the-agent-one }
  - { agent: two, token: token-of-the-agent-two }
  - { agent: one, token: token-of-one-for-a-tenant, tenant: t_002 }
";
pub const TOKENS: [&str; 2] = ["token-of-the-agent-one", "token-of-the-agent-two"];
const OF_A_TENANT: &str = "token-of-one-for-a-tenant";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const RELATED: &str = "io.modelcontextprotocol/related-task";
/// What every agent may read of the endings below, and what none may.
const FINE: &str = "[redacted], tel";
const ENDINGS: [&str; 5] = ["short", "long", "odd", "bare", "error"];

pub async fn stage() -> (ScriptedServer, Gate) {
    let schema = json!({ "type": "object", "properties": { "iban": { "type": "string" } }, "required": ["iban"] });
    let mut pay = tool("pay");
    pay["outputSchema"] = schema;
    let scripted = ScriptedServer::with(vec![pay]).await;
    scripted.answers(answer);
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(POLICY)
        .open_sides()
        .callers(CALLERS);
    (scripted, setup.start().await)
}

/// How a task ends: with its result, or its error.
pub fn ending(how: &str) -> (&'static str, Value) {
    let content =
        |more: &str| json!([{ "type": "text", "text": format!("DE12 9999, tel 5550199{more}") }]);
    let full = |iban: Value, more: &str| json!({ "content": content(more), "structuredContent": { "iban": iban } });
    match how {
        "long" => ("result", full(json!("DE12 9999"), &"x".repeat(4096))),
        "odd" => ("result", full(json!(["DE12 9999"]), "")),
        // Against the protocol, and not a way around the rules.
        "bare" => (
            "result",
            json!({ "structuredContent": { "iban": ["DE12 9999"] } }),
        ),
        "error" => ("error", json!({ "code": -32000, "message": "tel 5550199" })),
        _ => ("result", full(json!("DE12 9999"), "")),
    }
}

pub fn standing(id: &str, status: &str) -> Value {
    json!({ "taskId": id, "status": status, "statusMessage": "ask tel 5550199", "pollInterval": 5 })
}

/// The tool server: the argument `ends` names the task, and says how it ends.
pub fn answer(seen: &Seen) -> Reply {
    let params = &seen.body["params"];
    let is_modern = params["_meta"][CAPABILITIES].is_object();
    let id = params["taskId"].as_str().unwrap_or_default();
    match seen.method() {
        "tools/call" => called(seen, is_modern),
        "tasks/get" if is_modern => {
            let mut task = standing(id, "completed");
            let (key, ended) = ending(id);
            task[key] = ended;
            task["resultType"] = json!("complete");
            Reply::Result(task)
        }
        "tasks/get" => Reply::Result(standing(id, "completed")),
        "tasks/list" => Reply::Result(
            json!({ "tasks": [standing("foreign", "working"), standing("short", "working")] }),
        ),
        "tasks/result" => match ending(id) {
            ("error", error) => Reply::Message(json!({ "jsonrpc": "2.0", "error": error })),
            (_, mut result) => {
                result["_meta"] = json!({ RELATED: { "taskId": id } });
                Reply::Result(result)
            }
        },
        _ => Reply::Result(json!({})),
    }
}

/// A task, announced with words on the way.
fn called(seen: &Seen, is_modern: bool) -> Reply {
    let params = &seen.body["params"];
    let id = params["arguments"]["ends"].as_str().unwrap();
    let mut task = standing(id, "working");
    task["resultType"] = json!("task");
    let result = if is_modern {
        task
    } else {
        json!({ "task": standing(id, "working") })
    };
    let note = |method: &str, params: Value| {
        event(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    };
    let token = &params["_meta"]["progressToken"];
    let (sender, receiver) = tokio::sync::mpsc::channel(8);
    for said in [
        note(
            "notifications/progress",
            json!({ "progressToken": token, "progress": 1, "message": "tel 5550199" }),
        ),
        note(
            "notifications/message",
            json!({ "level": "info", "data": ["tel 5550199", "x".repeat(4096)] }),
        ),
        note(
            "notifications/message",
            json!({ "level": "info", "data": ["tel 5550199"] }),
        ),
        event(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result })),
    ] {
        sender.try_send(said).unwrap();
    }
    Reply::Stream(receiver)
}

/// A request of an agent that knows of tasks.
pub fn request(agent: &Agent, method: &str, params: Value) -> Value {
    let mut request = agent.request(method, params);
    if agent.is_legacy() && method == "tools/call" {
        request["params"]["task"] = json!({});
    }
    if !agent.is_legacy() {
        request["params"]["_meta"][CAPABILITIES]["extensions"][EXTENSION] = json!({});
    }
    request
}

async fn ask(agent: &Agent, method: &str, params: Value) -> Value {
    agent.answered(&request(agent, method, params)).await
}

/// Makes a task that ends like that; returns what was said on the way.
pub async fn begin(agent: &Agent, (name, path): (&str, &str), ends: &str) -> Vec<Value> {
    // On each wire and at each address a call of its own.
    let arguments = json!({ "ends": ends, "legacy": agent.is_legacy(), "path": path });
    let params =
        json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": "tel 1" } });
    let mut reading = agent.post(&request(agent, "tools/call", params)).await;
    let mut said = Vec::new();
    loop {
        let message = reading.message().await;
        if message.get("method").is_none() {
            assert!(message.to_string().contains("ask tel\""), "{message}");
            return said;
        }
        said.push(message);
    }
}

/// What an agent may read of how the task of this id ended.
pub fn judge(id: &str, ended: &Value, whole: &Value) {
    assert!(
        !whole.to_string().contains("DE12") && !whole.to_string().contains("5550199"),
        "{id}: {whole}"
    );
    let text = ended["content"][0]["text"].as_str().unwrap_or_default();
    match id {
        "short" => {
            assert_eq!(
                (text, &ended["structuredContent"]["iban"]),
                (FINE, &json!("[redacted]")),
                "{whole}"
            );
        }
        "error" => assert_eq!(ended["message"], "tel", "{whole}"),
        _ => {
            assert!(
                text.contains("is withheld") && text.contains("SHA-256"),
                "{id}: {whole}"
            );
            assert_eq!(
                text.contains("output schema"),
                id != "long",
                "{id}: {whole}"
            );
        }
    }
}

/// The next thing that is said of a task.
async fn told(listening: &mut Reading) -> Value {
    loop {
        let message = listening.message().await;
        if message["params"].get("taskId").is_some() {
            return message;
        }
    }
}

/// Issue 4 "Results", threat-model §3C C4 and C9: redactions, the size and the output
/// schema hold for what a task ends with, asked for or told, and patterns for every word on the
/// way.
#[tokio::test]
async fn what_a_task_ends_with_is_shaped_like_any_result() {
    let (scripted, gate) = stage().await;
    let agents = [
        gate.agent().token(TOKENS[0]).initialized().await,
        gate.agent().token(TOKENS[0]),
    ];
    for agent in agents {
        for id in ENDINGS {
            let said = begin(&agent, ("bank__pay", "/mcp"), id).await;
            assert_eq!(
                said.len(),
                2,
                "what is longer than a result may be is not passed on: {said:?}"
            );
            assert_eq!(said[0]["params"]["message"], "tel", "{said:?}");
            assert_eq!(said[0]["params"]["progressToken"], "tel 1", "{said:?}");
            assert_eq!(said[1]["params"]["data"], json!(["tel"]), "{said:?}");
            let task = ask(&agent, "tasks/get", json!({ "taskId": id })).await;
            assert_eq!(task["result"]["statusMessage"], "ask tel", "{task}");
            if agent.is_legacy() {
                let answer = ask(&agent, "tasks/result", json!({ "taskId": id })).await;
                judge(
                    id,
                    answer.get("result").or(answer.get("error")).unwrap(),
                    &answer,
                );
                let related = &answer["result"]["_meta"][RELATED]["taskId"];
                assert!(id == "error" || related == id, "{answer}");
            } else {
                judge(
                    id,
                    task["result"]
                        .get("result")
                        .or(task["result"].get("error"))
                        .unwrap(),
                    &task,
                );
            }
        }
        judge_told(&agent, &scripted).await;
    }
}

/// What is told of tasks that end, on a stream that listens, is shaped in the same way.
async fn judge_told(agent: &Agent, scripted: &ScriptedServer) {
    let mut listening = if agent.is_legacy() {
        agent.get(None).await
    } else {
        let wanted = json!({ "notifications": { "taskIds": ["foreign", "short", "long"] } });
        let mut listening = agent
            .post(&request(agent, "subscriptions/listen", wanted))
            .await;
        let told = listening.message().await;
        assert_eq!(
            told["params"]["notifications"]["taskIds"],
            json!(["short", "long"]),
            "{told}"
        );
        listening
    };
    until("toolgate listens", || async {
        (scripted.listeners() > 0).then_some(())
    })
    .await;
    let method = if agent.is_legacy() {
        "notifications/tasks/status"
    } else {
        "notifications/tasks"
    };
    for id in ["foreign", "short", "long"] {
        let mut params = standing(id, "completed");
        let (key, ended) = ending(id);
        params[key] = ended;
        scripted
            .tells(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await;
    }
    for id in ["short", "long"] {
        let said = told(&mut listening).await;
        assert_eq!(
            (&said["params"]["taskId"], &said["params"]["statusMessage"]),
            (&json!(id), &json!("ask tel"))
        );
        judge(id, &said["params"]["result"], &said);
    }
}

/// threat-model §3C C4: a task is its caller's alone, whichever way another asks after it, at every
/// address; the same agent is another caller when it acts for another tenant.
#[tokio::test]
async fn another_callers_task_is_not_there() {
    for stranger in [TOKENS[1], OF_A_TENANT] {
        is_not_there_for(stranger).await;
    }
}

/// threat-model §3C C4: a second server that gives a task the id of another's takes nothing over:
/// at an address of both, the id means neither; at that of one, its own.
#[tokio::test]
async fn a_task_stays_with_its_server() {
    let (bank, evil) = (
        ScriptedServer::with(vec![tool("pay")]).await,
        ScriptedServer::with(vec![tool("take")]).await,
    );
    bank.answers(answer);
    evil.answers(answer);
    let contract =
        |name: &str| format!("  {name}: {{ purpose: test, actions: [read], secrets: [] }}\n");
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", bank.url()))
        .server_with("evil", &format!("url: \"{}\"", evil.url()))
        .policy(&format!(
            "contracts:\n{}{}",
            contract("bank__pay"),
            contract("evil__take")
        ))
        .open_sides()
        .callers(CALLERS);
    let gate = setup.start().await;
    let agent = gate.agent().token(TOKENS[0]).at("/mcp");
    let begin = async |name: &str| {
        let params = json!({ "name": name, "arguments": { "ends": "short" } });
        let made = ask(&agent, "tools/call", params).await;
        assert_eq!(made["result"]["taskId"], "short", "{made}");
    };
    begin("bank__pay").await;
    let update =
        async |agent: &Agent| ask(agent, "tasks/cancel", json!({ "taskId": "short" })).await;
    let heard = |scripted: &ScriptedServer| {
        scripted
            .seen()
            .iter()
            .filter(|seen| seen.method() == "tasks/cancel")
            .count()
    };
    assert!(update(&agent).await.get("result").is_some());
    assert_eq!((heard(&bank), heard(&evil)), (1, 0));
    begin("evil__take").await;
    let refused = update(&agent).await;
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("ask at the address of one"),
        "{refused}"
    );
    assert_eq!((heard(&bank), heard(&evil)), (1, 0), "neither is guessed");
    for (path, told) in [("/mcp/bank", (2, 0)), ("/mcp/evil", (2, 1))] {
        assert!(
            update(&agent.clone().at(path))
                .await
                .get("result")
                .is_some(),
            "{path}"
        );
        assert_eq!((heard(&bank), heard(&evil)), told, "{path}");
    }
}

async fn is_not_there_for(stranger: &str) {
    let (_scripted, gate) = stage().await;
    for (path, name, is_legacy) in [
        ("/mcp", "bank__pay", false),
        ("/mcp", "bank__pay", true),
        ("/mcp/bank", "pay", true),
    ] {
        let [one, two] = [TOKENS[0], stranger].map(|token| gate.agent().token(token).at(path));
        let (one, two) = if is_legacy {
            (one.initialized().await, two.initialized().await)
        } else {
            (one, two)
        };
        begin(&one, (name, path), "short").await;
        for (agent, has) in [(&one, true), (&two, false)] {
            for method in ["tasks/get", "tasks/cancel"] {
                let answer = ask(agent, method, json!({ "taskId": "short" })).await;
                assert_eq!(answer.get("result").is_some(), has, "{method}: {answer}");
            }
            if is_legacy {
                let listed = ask(agent, "tasks/list", json!({})).await;
                assert_eq!(
                    listed["result"]["tasks"].as_array().unwrap().len(),
                    usize::from(has),
                    "{listed}"
                );
                assert!(!listed.to_string().contains("5550199"), "{listed}");
            } else {
                let wanted = json!({ "notifications": { "taskIds": ["short"] } });
                let mut listening = agent
                    .post(&request(agent, "subscriptions/listen", wanted))
                    .await;
                let told = listening.message().await;
                assert_eq!(
                    told["params"]["notifications"].get("taskIds").is_some(),
                    has,
                    "{told}"
                );
            }
        }
    }
}
