//! What servers ask of agents: the model, the person, the directories (threat-model §3C C6, C7,
//! C12).

use super::*;

const POLICY: &str = "
contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }
layers: { agent: { alice: { sampling: { allow: [docs] }, elicitation: { allow: [docs] }, roots: { allow: [docs] } } } }
";

/// What a server asks, and whether it may ask it of an agent to which everything is open.
fn questions() -> Vec<(&'static str, Value, bool)> {
    let form = |field: &str| json!({ "message": "?", "requestedSchema": { "type": "object", "properties": { field: { "type": "string" } } } });
    let page =
        |url: &str| json!({ "mode": "url", "message": "?", "url": url, "elicitationId": "1" });
    vec![
        (
            "sampling/createMessage",
            json!({ "messages": [], "maxTokens": 5 }),
            true,
        ),
        ("roots/list", json!({}), true),
        ("elicitation/create", form("name"), true),
        ("elicitation/create", form("userPassword"), false),
        ("elicitation/create", form("api_token"), false),
        ("elicitation/create", page("https://pay.example/1"), true),
        ("elicitation/create", page("javascript:alert(1)"), false),
        (
            "elicitation/create",
            page("https://bank.example@evil.example/"),
            false,
        ),
    ]
}

/// Before 2026-07-28 a server asks while it works on a call; what it may not ask it reads an error
/// for, and the call goes on.
#[tokio::test]
async fn c6_a_legacy_server_asks_only_what_it_may() {
    let scripted = docs().await;
    let gate = started(&scripted, POLICY).await;
    let mut cases = 0;
    for (token, open) in [(CAROL, false), (ALICE, true)] {
        let agent = gate
            .agent()
            .token(token)
            .at("/mcp/docs")
            .initialized()
            .await;
        for (method, params, fine) in questions() {
            let question =
                json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": params });
            scripted.answers(move |seen| {
                let (sender, receiver) = mpsc::channel(2);
                let result = json!({ "content": [{ "type": "text", "text": "done" }] });
                let done = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result });
                sender.try_send(event(&question)).unwrap();
                sender.try_send(event(&done)).unwrap();
                Reply::Stream(receiver)
            });
            scripted.forget();
            let mut stream = agent
                .post(&agent.request("tools/call", json!({ "name": "read", "arguments": {} })))
                .await;
            let passes = open && fine;
            if passes {
                let asked = stream.message().await;
                assert_eq!(
                    (&asked["method"], &asked["params"]),
                    (&json!(method), &params),
                    "{asked}"
                );
            }
            let answer = stream.whole().await;
            assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
            if !passes {
                let told = scripted
                    .sees("an error", |seen| seen.body["id"] == "q")
                    .await
                    .body;
                assert_eq!(told["error"]["code"], -32601, "{told}");
            }
            cases += 1;
        }
    }
    let ledger = gate.entries(cases * 2).await;
    let refused = ledger
        .iter()
        .filter(|entry| entry["outcome"] == "refused")
        .count();
    assert_eq!((cases, refused), (16, 8 + 4), "{ledger:#?}");
}

/// Since 2026-07-28 it asks with its answer, which is withheld as a whole, also where it is asked
/// for a prompt or a resource.
#[tokio::test]
async fn c6_a_modern_server_asks_only_what_it_may() {
    let scripted = docs().await;
    let policy = POLICY.replace(
        "sampling: { allow",
        "resources: { allow: [\"*\"] }, prompts: { allow: [\"*\"] }, sampling: { allow",
    );
    let policy = policy.replace(
        "agent: {",
        "agent: { carol: { resources: { allow: [\"*\"] }, prompts: { allow: [\"*\"] } },",
    );
    let gate = started(&scripted, &policy).await;
    let mut cases = 0;
    for (token, open) in [(CAROL, false), (ALICE, true)] {
        let agent = gate.agent().token(token).at("/mcp/docs");
        for (method, params, fine) in questions() {
            let asks = json!({ "resultType": "input_required", "requestState": "s",
                "inputRequests": { "fine": { "method": "roots/list", "params": {} }, "q": { "method": method, "params": params } } });
            scripted.answers(move |_| Reply::Result(asks.clone()));
            for (request, params) in [
                ("tools/call", json!({ "name": "read", "arguments": {} })),
                ("prompts/get", json!({ "name": "greet" })),
                ("resources/read", json!({ "uri": "file:///a" })),
            ] {
                let answer = agent.ask(request, params).await;
                let asked = answer["result"]["inputRequests"]["q"]["method"] == method;
                assert_eq!(asked, open && fine, "{token} {request} {method}: {answer}");
                assert!(
                    asked || !answer.to_string().contains("inputRequests"),
                    "{answer}"
                );
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 2 * 8 * 3);
}

/// What agents declare reaches a server as far as it may use it, and nothing that toolgate does not
/// understand.
#[tokio::test]
async fn c12_servers_are_told_what_they_may_use() {
    let declared = json!({ "sampling": { "tools": {} }, "elicitation": { "form": {} }, "roots": { "listChanged": true },
        "experimental": { "x": {} }, "acme": {}, "tasks": { "list": {}, "requests": { "sampling": { "createMessage": {} } } },
        "extensions": { "io.modelcontextprotocol/tasks": {}, "acme/x": {} } });
    let kept = json!({ "io.modelcontextprotocol/tasks": {} });
    let scripted = docs().await;
    let gate = started(&scripted, POLICY).await;
    for (token, told) in [
        (
            CAROL,
            json!({ "tasks": { "list": {}, "requests": {} }, "extensions": kept }),
        ),
        (
            ALICE,
            json!({ "sampling": { "tools": {} }, "elicitation": { "form": {} }, "roots": { "listChanged": true },
            "tasks": { "list": {}, "requests": { "sampling": { "createMessage": {} } } }, "extensions": kept }),
        ),
    ] {
        let agent = gate.agent().token(token).at("/mcp/docs");
        scripted.forget();
        let mut call = agent.request("tools/call", json!({ "name": "read", "arguments": {} }));
        call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared.clone();
        call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
        agent.answered(&call).await;
        let meta = scripted.seen()[0].body["params"]["_meta"].clone();
        assert_eq!(
            meta["io.modelcontextprotocol/clientCapabilities"], told,
            "{meta}"
        );
        assert!(
            meta.get("io.modelcontextprotocol/logLevel").is_none(),
            "logging is open to nobody: {meta}"
        );
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": declared, "acme": 1,
            "clientInfo": { "name": "a", "version": "1" } });
        agent
            .answered(
                &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
            )
            .await;
        let initialized = scripted.initialized().pop().unwrap();
        assert_eq!(initialized["capabilities"], told, "{initialized}");
        assert!(initialized.get("acme").is_none(), "{initialized}");
    }
}

