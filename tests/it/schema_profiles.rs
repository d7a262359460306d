//! Listings fitted to the caller's model, and calls that come back from them: judged by the
//! original, sent under the tool's own names (policy §3, §8; guarantees §2, step 3).

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, Seen, tool};
use crate::harness::setup::Settings;
use crate::harness::stdio::Launched;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use std::fmt::Write as _;

const CALLERS: &str = "
  - { agent: plain, token: token-of-plain-agent }
  - { agent: gpt, token: token-of-gpt-agent, model: openai/gpt-5 }
  - { agent: twin, token: token-of-twin-agent, model: openai/gpt-5 }
  - { agent: strict, token: token-of-strict-agent, model: openai/gpt-5, schemas: { profile: openai-strict } }
  - { agent: claude, token: token-of-claude-agent, model: anthropic/claude-opus-5 }
  - { agent: gemini, token: token-of-gemini-agent, model: google/gemini-3 }
  - { agent: local, token: token-of-local-agent, model: local/llama }
  - { agent: few, token: token-of-few-agent, schemas: { max_tools: 2 } }
  - { agent: windsurf, token: token-of-windsurf-agent, schemas: { client: windsurf } }
";

fn order() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "customer.id": { "$ref": "#/$defs/id" },
            "priority": { "enum": [1, 2] },
            "note": { "type": "string" }
        },
        "required": ["customer.id"],
        "additionalProperties": false,
        "anyOf": [{ "required": ["note"] }, { "required": ["priority"] }],
        "$defs": { "id": { "type": "string", "title": "Id" } }
    })
}

fn free() -> Value {
    json!({ "type": "object", "properties": { "value": {} }, "required": ["value"] })
}

async fn stage() -> (ToolServer, Gate) {
    let server = Script::new()
        .tool_with("order", &order(), Behaviour::Answers)
        .tool_with("free", &free(), Behaviour::Answers)
        .tool("with.dots", Behaviour::Answers)
        .start()
        .await;
    let settings = Settings {
        callers: CALLERS,
        ..Settings::open(server.url(), &["order", "free", "with.dots"])
    };
    (server, Gate::start(settings).await)
}

fn as_of(gate: &Gate, name: &str) -> Agent {
    gate.agent().token(&format!("token-of-{name}-agent"))
}

async fn listed(agent: &Agent) -> Vec<Value> {
    agent.ask("tools/list", json!({})).await["result"]["tools"]
        .as_array()
        .unwrap()
        .clone()
}

async fn schema(agent: &Agent, name: &str) -> Value {
    let tools = listed(agent).await;
    tools
        .iter()
        .find(|tool| tool["name"] == name)
        .unwrap_or_else(|| panic!("{tools:?}"))["inputSchema"]
        .clone()
}

fn last(scripted: &ScriptedServer) -> Seen {
    scripted
        .seen()
        .into_iter()
        .rfind(|seen| seen.method() == "tools/call")
        .unwrap()
}

/// The one property whose name begins so.
fn shown_as<'a>(schema: &'a Value, start: &str) -> &'a str {
    schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .find(|name| name.starts_with(start))
        .unwrap()
}

/// 001-19, 002-17, 002-21: the caller's model decides what it is shown, on both wires; without a
/// model nothing is changed.
#[tokio::test]
async fn each_model_is_shown_what_it_takes() {
    let (_server, gate) = stage().await;
    for name in ["plain", "gpt", "strict", "claude", "gemini", "local"] {
        let modern = as_of(&gate, name);
        let legacy = modern.clone().initialized().await;
        let schema = schema(&modern, "oracle__order").await;
        assert_eq!(
            schema,
            self::schema(&legacy, "oracle__order").await,
            "{name}"
        );
        assert_eq!(
            schema,
            self::schema(&modern.clone().at("/mcp/oracle"), "order").await,
            "{name}"
        );
        if name == "plain" {
            assert_eq!(schema, order());
            continue;
        }
        let text = schema.to_string();
        assert!(
            !text.contains("$ref") && !text.contains("$schema") && !text.contains("\"title\""),
            "{name}: {text}"
        );
        assert!(
            schema.get("anyOf").is_none() && schema["type"] == "object",
            "{name}: {text}"
        );
        let all = schema["required"].as_array().unwrap().len();
        assert_eq!(all, if name == "strict" { 3 } else { 1 }, "{name}: {text}");
        assert_eq!(
            schema["properties"].get("customer.id").is_some(),
            !["gemini", "local"].contains(&name),
            "{text}"
        );
        let texts = schema["properties"]["priority"]["enum"] == json!(["1", "2"]);
        assert_eq!(texts, name == "gemini", "{text}");
    }
}

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

