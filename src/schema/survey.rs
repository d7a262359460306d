//! Walks a schema once and lays its subschemas out as a graph, so that bounds and names are read
//! off without following a reference twice. Values under `enum`, `const`, `default` and `examples`
//! are data: nothing in them is a keyword.

use super::dialect::dialect;
use super::quarantine::Quarantine;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Subschemas in all (threat-model §4).
pub(super) const MAX_SUBSCHEMAS: usize = 2_000;
/// `pattern` and `patternProperties` in all (threat-model §4).
const MAX_PATTERNS: usize = 64;
/// One pattern, in bytes (threat-model §4).
const PATTERN_BYTES_MAX: usize = 512;
/// Members of one `enum` (threat-model §4).
const MAX_ENUM_MEMBERS: usize = 1_000;
/// Members of one `enum` that are objects or arrays, which are compared one by one (60 000 values:
/// 6 µs each).
const MAX_NESTED_ENUM_MEMBERS: usize = 100;
/// Members of one `oneOf` or `anyOf` (threat-model §4).
const MAX_ALTERNATIVES: usize = 64;
/// `$dynamicRef` in all: the preserving test of the conformance suite uses one.
const MAX_DYNAMIC_REFERENCES: usize = 8;

/// How a subschema applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applicator<'a> {
    /// To the same value.
    Same,
    /// To the member of this name.
    Property(&'a str),
    /// To members or elements.
    Inside,
    /// To something else: names of members, decoded content.
    Aside,
    /// Only where a reference leads to it.
    Kept,
}

/// One subschema.
#[derive(Debug)]
pub(super) struct SurveyNode<'a> {
    pub(super) schema: &'a Value,
    pub(super) steps: Vec<(Applicator<'a>, usize)>,
    /// The node of the nearest `$id`, against which `#…` is read.
    resource: usize,
}

/// The whole schema. Node 0 is its root.
#[derive(Debug, Default)]
pub(super) struct Survey<'a> {
    pub(super) nodes: Vec<SurveyNode<'a>>,
    pub(super) patterns: Vec<&'a str>,
    pub(super) key_patterns: Vec<&'a str>,
    /// Nodes by address, so that a reference into the schema finds the node it means.
    by_address: HashMap<*const Value, usize>,
    anchors: HashMap<(usize, &'a str), usize>,
    references: Vec<(usize, &'a str)>,
    /// Where each `$ref` leads; not where what stands for a place that only a validator knows
    /// does.
    targets: HashMap<usize, usize>,
    dynamic: usize,
}

/// Where the subschemas of a keyword stand.
enum KeywordShape {
    One,
    List,
    OneOrList,
    Named,
}

fn shape(keyword: &str) -> Option<(KeywordShape, Applicator<'static>)> {
    Some(match keyword {
        "not" | "if" | "then" | "else" => (KeywordShape::One, Applicator::Same),
        "allOf" | "anyOf" | "oneOf" => (KeywordShape::List, Applicator::Same),
        "dependentSchemas" | "dependencies" => (KeywordShape::Named, Applicator::Same),
        "contains"
        | "additionalItems"
        | "unevaluatedItems"
        | "additionalProperties"
        | "unevaluatedProperties" => (KeywordShape::One, Applicator::Inside),
        "items" => (KeywordShape::OneOrList, Applicator::Inside),
        "prefixItems" => (KeywordShape::List, Applicator::Inside),
        "patternProperties" => (KeywordShape::Named, Applicator::Inside),
        "properties" => (KeywordShape::Named, Applicator::Property("")),
        "propertyNames" | "contentSchema" => (KeywordShape::One, Applicator::Aside),
        "$defs" | "definitions" => (KeywordShape::Named, Applicator::Kept),
        _ => return None,
    })
}

/// The subschemas of one keyword's value.
fn below<'a>(
    shape: &KeywordShape,
    step: Applicator<'a>,
    value: &'a Value,
) -> Vec<(Applicator<'a>, &'a Value)> {
    let mut found: Vec<(Applicator<'a>, &'a Value)> = match (shape, value) {
        (KeywordShape::List | KeywordShape::OneOrList, Value::Array(list)) => {
            list.iter().map(|item| (step, item)).collect()
        }
        (KeywordShape::One | KeywordShape::OneOrList, _) => vec![(step, value)],
        (KeywordShape::Named, Value::Object(members)) => {
            let named = |(name, member): (&'a String, &'a Value)| match step {
                Applicator::Property(_) => (Applicator::Property(name), member),
                Applicator::Same | Applicator::Inside | Applicator::Aside | Applicator::Kept => {
                    (step, member)
                }
            };
            members.iter().map(named).collect()
        }
        (KeywordShape::List | KeywordShape::Named, _) => Vec::new(),
    };
    found.retain(|(_, schema)| schema.is_object() || schema.is_boolean());
    found
}

impl<'a> Survey<'a> {
    /// Walks `schema`. Its depth must be bounded already.
    pub(super) fn of(schema: &'a Value) -> Result<Self, Quarantine> {
        let mut survey = Self::default();
        survey.visit(schema, 0)?;
        while let Some((from, reference)) = survey.references.pop() {
            let target = survey.resolve(from, reference)?;
            survey.nodes[from].steps.push((Applicator::Same, target));
            if survey.nodes[from]
                .schema
                .get("$ref")
                .and_then(Value::as_str)
                == Some(reference)
            {
                survey.targets.insert(from, target);
            }
        }
        Ok(survey)
    }

