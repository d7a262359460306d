//! Scenarios of schemas and what they accept; how long that may take is in `bounds`.

use super::*;
use serde_json::json;

mod bounds;
mod conditions;

fn fault(schema: &Value, arguments: &Value) -> (String, String) {
    let violation = Schema::compile(schema)
        .unwrap()
        .accepts(arguments)
        .expect_err("refused");
    (violation.pointer, violation.expected)
}

fn invoice() -> Value {
    json!({
        "type": "object",
        "required": ["customer"],
        "properties": {
            "customer": { "type": "object", "properties": { "id": { "type": "string", "minLength": 1, "maxLength": 4 } },
                          "required": ["id"], "additionalProperties": false },
            "amount": { "type": "integer", "minimum": 1, "maximum": 10 },
            "currency": { "enum": ["CNY", "USD"] },
            "tags": { "type": "array", "items": { "type": "string", "pattern": "^[a-z]+$" }, "maxItems": 2 },
            "note": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            "kind": { "const": "draft" },
            "a/b": { "$ref": "#/$defs/flag" }
        },
        "additionalProperties": false,
        "$defs": { "flag": { "type": "boolean" } }
    })
}

fn with(name: &str, value: &Value) -> Value {
    json!({ "customer": { "id": "c" }, name: value })
}

fn assert_fault(arguments: &Value, pointer: &str, expected: &str) {
    assert_eq!(
        fault(&invoice(), arguments),
        (pointer.to_owned(), expected.to_owned()),
        "{arguments}"
    );
}

/// 002-15: where, and what would be right.
#[test]
fn a_violation_names_the_place_and_what_was_expected() {
    for (arguments, pointer, expected) in [
        (json!({}), "", "the property `customer` to be present"),
        (
            json!({ "customer": {} }),
            "/customer",
            "the property `id` to be present",
        ),
        (
            json!({ "customer": { "id": "secret" } }),
            "/customer/id",
            "at most 4 characters",
        ),
        (
            json!({ "customer": { "id": "" } }),
            "/customer/id",
            "at least 1 character",
        ),
        (
            json!({ "customer": { "id": "c", "x": 1 } }),
            "/customer",
            "no property named `x`",
        ),
        (with("amount", &json!(0)), "/amount", "at least 1"),
        (with("amount", &json!(11)), "/amount", "at most 10"),
        (
            with("currency", &json!("EUR")),
            "/currency",
            "one of \"CNY\", \"USD\"",
        ),
        (
            with("tags", &json!(["a", "B"])),
            "/tags/1",
            "text that matches the pattern `^[a-z]+$`",
        ),
        (
            with("tags", &json!(["a", "b", "c"])),
            "/tags",
            "at most 2 items",
        ),
        (
            with("kind", &json!("final")),
            "/kind",
            "the value \"draft\"",
        ),
        (
            with("unknown", &json!(1)),
            "",
            "no property named `unknown`",
        ),
        (
            with("e\u{7}\u{202e}", &json!(1)),
            "",
            "no property named `e\u{fffd}\u{fffd}`",
        ),
    ] {
        assert_fault(&arguments, pointer, expected);
    }
    let fine =
        json!({ "customer": { "id": "四字成语" }, "amount": 2.0, "note": null, "a/b": true });
    assert_eq!(Schema::compile(&invoice()).unwrap().accepts(&fine), Ok(()));
}

/// 002-15: and of which type the value is, where it is of another.
#[test]
fn a_violation_names_the_type_that_was_given() {
    for (arguments, pointer, expected) in [
        (json!([]), "", "an object, got an array"),
        (
            with("amount", &json!("7")),
            "/amount",
            "an integer, got a string",
        ),
        (
            with("amount", &json!(1.5)),
            "/amount",
            "an integer, got a number",
        ),
        (
            with("note", &json!(1)),
            "/note",
            "a string, or null, got a number",
        ),
        (
            with("a/b", &json!("yes")),
            "/a~1b",
            "true or false, got a string",
        ),
    ] {
        assert_fault(&arguments, pointer, expected);
    }
}

#[test]
fn no_value_of_the_call_is_in_a_violation() {
    let schemas = [
        json!({ "properties": { "a": { "type": "integer" } } }),
        json!({ "properties": { "a": { "enum": ["x"] } } }),
        json!({ "properties": { "a": { "not": { "type": "string" } } } }),
        json!({ "properties": { "a": { "pattern": "^x$", "maxLength": 3 } } }),
        json!({ "oneOf": [{ "required": ["a"] }, { "required": ["a"] }] }),
        json!({ "maxProperties": 0 }),
        json!({ "propertyNames": { "maxLength": 0 } }),
    ];
    for schema in schemas {
        let (pointer, expected) = fault(&schema, &json!({ "a": "hunter2-SECRET" }));
        assert!(
            !format!("{pointer}{expected}").contains("hunter2"),
            "{schema}: {expected}"
        );
    }
}

