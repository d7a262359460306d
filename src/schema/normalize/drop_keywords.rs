//! Leaves out the keywords that a profile does not take, so that what is left takes no less than
//! before, and fills in what every provider asks for: `properties` of objects, `items` of arrays
//! (002-20).

use super::super::limits::ProfileLimits;
use super::loss::{Losses, Lost, SchemaPlace};
use super::merge::either;
use super::node::{Rest, SchemaNode};
use serde_json::Value;

/// Bounds that a description can tell.
const TELLABLE_KEYWORDS: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
];
/// One told bound, in characters.
const TOLD_BOUND_CHARS_MAX: usize = 128;
/// What the copies of one `additionalProperties` may weigh that are made for names that are
/// required and not declared.
const NAMED_COPIES_WEIGHT_MAX: usize = 1_000;
/// Asides that mean something together only.
const ASIDE_GROUPS: &[&[&str]] = &[
    &["if", "then", "else"],
    &["contains", "minContains", "maxContains"],
];

/// Whether a profile takes this keyword.
pub(super) fn takes(limits: &ProfileLimits, keyword: &str) -> bool {
    let is = |other: &String| other == keyword;
    limits.keep.as_ref().is_none_or(|keep| keep.iter().any(is)) && !limits.drop.iter().any(is)
}

/// Fits one subschema and all below it.
pub(super) fn fit(
    node: &mut SchemaNode,
    limits: &ProfileLimits,
    at: &SchemaPlace<'_>,
    losses: &mut Losses,
) {
    one_union(node, at, losses);
    name_required(node, at, losses);
    constant(node, limits, at, losses);
    node.keep_typed();
    facts(node, limits, at, losses);
    asides(node, limits, at, losses);
    let mut refused = |keyword: &str| {
        let refused = !takes(limits, keyword);
        if refused {
            losses.note(at, Lost::Keyword(keyword.to_owned()));
        }
        refused
    };
    if !node.patterns.is_empty() && refused("patternProperties") {
        node.patterns.clear();
        // It would judge what the patterns named, too.
        node.rest = Rest::Open;
    }
    if node.rest != Rest::Open && refused("additionalProperties") {
        node.rest = Rest::Open;
    }
    if !node.prefix.is_empty() && refused("prefixItems") {
        let mut any = std::mem::take(&mut node.prefix);
        let closed = node
            .facts
            .get("maxItems")
            .and_then(Value::as_u64)
            .is_some_and(|most| most <= any.len() as u64);
        if !closed {
            any.push(node.items.take().map(|items| *items).unwrap_or_default());
        }
        let open = any.iter().any(|node| *node == SchemaNode::default());
        node.items = Some(Box::new(if open {
            SchemaNode::default()
        } else {
            either(any)
        }));
    }
    give_items(node);
    parts(node, |part, at| fit(part, limits, at, losses), at);
}

