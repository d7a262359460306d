//! What belongs to whom: states that tool servers want back, progress, tasks, and words for one
//! agent only (threat-model §13 F8, F9, L5; §3C C5, C8).

use crate::envelopes::{heard, policy, stage, words};
use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::stdio::Launched;
use crate::harness::until;
use serde_json::{Value, json};

/// Two agents of two tenants, and one more tool.
async fn rounds(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![tool("read"), tool("other")]).await;
    scripted.answers(|_| {
        let question = json!({ "q": { "method": "elicitation/create", "params": { "message": "?" } } });
        Reply::Result(json!({ "resultType": "input_required", "requestState": "STATE-1", "inputRequests": question }))
    });
    let callers = "  - { agent: alice, token: token-of-the-agent-alice, tenant: t_1 }\n  \
     - { agent: alice, token: token-of-alice-elsewhere-2, tenant: t_2 }\n  \
     - { agent: bob, token: token-of-the-agent-bob, tenant: t_1 }";
    let servers = vec![("oracle", scripted.url()), ("twin", scripted.url())];
    let twin = "  twin__read: { purpose: test, actions: [read], secrets: [] }\n";
    let policy = policy()
        .replace("hidden", "other")
        .replace(", owner_only: true", "")
        + twin;
    (
        scripted,
        Gate::start(Settings {
            servers,
            callers,
            more: "",
            policy,
            observe,
        })
        .await,
    )
}

const ALICE: &str = "token-of-the-agent-alice";

