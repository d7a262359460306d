//! The idempotency key as an argument: shown to agents where the contract says so, kept from the
//! tool server (004-15, 004-54).

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::replay::stored;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};

const KEY: &str = "idempotency_key";

const POLICY: &str = "
contracts:
  shop__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  shop__optional: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { expose: true } }
  shop__required: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { require: true } }
  shop__hidden: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { require: true, expose: false } }
  shop__unsaid: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [] }
  shop__declared: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { derive: arguments } }
  shop__own: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { require: true } }
  shop__closed: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { expose: true } }
";

/// What the tools' own schemas are; a schema that lets nothing else in must still let the key in.
fn tools() -> Vec<Value> {
    let own = json!({
        "name": "own",
        "inputSchema": { "type": "object", "properties": { KEY: { "type": "string", "maxLength": 3 }, "sku": {} } },
    });
    let closed = json!({
        "name": "closed",
        "inputSchema": { "type": "object", "properties": { "sku": {} }, "required": ["sku"], "additionalProperties": false },
    });
    let mut tools = ["optional", "required", "hidden", "unsaid", "declared"]
        .map(tool)
        .to_vec();
    tools.extend([own, closed]);
    tools
}

async fn stage() -> (ScriptedServer, Gate) {
    staged(false).await
}

async fn staged(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(tools()).await;
    scripted.answers(|seen| {
        let text = seen.body["params"]["arguments"].to_string();
        Reply::Result(
            json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }),
        )
    });
    let servers = vec![("shop", scripted.url())];
    let gate = Gate::start(Settings {
        servers,
        callers: "",
        more: "",
        policy: POLICY.to_owned(),
        observe,
    })
    .await;
    (scripted, gate)
}

