//! Strict mode of `OpenAI` and Anthropic: every object is closed and every value has a type. What
//! cannot be said so is left out where it is optional, and otherwise the tool is not offered in
//! that profile.

use super::NormalizeError;
use super::drop_keywords::{give_items, one_union};
use super::loss::{Losses, Lost, SchemaPlace};
use super::merge::merge;
use super::node::{Rest, SchemaNode, type_of};
use serde_json::{Map, Value};

/// What all copies may weigh that are made where something stands beside a union.
pub(super) const UNION_COPIES_WEIGHT_MAX: usize = 20_000;

/// Why something cannot be said in strict mode.
enum Unsayable {
    /// It has no fixed shape, there.
    At(String),
    /// It grows too large.
    TooLarge,
}

/// Closes the root and all below it. `all_required`: what is optional becomes required and may be
/// null.
pub(super) fn strict(
    node: &mut SchemaNode,
    all_required: bool,
    losses: &mut Losses,
) -> Result<(), NormalizeError> {
    let mut closing = StrictWriter {
        all_required,
        left: UNION_COPIES_WEIGHT_MAX,
        losses,
    };
    closing
        .close(node, &SchemaPlace::ROOT_PLACE)
        .map_err(|unsayable| match unsayable {
            Unsayable::At(at) => NormalizeError::FreeForm { at },
            Unsayable::TooLarge => NormalizeError::TooLarge {
                what: "subschemas, with all alternatives",
                most: UNION_COPIES_WEIGHT_MAX,
            },
        })
}

struct StrictWriter<'a> {
    all_required: bool,
    left: usize,
    losses: &'a mut Losses,
}

impl StrictWriter<'_> {
    fn close(&mut self, node: &mut SchemaNode, at: &SchemaPlace<'_>) -> Result<(), Unsayable> {
        one_union(node, at, self.losses);
        if !node.unions.is_empty() {
            return self.union(node, at);
        }
        give_items(node);
        self.typed(node, at)?;
        if node.is_of("object") {
            self.object(node, at)?;
        } else {
            (node.members, node.rest) = (Vec::new(), Rest::Open);
            node.required.clear();
        }
        if !node.is_of("array") {
            node.items = None;
        }
        match &mut node.items {
            Some(items) => self.close(items, &at.below("items")),
            None => Ok(()),
        }
    }

    /// A value without a type can be anything, which cannot be said.
    fn typed(&mut self, node: &mut SchemaNode, at: &SchemaPlace<'_>) -> Result<(), Unsayable> {
        if let Some(values) = node.literals() {
            if values
                .iter()
                .any(|value| value.is_object() || value.is_array())
            {
                return Err(Unsayable::At(at.pointer()));
            }
            if node.types().is_empty() {
                let mut types: Vec<&str> = values.iter().map(type_of).collect();
                types.sort_unstable();
                types.dedup();
                node.set_types(&types);
            }
            return Ok(());
        }
        if !node.types().is_empty() {
            return Ok(());
        }
        let kind = match (node.members.is_empty(), &node.items) {
            (false, _) => "object",
            (true, Some(_)) => "array",
            (true, None) => return Err(Unsayable::At(at.pointer())),
        };
        self.losses.note(at, Lost::Narrowed);
        node.set_types(&[kind]);
        Ok(())
    }

    fn union(&mut self, node: &mut SchemaNode, at: &SchemaPlace<'_>) -> Result<(), Unsayable> {
        let branches = node.unions.pop().unwrap_or_default();
        node.unions.clear();
        let mut beside = std::mem::take(node);
        let said = beside.facts.shift_remove("description");
        let mut taken = Vec::new();
        for (index, branch) in branches.into_iter().enumerate() {
            let place = at.below("anyOf");
            let number = index.to_string();
            let place = place.below(&number);
            self.left = self
                .left
                .checked_sub(beside.weight())
                .ok_or(Unsayable::TooLarge)?;
            let mut branch = merge(branch, beside.clone(), &place, self.losses);
            match self.close(&mut branch, &place) {
                Ok(()) => taken.push(branch),
                Err(Unsayable::At(_)) => self.losses.note(&place, Lost::Narrowed),
                Err(large @ Unsayable::TooLarge) => return Err(large),
            }
        }
        if taken.is_empty() {
            return Err(Unsayable::At(at.pointer()));
        }
        node.facts = said
            .map(|said| ("description".to_owned(), said))
            .into_iter()
            .collect::<Map<String, Value>>();
        // What a branch became may be a union itself.
        let flat = |branch: SchemaNode| {
            let nested = branch.unions.first().cloned();
            nested.unwrap_or_else(|| vec![branch])
        };
        node.unions = vec![taken.into_iter().flat_map(flat).collect()];
        Ok(())
    }

    fn object(&mut self, node: &mut SchemaNode, at: &SchemaPlace<'_>) -> Result<(), Unsayable> {
        let free = match node.rest {
            Rest::Closed => false,
            Rest::Open => !at.is_root(),
            Rest::Like(_) => true,
        };
        if node.members.is_empty() && (free || !node.patterns.is_empty()) {
            return Err(Unsayable::At(at.pointer()));
        }
        if node.rest != Rest::Closed || !node.patterns.is_empty() {
            self.losses.note(at, Lost::Closed);
        }
        node.rest = Rest::Closed;
        node.patterns.clear();
        let properties = at.below("properties");
        for mut member in std::mem::take(&mut node.members) {
            let place = properties.below(&member.name);
            let required = node.required.contains(&member.name);
            match self.close(&mut member.node, &place) {
                Ok(()) => {}
                Err(large @ Unsayable::TooLarge) => return Err(large),
                Err(unsayable) if required => return Err(unsayable),
                Err(Unsayable::At(_)) => {
                    self.losses.note(&place, Lost::LeftOut);
                    continue;
                }
            }
            if self.all_required && !required {
                if member.node.takes_null() {
                    self.losses.note(&place, Lost::Ambiguous);
                } else {
                    nullable(&mut member.node);
                }
                member.null_is_absent = true;
            }
            node.members.push(member);
        }
        if self.all_required {
            // The provider asks for the list even where it is empty.
            node.facts
                .insert("required".to_owned(), Value::Array(Vec::new()));
            node.required = node
                .members
                .iter()
                .map(|member| member.name.clone())
                .collect();
        }
        Ok(())
    }
}

/// Lets it take null as well.
fn nullable(node: &mut SchemaNode) {
    let null = || SchemaNode {
        facts: [("type".to_owned(), "null".into())].into_iter().collect(),
        ..SchemaNode::default()
    };
    if let Some(union) = node.unions.first_mut() {
        union.push(null());
        return;
    }
    if node.facts.contains_key("const") || node.is_of("object") {
        let mut one = std::mem::take(node);
        let said = one.facts.shift_remove("description");
        node.facts = said
            .map(|said| ("description".to_owned(), said))
            .into_iter()
            .collect();
        node.unions = vec![vec![one, null()]];
        return;
    }
    let mut types: Vec<String> = node.types().into_iter().map(str::to_owned).collect();
    // Its type may take null where its values do not.
    if !types.is_empty() && !types.iter().any(|kind| kind == "null") {
        types.push("null".to_owned());
        node.set_types(&types.iter().map(String::as_str).collect::<Vec<_>>());
    }
    if let Some(Value::Array(values)) = node.facts.get_mut("enum") {
        values.push(Value::Null);
    }
}
