//! What goes beside the requests of side doors: words of tasks on other streams, questions in
//! errors and in forms that take much to check, what agents say unasked, and what they bring to a
//! task later.

use super::*;
use crate::harness::stdio::Launched;
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
            let stream = agent
                .post(&agent.request("subscriptions/listen", params.take()))
                .await;
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
        let mut stream = agent
            .post(&agent.request("subscriptions/listen", only))
            .await;
        assert_eq!(stream.message().await["params"]["notifications"], json!({}));
        assert_eq!(
            scripted.seen().len(),
            0,
            "nothing of it is left: {:?}",
            scripted.seen()
        );
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
        let reader = async {
            let mut stream = agent.post(&call).await;
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
                let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
                assert_eq!(agent.post(&answer).await.head.status, 202);
            }
            stream.whole().await
        };
        let (told, answer) = tokio::join!(server, reader);
        assert_eq!(told.get("result").is_some(), asked, "{told}");
        assert!(answer["result"].is_object(), "{answer}");
    }
}

/// What a message brings for toolgate alone.
fn ours() -> Value {
    json!({ "dev.toolgate/fence": "1", "dev.toolgate/hops": 1, "dev.toolgate/x": {}, "com.acme/kept": 1 })
}

/// threat-model §3C C9: what agents say to toolgate travels no further, whatever they say it with;
/// in both modes.
#[tokio::test]
async fn what_is_toolgates_own_stays_with_it() {
    let mut cases = 0;
    for mode in ["enforce", "observe"] {
        let scripted = docs().await;
        let setup = Setup::new()
            .server_with("docs", &format!("url: \"{}\"", scripted.url()))
            .callers(CALLERS);
        let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }\n";
        let setup = if mode == "enforce" {
            setup.open_sides()
        } else {
            setup.mode(mode)
        };
        let gate = setup.policy(policy).start().await;
        let modern = gate.agent().token(ALICE).at("/mcp/docs");
        for agent in [modern.clone(), modern.initialized().await] {
            for (method, mut params, legacy) in requests("file:///srv/docs/a.md", "greet") {
                if legacy && !agent.is_legacy() {
                    continue;
                }
                params["_meta"] = ours();
                agent.ask(method, params).await;
                cases += 1;
            }
            if !agent.is_legacy() {
                continue;
            }
            let mut standalone = agent.get(None).await;
            until("the session listens", || async {
                (scripted.listeners() >= 2).then_some(())
            })
            .await;
            scripted
                .tells(json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" }))
                .await;
            let id = standalone.message().await["id"].clone();
            let roots = json!({ "roots": [], "_meta": ours() });
            agent
                .post(&json!({ "jsonrpc": "2.0", "id": id, "result": roots }))
                .await;
            scripted
                .sees("the answer", |seen| seen.body["id"] == "q")
                .await;
            for method in ["roots/list_changed", "tasks/status"] {
                let params = json!({ "taskId": "t", "status": "working", "_meta": ours() });
                let method = format!("notifications/{method}");
                agent
                    .post(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
                    .await;
                scripted
                    .sees("the notification", |seen| seen.method() == method)
                    .await;
            }
            cases += 3;
        }
        let seen = scripted.seen();
        assert!(seen.len() > 15, "{seen:#?}");
        for seen in seen {
            let params = seen.body.get("params").or(seen.body.get("result")).unwrap();
            assert!(
                !params.to_string().contains("dev.toolgate/"),
                "{}",
                seen.body
            );
            assert_eq!(params["_meta"]["com.acme/kept"], 1, "{}", seen.body);
        }
    }
    assert_eq!(cases, 2 * (7 + 10 + 3));
}

/// threat-model §5: what agents say through a side door unasked is judged, counted and recorded,
/// too.
#[tokio::test]
async fn what_agents_say_unasked_is_recorded() {
    let scripted = docs().await;
    let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }
layers: { agent: { alice: { roots: { allow: [docs] } } } }\n";
    let gate = started(&scripted, policy).await;
    for (token, outcome) in [(CAROL, "refused"), (ALICE, "passed")] {
        let agent = gate
            .agent()
            .token(token)
            .at("/mcp/docs")
            .initialized()
            .await;
        scripted.forget();
        for method in [
            "notifications/roots/list_changed",
            "notifications/tasks/status",
        ] {
            let note = json!({ "jsonrpc": "2.0", "method": method, "params": { "taskId": "t", "status": "working" } });
            assert_eq!(agent.post(&note).await.head.status, 202);
        }
        scripted
            .sees("what is no matter of side doors", |seen| {
                seen.method() == "notifications/tasks/status"
            })
            .await;
        let told = scripted
            .seen()
            .iter()
            .filter(|seen| seen.method() == "notifications/roots/list_changed")
            .count();
        assert_eq!(told, usize::from(outcome == "passed"), "{outcome}");
        let series =
            format!("toolgate_side_messages_total{{door=\"roots\",outcome=\"{outcome}\"}}");
        assert_eq!(gate.metric(&series).await.to_string(), "1");
    }
    let ledger = gate.entries(2).await;
    let told = ledger
        .iter()
        .filter(|entry| entry["method"] == "notifications/roots/list_changed");
    let told: Vec<(&Value, &Value)> = told
        .map(|entry| (&entry["user_id"], &entry["outcome"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("carol"), &json!("refused")),
            (&json!("alice"), &json!("passed"))
        ]
    );
}

