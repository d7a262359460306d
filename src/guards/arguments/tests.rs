//! Scenarios of arguments against both schemas.

use super::*;
use crate::model::diagnostic::Severity;
use serde_json::json;

mod bounds;

fn compile(overlay: &Value) -> (Rule, Vec<(Severity, String, String)>) {
    let mut problems = Problems::default();
    let settings: Settings = serde_json::from_value(overlay.clone()).unwrap();
    let rule = settings.compile(&mut problems);
    (rule, found(problems))
}

fn found(problems: Problems) -> Vec<(Severity, String, String)> {
    let words = |problem: crate::model::diagnostic::Problem| {
        (
            problem.severity,
            problem.path.join("."),
            format!("{}; {}", problem.message, problem.hint.unwrap_or_default()),
        )
    };
    problems.into_found().into_iter().map(words).collect()
}

#[test]
fn both_schemas_must_accept_and_the_servers_is_asked_first() {
    let server =
        Schema::compile(&json!({ "properties": { "amount": { "type": "integer" } } })).unwrap();
    let (rule, problems) = compile(&json!({ "properties": {
        "amount": { "maximum": 10 }, "day": { "format": "date" }, "Note": {}
    } }));
    assert_eq!(problems, []);
    let refused = |arguments: Value| match rule.check(&server, &arguments) {
        Ok(_) => None,
        Err(refusal) => Some((
            refusal.code().to_owned(),
            refusal.pointer().unwrap_or_default().to_owned(),
            refusal.words(),
        )),
    };
    for (arguments, pointer, words) in [
        (
            json!({ "amount": "x" }),
            "/amount",
            "expected an integer, got a string",
        ),
        (json!({ "amount": 11 }), "/amount", "expected at most 10"),
        (
            json!({ "amount": "x", "day": "x" }),
            "/amount",
            "expected an integer, got a string",
        ),
        (
            json!({ "day": "x" }),
            "/day",
            "expected text in the format `date`",
        ),
        // A3: a name of either schema in another case, though both are open.
        (
            json!({ "Amount": 1 }),
            "/Amount",
            "expected the property `amount`, spelt exactly so",
        ),
        (
            json!({ "note": 1 }),
            "/note",
            "expected the property `Note`, spelt exactly so",
        ),
    ] {
        let (code, at, said) = refused(arguments).expect(pointer);
        assert_eq!((code.as_str(), at.as_str()), ("schema_invalid", pointer));
        assert!(
            said.contains(words) && said.contains("did not run"),
            "{said}"
        );
    }
    assert_eq!(refused(json!({ "amount": 10, "day": "2026-11-21" })), None);
    assert!(
        Rule::default()
            .check(&server, &json!({ "day": "x" }))
            .is_ok()
    );
}

/// What is refused, by pointer; none: accepted. The contract names `kept` for the ledger.
fn closed(overlay: &Value, paths: &[&[&str]], server: &Value, arguments: &Value) -> Option<String> {
    let paths: Vec<Vec<String>> = paths
        .iter()
        .map(|path| path.iter().map(|&step| step.to_owned()).collect())
        .collect();
    let rule = compile(overlay).0.beside(&paths, &["kept".to_owned()]);
    let refusal = rule
        .check(&Schema::compile(server).unwrap(), arguments)
        .err()?;
    assert_eq!(refusal.code(), "schema_invalid");
    Some(refusal.pointer().unwrap_or_default().to_owned())
}

/// A schema of a server that says what some arguments are, and that others may come.
fn open_with_some() -> Value {
    json!({ "properties": { "mode": {}, "to": { "properties": { "city": {} } } }, "additionalProperties": true })
}

/// threat-model §3A A3: "validated as closed objects even if upstream's schema is open".
#[test]
fn a3_where_a_contract_names_arguments_only_named_ones_may_come() {
    let open = json!({ "type": "object" });
    let some = open_with_some();
    let path = json!({ "properties": { "path": { "enum": ["/ok"] } } });
    let composed = json!({ "allOf": [{ "$ref": "#/$defs/p" }], "$defs": { "p": { "properties": { "path": {} } } } });
    for (overlay, server, arguments, pointer) in [
        (&path, &open, json!({ "path": "/ok", "kept": 1 }), None),
        (
            &path,
            &open,
            json!({ "path": "/ok", "file": "/etc" }),
            Some("/file"),
        ),
        (&path, &open, json!({ "file": "/etc" }), Some("/file")),
        (
            &path,
            &some,
            json!({ "path": "/ok", "mode": "r", "to": { "any": 1 } }),
            None,
        ),
        (
            &path,
            &some,
            json!({ "path": "/ok", "other": 1 }),
            Some("/other"),
        ),
        (&composed, &open, json!({ "file": "/etc" }), Some("/file")),
    ] {
        let found = closed(overlay, &[], server, &arguments);
        assert_eq!(
            found.as_deref(),
            pointer,
            "{overlay} over {server}: {arguments}"
        );
    }
}

