//! Gemini's `parameters`: an `OpenAPI` schema, in which a value has one type, an `enum` holds
//! texts, and null is `nullable` (policy §3, step 5). What was a number or a flag in an `enum`
//! comes back through the reverse map.

use super::NormalizeError;
use super::drop_keywords::{give_items, one_union, parts};
use super::loss::{Losses, Lost, SchemaPlace};
use super::merge::{either, merge};
use super::node::{Rest, SchemaNode, is_of, type_of};
use super::strict::UNION_COPIES_WEIGHT_MAX;
use serde_json::Value;

const NULLABLE_KEYWORD: &str = "nullable";

/// Writes one subschema, and all below it, as `OpenAPI` has it.
pub(super) fn openapi(node: &mut SchemaNode, losses: &mut Losses) -> Result<(), NormalizeError> {
    OpenApiWriter {
        left: UNION_COPIES_WEIGHT_MAX,
        losses,
    }
    .write(node, &SchemaPlace::ROOT_PLACE)
}

struct OpenApiWriter<'a> {
    left: usize,
    losses: &'a mut Losses,
}

impl OpenApiWriter<'_> {
    fn write(&mut self, node: &mut SchemaNode, at: &SchemaPlace<'_>) -> Result<(), NormalizeError> {
        one_union(node, at, self.losses);
        self.one_type(node)?;
        self.spread(node, at)?;
        give_items(node);
        let mut written = Ok(());
        parts(
            node,
            |part, at| {
                if written.is_ok() {
                    written = self.write(part, at);
                }
            },
            at,
        );
        written?;
        texts(node, at, self.losses);
        alternatives(node, at, self.losses);
        Ok(())
    }

    fn copy(&mut self, node: &SchemaNode) -> Result<SchemaNode, NormalizeError> {
        let too_large = NormalizeError::TooLarge {
            what: "subschemas, with all alternatives",
            most: UNION_COPIES_WEIGHT_MAX,
        };
        self.left = self.left.checked_sub(node.weight()).ok_or(too_large)?;
        Ok(node.clone())
    }

    /// Several types become alternatives; null becomes `nullable`.
    fn one_type(&mut self, node: &mut SchemaNode) -> Result<(), NormalizeError> {
        // Beside a union, types go into its branches.
        if !node.unions.is_empty() {
            return Ok(());
        }
        let values = node.literals();
        // A type of which no value is named takes nothing.
        let named = |kind: &str| {
            values
                .as_ref()
                .is_none_or(|values| values.iter().any(|value| is_of(value, kind)))
        };
        let mut types: Vec<String> = node.types().into_iter().map(str::to_owned).collect();
        if types.iter().any(|kind| named(kind)) {
            types.retain(|kind| named(kind));
        }
        let others: Vec<&str> = types
            .iter()
            .map(String::as_str)
            .filter(|kind| *kind != "null")
            .collect();
        if others.is_empty() && !types.is_empty() {
            node.set_types(&["null"]);
            keep_for(node, "null");
        }
        if others.len() < types.len() && !others.is_empty() {
            node.facts.insert(NULLABLE_KEYWORD.to_owned(), true.into());
        }
        match others.as_slice() {
            [] => {}
            [one] => {
                node.set_types(&[one]);
                keep_for(node, one);
            }
            several => {
                let said = node.facts.shift_remove("description");
                let mut branches = Vec::new();
                for kind in several {
                    let mut one = self.copy(node)?;
                    one.set_types(&[kind]);
                    keep_for(&mut one, kind);
                    branches.push(one);
                }
                *node = SchemaNode {
                    unions: vec![branches],
                    ..SchemaNode::default()
                };
                node.facts
                    .extend(said.map(|said| ("description".to_owned(), said)));
            }
        }
        Ok(())
    }

    /// What stands beside a union holds in each branch.
    fn spread(
        &mut self,
        node: &mut SchemaNode,
        at: &SchemaPlace<'_>,
    ) -> Result<(), NormalizeError> {
        let Some(union) = node.unions.pop() else {
            return Ok(());
        };
        let mut beside = std::mem::take(node);
        for keyword in ["description", NULLABLE_KEYWORD] {
            node.facts.extend(
                beside
                    .facts
                    .shift_remove(keyword)
                    .map(|value| (keyword.to_owned(), value)),
            );
        }
        let mut branches = Vec::new();
        for branch in union {
            branches.push(merge(branch, self.copy(&beside)?, at, self.losses));
        }
        node.unions.push(branches);
        Ok(())
    }
}

/// What says something about values of that type.
fn keep_for(node: &mut SchemaNode, kind: &str) {
    if kind != "object" {
        (node.members, node.required, node.rest) = (Vec::new(), Vec::new(), Rest::Open);
    }
    if kind != "array" {
        node.items = None;
    }
    if let Some(Value::Array(values)) = node.facts.get_mut("enum") {
        values.retain(|value| is_of(value, kind));
    }
}

