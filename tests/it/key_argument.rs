//! The idempotency key as an argument: shown to agents where the contract says so, kept from the
//! tool server (004-15, 004-54).

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};

const KEY: &str = "idempotency_key";

const POLICY: &str = "
contracts:
  shop__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: shop__optional } } }
  shop__optional: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { expose: true } }
  shop__required: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { require: true } }
  shop__hidden: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { require: true, expose: false } }
  shop__own: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { require: true } }
  shop__closed: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: shop__undo } }, secrets: [], idempotency: { expose: true } }
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
    let mut tools = ["optional", "required", "hidden"].map(tool).to_vec();
    tools.extend([own, closed]);
    tools
}

async fn stage() -> (ScriptedServer, Gate) {
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
        observe: false,
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
            assert!(
                argument.is_none_or(|argument| argument["type"] == "string"),
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

/// Tool, whether the call has the key, what the agent reads of a first call, and whether the key
/// reaches the server.
const CASES: [(&str, bool, Option<&str>, bool); 8] = [
    ("optional", true, None, false),
    ("optional", false, None, false),
    ("required", true, None, false),
    ("required", false, Some("idempotency_key_required"), false),
    // An argument of that name that nobody showed is the tool's business.
    ("hidden", true, Some("idempotency_key_required"), false),
    ("own", true, None, true),
    ("own", false, Some("idempotency_key_required"), false),
    ("closed", true, None, false),
];

/// A key among the arguments is what its call is known by; it stays here unless the argument is the
/// tool's own.
#[tokio::test]
async fn the_argument_is_the_key_and_stays_here() {
    let (scripted, gate) = stage().await;
    for (wire, agent) in both(&gate).await {
        for (number, (name, given, expected, reaches)) in CASES.into_iter().enumerate() {
            scripted.forget();
            let what = format!("{wire}, {name}, {given}");
            let mut arguments = json!({ "sku": format!("{wire}-{number}") });
            let sent = arguments.clone();
            if given {
                arguments[KEY] = json!(format!("{}-{number}", &wire[..1]));
            }
            let answer = agent
                .call(&format!("shop__{name}"), arguments.clone())
                .await;
            assert_eq!(code(&answer).as_deref(), expected, "{what}: {answer}");
            if expected.is_some() {
                let words = answer["result"]["content"][0]["text"].as_str().unwrap();
                assert!(
                    words.contains("one idempotency key of 1 to 255 characters"),
                    "{what}: {words}"
                );
                assert!(words.contains("The tool did not run."), "{what}: {words}");
                assert_eq!(scripted.executions(), 0, "{what}");
                continue;
            }
            assert_eq!(
                scripted.seen()[0].body["params"]["arguments"],
                if reaches { arguments.clone() } else { sent }
            );
            assert!(
                !given || reaches || !scripted.seen()[0].body.to_string().contains(KEY),
                "{what}"
            );
            let again = agent
                .call(&format!("shop__{name}"), arguments.clone())
                .await;
            assert_eq!(
                again["result"]["_meta"]["dev.toolgate/decision"]["replayed"], true,
                "{what}: {again}"
            );
            assert_eq!(
                again["result"]["content"], answer["result"]["content"],
                "{what}"
            );
            if given {
                arguments["sku"] = json!("another");
                let conflict = agent.call(&format!("shop__{name}"), arguments).await;
                assert_eq!(
                    code(&conflict).as_deref(),
                    Some("idempotency_conflict"),
                    "{what}: {conflict}"
                );
            }
            assert_eq!(scripted.executions(), 1, "{what}");
        }
    }
}
