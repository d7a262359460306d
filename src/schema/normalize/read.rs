//! Takes a schema apart: references are written out, recursion ends, both dialects become one,
//! `allOf` is put together and `oneOf` becomes `anyOf`. Nothing here takes less than the original
//! (002-18, 002-22).

use super::super::dialect::{Dialect, dialect};
use super::super::survey::Survey;
use super::loss::{Losses, Lost, SchemaPlace};
use super::merge::merge;
use super::node::{PropertyNode, Rest, SchemaNode, weight};
use super::{NAME_WORK_UNITS, NODE_WORK_UNITS};
use crate::model::work::spend;
use keywords::{
    ASIDE_GROUPS, ASIDE_KEYWORDS, DROPPED_KEYWORDS, EVALUATING_KEYWORDS, FACT_KEYWORDS,
    LOCATION_KEYWORDS, NEWER_ASIDE_KEYWORDS, SILENT_KEYWORDS, WALKED_KEYWORDS,
};
use serde_json::{Map, Value};

mod keywords;

/// Subschemas within each other, references written out: a listing has no more than twice as many
/// levels.
const MAX_NODE_DEPTH: usize = 48;
/// Names in `required` beyond which only declared ones count.
const MAX_REQUIRED_NAMES: usize = 256;
/// What stands where a recursion ends (policy §3).
const NESTED_VALUE_TEXT: &str = "(nested value, any JSON)";

/// Reads one schema.
pub(super) struct SchemaNodeReader<'a> {
    survey: &'a Survey<'a>,
    draft07: bool,
    /// How often one target may be open at once.
    recursion: usize,
    /// Subschemas that may still be made.
    left: usize,
    depth: usize,
    open: Vec<&'a Value>,
    pub(super) losses: Losses,
}

/// There are more subschemas than may be made, or deeper ones.
pub(super) struct ExpansionTooLarge;

impl<'a> SchemaNodeReader<'a> {
    pub(super) fn new(survey: &'a Survey<'a>, recursion: usize, left: usize) -> Self {
        let root = survey.nodes.first().map(|node| node.schema);
        let draft07 = root.and_then(dialect) == Some(Dialect::Draft07);
        Self {
            survey,
            draft07,
            recursion,
            left,
            depth: 0,
            open: root.into_iter().collect(),
            losses: Losses::default(),
        }
    }

    /// The whole schema; none where it takes nothing.
    pub(super) fn root(&mut self) -> Result<Option<SchemaNode>, ExpansionTooLarge> {
        match self.survey.nodes.first() {
            Some(root) => self.node(root.schema, &SchemaPlace::ROOT_PLACE, true),
            None => Ok(None),
        }
    }

    /// One subschema; none where it takes nothing. `root`: it applies to the arguments as a whole.
    fn node(
        &mut self,
        schema: &'a Value,
        at: &SchemaPlace<'_>,
        root: bool,
    ) -> Result<Option<SchemaNode>, ExpansionTooLarge> {
        self.left = self
            .left
            .checked_sub(1)
            .filter(|_| self.depth < MAX_NODE_DEPTH)
            .ok_or(ExpansionTooLarge)?;
        spend(NODE_WORK_UNITS);
        self.depth += 1;
        let read = self.meant(schema, at, root);
        self.depth -= 1;
        read
    }