/// Does something to every part of `node`, each at its place.
pub(super) fn parts(
    node: &mut SchemaNode,
    mut each: impl FnMut(&mut SchemaNode, &SchemaPlace<'_>),
    at: &SchemaPlace<'_>,
) {
    let properties = at.below("properties");
    for member in &mut node.members {
        each(&mut member.node, &properties.below(&member.name));
    }
    if let Rest::Like(rest) = &mut node.rest {
        each(rest, &at.below("additionalProperties"));
    }
    for (pattern, part) in &mut node.patterns {
        each(part, &at.below("patternProperties").below(pattern));
    }
    for (index, part) in node.prefix.iter_mut().enumerate() {
        each(part, &at.below("prefixItems").below(&index.to_string()));
    }
    if let Some(items) = &mut node.items {
        each(items, &at.below("items"));
    }
    for (index, part) in node.unions.iter_mut().flatten().enumerate() {
        each(part, &at.below("anyOf").below(&index.to_string()));
    }
}

/// Every array says what its elements are.
pub(super) fn give_items(node: &mut SchemaNode) {
    if node.is_of("array") && node.items.is_none() {
        node.items = Some(Box::default());
    }
}

/// Of several unions one can be said; one with a single branch is none.
pub(super) fn one_union(node: &mut SchemaNode, at: &SchemaPlace<'_>, losses: &mut Losses) {
    let (single, several): (Vec<_>, Vec<_>) = std::mem::take(&mut node.unions)
        .into_iter()
        .partition(|union| union.len() == 1);
    node.unions = several;
    for branch in single.into_iter().flatten() {
        *node = super::merge::merge(std::mem::take(node), branch, at, losses);
    }
    if node.unions.len() > 1 {
        losses.note(at, Lost::Merged("allOf"));
        node.unions.truncate(1);
    }
}

/// `const` as the `enum` that it is, where only that is taken.
fn constant(
    node: &mut SchemaNode,
    limits: &ProfileLimits,
    at: &SchemaPlace<'_>,
    losses: &mut Losses,
) {
    if takes(limits, "const") || !takes(limits, "enum") {
        return;
    }
    if let Some(one) = node.facts.shift_remove("const") {
        let both = node
            .facts
            .get("enum")
            .and_then(Value::as_array)
            .is_none_or(|values| values.contains(&one));
        if !both {
            losses.note(at, Lost::Keyword("enum".to_owned()));
        }
        node.facts.insert("enum".to_owned(), vec![one].into());
    }
}

fn facts(node: &mut SchemaNode, limits: &ProfileLimits, at: &SchemaPlace<'_>, losses: &mut Losses) {
    let mut told = Vec::new();
    let format = |value: &Value| {
        limits
            .formats
            .as_ref()
            .is_none_or(|known| known.iter().any(|one| value == one))
    };
    let names: Vec<String> = node.facts.keys().cloned().collect();
    for keyword in names {
        if takes(limits, &keyword)
            && (keyword != "format" || node.facts.get("format").is_none_or(format))
        {
            continue;
        }
        if let Some(value) = node.facts.shift_remove(&keyword) {
            losses.note(at, Lost::Keyword(keyword.clone()));
            if limits.describe && TELLABLE_KEYWORDS.contains(&keyword.as_str()) {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                told.push(format!(
                    "{keyword} {}",
                    super::super::explain::cut(&value, TOLD_BOUND_CHARS_MAX)
                ));
            }
        }
    }
    if !told.is_empty() {
        node.describe(&format!("({})", told.join(", ")));
    }
}

fn asides(
    node: &mut SchemaNode,
    limits: &ProfileLimits,
    at: &SchemaPlace<'_>,
    losses: &mut Losses,
) {
    let stays = |keyword: &str| {
        let group = ASIDE_GROUPS.iter().find(|group| group.contains(&keyword));
        let mut others = group.map_or(&[][..], |group| *group).iter();
        takes(limits, keyword)
            && others.all(|other| takes(limits, other) || !node.asides.contains_key(*other))
    };
    let gone: Vec<String> = node
        .asides
        .keys()
        .filter(|keyword| !stays(keyword))
        .cloned()
        .collect();
    for keyword in gone {
        node.asides.shift_remove(&keyword);
        losses.note(at, Lost::Keyword(keyword));
    }
}

/// What is required has to be named: under its name anything may come.
fn name_required(node: &mut SchemaNode, at: &SchemaPlace<'_>, losses: &mut Losses) {
    if node.rest == Rest::Closed {
        let names: Vec<String> = node
            .members
            .iter()
            .map(|member| member.name.clone())
            .collect();
        let before = node.required.len();
        node.required.retain(|name| names.contains(name));
        if node.required.len() < before {
            losses.note(at, Lost::Keyword("required".to_owned()));
        }
    }
    let missing: Vec<String> = node
        .required
        .iter()
        .filter(|name| node.member(name).is_none())
        .cloned()
        .collect();
    // Named, it is no longer among the rest, so what the rest must be is said of it.
    let rest = match &node.rest {
        Rest::Like(rest) if !missing.is_empty() => {
            let sayable = node.patterns.is_empty()
                && rest.weight().saturating_mul(missing.len()) <= NAMED_COPIES_WEIGHT_MAX;
            if !sayable {
                losses.note(at, Lost::Keyword("additionalProperties".to_owned()));
            }
            sayable.then(|| (**rest).clone())
        }
        Rest::Like(_) | Rest::Open | Rest::Closed => None,
    };
    let rest: Vec<SchemaNode> = rest.into_iter().collect();
    let missing = missing
        .iter()
        .map(|name| super::merge::either_member(name, rest.clone()));
    node.members.extend(missing);
}
