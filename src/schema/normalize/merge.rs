//! What two subschemas take together, in one: never less than that, sometimes more, and then it is
//! noted.

use super::loss::{Losses, Lost, SchemaPlace};
use super::node::{PropertyNode, Rest, SchemaNode, is_of, type_of};
use crate::model::number::compare;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::HashSet;

/// Both hold. Where both describe, `first` is heard.
pub(super) fn merge(
    mut first: SchemaNode,
    second: SchemaNode,
    at: &SchemaPlace<'_>,
    losses: &mut Losses,
) -> SchemaNode {
    if second == SchemaNode::default() {
        return first;
    }
    if rest_may_clash(&first, &second) {
        losses.note(at, Lost::Merged("allOf"));
    }
    facts(&mut first.facts, second.facts, at, losses);
    for member in second.members {
        match first
            .members
            .iter_mut()
            .find(|known| known.name == member.name)
        {
            Some(known) => {
                let (name, place) = (member.name, at.below("properties"));
                known.node = merge(
                    std::mem::take(&mut known.node),
                    member.node,
                    &place.below(&name),
                    losses,
                );
            }
            None => first.members.push(member),
        }
    }
    let more: Vec<String> = second
        .required
        .into_iter()
        .filter(|name| !first.is_required(name))
        .collect();
    first.required.extend(more);
    first.rest = match (first.rest, second.rest) {
        (Rest::Closed, _) | (_, Rest::Closed) => Rest::Closed,
        (Rest::Open, rest) | (rest, Rest::Open) => rest,
        (Rest::Like(one), Rest::Like(other)) => {
            Rest::Like(Box::new(merge(*one, *other, at, losses)))
        }
    };
    for (pattern, node) in second.patterns {
        if first.patterns.iter().any(|(known, _)| *known == pattern) {
            losses.note(at, Lost::Merged("allOf"));
        } else {
            first.patterns.push((pattern, node));
        }
    }
    elements(&mut first, second.prefix, second.items, at, losses);
    first.unions.extend(second.unions);
    asides(&mut first.asides, second.asides, at, losses);
    first
}

/// What one of them names, the rest of the other may not take.
fn rest_may_clash(first: &SchemaNode, second: &SchemaNode) -> bool {
    let names = |node: &SchemaNode| {
        node.members
            .iter()
            .map(|member| member.name.clone())
            .collect::<HashSet<_>>()
    };
    let judged = |node: &SchemaNode| node.rest != Rest::Open || !node.patterns.is_empty();
    let alone = |node: &SchemaNode| node.members.is_empty() && !judged(node);
    (judged(first) || judged(second))
        && (first.rest != second.rest || names(first) != names(second))
        && !alone(first)
        && !alone(second)
}

fn elements(
    first: &mut SchemaNode,
    prefix: Vec<SchemaNode>,
    items: Option<Box<SchemaNode>>,
    at: &SchemaPlace<'_>,
    losses: &mut Losses,
) {
    if prefix.is_empty() && items.is_none() {
        return;
    }
    if first.prefix.is_empty() && first.items.is_none() {
        (first.prefix, first.items) = (prefix, items);
    } else if let (true, true, Some(one), Some(other)) = (
        first.prefix.is_empty(),
        prefix.is_empty(),
        first.items.take(),
        items,
    ) {
        first.items = Some(Box::new(merge(*one, *other, &at.below("items"), losses)));
    } else {
        losses.note(at, Lost::Merged("allOf"));
    }
}

fn facts(
    first: &mut Map<String, Value>,
    second: Map<String, Value>,
    at: &SchemaPlace<'_>,
    losses: &mut Losses,
) {
    for (keyword, value) in second {
        let Some(known) = first.get(&keyword) else {
            first.insert(keyword, value);
            continue;
        };
        if *known == value {
            continue;
        }
        let both = match keyword.as_str() {
            "description" | "default" => continue,
            "type" => types(known, &value),
            "enum" => values_in_both(known, &value),
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                one_of(known, value, Ordering::is_gt)
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                one_of(known, value, Ordering::is_lt)
            }
            "uniqueItems" => Some(Value::Bool(true)),
            _ => None,
        };
        match both {
            Some(both) => drop(first.insert(keyword, both)),
            None => losses.note(at, Lost::Merged("allOf")),
        }
    }
}