/// What may ask for input: its method, what it is asked with, and with what else.
fn asking() -> [(&'static str, Value, [Value; 2]); 3] {
    [
        (
            "tools/call",
            json!({ "name": "read", "arguments": { "n": 1 } }),
            [
                json!({ "name": "read", "arguments": { "n": 2 } }),
                json!({ "name": "other", "arguments": { "n": 1 } }),
            ],
        ),
        (
            "prompts/get",
            json!({ "name": "read", "arguments": { "n": "1" } }),
            [
                json!({ "name": "read", "arguments": { "n": "2" } }),
                json!({ "name": "other", "arguments": { "n": "1" } }),
            ],
        ),
        (
            "resources/read",
            json!({ "uri": "x:read" }),
            [
                json!({ "uri": "x:other" }),
                json!({ "uri": "x:read", "more": 1 }),
            ],
        ),
    ]
}

/// The next round with this state.
fn next(params: &Value, state: &Value) -> Value {
    let mut params = params.clone();
    params["inputResponses"] = json!({ "q": { "action": "accept" } });
    params["requestState"] = state.clone();
    params
}

/// threat-model §13 F8, §3C C8, lane: what a server wants back is opened for the agent that it was
/// given to, in its tenant, with the same request to the same server; in every other place, and
/// bent in any way, it is refused and nothing is sent.
#[tokio::test]
async fn f8_a_state_is_brought_back_by_whom_it_was_given_to() {
    let (scripted, gate) = rounds(false).await;
    let agent = |token: &str| gate.agent().at("/mcp/oracle").token(token);
    let alice = agent(ALICE);
    let others = [
        agent("token-of-the-agent-bob"),
        agent("token-of-alice-elsewhere-2"),
        alice.clone().at("/mcp/twin"),
    ];
    let mut cases = 0;
    for (method, params, elsewhere) in asking() {
        let first = alice.ask(method, params.clone()).await;
        let state = first["result"]["requestState"].clone();
        let given = state.as_str().unwrap_or_default().to_owned();
        assert!(given.starts_with("tg1."), "{first}");
        scripted.forget();
        let mut hostile: Vec<(&Agent, Value)> = others
            .iter()
            .map(|other| (other, next(&params, &state)))
            .collect();
        hostile.extend(
            elsewhere
                .iter()
                .map(|params| (&alice, next(params, &state))),
        );
        let mut bent = given.clone().into_bytes();
        bent[8] = if bent[8] == b'A' { b'B' } else { b'A' };
        // As it was before it was sealed, and nothing that a server or an agent may make of it.
        let (bent, cut) = (String::from_utf8(bent).unwrap(), &given[..given.len() - 1]);
        let bare = json!([
            "STATE-1", "", "tg1.", "tg1..STATE-1", bent, cut, format!("{given}x"), given.replace("tg1.", "tg2."),
            { "requestState": given }, [given], 1, null, true
        ]);
        hostile.extend(
            bare.as_array()
                .unwrap()
                .iter()
                .map(|state| (&alice, next(&params, state))),
        );
        for (agent, params) in hostile {
            cases += 1;
            let refused = agent.ask(method, params.clone()).await;
            assert!(
                refused["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("requestState"),
                "{refused}"
            );
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            assert_eq!(scripted.seen().len(), 0, "{params} {refused}");
        }
        let answer = alice.ask(method, next(&params, &state)).await;
        assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
        assert_eq!(scripted.seen()[0].body["params"]["requestState"], "STATE-1");
    }
    assert_eq!(cases, 54, "states where they do not belong");
}

/// threat-model §3C C8: a question that was asked before a restart can be answered after it, unless
/// the key is gone; in observe mode another state goes on as it came.
#[tokio::test]
async fn f8_a_state_outlives_a_restart() {
    for observe in [false, true] {
        let (scripted, gate) = rounds(observe).await;
        let params = json!({ "name": "read", "arguments": {} });
        let ask = async |gate: &Gate, params: Value| {
            gate.agent()
                .at("/mcp/oracle")
                .token(ALICE)
                .ask("tools/call", params)
                .await
        };
        let state = ask(&gate, params.clone()).await["result"]["requestState"].clone();
        let gate = gate.stop().await.start().await;
        for (state, observed) in [(&state, "STATE-1"), (&json!("another"), "another")] {
            scripted.forget();
            let answer = ask(&gate, next(&params, state)).await;
            let sent = scripted
                .seen()
                .first()
                .map(|seen| seen.body["params"]["requestState"].clone());
            let passes = observe || observed == "STATE-1";
            assert_eq!(sent, passes.then(|| json!(observed)), "{answer}");
        }
        let key = gate.path("data/round-key");
        let setup = gate.stop().await;
        std::fs::remove_file(key).unwrap();
        let gate = setup.start().await;
        scripted.forget();
        ask(&gate, next(&params, &state)).await;
        assert_eq!(scripted.executions(), usize::from(observe));
    }
}

/// threat-model §3C C8: what is no string is no state, and none that is made of it is opened.
#[tokio::test]
async fn f8_what_is_no_string_is_no_state() {
    let (scripted, gate) = rounds(false).await;
    let alice = gate.agent().at("/mcp/oracle").token(ALICE);
    for state in [
        json!({ "requestState": "STATE-1" }),
        json!(["STATE-1"]),
        json!(7),
        json!(null),
    ] {
        let given = state.clone();
        scripted.answers(move |_| {
            Reply::Result(json!({ "resultType": "input_required", "requestState": given }))
        });
        for (method, params, _) in asking() {
            let first = alice.ask(method, params.clone()).await;
            assert_eq!(first["result"]["requestState"], state, "{first}");
            scripted.forget();
            let refused = alice.ask(method, next(&params, &state)).await;
            assert!(refused.to_string().contains("requestState"), "{refused}");
            assert_eq!(scripted.seen().len(), 0);
        }
    }
}

fn note(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn progress(token: &Value) -> Value {
    note(
        "notifications/progress",
        &json!({ "progressToken": token, "progress": 1 }),
    )
}

/// This and then the answer.
fn streamed(seen: &Seen, said: &[Value], mut last: Value) -> Reply {
    let (sender, receiver) = tokio::sync::mpsc::channel(said.len() + 1);
    last["id"] = seen.body["id"].clone();
    said.iter()
        .chain([&last])
        .for_each(|said| sender.try_send(event(said)).unwrap());
    Reply::Stream(receiver)
}

/// threat-model §13 F9, §3C C5: progress of another request, notifications that nobody knows, and
/// tasks that nobody asked for reach no agent in enforce mode; in observe mode all but foreign
/// progress pass, and what would not have is recorded.
#[tokio::test]
async fn f9_agents_hear_of_their_own_only() {
    for observe in [false, true] {
        let (scripted, gate) = stage(observe).await;
        scripted.answers(|seen| {
            let foreign = [json!("another's"), json!(1), json!("own "), json!(["own"]), json!(null)];
            let mut said: Vec<Value> = foreign.iter().map(progress).collect();
            said.push(note("notifications/progress", &json!({})));
            said.extend([progress(&json!("own")), note("notifications/evil", &json!({}))]);
            let task = json!({ "resultType": "task", "taskId": "t", "task": { "taskId": "t", "status": "working" } });
            streamed(seen, &said, json!({ "jsonrpc": "2.0", "result": task }))
        });
        for agent in [
            gate.agent().at("/mcp/oracle"),
            gate.legacy("/mcp/oracle").await,
        ] {
            let params = json!({ "name": "read", "_meta": { "progressToken": "own" } });
            let mut reading = agent.post(&agent.request("tools/call", params)).await;
            let mut heard = heard(&mut reading).await;
            let last = heard.pop().unwrap();
            let methods: Vec<&str> = heard
                .iter()
                .map(|said| said["method"].as_str().unwrap())
                .collect();
            let expected = ["notifications/progress", "notifications/evil"];
            assert_eq!(methods, expected[..if observe { 2 } else { 1 }]);
            assert_eq!(heard[0]["params"]["progressToken"], "own");
            assert_eq!(last["result"].get("task").is_some(), observe, "{last}");
            assert_eq!(last["result"]["isError"] == true, !observe, "{last}");
            if agent.is_legacy() && !observe {
                let stranger = agent.ask("tasks/get", json!({ "taskId": "t" })).await;
                assert!(stranger["error"].is_object(), "nobody's task: {stranger}");
            }
        }
        let counted = async |series: &str| gate.metric(series).await.to_string();
        assert_eq!(
            counted("toolgate_dropped_messages_total{reason=\"foreign_progress\"}").await,
            "12"
        );
        let unasked = counted("toolgate_dropped_messages_total{reason=\"unasked_task\"}").await;
        assert_eq!(unasked, if observe { "0" } else { "2" });
        let outcome = if observe { "would_refuse" } else { "refused" };
        let series =
            format!("toolgate_side_messages_total{{door=\"unknown\",outcome=\"{outcome}\"}}");
        assert_eq!(counted(&series).await, "2");
        let entries = gate.entries(3).await;
        let unknown: Vec<&Value> = entries
            .iter()
            .filter(|entry| entry["method"] == "notifications/evil")
            .collect();
        let why = if observe {
            "would_refuse"
        } else {
            "aborted_reason"
        };
        assert_eq!(
            (unknown.len(), &unknown[0][why]),
            (1, &json!("message_not_allowlisted")),
            "{unknown:?}"
        );
    }
}

/// threat-model §13 F9: also what a server says outside any request, on every wire; a name that the
/// configuration allows passes, and any number of names leaves one entry.
#[tokio::test]
async fn f9_unknown_notifications_reach_nobody_outside_requests() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let servers = vec![("oracle", scripted.url())];
    let more = "methods: { allow: [notifications/fine] }";
    let gate = Gate::start(Settings {
        servers,
        callers: "",
        more,
        policy: policy(),
        observe: false,
    })
    .await;
    let modern = gate.agent().at("/mcp/oracle");
    let wanted = json!({ "notifications": { "resourcesListChanged": true } });
    let legacy = gate.legacy("/mcp/oracle").await;
    for agent in [&modern, &legacy] {
        let mut reading = if agent.is_legacy() {
            agent.get(None).await
        } else {
            agent
                .post(&agent.request("subscriptions/listen", wanted.clone()))
                .await
        };
        if !agent.is_legacy() {
            assert_eq!(
                reading.message().await["method"],
                "notifications/subscriptions/acknowledged"
            );
        }
        until("toolgate listens", || async {
            (scripted.listeners() >= 2).then_some(())
        })
        .await;
        for at in 0..20 {
            scripted
                .tells(note(&format!("notifications/evil{at}"), &json!({})))
                .await;
            scripted.tells(progress(&json!(at))).await;
        }
        scripted.tells(note("notifications/fine", &json!({}))).await;
        assert_eq!(reading.message().await["method"], "notifications/fine");
    }
    let data = gate.path("launched");
    let mut launched =
        Launched::start(&gate.setup, &["--data", data.to_str().unwrap()], true).await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 4).then_some(())
    })
    .await;
    scripted.tells(note("notifications/evil", &json!({}))).await;
    scripted.tells(progress(&json!("own"))).await;
    scripted.tells(note("notifications/fine", &json!({}))).await;
    assert_eq!(launched.hears().await["method"], "notifications/fine");
    let entries = gate.entries(1).await;
    let evil = entries.iter().filter(|entry| {
        entry["method"]
            .as_str()
            .is_some_and(|method| method.contains("evil"))
    });
    assert_eq!(evil.count(), 1, "{entries:?}");
}