#[test]
fn both_dialects_are_judged_by_their_own_rules() {
    let arguments = json!({ "a": 2 });
    let beside = |schema: &str| {
        json!({ "$schema": schema, "properties": { "a": { "$ref": "#/$defs/n", "maximum": 1 } },
                                        "$defs": { "n": { "type": "integer" } } })
    };
    // Draft-07 ignores what stands beside `$ref`.
    for (schema, accepted) in [
        ("https://json-schema.org/draft/2020-12/schema", false),
        ("http://json-schema.org/draft-07/schema#", true),
        ("https://json-schema.org/draft-07/schema", true),
    ] {
        let compiled = Schema::compile(&beside(schema)).unwrap();
        assert_eq!(compiled.accepts(&arguments).is_ok(), accepted, "{schema}");
    }
}

#[test]
fn a_declared_name_in_another_case_is_refused() {
    let schema = json!({ "properties": {
        "path": { "type": "string" },
        "to": { "properties": { "Id": {} } },
        "all": { "items": { "$ref": "#/$defs/one" } }
    }, "allOf": [{ "properties": { "straße": {} } }], "$defs": { "one": { "properties": { "key": {} } } } });
    let compiled = Schema::compile(&schema).unwrap();
    for (arguments, pointer, name) in [
        (json!({ "Path": "/etc" }), "/Path", "path"),
        (json!({ "to": { "id": 1 } }), "/to/id", "Id"),
        (json!({ "all": [{}, { "KEY": 1 }] }), "/all/1/KEY", "key"),
        // The sign for kelvin, and a long s, fold to letters.
        (
            json!({ "all": [{ "\u{212a}ey": 1 }] }),
            "/all/0/\u{212a}ey",
            "key",
        ),
        (json!({ "STRASSE": 1 }), "/STRASSE", "straße"),
    ] {
        let violation = compiled.accepts(&arguments).expect_err(pointer);
        assert_eq!(
            (violation.pointer.as_str(), violation.expected),
            (pointer, format!("the property `{name}`, spelt exactly so"))
        );
    }
    for arguments in [
        json!({ "path": "x", "other": 1, "to": { "Id": 1 } }),
        json!({ "Key": 1 }),
    ] {
        assert_eq!(compiled.accepts(&arguments), Ok(()), "{arguments}");
    }
}

#[test]
fn a_reference_out_of_the_schema_asks_nobody() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/s.json", listener.local_addr().unwrap());
    for schema in [
        json!({ "$ref": url }),
        json!({ "$schema": url }),
        json!({ "$id": url, "$ref": "other.json" }),
        json!({ "$defs": { "unused": { "$ref": url } } }),
        json!({ "x-unknown": { "$ref": url }, "$ref": "#/x-unknown" }),
    ] {
        assert!(Schema::compile(&schema).is_err(), "{schema}");
    }
    // Data, and keywords that don't exist, are not followed either.
    for schema in [
        json!({ "enum": [{ "$ref": url }] }),
        json!({ "x-unknown": { "$ref": url } }),
    ] {
        drop(Schema::compile(&schema));
    }
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
}

#[test]
fn a_contract_asserts_formats_and_a_server_does_not() {
    let schema = json!({ "properties": { "day": { "type": "string", "format": "date" } } });
    let arguments = json!({ "day": "tomorrow" });
    assert_eq!(
        Schema::compile(&schema).unwrap().accepts(&arguments),
        Ok(())
    );
    let refused = Schema::compile_contract(&schema)
        .unwrap()
        .accepts(&arguments)
        .unwrap_err();
    assert_eq!(
        (refused.pointer.as_str(), refused.expected.as_str()),
        ("/day", "text in the format `date`")
    );
    assert!(Schema::compile_contract(&json!({ "format": "dat" })).is_err());
}

#[test]
fn a_hash_does_not_depend_on_the_order_of_keys() {
    let hash = schema_hash(&json!({ "b": 1, "a": 2 }));
    // SHA-256 of {"a":2,"b":1}, computed outside.
    assert_eq!(
        hash,
        "d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772"
    );
    assert_eq!(hash, schema_hash(&json!({ "a": 2, "b": 1 })));
}

#[test]
fn one_schema_serves_many_threads() {
    let schema = std::sync::Arc::new(
        Schema::compile(&json!({ "properties": { "a": { "pattern": "(?=x)x" } } })).unwrap(),
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    assert!(
                        schema.accepts(&json!({ "a": "x" })).is_ok()
                            && schema.accepts(&json!({ "a": "y" })).is_err()
                    );
                }
            });
        }
    });
}