/// threat-model §3A A2: on standard output nothing is said to what wants no answer; and a server
/// whose question an agent answers with a look-alike is told, and doesn't wait for ever.
#[tokio::test]
async fn a_refused_message_that_wants_no_answer_gets_none() {
    let scripted = docs().await;
    let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }\n";
    let setup = Setup::new()
        .server_with("docs", &format!("url: \"{}\"", scripted.url()))
        .policy(policy)
        .open_sides();
    setup.write();
    let mut launched = Launched::start(&setup, &["--data", "launched"], true).await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 1).then_some(())
    })
    .await;
    scripted
        .tells(json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {} }))
        .await;
    let id = loop {
        let heard = launched.hears().await;
        if heard["method"] == "roots/list" {
            break heard["id"].clone();
        }
    };
    let long = "x".repeat(70_000);
    for evil in [
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {}, "ID": 5 }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "_meta": { "x": long } } }),
        json!({ "jsonrpc": "2.0", "id": "no question", "result": {}, "METHOD": "tools/call" }),
        json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] }, "METHOD": "tools/call" }),
    ] {
        launched.say(&evil).await;
    }
    let told = scripted
        .sees("an error", |seen| seen.body["id"] == "q")
        .await
        .body;
    assert!(
        told["error"]["message"]
            .as_str()
            .unwrap()
            .contains("refused by toolgate"),
        "{told}"
    );
    launched
        .say(&json!({ "jsonrpc": "2.0", "id": "last", "method": "ping" }))
        .await;
    let heard = launched.hears().await;
    assert_eq!(heard["id"], "last", "nothing else was said: {heard}");
    let seen: Vec<Value> = scripted.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
}

