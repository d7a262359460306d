//! A tool's definition as the agent's revision has it.

use crate::mcp::json::{Object, Text};
use crate::mcp::revision::{Era, Revision};

/// Says which argument travels as a header, since 2026-07-28. Strict readers of older schemas refuse
/// keywords that they do not know.
const HEADER_KEYWORD: &str = "x-mcp-header";
/// Keywords whose members are names of an author's choice.
const NAMING_KEYWORDS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
/// What a value may be in a schema, where nothing is a keyword.
const VALUE_KEYWORDS: [&str; 4] = ["const", "enum", "default", "examples"];

/// The definition of a tool whose server speaks the other era, for an agent of this revision.
pub(crate) fn definition_for(definition: &Text, revision: Revision) -> Text {
    let Some(mut members) = definition.object() else {
        return definition.clone();
    };
    if revision.era() == Era::Modern {
        // How calls become tasks is not said by the tool any more.
        members.remove("execution");
        return members.text();
    }
    if let Some(schema) = members.get("inputSchema") {
        let plain = with_objects(without_headers(schema));
        members.set("inputSchema", plain);
    }
    let is_of_object = |schema: &Text| {
        schema
            .get("type")
            .is_some_and(|kind| kind.as_str().as_deref() == Some("object"))
    };
    let has_output = revision >= Revision::V2025_06_18;
    if !members
        .get("outputSchema")
        .is_some_and(|schema| has_output && is_of_object(schema))
    {
        members.remove("outputSchema");
    }
    if let Some(schema) = members.get("outputSchema") {
        let plain = with_objects(schema.clone());
        members.set("outputSchema", plain);
    }
    // In 2026-07-28 the name means nothing.
    if !members.get("execution").is_some_and(Text::is_object) {
        members.remove("execution");
    }
    if revision < Revision::V2025_11_25 {
        members.remove("icons");
    }
    if revision < Revision::V2025_06_18 {
        members.remove("title");
        members.remove("_meta");
    }
    members.text()
}

/// A schema whose properties say by an object what they may be: up to 2025-11-25 none is a flag.
fn with_objects(schema: Text) -> Text {
    let properties = schema.get("properties").and_then(|all| all.object());
    let Some(mut properties) = properties else {
        return schema;
    };
    let flags: Vec<_> = properties
        .iter()
        .filter(|(_, it)| !it.is_object())
        .map(|(name, flag)| (name.to_owned(), flag.is_true()))
        .collect();
    for (name, flag) in &flags {
        let nothing = || Text::members_of(&[("not", Object::new().text())]);
        let same = if *flag {
            Object::new().text()
        } else {
            nothing()
        };
        properties.set(name, same);
    }
    match schema.object().filter(|_| !flags.is_empty()) {
        Some(mut members) => {
            members.set("properties", properties.text());
            members.text()
        }
        None => schema,
    }
}

fn without_headers(schema: &Text) -> Text {
    let needle = HEADER_KEYWORD.as_bytes();
    let is_there = schema
        .as_bytes()
        .windows(needle.len())
        .any(|window| window == needle);
    if is_there {
        plain(schema)
    } else {
        schema.clone()
    }
}

fn plain(schema: &Text) -> Text {
    if let Some(elements) = schema.elements() {
        return Text::array(elements.iter().map(plain));
    }
    let Some(members) = schema.object() else {
        return schema.clone();
    };
    let mut kept = Object::new();
    for (key, value) in members.iter().filter(|(key, _)| *key != HEADER_KEYWORD) {
        kept.set(key, plain_member(key, value));
    }
    kept.text()
}

fn plain_member(key: &str, value: &Text) -> Text {
    if VALUE_KEYWORDS.contains(&key) {
        return value.clone();
    }
    match value.object().filter(|_| NAMING_KEYWORDS.contains(&key)) {
        None => plain(value),
        Some(named) => {
            let mut kept = Object::new();
            for (name, schema) in named.iter() {
                kept.set(name, plain(schema));
            }
            kept.text()
        }
    }
}
