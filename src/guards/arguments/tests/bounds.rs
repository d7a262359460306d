//! Bounds that no value of the tool's type can be bound by.

use super::*;

/// Issue 15 part 5: a bound over what is of another type binds nothing.
#[test]
fn a_bound_that_cannot_bind_is_an_error() {
    let server = json!({ "properties": {
        "text": { "type": "string" }, "n": { "type": "integer" }, "any": {},
        "list": { "type": "array", "items": { "type": "number" } } } });
    let server = Schema::compile(&server).unwrap();
    for (overlay, expected) in [
        (
            json!({ "text": { "maximum": 5 } }),
            "properties.text.maximum: `maximum` bounds a number, and `text` is text: it bounds nothing",
        ),
        (
            json!({ "n": { "maxLength": 5 } }),
            "properties.n.maxLength: `maxLength` bounds text, and `n` is a number: it bounds nothing",
        ),
        (
            json!({ "list": { "items": { "pattern": "^a" } } }),
            "properties.list.items.pattern: `pattern` bounds text, and `list.*` is a number: it bounds nothing",
        ),
        (
            json!({ "n": { "type": "string" } }),
            "properties.n.type: `type` asks for another type, and `n` is a number: no call passes",
        ),
        (
            json!({ "text": { "const": 5 } }),
            "properties.text.const: `const` asks for another type, and `text` is text: no call passes",
        ),
        (
            json!({ "n": { "allOf": [{ "maxLength": 3 }] } }),
            "properties.n.allOf.0.maxLength: `maxLength` bounds text, and `n` is a number: it bounds nothing",
        ),
        (
            json!({ "n": { "not": { "anyOf": [{ "maxLength": 3 }] } } }),
            "properties.n.not.anyOf.0.maxLength: `maxLength` bounds text, and `n` is a number: it bounds nothing",
        ),
        (json!({ "text": { "enum": [5, "a"] } }), ""),
        (json!({ "n": { "format": "int32", "maximum": 100 } }), ""),
        (
            json!({ "n": { "maximum": 5, "type": "number" }, "any": { "maximum": 5 }, "text": { "maxLength": 5 } }),
            "",
        ),
    ] {
        let (rule, _) = compile(&json!({ "properties": overlay }));
        let mut problems = Problems::default();
        rule.check_against(&server, &mut problems);
        let told = found(problems).into_iter().map(|(_, path, words)| {
            format!("{path}: {}", words.split("; ").next().unwrap_or_default())
        });
        assert_eq!(told.collect::<Vec<_>>().join("; "), expected, "{overlay}");
    }
}

/// The keys under which `overlay` speaks of what a tool with the schema `server` does not have.
fn lost(overlay: &Value, server: &Value) -> Vec<String> {
    let settings: Settings = serde_json::from_value(overlay.clone()).unwrap();
    let server = Schema::compile(server).unwrap();
    let lost = settings.bounded().into_iter().filter(|mention| {
        server
            .names()
            .exclude_matching(&mention.path, &mention.patterns)
    });
    lost.map(|mention| mention.key.join(".")).collect()
}

/// What a transfer takes.
fn transfer() -> Value {
    json!({ "properties": {
        "amount": { "type": "integer" },
        "force": { "type": "boolean" },
        "to": { "type": "object", "properties": { "iban": { "type": "string" } } },
        "lines": { "type": "array", "items": { "properties": { "price": { "type": "number" } } } },
        "free": { "type": "object" } } })
}

