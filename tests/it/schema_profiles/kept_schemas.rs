//! Fitted schemas are kept until a tool changes, for each profile of its own.

use super::{CALLERS, as_of, last, listed, order, schema, shown_as, stage};
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::ScriptedServer;
use crate::harness::setup::Settings;
use crate::harness::until;
use serde_json::json;

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
        let other = json!({ "string": 1, "integer": "c" })[kind].clone();
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