    /// What the `$ref` of this subschema means.
    pub(super) fn target(&self, schema: &Value) -> Option<&'a Value> {
        let node = self.by_address.get(&std::ptr::from_ref(schema))?;
        self.targets
            .get(node)
            .map(|&target| self.nodes[target].schema)
    }

    fn visit(&mut self, schema: &'a Value, resource: usize) -> Result<usize, Quarantine> {
        if let Some(&known) = self.by_address.get(&std::ptr::from_ref(schema)) {
            return Ok(known);
        }
        let index = self.nodes.len();
        if index >= MAX_SUBSCHEMAS {
            return Err(Quarantine::TooManySubschemas);
        }
        self.by_address.insert(std::ptr::from_ref(schema), index);
        self.nodes.push(SurveyNode {
            schema,
            steps: Vec::new(),
            resource,
        });
        if let Value::Object(members) = schema {
            self.identify(members, index, resource)?;
            let resource = self.nodes[index].resource;
            for (keyword, value) in members {
                self.bounds(keyword, value)?;
                self.reference(keyword, value, index)?;
                if let Some((shape, step)) = shape(keyword) {
                    for (step, schema) in below(&shape, step, value) {
                        let target = self.visit(schema, resource)?;
                        self.nodes[index].steps.push((step, target));
                    }
                }
            }
        }
        Ok(index)
    }

    /// Notes `$id`, `$anchor` and a dialect of its own.
    fn identify(
        &mut self,
        members: &'a Map<String, Value>,
        index: usize,
        resource: usize,
    ) -> Result<(), Quarantine> {
        let text = |keyword: &str| members.get(keyword).and_then(Value::as_str);
        if index > 0
            && members.contains_key("$schema")
            && dialect(self.nodes[index].schema) != dialect(self.nodes[0].schema)
        {
            return Err(Quarantine::UnknownDialect);
        }
        let mut resource = resource;
        if let Some(id) = text("$id") {
            match id.strip_prefix('#') {
                Some(name) => drop(self.anchors.insert((resource, name), index)),
                None => resource = index,
            }
        }
        self.nodes[index].resource = resource;
        for name in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
            self.anchors.insert((resource, name), index);
        }
        Ok(())
    }

    fn bounds(&mut self, keyword: &str, value: &'a Value) -> Result<(), Quarantine> {
        match (keyword, value) {
            ("enum", Value::Array(members)) if members.len() > MAX_ENUM_MEMBERS => {
                return Err(Quarantine::EnumTooLong);
            }
            ("enum", Value::Array(members))
                if members
                    .iter()
                    .filter(|member| member.is_object() || member.is_array())
                    .count()
                    > MAX_NESTED_ENUM_MEMBERS =>
            {
                return Err(Quarantine::EnumTooLong);
            }
            ("oneOf" | "anyOf", Value::Array(members)) if members.len() > MAX_ALTERNATIVES => {
                return Err(Quarantine::TooManyAlternatives);
            }
            ("pattern", Value::String(pattern)) => self.patterns.push(pattern),
            ("patternProperties", Value::Object(members)) => {
                self.key_patterns.extend(members.keys().map(String::as_str));
            }
            _ => return Ok(()),
        }
        if self.patterns.len() + self.key_patterns.len() > MAX_PATTERNS {
            return Err(Quarantine::TooManyPatterns);
        }
        let longest = self
            .patterns
            .iter()
            .chain(&self.key_patterns)
            .map(|pattern| pattern.len())
            .max();
        if longest > Some(PATTERN_BYTES_MAX) {
            Err(Quarantine::PatternTooLong)
        } else {
            Ok(())
        }
    }

    fn reference(
        &mut self,
        keyword: &str,
        value: &'a Value,
        index: usize,
    ) -> Result<(), Quarantine> {
        let dynamic = matches!(keyword, "$dynamicRef" | "$recursiveRef");
        if !dynamic && keyword != "$ref" {
            return Ok(());
        }
        let Value::String(target) = value else {
            return Err(Quarantine::RemoteReference);
        };
        if !target.starts_with('#') {
            return Err(Quarantine::RemoteReference);
        }
        self.dynamic += usize::from(dynamic);
        if self.dynamic > MAX_DYNAMIC_REFERENCES {
            return Err(Quarantine::TooManyDynamicReferences);
        }
        self.references.push((index, target));
        Ok(())
    }

    /// The node that `#…` means, read against the nearest `$id`.
    fn resolve(&mut self, from: usize, reference: &'a str) -> Result<usize, Quarantine> {
        let resource = self.nodes[from].resource;
        let fragment = reference.get(1..).unwrap_or_default();
        if fragment.is_empty() {
            return Ok(resource);
        }
        if !fragment.starts_with('/') {
            return self
                .anchors
                .get(&(resource, fragment))
                .copied()
                .ok_or(Quarantine::DanglingReference);
        }
        let pointer = unescape(fragment).ok_or(Quarantine::DanglingReference)?;
        let target = self.nodes[resource]
            .schema
            .pointer(&pointer)
            .ok_or(Quarantine::DanglingReference)?;
        if !target.is_object() && !target.is_boolean() {
            return Err(Quarantine::DanglingReference);
        }
        self.visit(target, resource)
    }
}

/// Undoes `%XX`.
pub(super) fn unescape(fragment: &str) -> Option<String> {
    let mut bytes = fragment.bytes();
    let mut plain = Vec::with_capacity(fragment.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            plain.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            plain.push(byte);
        }
    }
    String::from_utf8(plain).ok()
}