/// Issue 15 part 5, 002-05: a bound over a name that the tool does not have binds nothing, whatever
/// keyword it stands under.
#[test]
fn a_bound_by_any_keyword_of_a_name_that_is_not_there_is_lost() {
    for (overlay, keys) in [
        (
            json!({ "not": { "required": ["forse"] } }),
            "not.required.0",
        ),
        (json!({ "required": ["amuont"] }), "required.0"),
        (
            json!({ "patternProperties": { "^amuo": { "maximum": 5 } } }),
            "patternProperties.^amuo",
        ),
        (
            json!({ "propertyNames": { "not": { "enum": ["force", "forse"] } } }),
            "propertyNames.not.enum.1",
        ),
        (
            json!({ "propertyNames": { "not": { "not": { "pattern": "^forse$" } } } }),
            "propertyNames.not.not.pattern",
        ),
        (
            json!({ "propertyNames": { "anyOf": [{ "const": "amount" }, { "const": "amuont" }] } }),
            "propertyNames.anyOf.1.const",
        ),
        (
            json!({ "dependentRequired": { "forse": ["amount", "raeson"] } }),
            "dependentRequired.forse dependentRequired.forse.1",
        ),
        (
            json!({ "dependentSchemas": { "force": { "properties": { "amuont": { "maximum": 5 } } } } }),
            "dependentSchemas.force.properties.amuont",
        ),
        (
            json!({ "if": { "properties": { "forse": { "const": true } } }, "then": { "required": ["amuont"] },
                "else": { "properties": { "to": { "properties": { "ibna": {} } } } } }),
            "if.properties.forse then.required.0 else.properties.to.properties.ibna",
        ),
        (
            json!({ "allOf": [{ "anyOf": [{ "properties": { "a": {} } }, { "oneOf": [{ "required": ["b"] }] }] }] }),
            "allOf.0.anyOf.0.properties.a allOf.0.anyOf.1.oneOf.0.required.0",
        ),
        (
            json!({ "properties": { "lines": { "contains": { "required": ["prize"] } },
                "to": { "not": { "required": ["ibna"] } } } }),
            "properties.lines.contains.required.0 properties.to.not.required.0",
        ),
        (
            json!({ "patternProperties": { "^li": { "items": { "properties": { "prize": {} } } } } }),
            "patternProperties.^li.items.properties.prize",
        ),
        (
            json!({ "not": { "$ref": "#/$defs/forced" }, "$defs": { "forced": { "required": ["forse"] } } }),
            "$defs.forced.required.0",
        ),
    ] {
        assert_eq!(lost(&overlay, &transfer()).join(" "), keys, "{overlay}");
    }
}

/// The same of names in values, behind anchors, and behind a `$ref` of names.
#[test]
fn a_bound_of_a_value_or_behind_a_reference_is_lost() {
    for (overlay, keys) in [
        (
            json!({ "not": { "const": { "forse": true } } }),
            "not.const.forse",
        ),
        (
            json!({ "enum": [{ "force": true, "to": { "ibna": 1 } }, { "lines": [{ "prize": 1 }] }] }),
            "enum.0.to.ibna enum.1.lines.0.prize",
        ),
        (
            json!({ "not": { "$ref": "#q" }, "$defs": { "x": { "$anchor": "q", "required": ["forse"] } } }),
            "$defs.x.required.0",
        ),
        (
            json!({ "propertyNames": { "$ref": "#/$defs/n" }, "$defs": { "n": { "enum": ["forse"] } } }),
            "$defs.n.enum.0",
        ),
    ] {
        assert_eq!(lost(&overlay, &transfer()).join(" "), keys, "{overlay}");
    }
}

