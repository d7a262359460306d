//! What is said of a contract that loads: by itself, and beside the schema of its tool.

use super::*;
use crate::schema::Schema;
use serde_json::json;

/// 002-32, 003-97: contracts that load and probably mean something else.
#[test]
fn contracts_that_say_too_little_are_warned_of() {
    for (contract, message) in [
        (
            "actions: [read, delete], irreversible: true, owner_only: true",
            "reads and changes things under the same conditions",
        ),
        (
            "actions: [write], permission: anyone, irreversible: true, arguments: { properties: { action: { enum: [add, drop] } } }",
            "`action` says what is done, and all of it is judged alike",
        ),
        (
            "actions: [pay], permission: anyone, irreversible: true",
            "every caller who sees the tool may `pay`",
        ),
        (
            "actions: [pay], irreversible: true, permission: { roles: [payer] }",
            "",
        ),
    ] {
        let shown = said(&format!(
            "  fs__a: {{ purpose: p, secrets: [], {contract} }}"
        ));
        assert_eq!(
            shown.matches("warning:").count(),
            usize::from(!message.is_empty()),
            "{contract}: {shown}"
        );
        assert!(
            shown.contains(message) && !shown.contains("error:"),
            "{contract}: {shown}"
        );
    }
}

/// 002-05, 002-11, 002-34: what a contract decides by must be there; what it says again is told.
#[test]
fn a_contract_is_compared_with_the_schema_of_its_tool() {
    let policy = policy(
        "  fs__a:
    purpose: p
    actions: [write]
    permission: { tenant: /tenent, resource: { pointer: /file/path, allow: [x] } }
    arguments: { required: [id], properties: { id: { type: string, maxLength: 9 }, nmae: {} } }
    idempotency: { derive: [/id, /kye] }
    variants: { by: /acton, cases: { put: { actions: [write], permission: { tenant: /who } } } }
    irreversible: true
    secrets: []
    audit: [id, naem]",
    );
    let rules = policy
        .allowlist
        .contract_of(&ToolName::new("fs__a"))
        .unwrap();
    let found = |schema: Value| {
        let schema = Schema::compile(&schema).unwrap();
        let told = |problem: crate::model::diagnostic::Problem| {
            format!(
                "{:?} {}: {}",
                problem.severity,
                problem.path.join("/"),
                problem.message
            )
        };
        let told: Vec<String> = crate::policy::contract_lint::problems("fs__a", rules, &schema)
            .into_iter()
            .map(told)
            .collect();
        assert_eq!(
            rules.lacks(&schema).is_some(),
            told.iter().any(|line| line.starts_with("Error"))
        );
        told
    };
    let properties = json!({ "id": { "type": "string" }, "file": { "type": "object", "properties": { "name": {} } } });
    insta::assert_snapshot!(
        found(json!({ "type": "object", "required": ["id"], "properties": properties })).join("\n")
    );
    // A schema that says nothing of its arguments can have any.
    assert_eq!(found(json!({ "type": "object" })), [""; 0]);
}

/// 002-32, 002-33: an argument that says what is done asks for variants.
#[test]
fn a_tool_with_several_uses_asks_for_variants() {
    let policy = policy(
        "  fs__a: { purpose: p, actions: [write], permission: anyone, irreversible: true, secrets: [] }
  fs__b: { purpose: p, actions: [read], secrets: [] }",
    );
    let schema =
        json!({ "type": "object", "properties": { "action": { "enum": ["create", "delete"] } } });
    let schema = Schema::compile(&schema).unwrap();
    let told = |name: &str| {
        let rules = policy.allowlist.contract_of(&ToolName::new(name)).unwrap();
        let told = crate::policy::contract_lint::problems(name, rules, &schema).into_iter();
        told.map(|problem| problem.message).collect::<Vec<_>>()
    };
    insta::assert_snapshot!("several_uses", told("fs__a").join("\n"));
    assert_eq!(told("fs__b"), [""; 0], "what only reads is one use");
}

/// 002-05, 002-11, 001-27: a step for an argument that the tool calls otherwise would change
/// nothing, so the tool is withheld.
#[test]
fn steps_are_compared_with_the_schema_of_their_tool() {
    let schema = json!({ "type": "object", "properties": {
        "limit": { "type": "integer" }, "page": { "type": "object", "properties": { "size": {} } },
        "lines": { "type": "array", "items": { "type": "object", "properties": { "price": {} } } }, "any": {} } });
    let schema = Schema::compile(&schema).unwrap();
    for (step, lacking) in [
        ("clamp: { /limit: { max: 100 } }", None),
        (
            "clamp: { /Limit: { max: 100 } }",
            Some("rewrite/0/clamp//Limit"),
        ),
        (
            "clamp: { /page/siz: { max: 100 } }",
            Some("rewrite/0/clamp//page/siz"),
        ),
        (
            "set: { /page/size: 1, /any/thing: 1, /lines/0/price: 1 }",
            None,
        ),
        (
            "set: { /lines/0/prize: 1 }",
            Some("rewrite/0/set//lines/0/prize"),
        ),
        ("remove: [/limit, /limits]", Some("rewrite/0/remove/1")),
        (
            "default: { /dryRun: true }",
            Some("rewrite/0/default//dryRun"),
        ),
        (
            "compute: { /total: arguments.limit * 2 }",
            Some("rewrite/0/compute//total"),
        ),
    ] {
        let contract = format!(
            "  fs__a: {{ purpose: p, actions: [read], secrets: [], rewrite: [ {{ name: s, {step} }} ] }}"
        );
        let policy = policy(&contract);
        let rules = policy
            .allowlist
            .contract_of(&ToolName::new("fs__a"))
            .unwrap();
        let found = crate::policy::contract_lint::problems("fs__a", rules, &schema);
        let places: Vec<String> = found
            .iter()
            .map(|problem| problem.path[2..].join("/"))
            .collect();
        assert_eq!(
            places,
            lacking.into_iter().collect::<Vec<_>>(),
            "{step}: {found:?}"
        );
        assert_eq!(rules.lacks(&schema).is_some(), lacking.is_some(), "{step}");
        assert_eq!(
            rules.lacks(&Schema::compile(&json!({ "type": "object" })).unwrap()),
            None,
            "it can have any"
        );
    }
}
