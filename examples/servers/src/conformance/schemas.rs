//! Input schemas that a proxy must hand on unharmed.

use serde_json::{Value, json};

/// Arguments that are repeated in `Mcp-Param-*` headers, one of them nested.
pub(super) fn mirrored() -> Value {
    json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "priority": { "type": "integer", "x-mcp-header": "Priority" },
            "urgent": { "type": "boolean", "x-mcp-header": "Urgent" },
            "placement": {
                "type": "object",
                "properties": { "zone": { "type": "string", "x-mcp-header": "Zone" } },
            },
            "note": { "type": "string" },
        },
        "required": ["region"],
    })
}

/// The wider vocabulary of JSON Schema 2020-12, as the suite's scenario prescribes it.
pub(super) fn wide() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// A default for every primitive type.
pub(super) fn defaults() -> Value {
    json!({
        "name": { "type": "string", "description": "A name", "default": "John Doe" },
        "age": { "type": "integer", "description": "An age", "default": 30 },
        "score": { "type": "number", "description": "A score", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "description": "Whether it was verified", "default": true },
    })
}

/// The five ways to offer a choice.
pub(super) fn choices() -> Value {
    let titled = |ordinal: &str| {
        json!([
            { "const": "value1", "title": format!("First {ordinal}") },
            { "const": "value2", "title": format!("Second {ordinal}") },
            { "const": "value3", "title": format!("Third {ordinal}") },
        ])
    };
    let plain = ["option1", "option2", "option3"];
    json!({
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    })
}