/// Has the server ask `question` while it works on a call, and end the call when the channel is
/// dropped.
fn asks(scripted: &ScriptedServer, question: &Value) -> mpsc::Sender<()> {
    let (ends, ended) = mpsc::channel::<()>(1);
    let (question, ended) = (event(question), std::sync::Mutex::new(Some(ended)));
    scripted.answers(move |seen| {
        let (sender, receiver) = mpsc::channel(2);
        sender.try_send(question.clone()).unwrap();
        let result = json!({ "content": [{ "type": "text", "text": "done" }] });
        let done = event(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result }));
        let ended = ended.lock().unwrap().take();
        tokio::spawn(async move {
            let _ = ended.unwrap().recv().await;
            let _ = sender.send(done).await;
        });
        Reply::Stream(receiver)
    });
    ends
}

/// What servers ask about tasks of an agent reaches only those that say they have them.
#[tokio::test]
async fn c6_a_legacy_server_asks_about_tasks_where_there_are_any() {
    let scripted = docs().await;
    let gate = started(&scripted, POLICY).await;
    let mut cases = 0;
    for (declared, open) in [
        (json!({}), [false; 4]),
        (json!({ "tasks": {} }), [true, true, false, false]),
        (
            json!({ "tasks": { "list": {} } }),
            [true, true, true, false],
        ),
        (
            json!({ "tasks": { "cancel": {} } }),
            [true, true, false, true],
        ),
    ] {
        let agent = gate
            .agent()
            .token(ALICE)
            .at("/mcp/docs")
            .declaring(declared)
            .await;
        for (method, passes) in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"]
            .into_iter()
            .zip(open)
        {
            let question = json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": { "taskId": "t" } });
            scripted.forget();
            drop(asks(&scripted, &question));
            let mut stream = agent
                .post(&agent.request("tools/call", json!({ "name": "read", "arguments": {} })))
                .await;
            if passes {
                assert_eq!(stream.message().await["method"], method);
            }
            let answer = stream.whole().await;
            assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
            if !passes {
                let told = scripted
                    .sees("an error", |seen| seen.body["id"] == "q")
                    .await
                    .body;
                assert_eq!(told["error"]["code"], -32601, "{told}");
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 16);
}

/// threat-model §13 F9, of agents: their progress goes to the server that asked under that token,
/// and to no other.
#[tokio::test]
async fn f9_progress_of_agents_goes_to_the_server_that_asked() {
    let scripted = docs().await;
    let gate = started(&scripted, POLICY).await;
    let agent = gate
        .agent()
        .token(ALICE)
        .at("/mcp/docs")
        .declaring(json!({ "roots": {} }))
        .await;
    let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": { "_meta": { "progressToken": "own" } } });
    let ends = asks(&scripted, &question);
    let mut stream = agent
        .post(&agent.request("tools/call", json!({ "name": "read", "arguments": {} })))
        .await;
    assert_eq!(stream.message().await["method"], "roots/list");
    for token in [
        json!("another's"),
        json!(1),
        json!("own "),
        json!(["own"]),
        json!(null),
        json!("own"),
    ] {
        let params = json!({ "progressToken": token, "progress": 1 });
        let note =
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        assert_eq!(agent.post(&note).await.head.status, 202);
    }
    scripted
        .sees("progress that it asked for", |seen| {
            seen.body["params"]["progressToken"] == "own"
        })
        .await;
    let heard = scripted
        .seen()
        .iter()
        .filter(|seen| seen.method() == "notifications/progress")
        .count();
    assert_eq!(heard, 1, "{:#?}", scripted.seen());
    let dropped = gate
        .metric("toolgate_dropped_messages_total{reason=\"foreign_progress\"}")
        .await;
    assert_eq!(dropped.to_string(), "5");
    drop(ends);
    assert_eq!(stream.whole().await["result"]["content"][0]["text"], "done");
}
