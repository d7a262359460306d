//! What is no governed call arrives as the same JSON value, both ways and on both wires, and as
//! soon as it is said.

use crate::harness::agent::{Agent, modern};
use crate::harness::answer::Block;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, UNWELCOME, event, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::stdio::Launched;
use crate::harness::until;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Methods that are forwarded to one server, by era; the last ones nobody knows.
const BOTH: &[&str] = &[
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "x-vendor/anything",
];
const LEGACY_ONLY: &[&str] = &[
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "server/unheard-of",
];

async fn stage() -> (ScriptedServer, Gate) {
    stage_in(true).await
}

async fn stage_in(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![tool("read"), tool("write")]).await;
    let policy = "contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: oracle__write } } }
  oracle__read: { purpose: test, actions: [read], secrets: [] }
  oracle__write: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [] }
";
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: "",
        more: "",
        policy: policy.to_owned(),
        observe,
    };
    (scripted, Gate::start(settings).await)
}

/// The agents of both wires at the server's own address.
async fn both(gate: &Gate) -> [Agent; 2] {
    [
        gate.agent().at("/mcp/oracle"),
        gate.legacy("/mcp/oracle").await,
    ]
}

// === Any message ===

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
        (-1e15_f64..1e15).prop_map(|number| json!(number + 0.5)),
        "\\PC{0,12}".prop_map(Value::from),
        "[\\x01-\\x1f\"\\\\/]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            members(inner).prop_map(Value::Object),
        ]
    })
}

/// Members whose names mean nothing in any revision.
fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("x[a-z0-9 é顾./_-]{0,6}", value, 0..5)
        .prop_map(|members| members.into_iter().collect())
}

#[derive(Debug, Clone)]
struct Exchange {
    method: usize,
    params: Map<String, Value>,
    meta: Map<String, Value>,
    envelope: Map<String, Value>,
    /// What the server says before it answers.
    notes: Vec<Map<String, Value>>,
    /// The result's members, or the error.
    answer: Result<Map<String, Value>, (i64, String, Value)>,
    answer_envelope: Map<String, Value>,
}

fn any_exchange() -> impl Strategy<Value = Exchange> {
    let object = || members(any_value());
    let error = (-40_000_i64..40_000, "\\PC{0,20}", any_value());
    let answer = prop_oneof![3 => object().prop_map(Ok), 1 => error.prop_map(Err)];
    let notes = prop::collection::vec(object(), 0..3);
    (
        0_usize..32,
        object(),
        object(),
        object(),
        notes,
        answer,
        object(),
    )
        .prop_map(
            |(method, params, meta, envelope, notes, answer, answer_envelope)| Exchange {
                method,
                params,
                meta,
                envelope,
                notes,
                answer,
                answer_envelope,
            },
        )
}

/// A message but for its id, and, as it travels, for what JSON-RPC does not know of it
/// (threat-model §0 rule 1).
fn without_id(message: &Value) -> Value {
    let mut message = message.clone();
    message.as_object_mut().unwrap().retain(|name, _| {
        matches!(
            name.as_str(),
            "jsonrpc" | "method" | "params" | "result" | "error"
        )
    });
    message
}

