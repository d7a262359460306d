//! What goes beside the requests of side doors: words of tasks on other streams, questions in
//! errors and in forms that take much to check, what agents say unasked, and what they bring to a
//! task later.

mod later;
mod own_members;
mod unasked;

use super::*;
use crate::mcp_tasks;

/// What opens a page; the last ones never do.
fn pages() -> [(Value, bool); 5] {
    let page =
        |url: &str| json!([{ "mode": "url", "message": "?", "url": url, "elicitationId": "1" }]);
    [
        (page("https://pay.example/1"), true),
        (page("javascript:alert(1)"), false),
        (page("https://bank.example@evil.example/"), false),
        (json!({ "0": page("https://pay.example/1")[0] }), false),
        (
            Value::Array(vec![page("https://pay.example/1")[0].clone(); 65]),
            false,
        ),
    ]
}

/// threat-model §3C C7: an error asks for a page as a question does (2025-11-25), and is judged as
/// one; on every way that an error takes, to an agent to which `elicitation` is open and to one to
/// which it is not, whatever its code.
#[tokio::test]
async fn c7_errors_ask_only_what_questions_may() {
    let scripted = docs().await;
    let readable = "resources: { allow: [\"*\"] }, prompts: { allow: [\"*\"] }";
    let policy = format!(
        "contracts: {{ docs__read: {{ purpose: t, actions: [read], secrets: [] }} }}
layers: {{ agent: {{ carol: {{ {readable} }}, alice: {{ {readable}, elicitation: {{ allow: [docs] }} }} }} }}\n"
    );
    let gate = started(&scripted, &policy).await;
    let mut cases = 0;
    for (token, open) in [(CAROL, false), (ALICE, true)] {
        let modern = gate.agent().token(token).at("/mcp/docs");
        for agent in [modern.clone(), modern.initialized().await] {
            for ((pages, fine), code) in pages()
                .into_iter()
                .zip([-32_042, -32_042, -1, -32_042, -32_042])
            {
                let error = json!({ "code": code, "message": "open it", "data": { "elicitations": pages } });
                scripted
                    .answers(move |_| Reply::Message(json!({ "jsonrpc": "2.0", "error": error })));
                for (method, params) in [
                    ("tools/call", json!({ "name": "read", "arguments": {} })),
                    ("prompts/get", json!({ "name": "greet" })),
                    ("resources/read", json!({ "uri": "file:///a" })),
                ] {
                    let error = agent.ask(method, params).await["error"].clone();
                    let passes = open && fine;
                    assert_eq!(
                        error.to_string().contains("elicitations"),
                        passes,
                        "{token} {method} {pages}: {error}"
                    );
                    assert_eq!(error["code"] == code, passes, "{error}");
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 2 * 2 * 5 * 3);
    let ledger = gate.entries(cases).await;
    let asked = |outcome: &str| {
        let fits =
            |entry: &&Value| entry["method"] == "elicitation/create" && entry["outcome"] == outcome;
        ledger.iter().filter(fits).count()
    };
    // What has no form that is known is no question; of 65 the first 64 are.
    assert_eq!(
        (asked("passed"), asked("refused") > 0),
        (2 * 3 + 2 * 3 * 64, true),
        "{}",
        ledger.len()
    );
}

/// threat-model §3C C4, C6: what is said of a task on a stream of something else is its owner's
/// alone, shaped by its contract, and asks only what may be asked.
#[tokio::test]
async fn c4_words_of_tasks_on_other_streams_are_judged() {
    let (scripted, gate) = mcp_tasks::stage().await;
    let modern = gate.agent().token(mcp_tasks::TOKENS[0]);
    let mut cases = 0;
    for agent in [modern.clone(), modern.initialized().await] {
        mcp_tasks::begin(&agent, ("bank__pay", "/mcp"), "short").await;
        let method = if agent.is_legacy() {
            "notifications/tasks/status"
        } else {
            "notifications/tasks"
        };
        let said = |id: &str, more: Value| {
            let mut params = mcp_tasks::standing(id, "completed");
            more.as_object()
                .unwrap()
                .iter()
                .for_each(|(key, value)| params[key] = value.clone());
            json!({ "jsonrpc": "2.0", "method": method, "params": params })
        };
        let page = json!({ "mode": "url", "message": "?", "url": "javascript:alert(1)", "elicitationId": "1" });
        let question = json!({ "q": { "method": "elicitation/create", "params": page } });
        let result = mcp_tasks::ending("short").1;
        let all = [
            said("foreign", json!({ "result": result })),
            said("short", json!({ "inputRequests": question })),
            said("short", json!({ "task": { "inputRequests": question } })),
            said("short", json!({ "result": { "inputRequests": question } })),
            said(
                "short",
                json!({ "error": { "code": -32042, "message": "", "data": { "elicitations": [page] } } }),
            ),
            said("short", json!({ "result": result })),
        ];
        scripted.answers(move |seen| {
            let (sender, receiver) = mpsc::channel(8);
            let done = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": { "resultType": "complete" } });
            all.iter().chain([&done]).for_each(|said| sender.try_send(event(said)).unwrap());
            Reply::Stream(receiver)
        });
        for (method, params) in [
            ("resources/read", json!({ "uri": "file:///a" })),
            ("prompts/get", json!({ "name": "bank__greet" })),
            ("tasks/get", json!({ "taskId": "short" })),
        ] {
            let mut reading = agent
                .post(&mcp_tasks::request(&agent, method, params))
                .await;
            let heard = crate::envelopes::heard(&mut reading).await;
            assert_eq!(heard.len(), 2, "{method}: {heard:?}");
            mcp_tasks::judge("short", &heard[0]["params"]["result"], &heard[0]);
            cases += 6;
        }
        scripted.answers(mcp_tasks::answer);
    }
    assert_eq!(cases, 2 * 3 * 6);
}

/// threat-model §1: a list of tasks costs what one message may, however often it names one, and of
/// whatever it is full.
#[tokio::test]
async fn a_list_of_tasks_costs_what_one_message_may() {
    let (scripted, gate) = mcp_tasks::stage().await;
    let agent = gate.agent().token(mcp_tasks::TOKENS[0]).initialized().await;
    mcp_tasks::begin(&agent, ("bank__pay", "/mcp"), "short").await;
    for (entries, listed) in [(1, 1), (6_000, 1)] {
        let misfit = json!({ "content": [{ "type": "text", "text": "DE12 9999 ".repeat(40) }], "structuredContent": {} });
        let mut task = mcp_tasks::standing("short", "completed");
        task["result"] = misfit;
        let list = vec![task; entries];
        scripted.answers(move |_| Reply::Result(json!({ "tasks": list })));
        let answer = agent.ask("tasks/list", json!({})).await;
        assert_eq!(
            answer["result"]["tasks"].as_array().map(Vec::len),
            Some(listed),
            "{entries}"
        );
        assert!(!answer.to_string().contains("DE12"), "{answer}");
    }
    let foreign: Vec<Value> = (0..40_000)
        .map(|id| json!({ "taskId": id.to_string() }))
        .collect();
    scripted.answers(move |_| Reply::Result(json!({ "tasks": foreign })));
    assert_eq!(
        agent.ask("tasks/list", json!({})).await["result"]["tasks"],
        json!([])
    );
}

/// threat-model §1, §5: what a subscription asks for is judged in one pass.
#[tokio::test]
async fn a_thousand_refused_resources_are_refused_at_once() {
    let scripted = docs().await;
    let gate = started(&scripted, CLOSED).await;
    let carol = gate.agent().token(CAROL);
    let uris: Vec<String> = (0..1_000)
        .map(|at| format!("file:///{at}/{}", "x".repeat(4_000)))
        .collect();
    let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
    let begun = std::time::Instant::now();
    let mut stream = carol
        .post(&carol.request("subscriptions/listen", wanted))
        .await;
    assert_eq!(stream.message().await["params"]["notifications"], json!({}));
    // It takes 0.2 s here; taken away one by one, 30 s.
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

/// threat-model §13 F7: a server is subscribed to by what the revision knows, in the form that the
/// revision gives it; what is wanted in another form could be read by a server and is judged by
/// nobody. In observe mode members that nobody knows stay.
#[tokio::test]
async fn f7_servers_are_subscribed_to_by_what_is_known() {
    for mode in ["enforce", "observe"] {
        let scripted = docs().await;
        scripted.scripts_subscriptions();
        scripted.answers(|seen| {
            let (sender, receiver) = mpsc::channel(2);
            let told = json!({ "notifications": seen.body["params"]["notifications"] });
            let ack = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told });
            sender.try_send(event(&ack)).unwrap();
            // Open until the agent leaves.
            tokio::spawn(async move { sender.closed().await });
            Reply::Stream(receiver)
        });
        let url = format!("url: \"{}\"", scripted.url());
        let open = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }
layers: { agent: { alice: { resources: { allow: [\"docs__file:///srv/docs/*\"] } } } }\n";
        let setup = Setup::new()
            .server_with("docs", &url)
            .policy(open)
            .callers(CALLERS)
            .mode(mode);
        let gate = setup.start().await;
        let agent = gate.agent().token(ALICE).at("/mcp/docs");
        let (fine, secret) = ("file:///srv/docs/a", "file:///etc/secret");
        let wanted = [
            json!({ "resourceSubscriptions": [fine], "promptsListChanged": "true" }),
            json!({ "resourceSubscriptions": [fine, 7, [secret], { "uri": secret }, fine], "com.acme/x": [secret] }),
            json!({ "resourceSubscriptions": [fine], "promptsListChanged": 1, "taskIds": { "0": "foreign" } }),
        ];
        for wanted in wanted {
            scripted.forget();
            let mut params = json!({ "notifications": wanted, "uris": [secret] });
            let request = agent.request("subscriptions/listen", params.take());
            let stream = agent.post(&request).await;
            let seen = scripted
                .sees("it", |seen| seen.method() == "subscriptions/listen")
                .await
                .body;
            drop(stream);
            let mut left = seen["params"].clone();
            left.as_object_mut().unwrap().remove("_meta");
            let mut expected = json!({ "notifications": { "resourceSubscriptions": [fine] } });
            if mode == "observe" {
                expected["uris"] = json!([secret]);
                if let Some(vendors) = wanted.get("com.acme/x") {
                    expected["notifications"]["com.acme/x"] = vendors.clone();
                }
            }
            assert_eq!(left, expected, "{mode} {wanted}");
        }
        scripted.forget();
        let only =
            json!({ "notifications": { "resourceSubscriptions": { "0": secret, "length": 1 } } });
        let only = agent.request("subscriptions/listen", only);
        let mut stream = agent.post(&only).await;
        assert_eq!(stream.message().await["params"]["notifications"], json!({}));
        let seen = scripted.seen();
        assert!(seen.is_empty(), "nothing of it is left: {seen:?}");
    }
}

/// threat-model §5: a stream that holds less than it promised, because the policy has changed,
/// ends; one that holds goes on.
#[tokio::test]
async fn a_stream_ends_when_its_door_is_closed() {
    let scripted = docs().await;
    let gate = started(&scripted, OPEN_TO_ALICE).await;
    let agent = gate.agent().token(ALICE).at("/mcp/docs");
    let wanted = |uri: &str| json!({ "notifications": { "resourceSubscriptions": [uri], "toolsListChanged": true } });
    let mut streams = Vec::new();
    for uri in ["file:///srv/docs/kept", "file:///srv/docs/closed"] {
        let mut stream = agent
            .post(&agent.request("subscriptions/listen", wanted(uri)))
            .await;
        assert_eq!(
            stream.message().await["params"]["notifications"]["resourceSubscriptions"],
            json!([uri])
        );
        streams.push(stream);
    }
    let closed = OPEN_TO_ALICE.replace("deny: [", "deny: [\"docs__file:///srv/docs/closed\", ");
    std::fs::write(gate.path("policy.yaml"), closed).unwrap();
    gate.hang_up();
    let ended = streams[1].whole().await;
    assert_eq!(ended["result"]["resultType"], "complete", "{ended}");
    let updated = |uri: &str| json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } });
    scripted.tells(updated("file:///srv/docs/closed")).await;
    scripted.tells(updated("file:///srv/docs/kept")).await;
    loop {
        let heard = streams[0].message().await;
        if heard["method"] == "notifications/resources/updated" {
            assert_eq!(heard["params"]["uri"], "file:///srv/docs/kept", "{heard}");
            break;
        }
    }
}

/// threat-model §1, guarantees §4: a question that takes much to redact waits for the pool; where
/// that is not enough, its server is told, and doesn't wait for ever.
#[tokio::test]
async fn a_dear_question_is_asked_or_refused_with_a_word() {
    let redact = |count: usize| {
        let each = (0..count).map(|at| format!("{{ pattern: 'tel{at} [0-9]+', with: tel }}"));
        each.collect::<Vec<_>>().join(", ")
    };
    for (bytes, redactions, asked) in [
        (10_000, 1, true),
        (1_500_000, 1, true),
        (3_900_000, 32, false),
    ] {
        let scripted = docs().await;
        let policy = format!(
            "contracts: {{ docs__read: {{ purpose: t, actions: [read], secrets: [], results: {{ redact: [ {} ] }} }} }}\n",
            redact(redactions)
        );
        let setup = Setup::new()
            .server_with("docs", &format!("url: \"{}\"", scripted.url()))
            .policy(&policy);
        let gate = setup.open_sides().callers(CALLERS).start().await;
        let agent = gate
            .agent()
            .token(ALICE)
            .at("/mcp/docs")
            .initialized()
            .await;
        let sender = scripted.holds("tools/call");
        let question = json!({ "message": format!("tel0 1 {}", "x".repeat(bytes)) });
        let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": question });
        sender.try_send(event(&question)).unwrap();
        let call = agent.request("tools/call", json!({ "name": "read", "arguments": {} }));
        let server = async {
            let id = scripted
                .sees("the call", |seen| seen.method() == "tools/call")
                .await
                .body["id"]
                .clone();
            let told = scripted
                .sees("a word on its question", |seen| seen.body["id"] == "q")
                .await
                .body;
            sender
                .try_send(event(
                    &json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } }),
                ))
                .unwrap();
            told
        };
        let (told, answer) = tokio::join!(server, declines(&agent, &call, asked));
        assert_eq!(told.get("result").is_some(), asked, "{told}");
        assert!(answer["result"].is_object(), "{answer}");
    }
}

/// An agent that declines what it is asked, if it is asked; what its call is answered with.
async fn declines(agent: &Agent, call: &Value, asked: bool) -> Value {
    let mut stream = agent.post(call).await;
    if asked {
        let question = stream.message().await;
        assert!(
            question["params"]["message"]
                .as_str()
                .unwrap()
                .starts_with("tel x"),
            "{}",
            question["method"]
        );
        let answer =
            json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
        assert_eq!(agent.post(&answer).await.head.status, 202);
    }
    stream.whole().await
}