/// policy §8: a tool's name is shown as the profile takes it, and means the same tool; its own name
/// goes on meaning it.
#[tokio::test]
async fn names_of_tools_come_back() {
    let (server, gate) = stage().await;
    for (name, path, start) in [
        ("gpt", "/mcp", "oracle__with_dots_"),
        ("gpt", "/mcp/oracle", "with_dots_"),
        ("windsurf", "/mcp", "oracle__with_dots_"),
        ("gemini", "/mcp", "oracle__with.dots"),
        ("plain", "/mcp", "oracle__with.dots"),
    ] {
        let agent = as_of(&gate, name).at(path);
        let shown = agent
            .tools()
            .await
            .into_iter()
            .find(|shown| shown.contains("dots"))
            .unwrap();
        assert!(shown.starts_with(start), "{name}: {shown}");
        let own = if path == "/mcp" {
            "oracle__with.dots"
        } else {
            "with.dots"
        };
        for called in [shown.as_str(), own] {
            let answer = agent.call(called, json!({})).await;
            assert_eq!(code(&answer), None, "{name}, {called}: {answer}");
            assert_eq!(server.executions().pop().unwrap().tool, "with.dots");
        }
        let answer = agent.call(&format!("{start}00000000"), json!({})).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("tool_not_allowlisted"),
            "{name}: {answer}"
        );
    }
    let entries = gate.entries(10).await;
    assert!(entries.iter().all(|entry| {
        entry["tool"]
            .as_str()
            .unwrap()
            .starts_with("oracle__with.dots")
            || entry["tool"].as_str().unwrap().ends_with("00000000")
    }));
}

/// 001-20, 001-21: what a profile cannot show is hidden from its callers only; log, metric, doctor,
/// operators and ledger say why.
#[tokio::test]
async fn what_a_profile_cannot_show_is_hidden_with_a_reason() {
    let (server, gate) = stage().await;
    let why = "strict mode cannot say the value at `/properties/value`";
    for (name, shown) in [("plain", true), ("gpt", true), ("strict", false)] {
        let agent = as_of(&gate, name);
        assert_eq!(
            agent.tools().await.contains(&"oracle__free".to_owned()),
            shown,
            "{name}"
        );
        let answer = agent.call("oracle__free", json!({ "value": [1] })).await;
        let refused = (!shown).then(|| "tool_not_allowlisted".to_owned());
        assert_eq!(code(&answer), refused, "{name}: {answer}");
    }
    assert_eq!(server.executions().len(), 2);
    let series =
        "toolgate_quarantined_tools{reason=\"profile_free_form\",profile=\"openai-strict\"}";
    until("the metric", || async {
        (gate.metric(series).await > 0.5).then_some(())
    })
    .await;
    until("the log", || async {
        gate.log().contains(why).then_some(())
    })
    .await;
    assert_eq!(gate.log().matches(why).count(), 1, "{}", gate.log());
    let entry = gate.entries(3).await.pop().unwrap();
    assert!(
        entry["decided_by"].as_str().unwrap().contains(why),
        "{entry}"
    );
    let setup = gate.stop().await;
    let (code, said, _) = run(&setup, &["doctor", "--config", "toolgate.yaml"]).await;
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains(&format!(
            "`oracle__free` is not shown in profile openai-strict: {why}"
        )),
        "{said}"
    );
}

/// policy §8: a program that takes only so many tools is shown so many, and the others are counted.
#[tokio::test]
async fn programs_are_shown_as_many_tools_as_they_take() {
    let (_server, gate) = stage().await;
    assert_eq!(
        as_of(&gate, "few").tools().await,
        ["oracle__order", "oracle__free"]
    );
    assert_eq!(as_of(&gate, "plain").tools().await.len(), 3);
    let series = "toolgate_quarantined_tools{reason=\"profile_tools\",profile=\"none\"}";
    until("the metric", || async {
        (gate.metric(series).await > 0.5).then_some(())
    })
    .await;
}