async fn passes(scripted: &ScriptedServer, agent: &Agent, exchange: Exchange) {
    let methods: Vec<&str> = if agent.is_legacy() {
        [BOTH, LEGACY_ONLY].concat()
    } else {
        BOTH.to_vec()
    };
    let mut params = Value::Object(exchange.params);
    params["_meta"] = Value::Object(exchange.meta);
    params["_meta"]["traceparent"] = json!(TRACE);
    let mut request = agent.request(methods[exchange.method % methods.len()], params);
    request.as_object_mut().unwrap().extend(exchange.envelope);

    let mut answer = json!({ "jsonrpc": "2.0" });
    match exchange.answer {
        Ok(mut result) => {
            if !agent.is_legacy() {
                result.insert("resultType".to_owned(), json!("complete"));
            }
            answer["result"] = Value::Object(result);
        }
        Err((code, message, data)) => {
            answer["error"] = json!({ "code": code, "message": message, "data": data });
        }
    }
    answer
        .as_object_mut()
        .unwrap()
        .extend(exchange.answer_envelope);
    let note = |params: Map<String, Value>| json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
    let notes: Vec<Value> = exchange.notes.into_iter().map(note).collect();

    scripted.forget();
    let (said, last) = (notes.clone(), answer.clone());
    scripted.answers(move |seen| {
        let (sender, receiver) = tokio::sync::mpsc::channel(8);
        let mut last = last.clone();
        if said.is_empty() {
            return Reply::Message(last);
        }
        last["id"] = seen.body["id"].clone();
        for message in said.iter().chain([&last]) {
            sender.try_send(event(message)).unwrap();
        }
        Reply::Stream(receiver)
    });
    let mut reading = agent.post(&request).await;
    for note in &notes {
        assert_eq!(&reading.message().await, note);
    }
    let got = reading.whole().await;
    assert_eq!(got["id"], request["id"], "{got}");
    assert_eq!(without_id(&got), without_id(&answer));
    assert_eq!(got.as_object().unwrap().len(), 3, "{got}");
    let seen = scripted.seen();
    assert_eq!(seen.len(), 1, "{seen:#?}");
    assert_eq!(without_id(&seen[0].body), without_id(&request));
    assert_eq!(seen[0].body.as_object().unwrap().len(), 4, "{seen:#?}");
}

/// design §3, issue 2 "Transparency": any message that is no governed call comes out as the same
/// JSON value, and so does what the server says to it; unknown methods too, in observe mode. Only
/// what JSON-RPC does not know of it stays here.
#[test]
fn any_message_arrives_as_the_same_value() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (scripted, agents) = runtime.block_on(async {
        let (scripted, gate) = stage().await;
        let agents = both(&gate).await;
        ((scripted, gate), agents)
    });
    let mut runner = TestRunner::new(Config {
        cases: 96,
        failure_persistence: None,
        ..Config::default()
    });
    let tried = runner.run(&(any_exchange(), any::<bool>()), |(exchange, legacy)| {
        runtime.block_on(passes(&scripted.0, &agents[usize::from(legacy)], exchange));
        Ok(())
    });
    tried.unwrap();
}

/// Issue 2: what a legacy agent says without wanting an answer arrives as it was said.
#[tokio::test]
async fn notifications_of_agents_arrive_as_they_were_said() {
    let (scripted, gate) = stage().await;
    let [_, agent] = both(&gate).await;
    for method in [
        "notifications/roots/list_changed",
        "notifications/progress",
        "notifications/x-unheard-of",
    ] {
        let note = json!({ "jsonrpc": "2.0", "method": method, "params": { "progressToken": 7, "x": [1, null] }, "y": {} });
        assert_eq!(agent.post(&note).await.head.status, 202);
        let seen = scripted.sees(method, |seen| seen.method() == method).await;
        assert_eq!(
            (without_id(&seen.body), seen.body.get("y")),
            (without_id(&note), None)
        );
    }
}

/// design §3: a call is rebuilt from a closed list of fields, but what is in them is as the agent
/// wrote it, and the result is as the server wrote it, with our verdict beside it (protocol §1.6:
/// `input_required`, `requestState`, `inputResponses`).
#[tokio::test]
async fn calls_that_need_input_travel_unchanged() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().at("/mcp/oracle");
    let asked = json!({
        "resultType": "input_required", "requestState": "opaque/==\u{1f9fe}", "x-unknown": { "a": [1.5, null] },
        "inputRequests": { "who": { "method": "elicitation/create", "params": { "message": "who?", "x": 1 } } },
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "1" }, "x": true },
    });
    let result = asked.clone();
    scripted.answers(move |_| Reply::Result(result.clone()));
    let mut params = json!({
        "name": "read", "arguments": { "b": 1, "a": { "z": [], "y": 1.25 } }, "requestState": "from before",
        "inputResponses": { "who": { "action": "accept", "content": { "name": "ann" } } },
        "_meta": { "traceparent": TRACE, "tracestate": "a=b", "baggage": "c=d", "progressToken": "p-1", "x/y": { "z": 1 } },
    });
    let request = agent.request("tools/call", params.clone());
    params = request["params"].clone();
    let mut answer = agent.answered(&request).await;
    assert_eq!(scripted.seen()[0].body["params"], params);
    let decision = answer["result"]["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("dev.toolgate/decision");
    assert_eq!(decision.unwrap()["outcome"], "answered");
    // The state is sealed, and the server's own is in it.
    let state = answer["result"]["requestState"].take();
    assert!(state.as_str().unwrap().starts_with("tg1."), "{state}");
    answer["result"]["requestState"] = asked["requestState"].clone();
    assert_eq!(answer["result"], asked);
}