    fn meant(
        &mut self,
        schema: &'a Value,
        at: &SchemaPlace<'_>,
        root: bool,
    ) -> Result<Option<SchemaNode>, ExpansionTooLarge> {
        let members = match schema {
            Value::Bool(false) => return Ok(None),
            Value::Object(members) => members,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                return Ok(Some(SchemaNode::default()));
            }
        };
        let Some(target) = self.survey.target(schema) else {
            return self.own(members, at, root);
        };
        let beside = if self.draft07 {
            Some(annotations(members))
        } else {
            self.own(members, at, root)?
        };
        let Some(beside) = beside else {
            return Ok(None);
        };
        if self
            .open
            .iter()
            .filter(|open| std::ptr::eq(**open, target))
            .count()
            >= self.recursion
        {
            self.losses.note(at, Lost::Cut);
            let mut nested = beside;
            nested.describe(NESTED_VALUE_TEXT);
            return Ok(Some(nested));
        }
        self.open.push(target);
        let meant = self.node(target, at, root);
        self.open.pop();
        Ok(meant?.map(|meant| merge(beside, meant, at, &mut self.losses)))
    }

    /// What the keywords of one subschema say, except `$ref`.
    fn own(
        &mut self,
        members: &'a Map<String, Value>,
        at: &SchemaPlace<'_>,
        root: bool,
    ) -> Result<Option<SchemaNode>, ExpansionTooLarge> {
        let mut node = SchemaNode::default();
        let mut all = Vec::new();
        for (keyword, value) in members {
            let place = at.below(keyword);
            match (keyword.as_str(), value) {
                ("properties", Value::Object(named)) => self.members(&mut node, named, &place)?,
                ("required", Value::Array(names)) => {
                    node.required = names
                        .iter()
                        .filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect();
                    if node.required.len() > MAX_REQUIRED_NAMES {
                        let declared = members.get("properties").and_then(Value::as_object);
                        node.required.retain(|name| {
                            declared.is_some_and(|declared| declared.contains_key(name))
                        });
                        self.losses.note(at, Lost::Keyword(keyword.clone()));
                    }
                    node.required.dedup();
                    spend(NAME_WORK_UNITS * node.required.len() as u64);
                }
                ("additionalProperties", value) => node.rest = self.rest(value, &place)?,
                ("patternProperties", Value::Object(named)) => {
                    for (pattern, value) in named {
                        let taken = self.node(value, &place.below(pattern), false)?;
                        match taken {
                            Some(taken) => node.patterns.push((pattern.clone(), taken)),
                            None => self.losses.note(&place, Lost::Keyword(keyword.clone())),
                        }
                    }
                }
                ("anyOf" | "oneOf", Value::Array(branches)) => {
                    let Some(union) = self.union(keyword, branches, at, root)? else {
                        return Ok(None);
                    };
                    node.unions.push(union);
                }
                ("allOf", Value::Array(parts)) => all.extend(parts),
                _ => {}
            }
        }
        self.keywords(&mut node, members, at, root)?;
        let text = weight(&node.facts) + weight(&node.asides);
        self.left = self.left.checked_sub(text).ok_or(ExpansionTooLarge)?;
        self.elements(&mut node, members, at)?;
        for part in all {
            let Some(part) = self.node(part, &at.below("allOf"), root)? else {
                return Ok(None);
            };
            node = merge(node, part, at, &mut self.losses);
        }
        if members.get("nullable") == Some(&Value::Bool(true)) {
            also_null(&mut node);
            self.losses.note(at, Lost::Merged("nullable"));
        }
        Ok(Some(node))
    }

    fn members(
        &mut self,
        node: &mut SchemaNode,
        named: &'a Map<String, Value>,
        at: &SchemaPlace<'_>,
    ) -> Result<(), ExpansionTooLarge> {
        for (name, value) in named {
            match self.node(value, &at.below(name), false)? {
                Some(taken) => {
                    let name = name.clone();
                    node.members.push(PropertyNode {
                        name,
                        shown: None,
                        null_is_absent: false,
                        node: taken,
                    });
                }
                None => self
                    .losses
                    .note(&at.below(name), Lost::Keyword("false".to_owned())),
            }
        }
        Ok(())
    }

    fn rest(&mut self, value: &'a Value, at: &SchemaPlace<'_>) -> Result<Rest, ExpansionTooLarge> {
        Ok(match self.node(value, at, false)? {
            None => Rest::Closed,
            Some(node) if node == SchemaNode::default() => Rest::Open,
            Some(node) => Rest::Like(Box::new(node)),
        })
    }

    /// The branches that can be taken; none if there is none.
    fn union(
        &mut self,
        keyword: &str,
        branches: &'a [Value],
        at: &SchemaPlace<'_>,
        root: bool,
    ) -> Result<Option<Vec<SchemaNode>>, ExpansionTooLarge> {
        let place = at.below(keyword);
        let mut taken = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            taken.extend(self.node(branch, &place.below(&index.to_string()), root)?);
        }
        if keyword == "oneOf" {
            self.losses.note(at, Lost::Merged("oneOf"));
        }
        Ok((!taken.is_empty()).then_some(taken))
    }

    fn elements(
        &mut self,
        node: &mut SchemaNode,
        members: &'a Map<String, Value>,
        at: &SchemaPlace<'_>,
    ) -> Result<(), ExpansionTooLarge> {
        let items = members.get("items");
        let (prefix, items) = match items {
            Some(Value::Array(prefix)) if self.draft07 => {
                (Some(prefix), members.get("additionalItems"))
            }
            items if self.draft07 => (None, items),
            items => (members.get("prefixItems").and_then(Value::as_array), items),
        };
        for (index, element) in prefix.into_iter().flatten().enumerate() {
            let taken = self.node(
                element,
                &at.below("prefixItems").below(&index.to_string()),
                false,
            )?;
            if taken.is_none() {
                self.losses
                    .note(at, Lost::Keyword("prefixItems".to_owned()));
            }
            node.prefix.push(taken.unwrap_or_default());
        }
        let Some(items) = items else { return Ok(()) };
        node.items = self.node(items, &at.below("items"), false)?.map(Box::new);
        if node.items.is_none() {
            let most = node
                .facts
                .get("maxItems")
                .and_then(Value::as_u64)
                .unwrap_or(u64::MAX);
            node.facts.insert(
                "maxItems".to_owned(),
                most.min(node.prefix.len() as u64).into(),
            );
        }
        Ok(())
    }

    fn keywords(
        &mut self,
        node: &mut SchemaNode,
        members: &'a Map<String, Value>,
        at: &SchemaPlace<'_>,
        root: bool,
    ) -> Result<(), ExpansionTooLarge> {
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                (known, _)
                    if WALKED_KEYWORDS.contains(&known)
                        || SILENT_KEYWORDS.contains(&known)
                        || ASIDE_KEYWORDS.contains(&known) => {}
                (known, _) if FACT_KEYWORDS.contains(&known) => {
                    drop(node.facts.insert(keyword.clone(), value.clone()));
                }
                ("unevaluatedProperties" | "unevaluatedItems", _) if self.draft07 => {}
                ("unevaluatedProperties", _)
                    if !members
                        .keys()
                        .any(|other| EVALUATING_KEYWORDS.contains(&other.as_str())) =>
                {
                    node.rest = self.rest(value, &at.below(keyword))?;
                }
                // What counts as evaluated changes with all that is written out, put together or
                // left out beside it.
                ("unevaluatedProperties" | "unevaluatedItems", Value::Bool(true)) => {}
                ("unevaluatedProperties" | "unevaluatedItems", _) => {
                    self.losses.note(at, Lost::Keyword(keyword.clone()));
                }
                ("dependencies", _) if !self.draft07 => {}
                (_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))
                    if !DROPPED_KEYWORDS.contains(&keyword.as_str())
                        && !keyword.starts_with('$') =>
                {
                    node.facts.insert(keyword.clone(), value.clone());
                }
                _ => self.losses.note(at, Lost::Keyword(keyword.clone())),
            }
        }
        for group in ASIDE_GROUPS {
            let present: Vec<_> = group
                .iter()
                .filter_map(|keyword| members.get_key_value(*keyword))
                .collect();
            let known = |keyword: &str| !self.draft07 || !NEWER_ASIDE_KEYWORDS.contains(&keyword);
            if !members.contains_key(group[0]) || !known(group[0]) {
                continue;
            }
            let as_they_are = present
                .iter()
                .filter(|(keyword, _)| known(keyword))
                .copied();
            if root && group[0] == "if" {
                self.choice(node, members, at)?;
            } else if !root && as_they_are.clone().all(|(_, value)| is_plain(value)) {
                node.asides
                    .extend(as_they_are.map(|(keyword, value)| (keyword.clone(), value.clone())));
            } else {
                self.losses.note(at, Lost::Keyword(group[0].to_owned()));
            }
        }
        Ok(())
    }

    /// `if` at the root: what `then` or `else` takes.
    fn choice(
        &mut self,
        node: &mut SchemaNode,
        members: &'a Map<String, Value>,
        at: &SchemaPlace<'_>,
    ) -> Result<(), ExpansionTooLarge> {
        let mut branches = Vec::new();
        for keyword in ["then", "else"] {
            branches.extend(match members.get(keyword) {
                Some(branch) => self.node(branch, &at.below(keyword), true)?,
                None => Some(SchemaNode::default()),
            });
        }
        self.losses.note(at, Lost::Merged("if"));
        if !branches.is_empty() {
            node.unions.push(branches);
        }
        Ok(())
    }
}

