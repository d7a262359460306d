//! No value of a secret is anywhere but at the server that it is for.

use super::{CANARY, REFERENCE, both, forms, judge, last_call, traced};
use crate::harness::agent::Agent;
use crate::harness::answer::Reading;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, event};
use crate::harness::until;
use crate::traces::Collector;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Everything that a stream of a call says.
async fn heard(agent: &Agent, tool: &str, arguments: Value) -> String {
    let mut params = crate::harness::agent::anew(tool, arguments);
    params["_meta"]["progressToken"] = json!("p");
    let mut reading = agent.post(&agent.request("tools/call", params)).await;
    let mut text = String::new();
    if reading.is_stream() {
        while let Some(block) = reading.next().await {
            writeln!(text, "{block:?}").unwrap();
        }
        return text;
    }
    reading.whole().await.to_string()
}

/// What a server that was given `form` says of it on an event stream, in every place there is, and
/// how it ends.
async fn repeats(
    stream: tokio::sync::mpsc::Sender<String>,
    id: Value,
    token: Value,
    (form, how): (String, usize),
) {
    let note = |method: &str, params: Value| {
        event(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    };
    let (first, rest) = form.split_at(form.floor_char_boundary(form.len() / 2));
    let result = json!({
        "resultType": "complete", "isError": how == 1,
        "content": [
            { "type": "text", "text": form }, { "type": "text", "text": format!("{{\"a\":{}}}", json!(form)) },
            { "type": "text", "text": first }, { "type": "text", "text": rest },
            { "type": "resource", "resource": { "uri": format!("x:{form}"), "text": form } },
        ],
        "structuredContent": { form.clone(): [form.clone(), { "deep": form.clone() }] },
        "_meta": { "x/y": form.clone() },
    });
    let end = match how {
        2 => json!({ "error": { "code": -32000, "message": form, "data": { "x": form } } }),
        _ => json!({ "result": result }),
    };
    let mut end = end;
    (end["jsonrpc"], end["id"]) = (json!("2.0"), id);
    let progress = json!({ "progressToken": token, "progress": 1, "message": form });
    let log = json!({ "level": "info", "logger": form, "data": { "x": [form.clone()] } });
    for said in [
        format!(": {}\n\n", form.replace(['\n', '\r'], " ")),
        note("notifications/progress", progress),
        note("notifications/message", log),
        event(&end),
    ] {
        let _ = stream.send(said).await;
    }
}

/// 002-31, threat-model §3F F2 and F3, §3G G6, invariant I8: a tool server that gives the value
/// back in every form and every place, on both wires and as a child process; then every byte that
/// agents, operators and the disk have.
#[tokio::test]
async fn no_canary_is_anywhere_but_at_its_server() {
    let (collector, url) = Collector::start().await;
    let (scripted, gate) = traced("enforce", &url).await;
    let readers = [gate.agent().at("/mcp/bank"), gate.legacy("/mcp/bank").await];
    for (agent, reader) in both(&gate).await.iter().zip(readers) {
        for (count, form) in forms().into_iter().enumerate() {
            for (tool, how) in [("bank__pay", count % 3), ("bank__read", (count + 1) % 3)] {
                let said = (form.clone(), how);
                scripted.answers(move |seen| {
                    let (sender, receiver) = tokio::sync::mpsc::channel(64);
                    let token = seen.body["params"]["_meta"]["progressToken"].clone();
                    tokio::spawn(repeats(
                        sender,
                        seen.body["id"].clone(),
                        token,
                        said.clone(),
                    ));
                    Reply::Stream(receiver)
                });
                let text = heard(agent, tool, json!({ "token": REFERENCE, "n": count })).await;
                judge(&format!("{tool} after {form:?}"), text.as_bytes());
                assert!(text.contains("secret_ref:bank_token"), "{text}");
                assert_eq!(last_call(&scripted)["params"]["arguments"]["token"], CANARY);
            }
        }
        let (canary, resource) = (CANARY, json!({ "uri": "x:y" }));
        scripted.answers(move |_| {
            Reply::Result(json!({ "contents": [{ "uri": "x:y", "text": canary }] }))
        });
        judge(
            "a resource",
            reader
                .ask("resources/read", resource)
                .await
                .to_string()
                .as_bytes(),
        );
        tasks_have_none(&scripted, agent).await;
        let said = agent
            .call_anew("child__echoes", json!({ "token": REFERENCE }))
            .await;
        assert!(said.to_string().contains("secret_ref:bank_token"), "{said}");
        judge("a child", said.to_string().as_bytes());
    }
    operators_have_none(&gate).await;
    let setup = gate.stop().await;
    assert!(!collector.arrived().is_empty());
    judge("traces", &collector.arrived());
    let mut found = Vec::new();
    files(setup.directory(), &mut found);
    assert!(found.len() > 4, "{found:?}");
    // What the child noted is its own: it is the tool server's disk.
    for path in found
        .iter()
        .filter(|path| path.extension().is_none_or(|ending| ending != "executions"))
    {
        judge(&path.display().to_string(), &std::fs::read(path).unwrap());
    }
}

/// A call that becomes a task: its handle, how it stands, how it ended, and what is told of that
/// unasked.
async fn tasks_have_none(scripted: &ScriptedServer, agent: &Agent) {
    for (count, form) in forms().into_iter().enumerate() {
        let (id, said) = (format!("{}-{count}", agent.is_legacy()), form.clone());
        let standing = json!({ "taskId": id, "status": "completed", "statusMessage": form });
        let result = json!({ "content": [{ "type": "text", "text": form }], "structuredContent": { "deep": [form] } });
        let told = {
            let mut told = standing.clone();
            told["result"] = result.clone();
            told
        };
        answers_with_a_task(scripted, said, standing, result);
        let arguments =
            json!({ "name": "bank__read", "arguments": { "token": REFERENCE, "task": id } });
        let own = json!({ "taskId": id });
        let mut asked = vec![("tools/call", arguments), ("tasks/get", own.clone())];
        if agent.is_legacy() {
            asked.extend([("tasks/result", own.clone()), ("tasks/list", json!({}))]);
        }
        for (method, params) in asked {
            let answer = agent
                .answered(&crate::mcp_tasks::request(agent, method, params))
                .await
                .to_string();
            judge(&format!("{method} after {form:?}"), answer.as_bytes());
            assert!(answer.contains("secret_ref:bank_token"), "{answer}");
        }
        let (method, mut listening) = listens_for(agent, &id).await;
        until("toolgate listens", || async {
            (scripted.listeners() > 0).then_some(())
        })
        .await;
        scripted
            .tells(json!({ "jsonrpc": "2.0", "method": method, "params": told }))
            .await;
        loop {
            let heard = listening.message().await.to_string();
            judge(&format!("{method} after {form:?}"), heard.as_bytes());
            assert!(heard.contains("secret_ref:bank_token"), "{heard}");
            // What earlier ones said may come again.
            if heard.contains(&id) {
                break;
            }
        }
    }
}

fn answers_with_a_task(scripted: &ScriptedServer, said: String, standing: Value, result: Value) {
    scripted.answers(move |seen| {
        match (
            seen.method(),
            seen.body["params"]["_meta"][CAPABILITIES].is_object(),
        ) {
            ("tools/call", true) => {
                let mut task = standing.clone();
                task["resultType"] = json!("task");
                Reply::Result(task)
            }
            ("tools/call", false) => Reply::Result(json!({ "task": standing })),
            ("tasks/get", true) => {
                let mut task = standing.clone();
                (task["resultType"], task["result"]) = (json!("complete"), result.clone());
                Reply::Result(task)
            }
            ("tasks/list", _) => Reply::Result(json!({ "tasks": [standing] })),
            ("tasks/result", _) if said.len().is_multiple_of(2) => Reply::Message(
                json!({ "jsonrpc": "2.0", "error": { "code": -32000, "message": said } }),
            ),
            ("tasks/result", _) => Reply::Result(result.clone()),
            _ => Reply::Result(standing.clone()),
        }
    });
}

/// How an agent is told of a task, and the stream on which it is.
async fn listens_for(agent: &Agent, id: &str) -> (&'static str, Reading) {
    if agent.is_legacy() {
        ("notifications/tasks/status", agent.get(None).await)
    } else {
        let wanted = json!({ "notifications": { "taskIds": [id] } });
        let mut listening = agent
            .post(&crate::mcp_tasks::request(
                agent,
                "subscriptions/listen",
                wanted,
            ))
            .await;
        listening.message().await;
        ("notifications/tasks", listening)
    }
}

/// The log, every page and every verb that tells of calls.
async fn operators_have_none(gate: &Gate) {
    let log = until("the child's standard error is in the log", || async {
        Some(gate.log()).filter(|log| log.matches("toolgate::child").count() >= 2)
    })
    .await;
    assert!(log.contains("secret_ref:bank_token"), "{log}");
    assert!(
        gate.metric("toolgate_secrets_removed_total").await > 50.0,
        "what was taken out is counted"
    );
    for page in [
        "/metrics",
        "/readyz",
        "/api/calls",
        "/api/quarantined",
        "/api/tools/disabled",
    ] {
        judge(page, gate.operators(page).await.as_bytes());
    }
    let action = gate.entries(1).await[0]["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let explained = json!({ "token": REFERENCE }).to_string();
    let verbs: [&[&str]; 5] = [
        &["ledger", "export", "--data", "data"],
        &["ledger", "list", "--json", "--data", "data"],
        &["ledger", "show", &action, "--data", "data"],
        &[
            "explain",
            "--agent",
            "anonymous",
            "--tool",
            "bank__pay",
            "--arguments",
            &explained,
            "--config",
            "toolgate.yaml",
        ],
        &["check", "toolgate.yaml"],
    ];
    for verb in verbs {
        let (code, out, err) = run(&gate.setup, verb).await;
        assert_eq!(code, 0, "{verb:?}: {out}{err}");
        judge(&verb.join(" "), (out + &err).as_bytes());
    }
}