/// Our own keys are between the agent and toolgate: they do not travel on.
#[tokio::test]
async fn our_own_meta_keys_stay_here() {
    let (scripted, gate) = stage().await;
    for agent in both(&gate).await {
        scripted.forget();
        let meta = json!({ "dev.toolgate/session": "s", "dev.toolgate/task": "t", "other": 1 });
        agent
            .ask("tools/call", json!({ "name": "read", "_meta": meta }))
            .await;
        let seen = scripted.seen()[0].body["params"]["_meta"].clone();
        assert_eq!(
            (seen.get("dev.toolgate/session"), seen["other"].clone()),
            (None, json!(1))
        );
    }
}

// === As soon as it is said ===

fn progress(step: u32) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": "p", "progress": step, "x": {} } })
}

fn done(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [], "resultType": "complete" } })
}

/// Issue 2: each event and comment is here while the server still withholds the next.
#[tokio::test]
async fn streams_arrive_event_by_event() {
    let (scripted, gate) = stage().await;
    for agent in both(&gate).await {
        for (method, params) in [
            (
                "tools/call",
                json!({ "name": "read", "_meta": { "progressToken": "p" } }),
            ),
            (
                "resources/read",
                json!({ "uri": "x:y", "_meta": { "progressToken": "p" } }),
            ),
        ] {
            scripted.forget();
            let server = scripted.holds(method);
            server.send(": still there\n\n".to_owned()).await.unwrap();
            let message = agent.request(method, params);
            let mut reading = agent.post(&message).await;
            let first = loop {
                match reading.next().await.unwrap() {
                    Block::Comment(comment) => break comment,
                    // A legacy stream begins with an event that only carries an id.
                    Block::Event { message: None, .. } => {}
                    other @ Block::Event { .. } => panic!("{other:?}"),
                }
            };
            assert_eq!(first, " still there");
            for step in 1..4 {
                server.send(event(&progress(step))).await.unwrap();
                assert_eq!(reading.message().await, progress(step));
                // A bare sign of life stays one.
                for comment in ["", " {\"x\": 1}", "\u{1f9fe}"] {
                    server.send(format!(":{comment}\n\n")).await.unwrap();
                    assert_eq!(
                        reading.next().await,
                        Some(Block::Comment(comment.to_owned()))
                    );
                }
            }
            // Where a comment was said is kept, also when nobody has read yet.
            let together = [
                event(&progress(4)),
                ": a\n\n".to_owned(),
                event(&progress(5)),
                ": b\n\n".to_owned(),
            ];
            server.send(together.concat()).await.unwrap();
            assert_eq!(reading.message().await, progress(4));
            assert_eq!(reading.next().await, Some(Block::Comment(" a".to_owned())));
            assert_eq!(reading.message().await, progress(5));
            assert_eq!(reading.next().await, Some(Block::Comment(" b".to_owned())));
            let id = scripted
                .sees(method, |seen| seen.method() == method)
                .await
                .body["id"]
                .clone();
            server.send(event(&done(&id))).await.unwrap();
            assert_eq!(reading.message().await["id"], message["id"]);
            assert_eq!(reading.next().await, None, "the answer ends the stream");
        }
    }
}