/// policy §8: a program is shown names as long as it takes, whatever its model takes; they mean the
/// same tools.
#[tokio::test]
async fn programs_are_shown_names_as_long_as_they_take() {
    let long = "does_".repeat(18);
    let callers = "
  - { agent: short, token: token-of-short-agent, schemas: { max_name_len: 48 } }
  - { agent: cursor, token: token-of-cursor-agent, schemas: { client: cursor } }
  - { agent: both, token: token-of-both-agent, model: openai/gpt-5, schemas: { client: claude-code } }
  - { agent: plain, token: token-of-plain-agent }
";
    let scripted = ScriptedServer::with(vec![tool(&long), tool("fine")]).await;
    let gate = Gate::start(Settings {
        callers,
        ..Settings::open(scripted.url(), &[long.leak(), "fine"])
    })
    .await;
    for (name, longest) in [("short", 48), ("cursor", 51), ("both", 64), ("plain", 98)] {
        let agent = as_of(&gate, name);
        let shown = agent.tools().await;
        assert_eq!(shown[1], "oracle__fine", "{name}");
        assert_eq!(shown[0].len(), longest, "{name}: {shown:?}");
        assert_eq!(
            code(&agent.call(&shown[0], json!({})).await),
            None,
            "{name}"
        );
        assert!(
            last(&scripted).body["params"]["name"]
                .as_str()
                .unwrap()
                .starts_with("does_does_"),
            "{name}"
        );
    }
    assert_eq!(scripted.executions(), 4);
}

/// policy §3, step 8: a tool whose fitted name is another's own is hidden with its reason; the name
/// means its owner.
#[tokio::test]
async fn a_fitted_name_is_nobody_elses() {
    let alone = ScriptedServer::with(vec![tool("with.dots")]).await;
    let gate = Gate::start(Settings {
        callers: CALLERS,
        ..Settings::open(alone.url(), &["with.dots"])
    })
    .await;
    let fitted = as_of(&gate, "gpt").tools().await.remove(0);
    let other: &'static str = fitted.strip_prefix("oracle__").unwrap().to_owned().leak();
    let scripted = ScriptedServer::with(vec![tool("with.dots"), tool(other)]).await;
    let gate = Gate::start(Settings {
        callers: CALLERS,
        ..Settings::open(scripted.url(), &["with.dots", other])
    })
    .await;
    assert_eq!(
        as_of(&gate, "plain").tools().await,
        ["oracle__with.dots", fitted.as_str()]
    );
    let agent = as_of(&gate, "gpt");
    assert_eq!(agent.tools().await, [fitted.as_str()]);
    assert_eq!(code(&agent.call(&fitted, json!({})).await), None);
    assert_eq!(last(&scripted).body["params"]["name"], other);
    let series = "toolgate_quarantined_tools{reason=\"profile_names\",profile=\"openai\"}";
    until("the metric", || async {
        (gate.metric(series).await > 0.5).then_some(())
    })
    .await;
    until("the log", || async {
        gate.log()
            .contains("two names would be shown as one")
            .then_some(())
    })
    .await;
}

/// 002-14: a schema is fitted once for each profile, and anew when its tool has changed (002-02).
#[tokio::test]
async fn fitted_schemas_are_kept_until_the_tool_changes() {
    let scripted =
        ScriptedServer::with(vec![json!({ "name": "order", "inputSchema": order() })]).await;
    let settings = Settings {
        callers: CALLERS,
        ..Settings::open(scripted.url(), &["order"])
    };
    let gate = Gate::start(settings).await;
    let agent = as_of(&gate, "gpt");
    let first = schema(&agent, "oracle__order").await;
    let made = || gate.metric("toolgate_normalized_schemas_total{outcome=\"made\"}");
    // One for each profile of the callers, and no more, however often it is asked.
    until("every profile was tried", || async {
        (made().await > 4.5).then_some(())
    })
    .await;
    let before = made().await;
    for _ in 0..3 {
        assert_eq!(
            code(
                &agent
                    .call("oracle__order", json!({ "customer.id": "c", "note": "n" }))
                    .await
            ),
            None
        );
    }
    assert!((made().await - before).abs() < 0.5);
    assert!(
        gate.metric("toolgate_normalized_schemas_total{outcome=\"known\"}")
            .await
            > 2.5
    );
    let mut changed = order();
    changed["properties"]["customer.id"] = json!({ "type": "integer" });
    scripted
        .changes_tools(vec![json!({ "name": "order", "inputSchema": changed })])
        .await;
    until("the new schema", || async {
        (schema(&agent, "oracle__order").await != first).then_some(())
    })
    .await;
    assert!(made().await > before + 0.5);
    let answer = agent
        .call("oracle__order", json!({ "customer.id": "c", "note": "n" }))
        .await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("schema_invalid"),
        "arguments of the old schema: {answer}"
    );
}