/// threat-model §13 F9, guarantees §4: a write that became a task nobody asked for has run: its key
/// is taken, and it is sent once. A result that only has a member of that name is a result.
#[tokio::test]
async fn f9_an_unasked_task_is_an_answer() {
    for (result, is_task) in [
        (
            json!({ "task": { "taskId": "t", "status": "working" } }),
            true,
        ),
        (
            json!({ "resultType": "task", "taskId": "t", "status": "working" }),
            true,
        ),
        (json!({ "resultType": "task" }), true),
        (json!({ "content": [], "task": { "taskId": "t" } }), false),
        (json!({ "content": [], "taskId": "t" }), false),
    ] {
        let scripted = ScriptedServer::with(vec![tool("pay")]).await;
        let expected = result.clone();
        scripted.answers(move |_| Reply::Result(result.clone()));
        let members = format!("url: \"{}\"", scripted.url());
        let setup = Setup::new()
            .server_with("oracle", &members)
            .contracts(&[("oracle__pay", "write")]);
        let gate = setup.start().await;
        for agent in [
            gate.agent().at("/mcp/oracle"),
            gate.legacy("/mcp/oracle").await,
        ] {
            scripted.forget();
            let meta = json!({ "dev.toolgate/idempotencyKey": format!("k{}", agent.is_legacy()) });
            for _ in 0..3 {
                let said = agent
                    .ask(
                        "tools/call",
                        json!({ "name": "pay", "arguments": {}, "_meta": meta }),
                    )
                    .await;
                assert_eq!(said["result"]["isError"] == true, is_task, "{said}");
                assert_eq!(
                    said["result"].get("task"),
                    expected.get("task").filter(|_| !is_task),
                    "{said}"
                );
            }
            assert_eq!(scripted.executions(), 1, "{expected}");
        }
    }
}

