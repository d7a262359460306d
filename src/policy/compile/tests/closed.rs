//! Which contracts let in arguments that nobody names.

use super::contracts::policy;
use super::*;
use crate::schema::Schema;
use serde_json::json;

fn assert_closes(section: &str, arguments: &Value, closes: bool) {
    let secrets = if section.contains("secrets") {
        ""
    } else {
        "secrets: [], "
    };
    let policy = policy(&format!(
        "  fs__a: {{ purpose: p, actions: [read], {secrets}{section} }}"
    ));
    let rules = policy
        .allowlist
        .contract_of(&ToolName::new("fs__a"))
        .unwrap();
    let open = Schema::compile(&json!({ "type": "object" })).unwrap();
    assert_eq!(
        rules.arguments.check(&open, arguments).is_err(),
        closes,
        "{section} {arguments}"
    );
}

/// threat-model §3A A3: a contract that decides by arguments, or bounds one, lets in no others but
/// those that are named.
#[test]
fn what_a_contract_decides_by_closes_its_arguments() {
    for (section, arguments, closes) in [
        ("", json!({ "other": 1 }), false),
        ("audit: [limit]", json!({ "other": 1 }), false),
        (
            "arguments: { properties: { limit: {} } }",
            json!({ "other": 1 }),
            true,
        ),
        (
            "arguments: { properties: { limit: {} }, additionalProperties: true }",
            json!({ "other": 1 }),
            false,
        ),
        (
            "permission: { tenant: /limit }",
            json!({ "other": 1 }),
            true,
        ),
        (
            "rules: [ { code: r, when: 'arguments.limit > 1' } ]",
            json!({ "other": 1 }),
            true,
        ),
        (
            "idempotency: { derive: [/limit] }",
            json!({ "other": 1 }),
            true,
        ),
        (
            "secrets: [/limit], permission: { tenant: /tenant }",
            json!({ "limit": 1 }),
            false,
        ),
    ] {
        assert_closes(section, &arguments, closes);
    }
}

/// The same of the steps that change arguments: those that compute from one, or bound it.
#[test]
fn what_a_step_decides_by_closes_its_contracts_arguments() {
    for (section, arguments, closes) in [
        (
            "rewrite: [ { name: s, set: { /limit: 1 } } ]",
            json!({ "other": 1 }),
            false,
        ),
        (
            "rewrite: [ { name: s, remove: [/limit] } ]",
            json!({ "other": 1 }),
            false,
        ),
        (
            "rewrite: [ { name: s, clamp: { /limit: { max: 9 } } } ]",
            json!({ "limit": 1 }),
            false,
        ),
        (
            "rewrite: [ { name: s, clamp: { /limit: { max: 9 } } } ]",
            json!({ "Limit": 99 }),
            true,
        ),
        (
            "rewrite: [ { name: s, clamp: { /limit: { max: 9 } } } ]",
            json!({ "other": 1 }),
            true,
        ),
        (
            "rewrite: [ { name: s, clamp: { /limit: { max: 9 } } } ], audit: [other]",
            json!({ "other": 1 }),
            false,
        ),
        (
            "rewrite: [ { name: s, compute: { /all: arguments.limit * 2 } } ]",
            json!({ "limit": 1, "all": 2 }),
            false,
        ),
        (
            "rewrite: [ { name: s, compute: { /all: arguments.limit * 2 } } ]",
            json!({ "limit": 1, "other": 2 }),
            true,
        ),
    ] {
        assert_closes(section, &arguments, closes);
    }
}