/// 002-14: callers of all profiles at once do not take turns in having their schemas made.
#[tokio::test]
async fn callers_of_all_profiles_take_nothing_from_each_other() {
    let profiles = [
        "portable",
        "openai",
        "openai-strict",
        "anthropic",
        "anthropic-strict",
        "gemini",
        "gemini-json",
        "xai",
        "mistral",
        "bedrock",
    ];
    let caller = |profile: &&str| {
        format!(
            "  - {{ agent: {profile}, token: token-of-{profile}-agent, schemas: {{ profile: {profile} }} }}\n"
        )
    };
    let callers: String = profiles.iter().map(caller).collect();
    let scripted =
        ScriptedServer::with(vec![json!({ "name": "order", "inputSchema": order() })]).await;
    let settings = Settings {
        callers: callers.leak(),
        ..Settings::open(scripted.url(), &["order"])
    };
    let gate = Gate::start(settings).await;
    for _ in 0..3 {
        for profile in profiles {
            let agent = as_of(&gate, profile);
            let id = shown_as(&schema(&agent, "oracle__order").await, "customer").to_owned();
            let answer = agent
                .call("oracle__order", json!({ id: "c", "note": "n" }))
                .await;
            assert_eq!(code(&answer), None, "{profile}: {answer}");
        }
    }
    let made = gate
        .metric("toolgate_normalized_schemas_total{outcome=\"made\"}")
        .await;
    // Two that ask for one at the same time may both make it.
    assert!((9.5..20.5).contains(&made), "{made} were made");
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

/// 002-36: what a tool is, how it is shown and how its calls come back are one value: they change
/// together, so that a call is never read by the map of another definition than the one it is
/// judged and sent by.
#[tokio::test]
async fn a_tool_changes_with_its_map_or_not_at_all() {
    let defined = |name: &str, kind: &str| {
        let properties = json!({ name: { "type": kind }, "note": { "type": "string" } });
        let schema = json!({ "type": "object", "properties": properties, "required": [name], "additionalProperties": false });
        vec![json!({ "name": "order", "inputSchema": schema })]
    };
    let scripted = ScriptedServer::with(defined("customer.id", "string")).await;
    let settings = Settings {
        callers: CALLERS,
        ..Settings::open(scripted.url(), &["order"])
    };
    let gate = Gate::start(settings).await;
    let agent = as_of(&gate, "gemini");
    let mut known = vec![];
    for (name, kind, value) in [
        ("customer.id", "string", json!("c")),
        ("client.id", "string", json!("c")),
        ("client.id", "integer", json!(1)),
        ("customer.id", "integer", json!(1)),
        ("customer.id", "string", json!("c")),
    ] {
        scripted.changes_tools(defined(name, kind)).await;
        let start = name.replace('.', "_");
        let shown = until("the tool is shown as it is now", || async {
            let schema = schema(&agent, "oracle__order").await;
            let mut properties = schema["properties"].as_object().unwrap().iter();
            let (shown, property) = properties.find(|(shown, _)| shown.starts_with(&start))?;
            (property["type"] == kind).then(|| shown.clone())
        })
        .await;
        let answer = agent
            .call("oracle__order", json!({ shown.clone(): value.clone() }))
            .await;
        assert_eq!(code(&answer), None, "{name} {kind}: {answer}");
        assert_eq!(
            last(&scripted).body["params"]["arguments"],
            json!({ name: value.clone() })
        );
        let runs = scripted.executions();
        known.push(shown.clone());
        for other in known.iter().filter(|other| **other != shown) {
            let answer = agent
                .call("oracle__order", json!({ other.clone(): value.clone() }))
                .await;
            assert_eq!(
                code(&answer).as_deref(),
                Some("schema_invalid"),
                "{other} now: {answer}"
            );
        }
        let other = if kind == "string" {
            json!(1)
        } else {
            json!("c")
        };
        let answer = agent.call("oracle__order", json!({ shown: other })).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("schema_invalid"),
            "{name} is {kind} now: {answer}"
        );
        assert_eq!(scripted.executions(), runs);
    }
}

/// 002-14, policy §3: a listing is made once for a class of callers and what they read; one of them
/// that lists again costs no look at a schema, kept or not.
#[tokio::test]
async fn a_second_listing_fits_nothing() {
    let (_server, gate) = stage().await;
    let first = listed(&as_of(&gate, "gpt")).await;
    let looks = async || {
        let of = async |outcome: &str| {
            gate.metric(&format!(
                "toolgate_normalized_schemas_total{{outcome=\"{outcome}\"}}"
            ))
            .await
        };
        of("made").await + of("known").await
    };
    let before = looks().await;
    for _ in 0..20 {
        for name in ["gpt", "twin"] {
            assert_eq!(listed(&as_of(&gate, name)).await, first, "{name}");
        }
    }
    // The task that counts hidden tools may look at each for each caller meanwhile; 40 listings
    // would look 120 times.
    let looked = looks().await - before;
    assert!(looked < 60.0, "{looked} looks at schemas");
}