/// What is there, or may be there, is not lost.
#[test]
fn a_bound_of_a_name_that_may_be_there_is_not_lost() {
    let open = json!({ "properties": { "a": {} }, "additionalProperties": true });
    for (overlay, server) in [
        (
            json!({ "not": { "required": ["force"] }, "dependentRequired": { "force": ["amount"] },
                "patternProperties": { "^(amount|force)$": {} }, "propertyNames": { "pattern": "^[a-z]+$" },
                "properties": { "free": { "required": ["any"] } } }),
            transfer(),
        ),
        // Of the members that may match one says nothing of its names.
        (
            json!({ "additionalProperties": { "not": { "required": ["iban"] } },
                "patternProperties": { "^(to|free)$": { "required": ["ibna"] } } }),
            transfer(),
        ),
        (
            json!({ "not": { "required": ["forse"] }, "patternProperties": { "^amuo": {} },
                "propertyNames": { "enum": ["b"] } }),
            open,
        ),
        (
            json!({ "not": { "required": ["forse"] } }),
            json!({ "type": "object" }),
        ),
        // A usual defence, by what need not be there.
        (
            json!({ "propertyNames": { "not": { "anyOf": [{ "pattern": "^[$]" }, { "pattern": "^__" }] } } }),
            transfer(),
        ),
        (
            json!({ "properties": { "to": { "$ref": "#" } }, "$defs": { "unused": { "required": ["x"] } } }),
            json!({ "properties": { "to": { "$ref": "#" } } }),
        ),
    ] {
        assert_eq!(lost(&overlay, &server), [""; 0], "{overlay}");
    }
}

/// Issue 15 part 5: conditions and alternatives are looked at as well; what is said there need not
/// hold, so that another type ends no call.
#[test]
fn a_bound_in_a_condition_that_cannot_bind_is_an_error() {
    let (rule, _) = compile(
        &json!({ "if": { "properties": { "force": { "minimum": 5 } } },
        "then": { "properties": { "amount": { "const": "all" } } } }),
    );
    let mut problems = Problems::default();
    rule.check_against(&Schema::compile(&transfer()).unwrap(), &mut problems);
    let told: Vec<String> = found(problems)
        .into_iter()
        .map(|(_, path, words)| format!("{path}: {words}"))
        .collect();
    assert_eq!(
        told,
        [
            "if.properties.force.minimum: `minimum` bounds a number, and `force` is true or false: it bounds nothing; the tool's own schema says true or false",
            "then.properties.amount.const: `const` asks for another type, and `amount` is a number: it never holds; the tool's own schema says a number",
        ]
    );
}

/// What refers elsewhere is judged where it leads, and said there.
#[test]
fn a_bound_that_cannot_bind_is_found_behind_a_reference() {
    for (reference, definition) in [
        ("#/$defs/s", json!({ "maxLength": 3 })),
        ("#s", json!({ "$anchor": "s", "maxLength": 3 })),
    ] {
        let overlay = json!({ "properties": { "amount": { "$ref": reference } }, "$defs": { "s": definition } });
        let (rule, _) = compile(&overlay);
        let mut problems = Problems::default();
        rule.check_against(&Schema::compile(&transfer()).unwrap(), &mut problems);
        let told: Vec<String> = found(problems)
            .into_iter()
            .map(|(_, path, _)| path)
            .collect();
        assert_eq!(told, ["$defs.s.maxLength"], "{reference}");
    }
}

/// An alternative for another type than the tool's does no harm: it is told, and the contract works.
#[test]
fn an_alternative_for_another_type_is_a_warning() {
    let overlay = json!({ "anyOf": [
        { "properties": { "amount": { "type": "integer", "maximum": 9 } } },
        { "properties": { "amount": { "type": "array", "maxItems": 3 } } } ] });
    let (rule, _) = compile(&overlay);
    let mut problems = Problems::default();
    rule.check_against(&Schema::compile(&transfer()).unwrap(), &mut problems);
    let told: Vec<_> = found(problems)
        .into_iter()
        .map(|(severity, path, _)| (severity, path))
        .collect();
    assert_eq!(
        told,
        [(
            Severity::Warning,
            "anyOf.1.properties.amount.type".to_owned()
        )]
    );
}

/// Below an `$id` a `$ref` would mean something else than what can be shown of it.
#[test]
fn a_schema_within_has_no_id() {
    let overlay = json!({ "$id": "https://example.com/a", "properties": { "a": { "$id": "b" } } });
    let (_, told) = compile(&overlay);
    assert_eq!(told.len(), 1, "{told:?}");
}