/// protocol §3.3: sampling, elicitation and roots reach the agent under an id of ours, and its
/// answer reaches the server under the server's id; inside a call and outside.
#[tokio::test]
async fn a_legacy_server_asks_the_agent() {
    let (scripted, gate) = stage().await;
    let [_, agent] = both(&gate).await;
    let questions = [
        (
            "sampling/createMessage",
            json!({ "messages": [], "maxTokens": 5, "x": null }),
            json!("srv-1"),
        ),
        (
            "elicitation/create",
            json!({ "message": "?", "requestedSchema": { "type": "object" } }),
            json!(1),
        ),
        (
            "roots/list",
            json!({ "_meta": { "progressToken": 9 } }),
            json!("1"),
        ),
    ];
    let server = scripted.holds("tools/call");
    let message = agent.request(
        "tools/call",
        json!({ "name": "write", "_meta": { "progressToken": "p" } }),
    );
    let poster = agent.clone();
    let call = message.clone();
    let calling = tokio::spawn(async move { poster.post(&call).await });
    let call = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await;
    let mut standalone = agent.get(None).await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    let mut inside = None;
    let mut calling = Some(calling);
    for (method, params, id) in questions {
        for outside in [false, true] {
            let question =
                json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            let asked = if outside {
                scripted.tells(question.clone()).await;
                standalone.message().await
            } else {
                server.send(event(&question)).await.unwrap();
                if let Some(calling) = calling.take() {
                    inside = Some(calling.await.unwrap());
                }
                inside.as_mut().unwrap().message().await
            };
            assert_eq!(without_id(&asked), without_id(&question));
            scripted.forget();
            let mut answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "x": [1, { "y": null }] }, "z": 1 });
            if outside {
                answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -1, "message": "no", "data": {} } });
            }
            assert_eq!(agent.post(&answer).await.head.status, 202);
            let seen = scripted
                .sees("the answer", |seen| {
                    seen.method().is_empty() && seen.body["id"] == id
                })
                .await;
            assert_eq!(without_id(&seen.body), without_id(&answer));
        }
    }
    server.send(event(&done(&call.body["id"]))).await.unwrap();
    assert_eq!(inside.unwrap().message().await["id"], message["id"]);
}