fn one_of(known: &Value, value: Value, stricter: fn(Ordering) -> bool) -> Option<Value> {
    let (Value::Number(first), Value::Number(second)) = (known, &value) else {
        return None;
    };
    Some(if stricter(compare(first, second)) {
        known.clone()
    } else {
        value
    })
}

/// The types of both; none when they have nothing in common, and nothing can be taken.
fn types(known: &Value, value: &Value) -> Option<Value> {
    let list = |value: &Value| match value {
        Value::String(one) => vec![one.clone()],
        Value::Array(several) => several
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let (known, value) = (list(known), list(value));
    let has = |list: &[String], kind: &str| list.iter().any(|one| one == kind);
    let takes =
        |list: &[String], kind: &str| has(list, kind) || (kind == "integer" && has(list, "number"));
    let both = known.iter().filter(|kind| takes(&value, kind));
    let mut both: Vec<String> = both.cloned().collect();
    both.extend(
        value
            .iter()
            .filter(|kind| takes(&known, kind) && !has(&known, kind))
            .cloned(),
    );
    match both.as_slice() {
        [] => None,
        [one] => Some(one.as_str().into()),
        _ => Some(both.into()),
    }
}

fn values_in_both(known: &Value, value: &Value) -> Option<Value> {
    let value = value.as_array()?;
    let both: Vec<Value> = known
        .as_array()?
        .iter()
        .filter(|one| value.contains(one))
        .cloned()
        .collect();
    (!both.is_empty()).then(|| both.into())
}

fn asides(
    first: &mut Map<String, Value>,
    second: Map<String, Value>,
    at: &SchemaPlace<'_>,
    losses: &mut Losses,
) {
    let clash = second.keys().any(|keyword| first.contains_key(keyword));
    if clash && *first != second {
        losses.note(at, Lost::Merged("allOf"));
    } else {
        first.extend(second);
    }
}

/// One subschema that takes what any of these takes; a union where they cannot be put together.
pub(super) fn either(mut nodes: Vec<SchemaNode>) -> SchemaNode {
    let mut different: Vec<SchemaNode> = Vec::new();
    for node in nodes.drain(..) {
        if !different.contains(&node) {
            different.push(node);
        }
    }
    if different.len() < 2 {
        return different.pop().unwrap_or_default();
    }
    if !different.iter().all(SchemaNode::is_literal) {
        return SchemaNode {
            unions: vec![different],
            ..SchemaNode::default()
        };
    }
    let (mut values, mut seen): (Vec<Value>, HashSet<Value>) = Default::default();
    for node in &different {
        let allowed = node.types();
        let fits =
            |value: &Value| allowed.is_empty() || allowed.iter().any(|kind| is_of(value, kind));
        for value in node.literals().unwrap_or_default().into_iter().filter(fits) {
            if seen.insert(value.clone()) {
                values.push(value);
            }
        }
    }
    if values.is_empty() {
        // None of them takes anything.
        return different.swap_remove(0);
    }
    let mut one = SchemaNode::default();
    let mut types: Vec<&str> = Vec::new();
    for value in &values {
        if !types.contains(&type_of(value)) {
            types.push(type_of(value));
        }
    }
    one.set_types(&types);
    if let Some(said) = different
        .iter()
        .find_map(|node| node.facts.get("description"))
    {
        one.facts.insert("description".to_owned(), said.clone());
    }
    one.facts.insert("enum".to_owned(), values.into());
    one
}

/// The same property, taken by any of these.
pub(super) fn either_member(name: &str, nodes: Vec<SchemaNode>) -> PropertyNode {
    PropertyNode {
        name: name.to_owned(),
        shown: None,
        null_is_absent: false,
        node: either(nodes),
    }
}
