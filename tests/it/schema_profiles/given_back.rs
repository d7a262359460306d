//! Arguments that come back from a fitted schema.

use super::{CALLERS, as_of, last, order, schema, shown_as, stage};
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};

/// 001-22, 002-01, guarantees §2: a call comes back through the names, texts and nulls of its
/// profile, is judged by the original and sent so; the ledger has the arguments that were sent.
#[tokio::test]
async fn calls_come_back_before_anything_judges_them() {
    let (server, gate) = stage().await;
    let gemini = as_of(&gate, "gemini");
    let id = shown_as(&schema(&gemini, "oracle__order").await, "customer_id_").to_owned();
    let sent = json!({ "customer.id": "c", "priority": 2 });
    for (name, arguments) in [
        ("plain", sent.clone()),
        ("gemini", json!({ id.clone(): "c", "priority": "2" })),
        (
            "strict",
            json!({ "customer.id": "c", "priority": 2, "note": null }),
        ),
        ("claude", sent.clone()),
    ] {
        let modern = as_of(&gate, name);
        for agent in [modern.clone(), modern.initialized().await] {
            let answer = agent.call("oracle__order", arguments.clone()).await;
            assert_eq!(code(&answer), None, "{name}: {answer}");
            let execution = server.executions().pop().unwrap();
            assert_eq!(execution.arguments, sent, "{name}");
            let entry = gate.entries(server.executions().len()).await.pop().unwrap();
            assert_eq!(entry["params_hash"], execution.digest(), "{name}");
        }
    }
    let runs = server.executions().len();
    for (name, arguments) in [
        (
            "gemini",
            json!({ id.clone(): "c", "customer.id": "d", "priority": "1" }),
        ),
        ("gemini", json!({ id.clone(): "c", "priority": "3" })),
        ("gemini", json!({ id: "c" })),
        (
            "strict",
            json!({ "customer.id": null, "priority": null, "note": "n" }),
        ),
        ("plain", json!({ "customer.id": "c", "priority": "2" })),
    ] {
        let answer = as_of(&gate, name)
            .call("oracle__order", arguments.clone())
            .await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("schema_invalid"),
            "{name}, {arguments}: {answer}"
        );
    }
    assert_eq!(
        server.executions().len(),
        runs,
        "nothing that does not come back is sent"
    );
}

/// policy §3, step 9: the null of a model that has nothing to say is an object without members,
/// sent and recorded so; what is required is missed by its name. Without a profile it is what it
/// is: no object.
#[tokio::test]
async fn null_is_no_arguments() {
    let scripted = ScriptedServer::with(vec![
        tool("ping"),
        json!({ "name": "order", "inputSchema": order() }),
    ])
    .await;
    let gate = Gate::start(Settings {
        callers: CALLERS,
        ..Settings::open(scripted.url(), &["ping", "order"])
    })
    .await;
    for (at, name) in ["gpt", "strict", "gemini", "claude"]
        .into_iter()
        .enumerate()
    {
        let modern = as_of(&gate, name);
        let agent = if at % 2 == 0 {
            modern
        } else {
            modern.initialized().await
        };
        let answer = agent.call("oracle__ping", Value::Null).await;
        assert_eq!(code(&answer), None, "{name}: {answer}");
        assert_eq!(
            last(&scripted).body["params"]["arguments"],
            json!({}),
            "{name}"
        );
        let answer = agent.call("oracle__order", Value::Null).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("schema_invalid"),
            "{name}: {answer}"
        );
        assert!(
            answer.to_string().contains("customer.id"),
            "{name}: {answer}"
        );
    }
    assert_eq!(scripted.executions(), 4);
    let answer = as_of(&gate, "plain")
        .call("oracle__ping", Value::Null)
        .await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(scripted.executions(), 4);
}

/// 004-54, 002-01: the key that toolgate shows is fitted like the rest, and its null is no key.
#[tokio::test]
async fn the_key_is_fitted_too() {
    let policy = "
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__buy: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [], idempotency: { expose: true } }
  oracle__must: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [], idempotency: { require: true } }
";
    let scripted = ScriptedServer::with(vec![tool("buy"), tool("must")]).await;
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: policy.to_owned(),
        observe: false,
    };
    let gate = Gate::start(settings).await;
    let agent = as_of(&gate, "strict");
    let buy = schema(&agent, "oracle__buy").await;
    assert_eq!(buy["required"], json!(["idempotency_key"]));
    assert_eq!(
        buy["properties"]["idempotency_key"]["type"],
        json!(["string", "null"])
    );
    let must = schema(&agent, "oracle__must").await;
    assert_eq!(must["properties"]["idempotency_key"]["type"], "string");
    let answer = agent
        .call("oracle__buy", json!({ "idempotency_key": null }))
        .await;
    assert_eq!(code(&answer), None, "{answer}");
    assert_eq!(
        last(&scripted).body["params"]["arguments"],
        json!({}),
        "the server sees no key"
    );
    let answer = agent
        .call("oracle__buy", json!({ "idempotency_key": "k" }))
        .await;
    assert_eq!(code(&answer), None, "{answer}");
    let again = agent
        .call("oracle__buy", json!({ "idempotency_key": "k" }))
        .await;
    assert_eq!(
        again["result"]["_meta"]["dev.toolgate/decision"]["replayed"], true,
        "{again}"
    );
    let answer = agent
        .call("oracle__must", json!({ "idempotency_key": null }))
        .await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("idempotency_key_required"),
        "{answer}"
    );
}

/// protocol §1.2: an argument that travels as a header is mirrored under the name it is shown by,
/// and sent by its own; a model that is not told of the header need not send it.
#[tokio::test]
async fn arguments_in_headers_come_back() {
    let mut regional = tool("regional");
    regional["inputSchema"] = json!({
        "type": "object",
        "properties": { "data.region": { "type": "string", "x-mcp-header": "Region" } }
    });
    let scripted = ScriptedServer::with(vec![regional]).await;
    let settings = Settings {
        callers: CALLERS,
        ..Settings::open(scripted.url(), &["regional"])
    };
    let gate = Gate::start(settings).await;
    for (name, mirrored) in [("plain", true), ("local", true), ("gemini", false)] {
        let agent = as_of(&gate, name);
        let schema = schema(&agent, "oracle__regional").await;
        let shown = shown_as(&schema, "data").to_owned();
        assert_eq!(
            schema["properties"][&shown].get("x-mcp-header").is_some(),
            mirrored,
            "{schema}"
        );
        let agent = if mirrored {
            agent.header("mcp-param-region", "eu")
        } else {
            agent
        };
        scripted.forget();
        let answer = agent.call("oracle__regional", json!({ shown: "eu" })).await;
        assert_eq!(code(&answer), None, "{name}: {answer}");
        let seen = last(&scripted);
        assert_eq!(seen.header("mcp-param-region"), Some("eu"), "{name}");
        assert_eq!(
            seen.body["params"]["arguments"],
            json!({ "data.region": "eu" }),
            "{name}"
        );
    }
}