/// threat-model §3A A12 and protocol §3.4: what a server may not ask is answered at once, and when
/// it takes a question back the agent is told under the id that it knows.
#[tokio::test]
async fn a_legacy_server_is_told_no_and_may_change_its_mind() {
    let (scripted, gate) = stage().await;
    let agent = gate.legacy("/mcp/oracle").await;
    let mut standalone = agent.get(None).await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    scripted
        .tells(json!({ "jsonrpc": "2.0", "id": "odd", "method": "tools/call", "params": {} }))
        .await;
    let no = scripted
        .sees("the refusal", |seen| seen.body["id"] == "odd")
        .await;
    assert_eq!(no.body["error"]["code"], -32601, "{no:?}");

    let question = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" });
    scripted.tells(question(70)).await;
    let asked = standalone.message().await;
    let taken_back = json!({ "requestId": 70, "reason": "found it" });
    scripted
        .tells(
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": taken_back }),
        )
        .await;
    let told = standalone.message().await;
    assert_eq!(
        told["params"],
        json!({ "requestId": asked["id"], "reason": "found it" }),
        "{told}"
    );
    // Its cancellation of what it never asked is nothing to the agent.
    scripted
        .tells(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": asked["id"] } }))
        .await;
    scripted.tells(question(71)).await;
    assert_eq!(standalone.message().await["method"], "roots/list");
}

/// protocol §3.4: a legacy agent's cancellation reaches the server under the server's id of the
/// request.
#[tokio::test]
async fn a_legacy_cancellation_arrives_under_our_id() {
    let (scripted, gate) = stage().await;
    let [_, agent] = both(&gate).await;
    // So that the agent's ids and ours differ.
    agent.ask("prompts/list", json!({})).await;
    for (method, params) in [
        (
            "tools/call",
            json!({ "name": "read", "_meta": { "progressToken": "p" } }),
        ),
        (
            "resources/read",
            json!({ "uri": "x:y", "_meta": { "progressToken": "p" } }),
        ),
    ] {
        scripted.forget();
        let server = scripted.holds(method);
        let mut message = agent.request(method, params);
        message["id"] = json!(format!("the agent's {method}"));
        server.send(event(&progress(1))).await.unwrap();
        let mut reading = agent.post(&message).await;
        assert_eq!(reading.message().await, progress(1));
        let sent = scripted
            .sees(method, |seen| seen.method() == method)
            .await
            .body["id"]
            .clone();
        let note = json!({ "requestId": message["id"], "reason": "changed my mind", "x": {} });
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": note });
        assert_eq!(agent.post(&note).await.head.status, 202);
        let seen = scripted
            .sees("the cancellation", |seen| {
                seen.method() == "notifications/cancelled"
            })
            .await;
        let expected = json!({ "requestId": sent, "reason": "changed my mind", "x": {} });
        assert_eq!(seen.body["params"], expected);
        assert_ne!(sent, message["id"]);
    }
}

/// 001-59, guarantees §4 and protocol §1.7: a modern agent that goes away ends a read upstream; a
/// side effect is finished and recorded.
#[tokio::test]
async fn an_agent_that_leaves_ends_reads_but_no_side_effects() {
    let (scripted, gate) = stage_in(false).await;
    let agent = gate.agent().at("/mcp/oracle");
    for (method, params) in [
        (
            "tools/call",
            json!({ "name": "read", "_meta": { "progressToken": "p" } }),
        ),
        (
            "resources/read",
            json!({ "uri": "x:y", "_meta": { "progressToken": "p" } }),
        ),
    ] {
        scripted.forget();
        let server = scripted.holds(method);
        server.send(event(&progress(1))).await.unwrap();
        let mut reading = agent.post(&agent.request(method, params)).await;
        assert_eq!(reading.message().await, progress(1));
        let id = scripted
            .sees(method, |seen| seen.method() == method)
            .await
            .body["id"]
            .clone();
        drop(reading);
        scripted.closed(&id).await;
    }
    let entries = gate.entries(1).await;
    assert_eq!(
        (&entries[0]["tool"], &entries[0]["outcome"]),
        (&json!("oracle__read"), &json!("failed"))
    );

    scripted.forget();
    let server = scripted.holds("tools/call");
    server.send(event(&progress(1))).await.unwrap();
    let mut reading = agent
        .post(&agent.request(
            "tools/call",
            json!({ "name": "write", "_meta": { "progressToken": "p" } }),
        ))
        .await;
    assert_eq!(reading.message().await, progress(1));
    let id = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await
        .body["id"]
        .clone();
    drop(reading);
    // Another agent is served meanwhile, so toolgate has had its turn to notice.
    agent.ask("prompts/list", json!({})).await;
    server.send(event(&progress(2))).await.unwrap();
    assert!(!scripted.closed_ids().contains(&id));
    server.send(event(&done(&id))).await.unwrap();
    let entries = gate.entries(4).await;
    let of = |tool: &str| {
        entries
            .iter()
            .find(|entry| entry["tool"] == tool)
            .map(|entry| entry["outcome"].clone())
    };
    assert_eq!(of("oracle__write"), Some(json!("answered")), "{entries:?}");
    assert_eq!(of("oracle__x:y"), Some(json!("failed")), "{entries:?}");
}

/// protocol §1.7 and §3.4: an agent need not wait for a server's first word to be rid of a read.
#[tokio::test]
async fn a_read_ends_before_the_server_has_said_anything() {
    let (scripted, gate) = stage_in(false).await;
    scripted.answers(|_| Reply::Silence);
    for agent in both(&gate).await {
        for (method, params) in [
            (
                "tools/call",
                json!({ "name": "read", "_meta": { "progressToken": "p" } }),
            ),
            (
                "resources/read",
                json!({ "uri": "x:y", "_meta": { "progressToken": "p" } }),
            ),
        ] {
            scripted.forget();
            let (message, poster) = (agent.request(method, params), agent.clone());
            let cancellation = json!({ "requestId": message["id"] });
            let posting = tokio::spawn(async move { poster.post(&message).await.whole().await });
            let id = scripted
                .sees(method, |seen| seen.method() == method)
                .await
                .body["id"]
                .clone();
            if agent.is_legacy() {
                let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancellation });
                assert_eq!(agent.post(&note).await.head.status, 202);
                let answer = posting.await.unwrap();
                assert!(answer.to_string().contains("cancelled"), "{answer}");
            } else {
                posting.abort();
            }
            scripted.closed(&id).await;
        }
    }
}

