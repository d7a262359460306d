//! What is no governed call arrives as the same JSON value, both ways and on both wires, and as
//! soon as it is said.

mod cancellation;
mod questions;
mod spelling;
mod streams;

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, UNWELCOME, event, tool};
use crate::harness::setup::Settings;
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
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__read: { purpose: test, actions: [read], secrets: [] }
  oracle__write: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [] }
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