/// threat-model §5: each question is recorded once: with how a task stands, and where redacting the
/// answer that asks it is begun anew on the pool.
#[tokio::test]
async fn a_question_is_recorded_once() {
    let (scripted, gate) = mcp_tasks::stage().await;
    let agent = gate.agent().token(mcp_tasks::TOKENS[0]);
    mcp_tasks::begin(&agent, ("bank__pay", "/mcp"), "short").await;
    let asks = |text: &str| {
        let question =
            json!({ "q": { "method": "elicitation/create", "params": { "message": text } } });
        json!({ "resultType": "input_required", "requestState": "s", "inputRequests": question })
    };
    for (at, (method, params, length)) in [
        ("tasks/get", json!({ "taskId": "short" }), 10),
        ("tasks/get", json!({ "taskId": "short" }), 1_500_000),
        (
            "tools/call",
            json!({ "name": "bank__pay", "arguments": { "n": 1 } }),
            1_500_000,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let result = asks(&"x".repeat(length));
        scripted.answers(move |_| Reply::Result(result.clone()));
        let answer = agent
            .answered(&mcp_tasks::request(&agent, method, params))
            .await;
        assert!(
            answer["result"]["inputRequests"]["q"].is_object(),
            "{method}"
        );
        let series = "toolgate_side_messages_total{door=\"elicitation\",outcome=\"passed\"}";
        assert_eq!(
            gate.metric(series).await.to_string(),
            (at + 1).to_string(),
            "{method} {length}"
        );
    }
}

/// threat-model §3E E1: what people have to decide on is not brought to a call's task past them.
/// Each change of a task is recorded.
#[tokio::test]
async fn e1_nothing_is_brought_to_a_held_call_later() {
    let (scripted, gate) = mcp_tasks::stage().await;
    let agent = gate.agent().token(mcp_tasks::TOKENS[0]);
    mcp_tasks::begin(&agent, ("bank__pay", "/mcp"), "short").await;
    scripted.forget();
    let answers = json!({ "taskId": "short", "inputResponses": { "q": { "action": "accept" } } });
    let changes = [
        ("tasks/update", answers.clone()),
        ("tasks/update", json!({ "taskId": "short" })),
        ("tasks/cancel", json!({ "taskId": "short" })),
    ];
    for (method, params) in changes.clone() {
        let answer = agent
            .answered(&mcp_tasks::request(&agent, method, params))
            .await;
        assert!(
            answer["result"].is_object(),
            "nobody decides on it: {answer}"
        );
    }
    assert_eq!(scripted.seen().len(), 3);
    let held =
        mcp_tasks::POLICY.replace("    results:", "    approval: { hold: 0s }\n    results:");
    std::fs::write(gate.path("policy.yaml"), held).unwrap();
    gate.hang_up();
    let refused = until("the contract has an approval", || async {
        let answer = agent
            .answered(&mcp_tasks::request(&agent, "tasks/update", answers.clone()))
            .await;
        answer.get("error").cloned()
    })
    .await;
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("held until people decide"),
        "{refused}"
    );
    scripted.forget();
    for (method, params) in changes {
        let passes = params.get("inputResponses").is_none();
        let answer = agent
            .answered(&mcp_tasks::request(&agent, method, params))
            .await;
        assert_eq!(answer.get("result").is_some(), passes, "{answer}");
    }
    let odd = json!({ "taskId": "short", "input_responses": { "q": { "action": "accept" } } });
    assert!(
        agent
            .answered(&mcp_tasks::request(&agent, "tasks/update", odd))
            .await["error"]
            .is_object()
    );
    assert_eq!(scripted.seen().len(), 2, "{:?}", scripted.seen());
    let entries = until("all entries", || async {
        let mut entries = gate.ledger().await;
        entries
            .retain(|entry| entry["method"] == "tasks/update" || entry["method"] == "tasks/cancel");
        let count = |outcome: &str| {
            entries
                .iter()
                .filter(|entry| entry["outcome"] == outcome)
                .count()
        };
        (count("answered") >= 5 && count("refused") >= 3).then_some(entries)
    })
    .await;
    let refused = entries
        .iter()
        .find(|entry| entry["outcome"] == "refused")
        .unwrap();
    assert_eq!(
        (&refused["decided_by"], &refused["tool"]),
        (&json!("approval"), &json!("bank__pay")),
        "{refused}"
    );
    assert!(
        gate.metric("toolgate_side_messages_total{door=\"tasks\",outcome=\"refused\"}")
            .await
            >= 3.0
    );
}

/// threat-model §8: `_meta` has the bytes that the configuration gives it; in observe mode more
/// pass, and are counted.
#[tokio::test]
async fn what_stands_beside_a_message_has_a_bound() {
    for (mode, most) in [("enforce", 2_048), ("observe", 2_048), ("enforce", 65_536)] {
        let scripted = docs().await;
        let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }\n";
        let setup = Setup::new()
            .server_with("docs", &format!("url: \"{}\"", scripted.url()))
            .policy(policy)
            .mode(mode);
        let setup = if most == 65_536 {
            setup
        } else {
            setup.more(&format!("meta_max_bytes: {most}"))
        };
        let gate = setup.start().await;
        for agent in [gate.agent().at("/mcp/docs"), gate.legacy("/mcp/docs").await] {
            for (length, is_long) in [(most - 400, false), (most, true)] {
                scripted.forget();
                let mut call =
                    agent.request("tools/call", json!({ "name": "read", "arguments": {} }));
                call["params"]["_meta"]["com.acme/x"] = json!("x".repeat(length));
                let answer = agent.answered(&call).await;
                let passes = !is_long || mode == "observe";
                assert_eq!(
                    scripted.executions(),
                    usize::from(passes),
                    "{mode} {most} {length}: {answer}"
                );
                let words = answer["error"]["message"].as_str().unwrap_or_default();
                assert_eq!(words.contains("`meta_max_bytes`"), !passes, "{answer}");
            }
        }
        assert_eq!(
            gate.metric("toolgate_long_meta_total").await.to_string(),
            "2",
            "{mode} {most}"
        );
    }
}