/// protocol §4.3 (8) and §3.1: a legacy server that has read a request and not begun to answer is
/// told under our id that nobody waits for it: the agent cancelled it, went away from what ends
/// with it, or it took too long.
#[tokio::test]
async fn a_legacy_server_hears_of_a_cancellation_before_its_first_word() {
    let (scripted, gate) = stage_in(false).await;
    let agent = gate.legacy("/mcp/oracle").await;
    agent.ask("prompts/list", json!({})).await;
    scripted.answers(|_| Reply::Silence);
    let (read, write) = (
        ("tools/call", "name", "read"),
        ("tools/call", "name", "write"),
    );
    let resource = ("resources/read", "uri", "x:y");
    // What changes something does not end with its agent.
    for ((method, key, what), leaves) in [
        (read, false),
        (read, true),
        (write, false),
        (resource, false),
        (resource, true),
    ] {
        scripted.forget();
        let message = agent.request(method, json!({ key: what }));
        let (poster, request) = (agent.clone(), message.clone());
        let posting = tokio::spawn(async move { poster.post(&request).await.whole().await });
        let sent = scripted
            .sees(method, |seen| seen.method() == method)
            .await
            .body["id"]
            .clone();
        assert_ne!(sent, message["id"], "so that the ids can be told apart");
        if leaves {
            posting.abort();
        } else {
            let note = json!({ "requestId": message["id"], "reason": "changed my mind" });
            let note =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": note });
            assert_eq!(agent.post(&note).await.head.status, 202);
        }
        let seen = scripted
            .sees("the cancellation", |seen| {
                seen.method() == "notifications/cancelled"
            })
            .await;
        let reason = if leaves {
            "the agent went away"
        } else {
            "changed my mind"
        };
        assert_eq!(
            seen.body["params"],
            json!({ "requestId": sent, "reason": reason }),
            "{what}"
        );
    }
}

/// The same when it took too long, and for an agent on standard input; a server that leaves even
/// the notification unanswered holds nobody up.
#[tokio::test]
async fn a_server_that_never_answers_is_told_and_not_waited_for() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let setup = Setup::new().server_with(
        "oracle",
        &format!("url: \"{}\", timeout: 1s", scripted.url()),
    );
    let gate = setup.contracts(&[("oracle__read", "read")]).start().await;
    scripted.answers(|_| Reply::Silence);
    scripted.leaves_notifications();
    let agent = gate.agent().at("oracle").declaring(json!({})).await;
    let answer = agent.legacy_call("read", json!({})).await;
    assert_eq!(answer.refusal(), "upstream_failed", "{answer:?}");
    let sent = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await
        .body["id"]
        .clone();
    let seen = scripted
        .sees("the cancellation", |seen| {
            seen.method() == "notifications/cancelled"
        })
        .await;
    assert_eq!(seen.body["params"]["requestId"], sent);

    let launched = gate.setup.directory().join("launched");
    for legacy in [true, false] {
        scripted.forget();
        let mut agent =
            Launched::start(&gate.setup, &["--data", launched.to_str().unwrap()], legacy).await;
        let mut params = json!({ "name": "read" });
        if !legacy {
            params = modern("tools/call", params)["params"].clone();
        }
        agent.say(&json!({ "jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": params })).await;
        let sent = scripted
            .sees("the call", |seen| seen.method() == "tools/call")
            .await
            .body["id"]
            .clone();
        let note = json!({ "requestId": "mine" });
        agent
            .say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": note }))
            .await;
        scripted.closed(&sent).await;
        if legacy {
            let told = scripted
                .sees("the cancellation", |seen| {
                    seen.method() == "notifications/cancelled"
                })
                .await;
            assert_eq!(told.body["params"], json!({ "requestId": sent }));
        } else {
            // On the modern wire the closed connection is all that is said.
            assert!(
                !scripted
                    .seen()
                    .iter()
                    .any(|seen| seen.method() == "notifications/cancelled")
            );
        }
        agent.end().await;
    }
}

/// A server that refuses a session says why in its own words.
#[tokio::test]
async fn a_refused_initialize_arrives_as_it_was_said() {
    let (_scripted, gate) = stage().await;
    let agent = gate.agent().at("oracle");
    let info = json!({ "name": "unwelcome", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params });
    let answer = agent
        .send(&agent.headers(), message.to_string().as_bytes())
        .await;
    assert_eq!(
        answer.message(),
        json!({ "jsonrpc": "2.0", "id": 7, "error": UNWELCOME.clone() })
    );
    assert_eq!(answer.header("mcp-session-id"), None);
}