/// The same of objects within objects and lists.
#[test]
fn a3_only_named_ones_may_come_below() {
    let open = json!({ "type": "object" });
    let some = open_with_some();
    let nested = json!({ "properties": { "to": { "properties": { "id": {} } },
        "list": { "items": { "properties": { "id": {} } } } } });
    for (server, arguments, pointer) in [
        (
            &some,
            json!({ "to": { "id": 1, "city": 2 }, "list": [{ "id": 1 }] }),
            None,
        ),
        (
            &some,
            json!({ "to": { "id": 1, "ident": 2 } }),
            Some("/to/ident"),
        ),
        (
            &open,
            json!({ "list": [{ "id": 1 }, { "ident": 2 }] }),
            Some("/list/1/ident"),
        ),
    ] {
        let found = closed(&nested, &[], server, &arguments);
        assert_eq!(found.as_deref(), pointer, "{server}: {arguments}");
    }
}

/// The same of arguments that permission and rules judge, where the contract has no schema.
#[test]
fn a3_what_other_sections_judge_is_named() {
    let open = json!({ "type": "object" });
    let some = open_with_some();
    let tenant: &[&[&str]] = &[&["tenant_id"]];
    for (paths, server, arguments, pointer) in [
        (
            &[&["tenant_id"][..], &["to", "id"]][..],
            &open,
            json!({ "tenant_id": "t", "to": { "id": 1 } }),
            None,
        ),
        (
            tenant,
            &open,
            json!({ "tenant_id": "t", "tenant": "u" }),
            Some("/tenant"),
        ),
        (
            tenant,
            &open,
            json!({ "Tenant_id": "t" }),
            Some("/Tenant_id"),
        ),
        (
            &[&["to", "id"]],
            &some,
            json!({ "to": { "id": 1, "ident": 1 } }),
            Some("/to/ident"),
        ),
    ] {
        let found = closed(&json!({}), paths, server, &arguments);
        assert_eq!(
            found.as_deref(),
            pointer,
            "{paths:?} over {server}: {arguments}"
        );
    }
}

/// Nothing is named, or the contract says itself what else may come.
#[test]
fn a3_a_contract_that_names_nothing_or_all_closes_nothing() {
    let open = json!({ "type": "object" });
    let free = json!({ "properties": { "path": {} }, "additionalProperties": true });
    let by_pattern = json!({ "properties": { "a": {} }, "patternProperties": { "^x-": {} } });
    for (overlay, paths, arguments) in [
        (json!({}), &[][..], json!({ "anything": { "at": ["all"] } })),
        (json!({ "required": ["a"] }), &[], json!({ "a": 1, "b": 1 })),
        (
            free,
            &[&["tenant_id"][..]],
            json!({ "path": "/ok", "file": "/etc" }),
        ),
        (by_pattern, &[], json!({ "x-1": 1 })),
    ] {
        let found = closed(&overlay, paths, &open, &arguments);
        assert_eq!(found, None, "{overlay} {paths:?}: {arguments}");
    }
}

#[test]
fn a3_a_schema_that_leads_to_itself_is_closed_at_every_depth() {
    let tree = json!({ "properties": { "id": {}, "child": { "$ref": "#" } } });
    let mut arguments = json!({ "other": 1 });
    for _ in 0..40 {
        arguments = json!({ "id": 1, "child": arguments });
    }
    let found = closed(&tree, &[], &json!({}), &arguments).unwrap();
    assert!(found.starts_with("/child/child/"), "{found}");
}

#[test]
fn a_keyword_that_does_not_exist_is_an_error_naming_the_nearest() {
    for (overlay, path, words) in [
        (
            json!({ "additonalProperties": false }),
            "additonalProperties",
            "did you mean `additionalProperties`?",
        ),
        (
            json!({ "properties": { "a": { "maxlength": 1 } } }),
            "properties.a.maxlength",
            "did you mean `maxLength`?",
        ),
        (
            json!({ "allOf": [{ "requird": ["a"] }] }),
            "allOf.0.requird",
            "did you mean `required`?",
        ),
        (
            json!({ "items": { "max": 3 } }),
            "items.max",
            "not a keyword",
        ),
        (
            json!({ "customer_id": { "maxLength": 64 } }),
            "customer_id",
            "described under `properties`",
        ),
    ] {
        let (_, problems) = compile(&overlay);
        let [(Severity::Error, at, said)] = problems.as_slice() else {
            panic!("{problems:?}")
        };
        assert!(at == path && said.contains(words), "{at}: {said}");
    }
    let (_, problems) = compile(&json!({ "tpye": 1, "enumm": [] }));
    assert_eq!(problems.len(), 2, "all at once");
}

