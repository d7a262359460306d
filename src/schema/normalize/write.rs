//! Puts a schema together again.

use super::node::{Rest, SchemaNode};
use serde_json::{Map, Value};

/// The schema as text for a model's provider, keywords in one order.
pub(super) fn write(node: &SchemaNode) -> Value {
    let mut out = Map::new();
    for first in ["type", "description"] {
        if let Some(value) = node.facts.get(first) {
            out.insert(first.to_owned(), value.clone());
        }
    }
    if node.is_of("object") || !node.members.is_empty() {
        let shown = |member: &super::node::PropertyNode| {
            member.shown.clone().unwrap_or_else(|| member.name.clone())
        };
        let properties: Map<String, Value> = node
            .members
            .iter()
            .map(|member| (shown(member), write(&member.node)))
            .collect();
        out.insert("properties".to_owned(), properties.into());
        let required = node
            .members
            .iter()
            .filter(|member| node.is_required(&member.name))
            .map(shown);
        let required: Vec<String> = required.collect();
        if !required.is_empty() {
            out.insert("required".to_owned(), required.into());
        }
    }
    if !node.patterns.is_empty() {
        let patterns: Map<String, Value> = node
            .patterns
            .iter()
            .map(|(pattern, node)| (pattern.clone(), write(node)))
            .collect();
        out.insert("patternProperties".to_owned(), patterns.into());
    }
    match &node.rest {
        Rest::Open => {}
        Rest::Closed => drop(out.insert("additionalProperties".to_owned(), false.into())),
        Rest::Like(node) => drop(out.insert("additionalProperties".to_owned(), write(node))),
    }
    if !node.prefix.is_empty() {
        out.insert(
            "prefixItems".to_owned(),
            node.prefix.iter().map(write).collect(),
        );
    }
    if let Some(items) = &node.items {
        out.insert("items".to_owned(), write(items));
    }
    for union in &node.unions {
        out.insert("anyOf".to_owned(), union.iter().map(write).collect());
    }
    for (keyword, value) in node.facts.iter().chain(&node.asides) {
        if !out.contains_key(keyword) {
            out.insert(keyword.clone(), value.clone());
        }
    }
    out.into()
}