/// threat-model §3B B11: an agent that stops reading loses what is on the way; what it called is
/// finished and recorded.
#[tokio::test]
async fn an_agent_that_does_not_read_holds_nothing_up() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().at("/mcp/oracle");
    let server = scripted.holds("tools/call");
    server.send(event(&progress(0))).await.unwrap();
    let unread = agent
        .post(&agent.request(
            "tools/call",
            json!({ "name": "write", "_meta": { "progressToken": "p" } }),
        ))
        .await;
    let id = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await
        .body["id"]
        .clone();
    let mut long = progress(1);
    long["params"]["message"] = json!("x".repeat(1 << 18));
    for _ in 0..200 {
        server.send(event(&long)).await.unwrap();
    }
    server.send(event(&done(&id))).await.unwrap();
    let entries = gate.entries(1).await;
    assert_eq!(
        (&entries[0]["tool"], &entries[0]["outcome"]),
        (&json!("oracle__write"), &json!("answered"))
    );
    drop(unread);
}

/// protocol §3.1: a legacy agent whose connection broke takes the stream up again after the last
/// event it read.
#[tokio::test]
async fn a_broken_legacy_stream_is_taken_up_again() {
    let (scripted, gate) = stage().await;
    let [_, agent] = both(&gate).await;
    let server = scripted.holds("tools/call");
    server.send(event(&progress(1))).await.unwrap();
    server.send(event(&progress(2))).await.unwrap();
    let message = agent.request(
        "tools/call",
        json!({ "name": "write", "_meta": { "progressToken": "p" } }),
    );
    let mut reading = agent.post(&message).await;
    let last = loop {
        if let Some(Block::Event {
            id,
            message: Some(_),
        }) = reading.next().await
        {
            break id.unwrap();
        }
    };
    drop(reading);
    let id = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await
        .body["id"]
        .clone();
    server.send(event(&progress(3))).await.unwrap();
    let mut again = agent.get(Some(&last)).await;
    assert_eq!(again.message().await, progress(2));
    assert_eq!(again.message().await, progress(3));
    server.send(event(&done(&id))).await.unwrap();
    assert_eq!(again.message().await["id"], message["id"]);
    assert_eq!(again.next().await, None);
    assert_eq!(scripted.executions(), 1, "it ran once");
    // What was answered can be read once more, and another session cannot.
    let mut once_more = agent.get(Some(&last)).await;
    assert_eq!(once_more.message().await, progress(2));
    let other = gate.legacy("/mcp/oracle").await;
    assert_eq!(other.get(Some(&last)).await.head.status, 400);
}

/// guarantees §4: a call that a legacy server took is not unsent because its stream cannot be taken
/// up again.
#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_again_leaves_the_outcome_unknown() {
    let (scripted, gate) = stage_in(false).await;
    let agent = gate.legacy("/mcp/oracle").await;
    let server = scripted.holds("tools/call");
    server
        .send("id: 7\nretry: 10\ndata:\n\n".to_owned())
        .await
        .unwrap();
    drop(server);
    let _reading = agent
        .post(&agent.request(
            "tools/call",
            json!({ "name": "write", "_meta": { "progressToken": "p" } }),
        ))
        .await;
    let entries = gate.entries(1).await;
    assert_eq!(entries[0]["outcome"], "unknown", "{entries:?}");
    assert_eq!(scripted.executions(), 1);
}