async fn both(gate: &Gate) -> [(&'static str, Agent); 2] {
    [
        ("modern", gate.agent()),
        ("legacy", gate.agent().initialized().await),
    ]
}

/// The listing shows one more argument, required where a call without a key is refused; the rest is
/// as the server wrote it.
#[tokio::test]
async fn agents_are_shown_the_argument() {
    let (_scripted, gate) = stage().await;
    for (wire, agent) in both(&gate).await {
        let listed = agent.ask("tools/list", json!({})).await;
        for (name, shown, required) in [
            ("optional", true, false),
            ("required", true, true),
            ("hidden", false, false),
            ("unsaid", true, false),
            ("declared", false, false),
            ("closed", true, false),
        ] {
            let tools = listed["result"]["tools"].as_array().unwrap();
            let found = tools
                .iter()
                .find(|tool| tool["name"] == format!("shop__{name}"))
                .unwrap();
            let mut schema = found["inputSchema"].clone();
            let argument = schema["properties"]
                .as_object_mut()
                .and_then(|properties| properties.remove(KEY));
            assert_eq!(argument.is_some(), shown, "{wire}, {name}: {found}");
            let says = |argument: &Value| {
                let words = argument["description"].as_str().unwrap();
                argument["type"] == "string"
                    && words.contains("a new value runs an equal call again")
            };
            assert!(
                argument.as_ref().is_none_or(says),
                "{wire}, {name}: {found}"
            );
            let own = tools_schema(name);
            let is_required = schema["required"]
                .as_array()
                .is_some_and(|required| required.contains(&json!(KEY)));
            assert_eq!(is_required, required, "{wire}, {name}: {found}");
            assert_eq!(
                schema["additionalProperties"], own["additionalProperties"],
                "{wire}, {name}"
            );
        }
        let tools = listed["result"]["tools"].as_array().unwrap();
        let own = tools
            .iter()
            .find(|tool| tool["name"] == "shop__own")
            .unwrap();
        assert_eq!(
            own["inputSchema"],
            tools_schema("own"),
            "{wire}: what is the server's own stays"
        );
    }
}

fn tools_schema(name: &str) -> Value {
    tools()
        .into_iter()
        .find(|tool| tool["name"] == name)
        .unwrap()["inputSchema"]
        .clone()
}

/// Tool, whether the call has the key, and whether the key reaches the server.
const ACCEPTED: [(&str, bool, bool); 7] = [
    ("unsaid", true, false),
    ("optional", true, false),
    ("optional", false, false),
    ("required", true, false),
    // A model may send it all the same.
    ("hidden", true, false),
    ("own", true, true),
    ("closed", true, false),
];

/// A key among the arguments stays here, unless the argument is the tool's own.
#[tokio::test]
async fn the_argument_stays_here() {
    let (scripted, gate) = stage().await;
    for (wire, agent) in both(&gate).await {
        for (number, (name, given, reaches)) in ACCEPTED.into_iter().enumerate() {
            let what = format!("{wire}, {name}, {given}");
            let (tool, sent, mut came) = call(wire, number, name);
            let arguments = if given { sent } else { came.clone() };
            if reaches {
                came = arguments.clone();
            }
            scripted.forget();
            let answer = agent.call(&tool, arguments).await;
            assert_eq!(code(&answer), None, "{what}: {answer}");
            let body = &scripted.seen()[0].body;
            assert_eq!(body["params"]["arguments"], came, "{what}");
            assert_eq!(body.to_string().contains(KEY), reaches, "{what}: {body}");
        }
    }
}

/// A key among the arguments is what its call is known by: the same call again is answered as
/// before, another one under the key is refused, and neither runs.
#[tokio::test]
async fn the_argument_is_the_key() {
    let (scripted, gate) = stage().await;
    for (wire, agent) in both(&gate).await {
        for (number, (name, given, _)) in ACCEPTED.into_iter().enumerate() {
            let what = format!("{wire}, {name}, {given}");
            let (tool, keyed, plain) = call(wire, number, name);
            let mut arguments = if given { keyed } else { plain };
            scripted.forget();
            let answer = agent.call(&tool, arguments.clone()).await;
            let again = agent.call(&tool, arguments.clone()).await;
            let decision = &again["result"]["_meta"]["dev.toolgate/decision"];
            assert_eq!(decision["replayed"], true, "{what}: {again}");
            assert_eq!(again == stored(&again), given, "{what}: {again}");
            let content = &stored(&again)["result"]["content"];
            assert_eq!(content, &answer["result"]["content"], "{what}");
            if given {
                arguments["sku"] = json!("another");
                let conflict = agent.call(&tool, arguments).await;
                let refused = code(&conflict);
                assert_eq!(refused.as_deref(), Some("idempotency_conflict"), "{what}");
            }
            assert_eq!(scripted.executions(), 1, "{what}");
        }
    }
}

/// 004-43: the ledger says why an answer was given again, and whose it is.
#[tokio::test]
async fn the_ledger_says_why_and_whose_answer_it_is() {
    let (_scripted, gate) = stage().await;
    let agent = gate.agent();
    for (number, (name, given, because)) in [
        ("optional", true, "same_key"),
        ("required", true, "same_key"),
        ("declared", false, "declared"),
        ("optional", false, "within_window"),
    ]
    .into_iter()
    .enumerate()
    {
        let (tool, keyed, plain) = call("modern", number, name);
        let arguments = if given { keyed } else { plain };
        for _ in 0..2 {
            agent.call(&tool, arguments.clone()).await;
        }
        let entries = gate.entries(2 * number + 2).await;
        let [first, again] = &entries[2 * number..] else {
            panic!("{entries:?}");
        };
        assert_eq!(first["because"], Value::Null, "{name}: {first}");
        assert_eq!(again["because"], because, "{name}: {again}");
        assert_eq!(again["same_as"], first["action_id"], "{name}: {again}");
    }
}

/// A call without the key that its contract asks for does not run, shown or hidden.
#[tokio::test]
async fn without_its_key_a_call_does_not_run() {
    let (scripted, gate) = stage().await;
    for (wire, agent) in both(&gate).await {
        for name in ["required", "hidden", "own"] {
            let what = format!("{wire}, {name}");
            let (tool, _, plain) = call(wire, 0, name);
            let answer = agent.call(&tool, plain).await;
            let refused = code(&answer);
            assert_eq!(
                refused.as_deref(),
                Some("idempotency_key_required"),
                "{what}"
            );
            let words = answer["result"]["content"][0]["text"].as_str().unwrap();
            for said in [
                "one idempotency key of 1 to 255 characters",
                "The tool did not run.",
            ] {
                assert!(words.contains(said), "{what}: {words}");
            }
        }
    }
    assert_eq!(scripted.executions(), 0);
}

/// 004-02, 004-54: a key that a model makes up, where it is shown none, makes no second call of one whose
/// contract says which calls are one, and does not reach the server; where nothing is enforced it is the
/// server's, which may know it.
#[tokio::test]
async fn a_made_up_key_makes_no_second_call() {
    for observe in [false, true] {
        let (scripted, gate) = staged(observe).await;
        for (wire, agent) in both(&gate).await {
            scripted.forget();
            for made_up in ["a", "b"] {
                let arguments = json!({ "sku": wire, KEY: made_up });
                let answer = agent.call("shop__declared", arguments.clone()).await;
                assert_eq!(code(&answer), None, "{wire}: {answer}");
                // It is shown no argument, and told of the other place.
                let words = answer["result"]["content"][0]["text"].as_str().unwrap();
                let place = "a new value in `_meta` member `dev.toolgate/idempotencyKey`.";
                let is_told = words.contains("Nothing ran now") && words.ends_with(place);
                assert_eq!(is_told, !observe && made_up == "b", "{wire}: {words}");
                let seen = scripted.seen();
                let sent = &seen.last().unwrap().body["params"]["arguments"];
                let expected = if observe {
                    arguments
                } else {
                    json!({ "sku": wire })
                };
                assert_eq!(*sent, expected, "{wire} {observe}");
            }
            let executions = if observe { 2 } else { 1 };
            assert_eq!(scripted.executions(), executions, "{wire} {observe}");
        }
    }
}

/// A tool, and arguments for it, with a key of their own and without.
fn call(wire: &str, number: usize, name: &str) -> (String, Value, Value) {
    let plain = json!({ "sku": format!("{wire}-{number}") });
    let mut keyed = plain.clone();
    keyed[KEY] = json!(format!("{}-{number}", &wire[..1]));
    (format!("shop__{name}"), keyed, plain)
}
