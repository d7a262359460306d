//! Listings fitted to the caller's model, and calls that come back from them: judged by the
//! original, sent under the tool's own names (policy §3, §8; guarantees §2, step 3).

mod fitted_names;
mod given_back;
mod kept_schemas;

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, Seen};
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
        let setup = crate::harness::setup::Setup::new()
            .mode("observe")
            .callers(&caller);
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
        let setup = crate::harness::setup::Setup::new()
            .mode("observe")
            .callers(&caller);
        setup.write();
        let (code, said, _) = run(&setup, &["check", "toolgate.yaml"]).await;
        assert_eq!(code, 1, "{said}");
        for words in expected {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