/// protocol §3.1: what a server says in comments on its standalone stream stands on the agent's,
/// before and after the messages it came between, and not without bound; one that comes before
/// anybody reads is read first.
#[tokio::test]
async fn comments_outside_requests_arrive_in_order() {
    let (scripted, gate) = stage().await;
    let agent = gate.legacy("/mcp/oracle").await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    let log = |number: u32| json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": number } });
    let said = |text: String| async { scripted.says(text).await };
    said(format!(": early\n\n{}", event(&log(0)))).await;
    let mut standalone = agent.get(None).await;
    let mut next = async || loop {
        match standalone.next().await.expect("the stream goes on") {
            // Signs of life of our own.
            Block::Comment(comment) if comment.is_empty() => {}
            Block::Comment(comment) => return json!(comment),
            Block::Event {
                message: Some(message),
                ..
            } => return message["params"]["data"].clone(),
            Block::Event { message: None, .. } => {}
        }
    };
    assert_eq!((next().await, next().await), (json!(" early"), json!(0)));
    for (number, (comment, read)) in [
        (" {\"x\": 1}".to_owned(), " {\"x\": 1}".to_owned()),
        (" a\u{1b}[31mb\u{0}".to_owned(), " a[31mb".to_owned()),
        (
            " ".to_owned() + &"x".repeat(2_000),
            " ".to_owned() + &"x".repeat(1_023),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u32::try_from(number).unwrap() + 1;
        said(format!(":{comment}\n\n{}", event(&log(number)))).await;
        assert_eq!((next().await, next().await), (json!(read), json!(number)));
    }
}

/// protocol §1.8: a server that says on a subscription that it is alive still has things to tell.
#[tokio::test]
async fn a_subscription_outlives_signs_of_life() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().at("/mcp/oracle");
    let wanted = json!({ "notifications": { "resourcesListChanged": true } });
    let mut listening = agent
        .post(&agent.request("subscriptions/listen", wanted))
        .await;
    assert_eq!(
        listening.message().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    scripted.breathes().await;
    scripted
        .tells(json!({ "jsonrpc": "2.0", "method": "notifications/resources/list_changed" }))
        .await;
    assert_eq!(
        listening.message().await["method"],
        "notifications/resources/list_changed"
    );
}

/// A request that may wait for ever does not keep toolgate from ending with the agent that launched
/// it.
#[tokio::test]
async fn waiting_for_a_task_ends_with_the_agent() {
    let (scripted, gate) = stage().await;
    scripted.answers(|seen| match seen.method() {
        "tools/call" => Reply::Result(json!({ "task": { "taskId": "t-1", "status": "working" } })),
        _ => Reply::Silence,
    });
    let data = gate.path("launched");
    let mut agent = Launched::start(&gate.setup, &["--data", data.to_str().unwrap()], true).await;
    agent
        .ask("tools/call", json!({ "name": "read", "task": {} }))
        .await;
    let params = json!({ "taskId": "t-1" });
    agent
        .say(&json!({ "jsonrpc": "2.0", "id": 99, "method": "tasks/result", "params": params }))
        .await;
    scripted
        .sees("the question for the result", |seen| {
            seen.method() == "tasks/result"
        })
        .await;
    agent.end().await;
}

/// Two agents may use the same JSON-RPC id at the same time, also for what is forwarded.
#[tokio::test]
async fn agents_may_use_the_same_ids() {
    let (scripted, gate) = stage().await;
    let one = gate.agent().at("/mcp/oracle");
    let server = scripted.holds("resources/read");
    server.send(event(&progress(1))).await.unwrap();
    let mut first = one.request(
        "resources/read",
        json!({ "uri": "x:y", "_meta": { "progressToken": "p" } }),
    );
    first["id"] = json!(1);
    let mut reading = one.post(&first).await;
    assert_eq!(reading.message().await, progress(1));
    let id = scripted
        .sees("the first", |seen| seen.method() == "resources/read")
        .await
        .body["id"]
        .clone();
    let answer = gate.agent().at("/mcp/oracle").answered(&first).await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    server.send(event(&done(&id))).await.unwrap();
    assert_eq!(reading.message().await["id"], 1);
}

/// Unknown methods are refused in enforce mode, unless the configuration allows them; known ones
/// can be denied.
#[tokio::test]
async fn unknown_methods_are_refused_in_enforce_mode() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let mut settings = Settings::open(scripted.url(), &["read"]);
    settings.more = "methods: { allow: [x-vendor/fine], deny: [prompts/list] }\n";
    let gate = Gate::start(settings).await;
    for agent in both(&gate).await {
        for (method, passes) in [
            ("x-vendor/anything", false),
            ("x-vendor/fine", true),
            ("prompts/list", false),
            ("resources/list", true),
        ] {
            scripted.forget();
            let answer = agent.ask(method, json!({})).await;
            assert_eq!(answer["result"].is_object(), passes, "{method}: {answer}");
            assert_eq!(scripted.seen().len(), usize::from(passes), "{method}");
            assert!(passes || answer["error"]["code"] == -32601, "{answer}");
        }
    }
}
