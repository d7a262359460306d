//! Makes the root an object with properties: every provider refuses a union there, and the tool
//! would be gone without a word (001-20). What the base says stays (policy §3).

use super::NormalizeError;
use super::loss::{Losses, Lost, SchemaPlace};
use super::merge::{either_member, merge};
use super::node::{PropertyNode, Rest, SchemaNode, type_of};
use serde_json::Value;

/// Values of a root `enum` that are looked at.
const MAX_ROOT_ENUM_VALUES: usize = 64;

/// The root as an object: its properties are those of the base and of all variants, required is
/// what the base requires and what all variants do, as far as it is declared.
pub(super) fn object(node: SchemaNode, losses: &mut Losses) -> Result<SchemaNode, NormalizeError> {
    let mut node = flat(node, losses)?;
    let (names, before) = (
        node.members
            .iter()
            .map(|member| &member.name)
            .collect::<Vec<_>>(),
        node.required.len(),
    );
    node.required.retain(|name| names.contains(&name));
    if node.required.len() < before {
        losses.note(
            &SchemaPlace::ROOT_PLACE,
            Lost::Keyword("required".to_owned()),
        );
    }
    Ok(node)
}

/// The base with its variants in it, or a variant with its own.
fn flat(mut node: SchemaNode, losses: &mut Losses) -> Result<SchemaNode, NormalizeError> {
    if !takes_objects(&node) {
        return Err(NormalizeError::NotAnObject);
    }
    node.set_types(&["object"]);
    if let Some(values) = node.literals() {
        node.facts.shift_remove("const");
        node.facts.shift_remove("enum");
        losses.note(&SchemaPlace::ROOT_PLACE, Lost::Merged("enum"));
        let objects = values
            .iter()
            .filter(|value| value.is_object())
            .take(MAX_ROOT_ENUM_VALUES);
        node.unions.push(objects.map(of_value).collect());
    }
    for variants in std::mem::take(&mut node.unions) {
        losses.note(&SchemaPlace::ROOT_PLACE, Lost::Merged("anyOf"));
        let objects: Vec<SchemaNode> = variants
            .into_iter()
            .filter_map(|variant| flat(variant, losses).ok())
            .collect();
        if objects.is_empty() {
            return Err(NormalizeError::NotAnObject);
        }
        absorb(&mut node, &objects, losses);
    }
    node.prefix.clear();
    node.items = None;
    Ok(node)
}

fn takes_objects(node: &SchemaNode) -> bool {
    let types = node.types();
    types.is_empty() || types.contains(&"object")
}

/// An object of just this value.
fn of_value(value: &Value) -> SchemaNode {
    let members = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| {
            let facts = [
                ("type".to_owned(), type_of(value).into()),
                ("const".to_owned(), value.clone()),
            ];
            let node = SchemaNode {
                facts: facts.into_iter().collect(),
                ..SchemaNode::default()
            };
            PropertyNode {
                name: name.clone(),
                shown: None,
                null_is_absent: false,
                node,
            }
        });
    let members: Vec<PropertyNode> = members.collect();
    let required = members.iter().map(|member| member.name.clone()).collect();
    SchemaNode {
        members,
        required,
        rest: Rest::Closed,
        ..SchemaNode::default()
    }
}

fn absorb(base: &mut SchemaNode, variants: &[SchemaNode], losses: &mut Losses) {
    let mut names: Vec<&String> = Vec::new();
    for member in variants.iter().flat_map(|variant| &variant.members) {
        if !names.contains(&&member.name) {
            names.push(&member.name);
        }
    }
    for name in names {
        let place = SchemaPlace::ROOT_PLACE.below("properties");
        let place = place.below(name);
        let variants_of: Vec<SchemaNode> = variants
            .iter()
            .filter_map(|variant| variant.member(name))
            .map(|member| member.node.clone())
            .collect();
        let (in_all, mut both) = (
            variants_of.len() == variants.len(),
            either_member(name, variants_of),
        );
        match base.members.iter_mut().find(|member| member.name == *name) {
            Some(known) if in_all => {
                known.node = merge(std::mem::take(&mut known.node), both.node, &place, losses);
            }
            Some(_) => {}
            None => {
                // A variant that does not name it takes any value there.
                let says_nothing =
                    |variant: &SchemaNode| variant.member(name).is_none() && !is_closed(variant);
                if base.rest != Rest::Closed && variants.iter().any(says_nothing) {
                    losses.note(&place, Lost::Narrowed);
                }
                both.shown = None;
                base.members.push(both);
            }
        }
    }
    let mut required = variants
        .first()
        .map(|variant| variant.required.clone())
        .unwrap_or_default();
    required.retain(|name| variants.iter().all(|variant| variant.is_required(name)));
    required.retain(|name| !base.is_required(name));
    base.required.extend(required);
    if base.rest == Rest::Open && base.patterns.is_empty() && variants.iter().all(is_closed) {
        base.rest = Rest::Closed;
    }
}

fn is_closed(node: &SchemaNode) -> bool {
    node.rest == Rest::Closed && node.patterns.is_empty()
}