/// 004-54, 002-01: the key that toolgate shows is fitted like the rest, and its null is no key.
#[tokio::test]
async fn the_key_is_fitted_too() {
    let policy = "
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: oracle__buy } } }
  oracle__buy: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [], idempotency: { expose: true } }
  oracle__must: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [], idempotency: { require: true } }
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

/// 001-21: `explain` says how the tool is shown and what its schema no longer says, and reads the
/// arguments back.
#[tokio::test]
async fn explain_shows_the_losses() {
    let (_server, gate) = stage().await;
    let setup = gate.stop().await;
    std::fs::write(setup.directory().join("order.json"), order().to_string()).unwrap();
    std::fs::write(setup.directory().join("free.json"), free().to_string()).unwrap();
    let explain = async |agent: &str, tool: &str, schema: &str, arguments: &str| {
        let args = [
            "explain",
            "--config",
            "toolgate.yaml",
            "--agent",
            agent,
            "--tool",
            tool,
            "--input-schema",
            schema,
            "--arguments",
            arguments,
        ];
        let (code, said, wrong) = run(&setup, &args).await;
        assert!(wrong.is_empty(), "{wrong}");
        format!(
            "exit code {code}\n{}",
            said.lines().skip(1).collect::<Vec<_>>().join("\n")
        )
    };
    let call = r#"{ "customer.id": "c", "priority": "2", "note": null }"#;
    let mut said = String::new();
    for (agent, tool, schema, arguments) in [
        ("gemini", "oracle__order", "order.json", call),
        (
            "strict",
            "oracle__order",
            "order.json",
            r#"{ "customer.id": "c", "priority": 2, "note": null }"#,
        ),
        ("strict", "oracle__free", "free.json", r#"{ "value": 1 }"#),
        ("gpt", "oracle__with.dots", "free.json", r#"{ "value": 1 }"#),
    ] {
        write!(
            said,
            "{agent} {tool}\n{}\n\n",
            explain(agent, tool, schema, arguments).await
        )
        .unwrap();
    }
    insta::assert_snapshot!(said);
}

/// 002-37: an agent that comes over standard input is shown the same.
#[tokio::test]
async fn both_doors_show_the_same() {
    let (_server, gate) = stage().await;
    let over_http = listed(&as_of(&gate, "gpt").at("/mcp/oracle")).await;
    let setup = gate.stop().await;
    let args = ["--server", "oracle", "--agent", "gpt"];
    let mut over_stdio = Launched::start(&setup, &args, false).await;
    let listed = over_stdio.ask("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"], json!(over_http));
    over_stdio.end().await;
}

/// policy §8: a model without its provider is shown what all providers take, and `check` warns of
/// it where it stands.
#[tokio::test]
async fn a_model_without_its_provider_is_warned_of() {
    for (model, warned) in [
        ("gpt-5", true),
        ("openai/", true),
        ("/gpt-5", true),
        ("openai/gpt-5", false),
    ] {
        let caller = format!("  - {{ agent: a, token: token-of-the-first-one, model: {model} }}");
        let setup = crate::harness::setup::Setup::new().callers(&caller);
        setup.write();
        let (code, said, _) = run(&setup, &["check", "toolgate.yaml"]).await;
        assert_eq!(code, 0, "{said}");
        let words = format!("warning: `{model}` is no provider and its model");
        assert_eq!(said.contains(&words), warned, "{said}");
        assert_eq!(said.contains("write `provider/model`"), warned, "{said}");
    }
}

/// design §2: what is wrong with `schemas` is said where it stands.
#[tokio::test]
async fn unknown_programs_and_profiles_are_diagnostics() {
    for (schemas, expected) in [
        (
            "{ client: emacs }",
            &["unknown client `emacs`", "known here: claude-code, cursor"][..],
        ),
        (
            "{ profile: gpt }",
            &["expected one of `none`, `portable`, `openai`"],
        ),
        (
            "{ max_tools: 0, max_name_len: 10 }",
            &["lists nothing", "is too short"],
        ),
        ("{ max: 1 }", &["unknown key `max`"]),
    ] {
        let caller =
            format!("  - {{ agent: a, token: token-of-the-first-one, schemas: {schemas} }}");
        let setup = crate::harness::setup::Setup::new().callers(&caller);
        setup.write();
        let (code, said, _) = run(&setup, &["check", "toolgate.yaml"]).await;
        assert_eq!(code, 1, "{said}");
        for words in expected {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