/// An `enum` of texts.
fn texts(node: &mut SchemaNode, at: &SchemaPlace<'_>, losses: &mut Losses) {
    let Some(Value::Array(values)) = node.facts.get("enum").cloned() else {
        return;
    };
    if !node.unions.is_empty() {
        losses.note(at, Lost::Keyword("enum".to_owned()));
        node.facts.shift_remove("enum");
        return;
    }
    let mut texts: Vec<String> = Vec::new();
    let mut meant: Vec<(String, Value)> = Vec::new();
    let (mut sayable, is_empty) = (true, values.is_empty());
    // Where there are types, they have said it already.
    let null = node.facts.contains_key(NULLABLE_KEYWORD)
        || (values.contains(&Value::Null) && node.types().is_empty());
    if null {
        node.facts.insert(NULLABLE_KEYWORD.to_owned(), true.into());
    }
    for value in values {
        let text = match &value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => String::new(),
        };
        // Gemini refuses an empty text in an `enum`.
        sayable &= !text.is_empty();
        if texts.contains(&text) {
            losses.note(at, Lost::Ambiguous);
            if value.is_string() {
                meant.retain(|(known, _)| *known != text);
            }
            continue;
        }
        if !value.is_string() {
            meant.push((text.clone(), value));
        }
        texts.push(text);
    }
    if !sayable {
        losses.note(at, Lost::Keyword("enum".to_owned()));
        node.facts.shift_remove("enum");
        return;
    }
    if texts.is_empty() {
        node.facts.shift_remove("enum");
        // What takes nothing cannot be said.
        if is_empty || !(null || node.types() == ["null"]) {
            losses.note(at, Lost::Keyword("enum".to_owned()));
        }
        if null {
            node.facts.shift_remove(NULLABLE_KEYWORD);
            node.set_types(&["null"]);
        }
        return;
    }
    node.set_types(&["string"]);
    node.facts.shift_remove("default");
    node.facts.insert("enum".to_owned(), texts.into());
    node.values = meant;
}

/// `anyOf` stands alone, without one in another, and null is no alternative.
fn alternatives(node: &mut SchemaNode, at: &SchemaPlace<'_>, losses: &mut Losses) {
    let Some(union) = node.unions.pop() else {
        return;
    };
    let said = node.facts.shift_remove("description");
    let mut null = node.facts.contains_key(NULLABLE_KEYWORD);
    let mut branches = Vec::new();
    for mut branch in union {
        if branch.types() == ["null"] {
            null = true;
        } else if let Some(nested) = branch.unions.pop() {
            branches.extend(nested);
        } else {
            branches.push(branch);
        }
    }
    for branch in &mut branches {
        null |= branch.facts.shift_remove(NULLABLE_KEYWORD).is_some();
    }
    if branches.len() > 1 {
        for branch in &mut branches {
            unhide_below(branch, at, losses);
        }
    }
    // The texts of an `enum` would hide what a plain text means.
    unhide(&mut branches, at, losses);
    let values: Vec<_> = branches
        .iter()
        .flat_map(|branch| branch.values.clone())
        .collect();
    *node = either(branches);
    node.values = values
        .into_iter()
        .filter(|_| node.facts.contains_key("enum"))
        .collect();
    let alone = node.unions.is_empty();
    let each = if alone {
        std::slice::from_mut(node)
    } else {
        node.unions[0].as_mut_slice()
    };
    for one in each {
        if null {
            one.facts.insert(NULLABLE_KEYWORD.to_owned(), true.into());
        }
        if let (Some(said), true) = (&said, alone || !one.facts.contains_key("description")) {
            one.facts.insert("description".to_owned(), said.clone());
        }
    }
}

/// The texts that stand for numbers and flags must not hide what a text of another branch means.
fn unhide(branches: &mut [SchemaNode], at: &SchemaPlace<'_>, losses: &mut Losses) {
    if branches.iter().all(|branch| branch.values.is_empty()) {
        return;
    }
    let means_itself = |branch: &SchemaNode, text: &str| {
        branch
            .facts
            .get("enum")
            .and_then(Value::as_array)
            .is_some_and(|texts| texts.iter().any(|one| one == text))
            && branch.values.iter().all(|(known, _)| known != text)
    };
    let hidden = |text: &str| branches.iter().any(|branch| means_itself(branch, text));
    let listed = branches
        .iter()
        .all(|branch| branch.facts.contains_key("enum"));
    let clash = branches
        .iter()
        .flat_map(|branch| &branch.values)
        .any(|(text, _)| hidden(text));
    if listed && !clash {
        return;
    }
    for branch in branches
        .iter_mut()
        .filter(|branch| !branch.values.is_empty())
    {
        untext(branch, at, losses);
    }
}

/// Below one of several branches no text stands for a value: in another branch it would be itself.
fn unhide_below(branch: &mut SchemaNode, at: &SchemaPlace<'_>, losses: &mut Losses) {
    parts(
        branch,
        |part, at| {
            if !part.values.is_empty() {
                untext(part, at, losses);
            }
            unhide_below(part, at, losses);
        },
        at,
    );
}

/// The type of the values that its texts stand for, without the texts.
fn untext(node: &mut SchemaNode, at: &SchemaPlace<'_>, losses: &mut Losses) {
    losses.note(at, Lost::Keyword("enum".to_owned()));
    let all = node
        .facts
        .shift_remove("enum")
        .and_then(|texts| texts.as_array().map(Vec::len))
        .unwrap_or(0);
    let kinds: Vec<&str> = node
        .values
        .iter()
        .map(|(_, value)| type_of(value))
        .collect();
    let one = kinds
        .first()
        .copied()
        .filter(|first| all == kinds.len() && kinds.iter().all(|kind| kind == first));
    let numbers = all == kinds.len()
        && kinds
            .iter()
            .all(|kind| matches!(*kind, "integer" | "number"));
    match one.or(numbers.then_some("number")) {
        Some(kind) => node.set_types(&[kind]),
        None => drop(node.facts.shift_remove("type")),
    }
    node.values.clear();
}