/// threat-model §13 F9: a task's progress goes on under the token of its call; of others' nothing
/// is heard.
#[tokio::test]
async fn f9_progress_of_a_task_is_that_of_its_call() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.legacy("/mcp/oracle").await;
    scripted.answers(|seen| {
        if seen.method() == "tools/call" {
            return Reply::Result(json!({ "task": { "taskId": "t", "status": "working" } }));
        }
        let said = [progress(&json!("another's")), progress(&json!("own"))];
        streamed(
            seen,
            &said,
            json!({ "jsonrpc": "2.0", "result": { "content": [] } }),
        )
    });
    agent
        .ask(
            "tools/call",
            json!({ "name": "read", "task": {}, "_meta": { "progressToken": "own" } }),
        )
        .await;
    let mut reading = agent
        .post(&agent.request("tasks/result", json!({ "taskId": "t" })))
        .await;
    let heard = heard(&mut reading).await;
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0]["params"]["progressToken"], "own");
}

/// threat-model §13 L5, §8, lane: words of every length around the limit, of letters of one to
/// four bytes, on every way that an error of a tool server takes to an agent.
#[tokio::test]
async fn l5_errors_of_servers_are_short() {
    let (scripted, gate) = stage(false).await;
    let mut cases = 0;
    for agent in [
        gate.agent().at("/mcp/oracle"),
        gate.legacy("/mcp/oracle").await,
    ] {
        scripted
            .answers(|_| Reply::Result(json!({ "task": { "taskId": "t", "status": "working" } })));
        agent
            .answered(&crate::mcp_tasks::request(
                &agent,
                "tools/call",
                json!({ "name": "read" }),
            ))
            .await;
        for letter in ["x", "é", "€", "\u{1f9fe}"] {
            for length in (500..=524).chain([1_000_000]) {
                let said = format!(
                    "{}{}",
                    "y".repeat(length % letter.len()),
                    letter.repeat(length / letter.len())
                );
                assert_eq!(said.len(), length);
                let error = json!({ "code": -5, "message": said });
                scripted.answers(move |seen| fails(seen, &error));
                for (method, params) in ways() {
                    cases += 1;
                    let request = crate::mcp_tasks::request(&agent, method, params);
                    let answer = agent.answered(&request).await;
                    let inside = &answer["result"]["error"];
                    let heard = inside["message"].as_str().unwrap_or_else(|| words(&answer));
                    if length <= 512 {
                        assert_eq!(heard, said, "{method} {answer}");
                    } else {
                        assert!(
                            (500..=512).contains(&heard.len()) && heard.ends_with("… (cut)"),
                            "{method} {answer}"
                        );
                    }
                    let code = if inside.is_object() {
                        &inside["code"]
                    } else {
                        &answer["error"]["code"]
                    };
                    assert_eq!(code, &json!(-5), "{answer}");
                }
            }
        }
    }
    assert_eq!(cases, 2 * 4 * 26 * 6, "errors of tool servers");
}