#[test]
fn an_overlay_that_cannot_be_compiled_is_an_error() {
    for overlay in [
        json!({ "minimum": "a" }),
        json!({ "$ref": "https://example.com/s.json" }),
        json!({ "properties": { "a": { "pattern": "(" } } }),
        json!({ "properties": { "a": { "format": "dat" } } }),
    ] {
        let (_, problems) = compile(&overlay);
        assert!(
            matches!(problems.as_slice(), [(Severity::Error, ..)]),
            "{overlay}: {problems:?}"
        );
    }
}

#[test]
fn a_property_that_the_server_only_lets_through_is_a_warning() {
    let (rule, _) = compile(
        &json!({ "properties": { "currncy": {}, "to": { "properties": { "id": {}, "nam": {} } } } }),
    );
    let warned = |server: Value| {
        let mut problems = Problems::default();
        rule.check_against(&Schema::compile(&server).unwrap(), &mut problems);
        found(problems)
            .into_iter()
            .map(|(_, path, _)| path)
            .collect::<Vec<_>>()
    };
    let to = |more: bool| json!({ "properties": { "id": {}, "name": {} }, "additionalProperties": more });
    let properties = |more: bool| json!({ "currency": {}, "to": to(more) });
    assert_eq!(
        warned(json!({ "properties": properties(true), "additionalProperties": true })),
        ["properties.currncy", "properties.to.properties.nam"]
    );
    assert_eq!(
        warned(json!({ "properties": properties(false), "additionalProperties": false })),
        [""; 0],
        "what the tool cannot have withholds it, which is told with that"
    );
    assert_eq!(
        warned(json!({ "type": "object" })),
        [""; 0],
        "an open schema declares nothing to compare with"
    );
}

/// A rule with `strip_empty_optionals`, over this schema of the contract's.
fn stripping(contract: &Value) -> Rule {
    let settings = Settings(contract.as_object().unwrap().clone());
    settings.compile(&mut Problems::default()).stripping(true)
}

fn stripped(server: &Value, contract: &Value, arguments: &Value) -> Value {
    let server = Schema::compile(server).unwrap();
    stripping(contract).strip(&server, arguments).into_owned()
}

/// 002-23, 002-25: an empty text that nobody asks for is an absent argument.
#[test]
fn an_empty_optional_is_taken_away() {
    let server = json!({ "type": "object", "properties": { "note": { "type": "string" }, "to": { "type": "string" } } });
    for (before, after) in [
        (json!({ "to": "a", "note": "" }), json!({ "to": "a" })),
        (json!({ "to": "", "note": "" }), json!({})),
        (json!({ "unknown": "" }), json!({})),
        // Only what is empty, only text, and only at the top.
        (json!({ "note": " " }), json!({ "note": " " })),
        (
            json!({ "note": null, "n": 0, "l": [], "o": {} }),
            json!({ "note": null, "n": 0, "l": [], "o": {} }),
        ),
        (
            json!({ "o": { "note": "" }, "l": [""] }),
            json!({ "o": { "note": "" }, "l": [""] }),
        ),
    ] {
        assert_eq!(stripped(&server, &json!({}), &before), after, "{before}");
    }
    let off = Settings::default().compile(&mut Problems::default());
    let (schema, arguments) = (Schema::compile(&server).unwrap(), json!({ "note": "" }));
    assert_eq!(
        *off.strip(&schema, &arguments),
        arguments,
        "only where the contract says so"
    );
}

/// 002-24, 002-25: an empty text that the server or the contract requires stays, however the schema
/// says so.
#[test]
fn an_empty_required_text_stays() {
    let open = json!({ "type": "object" });
    let required = json!({ "required": ["note"] });
    let arguments = json!({ "note": "" });
    for server in [
        json!({ "type": "object", "required": ["note"] }),
        json!({ "type": "object", "allOf": [required] }),
        json!({ "type": "object", "anyOf": [{ "required": ["other"] }, required] }),
        json!({ "type": "object", "$ref": "#/$defs/n", "$defs": { "n": required } }),
        json!({ "type": "object", "if": { "required": ["x"] }, "then": required }),
        json!({ "type": "object", "dependentRequired": { "x": ["note"] } }),
    ] {
        assert_eq!(
            stripped(&server, &json!({}), &arguments),
            arguments,
            "{server}"
        );
    }
    assert_eq!(
        stripped(&open, &required, &arguments),
        arguments,
        "the contract requires it"
    );
    // What a member below requires is nothing to the top.
    let below = json!({ "type": "object", "properties": { "o": required } });
    assert_eq!(stripped(&below, &json!({}), &arguments), json!({}));
}