/// What a reference of draft-07 leaves of what stands beside it.
fn annotations(members: &Map<String, Value>) -> SchemaNode {
    let said = members
        .iter()
        .filter(|(keyword, _)| matches!(keyword.as_str(), "description" | "default"));
    let facts = said
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect();
    SchemaNode {
        facts,
        ..SchemaNode::default()
    }
}

/// Whether it reads the same wherever it stands and in every dialect.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().all(|(key, value)| {
            let is_tuple = key == "items" && value.is_array();
            !is_tuple && !LOCATION_KEYWORDS.contains(&key.as_str()) && is_plain(value)
        }),
        Value::Array(elements) => elements.iter().all(is_plain),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Lets it take null as well.
fn also_null(node: &mut SchemaNode) {
    let mut types = node.types();
    if !types.is_empty() && !types.contains(&"null") {
        types.push("null");
        let types: Vec<String> = types.into_iter().map(str::to_owned).collect();
        node.set_types(&types.iter().map(String::as_str).collect::<Vec<_>>());
    }
    if let Some(mut values) = node.literals() {
        values.push(Value::Null);
        node.facts.shift_remove("const");
        node.facts.insert("enum".to_owned(), values.into());
    }
    let null = || SchemaNode {
        facts: [("type".to_owned(), "null".into())].into_iter().collect(),
        ..SchemaNode::default()
    };
    for union in node
        .unions
        .iter_mut()
        .filter(|union| !union.iter().any(SchemaNode::takes_null))
    {
        union.push(null());
    }
}