/// What a tool server may answer with an error.
fn ways() -> [(&'static str, Value); 6] {
    let reference = json!({ "type": "ref/prompt", "name": "p" });
    [
        ("tools/call", json!({ "name": "read" })),
        ("resources/read", json!({ "uri": "x:y" })),
        ("resources/list", json!({})),
        ("prompts/get", json!({ "name": "p" })),
        (
            "completion/complete",
            json!({ "ref": reference, "argument": { "name": "a", "value": "" } }),
        ),
        ("tasks/get", json!({ "taskId": "t" })),
    ]
}

fn fails(seen: &Seen, error: &Value) -> Reply {
    match seen.method() {
        "tasks/get" => Reply::Result(
            json!({ "resultType": "complete", "taskId": "t", "status": "failed", "error": error }),
        ),
        _ => Reply::Message(json!({ "jsonrpc": "2.0", "error": error })),
    }
}

/// threat-model §13 L5: neither `data` nor any other member is a way around, nor is an error that
/// has another form.
#[tokio::test]
async fn l5_nothing_long_travels_beside_the_words() {
    let (scripted, gate) = stage(false).await;
    let long = |length: usize| json!("x".repeat(length));
    for agent in [
        gate.agent().at("/mcp/oracle"),
        gate.legacy("/mcp/oracle").await,
    ] {
        for (error, kept) in [
            (
                json!({ "code": -5, "message": "m", "data": long(10_000) }),
                json!(["data"]),
            ),
            (
                json!({ "code": -5, "message": "m", "data": long(20_000) }),
                json!([]),
            ),
            (
                json!({ "code": -5, "message": "m", "x": long(20_000), "data": long(9_000) }),
                json!(["data"]),
            ),
            (
                json!({ "code": -5, "message": "m", "data": long(9_000), "x": long(9_000), "y": 1 }),
                json!(["data", "y"]),
            ),
            (json!({ "code": long(20_000), "message": "m" }), json!([])),
            (
                json!({ "code": -5, "message": { "m": long(20_000) } }),
                json!([]),
            ),
            (long(20_000), json!([])),
            (json!([long(20_000)]), json!([])),
        ] {
            let said = error.clone();
            scripted.answers(move |_| Reply::Message(json!({ "jsonrpc": "2.0", "error": said })));
            for (method, params) in [
                ("tools/call", json!({ "name": "read" })),
                ("resources/read", json!({ "uri": "x:y" })),
            ] {
                let answer = agent.ask(method, params).await;
                let heard = answer["error"].as_object().unwrap();
                assert!(
                    answer.to_string().len() < 17_000,
                    "{method} {}",
                    answer.to_string().len()
                );
                assert!(
                    heard["message"].is_string() && heard["code"].is_i64(),
                    "{answer}"
                );
                for key in ["data", "x", "y"] {
                    let is_kept = kept.as_array().unwrap().contains(&json!(key));
                    assert_eq!(heard.get(key), error.get(key).filter(|_| is_kept), "{key}");
                }
            }
        }
    }
}
