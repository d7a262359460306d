//! Which properties a schema speaks of, wherever it does: below `properties`, and as well in
//! patterns of names, in conditions, alternatives and what they refer to.
//!
//! A contract's schema that speaks of a name which the tool does not have bounds nothing there,
//! whatever the keyword: `not: { required: [forse] }` lets `force` pass.

use super::anchors;
use super::kinds::ELEMENT_STEP;
use super::pattern::NamePattern;
use serde_json::Value;
use std::collections::HashMap;

/// Subschemas that are looked at: references to each other multiply.
const MAX_WALK_STEPS: usize = 20_000;
/// Subschemas within each other; the compiler refuses deeper ones by itself.
const MAX_WALK_DEPTH: usize = 64;
/// What stands in a path for any name.
const ANY_NAME_STEP: &str = "*";

/// A property of which a schema speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The keys in the schema.
    pub key: Vec<String>,
    /// The property, as a path from the root of what is judged.
    pub path: Vec<String>,
    /// The steps of the path, by index, that stand for every name that matches.
    pub patterns: Vec<(usize, NamePattern)>,
    /// Must what is said here hold for every call that passes? Not so in alternatives and
    /// conditions.
    pub is_certain: bool,
    /// Is more said of what was named, or of elements, the whole, or members of any name? Else this
    /// is what names it.
    pub is_more: bool,
}

/// Shows each property that `schema` speaks of, with what it says of it, if that is a schema; and
/// each further schema that is for the same value, such as those in `allOf`.
pub(crate) fn each<'s>(schema: &'s Value, look: &mut dyn FnMut(&Mention, Option<&'s Value>)) {
    let mut walk = MentionWalk {
        root: schema,
        at: Mention {
            is_certain: true,
            ..Mention::default()
        },
        targets: HashMap::new(),
        followed: Vec::new(),
        depth: 0,
        left: MAX_WALK_STEPS,
        forbids: false,
        look,
    };
    walk.schema(schema);
}

struct MentionWalk<'s, 'l> {
    root: &'s Value,
    at: Mention,
    /// Where references lead, with the keys of that.
    targets: HashMap<&'s str, Option<(Vec<String>, &'s Value)>>,
    /// References on the way here.
    followed: Vec<&'s str>,
    depth: usize,
    left: usize,
    /// Is this what names may not be?
    forbids: bool,
    look: &'l mut dyn FnMut(&Mention, Option<&'s Value>),
}

impl<'s> MentionWalk<'s, '_> {
    /// A schema of what is at hand, which was named before.
    fn schema(&mut self, schema: &'s Value) {
        self.at.is_more = true;
        (self.look)(&self.at, Some(schema));
        self.at.is_more = false;
        self.each_keyword(schema, Self::keyword);
    }

    /// Walks the keywords of a schema, as deep and as far as the bounds let it.
    fn each_keyword(&mut self, schema: &'s Value, step: impl Fn(&mut Self, &str, &'s Value)) {
        let Value::Object(members) = schema else {
            return;
        };
        if self.left == 0 || self.depth == MAX_WALK_DEPTH {
            return;
        }
        self.left -= 1;
        self.depth += 1;
        for (keyword, value) in members {
            self.under(keyword, |walk| step(walk, keyword, value));
        }
        self.depth -= 1;
    }

    fn keyword(&mut self, keyword: &str, value: &'s Value) {
        match (keyword, value) {
            ("properties", Value::Object(named)) => {
                for (name, schema) in named {
                    self.under(name, |walk| walk.member(name, None, schema));
                }
            }
            ("patternProperties", Value::Object(named)) => {
                for (pattern, schema) in named {
                    self.under(pattern, |walk| walk.matching(pattern, schema));
                }
            }
            ("dependentRequired" | "dependentSchemas" | "dependencies", Value::Object(named)) => {
                for (name, value) in named {
                    self.under(name, |walk| walk.depending(name, value));
                }
            }
            ("required", Value::Array(_)) => self.names(value),
            ("allOf", Value::Array(parts)) => self.list(parts),
            ("anyOf" | "oneOf", Value::Array(parts)) => self.perhaps(|walk| walk.list(parts)),
            ("not" | "if" | "then" | "else", schema) => self.perhaps(|walk| walk.schema(schema)),
            ("items" | "unevaluatedItems" | "additionalItems", Value::Object(_)) => {
                self.inside(ELEMENT_STEP, None, |walk| walk.schema(value));
            }
            ("items" | "prefixItems", Value::Array(parts)) => {
                self.inside(ELEMENT_STEP, None, |walk| {
                    walk.perhaps(|walk| walk.list(parts));
                });
            }
            ("contains", schema) => {
                self.inside(ELEMENT_STEP, None, |walk| {
                    walk.perhaps(|walk| walk.schema(schema));
                });
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                self.inside(ANY_NAME_STEP, Some(NamePattern::any()), |walk| {
                    walk.schema(schema);
                });
            }
            ("propertyNames", schema) => self.perhaps(|walk| walk.names_of(schema)),
            ("const", value) => self.value(value),
            ("enum", Value::Array(values)) => {
                for (index, value) in values.iter().enumerate() {
                    self.under(&index.to_string(), |walk| walk.value(value));
                }
            }
            ("$ref" | "$dynamicRef", Value::String(reference)) => {
                self.follow(reference, Self::schema);
            }
            _ => {}
        }
    }

    /// Names that depend on `name`, or a schema that does.
    fn depending(&mut self, name: &str, value: &'s Value) {
        self.inside(name, None, Self::look);
        if value.is_array() {
            self.names(value);
        } else {
            self.perhaps(|walk| walk.schema(value));
        }
    }

    /// Names in a list.
    fn names(&mut self, list: &'s Value) {
        for (index, name) in list.as_array().into_iter().flatten().enumerate() {
            let Some(name) = name.as_str() else { continue };
            self.under(&index.to_string(), |walk| {
                walk.inside(name, None, Self::look);
            });
        }
    }

    /// The names in a value that is asked for.
    fn value(&mut self, value: &'s Value) {
        if self.left == 0 || self.depth == MAX_WALK_DEPTH {
            return;
        }
        self.left -= 1;
        self.depth += 1;
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    self.under(name, |walk| {
                        walk.inside(name, None, |walk| {
                            walk.look();
                            walk.value(member);
                        });
                    });
                }
            }
            Value::Array(elements) => self.inside(ELEMENT_STEP, None, |walk| {
                for (index, element) in elements.iter().enumerate() {
                    walk.under(&index.to_string(), |walk| walk.value(element));
                }
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        self.depth -= 1;
    }

    /// The names of which a schema of names speaks.
    fn names_of(&mut self, schema: &'s Value) {
        self.each_keyword(schema, Self::keyword_of_names);
    }

    fn keyword_of_names(&mut self, keyword: &str, value: &'s Value) {
        match (keyword, value) {
            ("enum", Value::Array(_)) => self.names(value),
            ("const", Value::String(name)) => self.inside(name, None, Self::look),
            // What must not come need not be there: `^[$]`.
            ("pattern", Value::String(pattern)) if !self.forbids => {
                if let Some(compiled) = NamePattern::compile(pattern) {
                    self.inside(pattern, Some(compiled), Self::look);
                }
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                for (index, part) in parts.iter().enumerate() {
                    self.under(&index.to_string(), |walk| walk.names_of(part));
                }
            }
            ("not", schema) => {
                self.forbids = !self.forbids;
                self.names_of(schema);
                self.forbids = !self.forbids;
            }
            ("if" | "then" | "else", schema) => self.names_of(schema),
            ("$ref" | "$dynamicRef", Value::String(reference)) => {
                self.follow(reference, Self::names_of);
            }
            _ => {}
        }
    }

    fn list(&mut self, parts: &'s [Value]) {
        for (index, part) in parts.iter().enumerate() {
            self.under(&index.to_string(), |walk| walk.schema(part));
        }
    }

    /// The schemas of the members whose names match; one that cannot be compiled is told of where
    /// the schema is.
    fn matching(&mut self, pattern: &str, schema: &'s Value) {
        if let Some(compiled) = NamePattern::compile(pattern) {
            self.member(pattern, Some(compiled), schema);
        }
    }

    fn member(&mut self, step: &str, pattern: Option<NamePattern>, schema: &'s Value) {
        self.inside(step, pattern, |walk| {
            (walk.look)(&walk.at, Some(schema));
            walk.each_keyword(schema, Self::keyword);
        });
    }

    /// A reference within the schema; what leads to itself was looked at.
    fn follow(&mut self, reference: &'s str, walk: impl FnOnce(&mut Self, &'s Value)) {
        if self.followed.contains(&reference) {
            return;
        }
        let root = self.root;
        let target = self
            .targets
            .entry(reference)
            .or_insert_with(|| anchors::target(root, reference));
        let Some((key, target)) = target.clone() else {
            return;
        };
        self.followed.push(reference);
        let key = std::mem::replace(&mut self.at.key, key);
        walk(self, target);
        self.at.key = key;
        self.followed.pop();
    }

    fn look(&mut self) {
        (self.look)(&self.at, None);
    }

    /// What stands under `key` of the schema.
    fn under(&mut self, key: &str, walk: impl FnOnce(&mut Self)) {
        self.at.key.push(key.to_owned());
        walk(self);
        self.at.key.pop();
    }

    /// What is said of the members or elements on `step`.
    fn inside(&mut self, step: &str, pattern: Option<NamePattern>, walk: impl FnOnce(&mut Self)) {
        let (depth, patterns) = (self.at.path.len(), self.at.patterns.len());
        self.at
            .patterns
            .extend(pattern.map(|pattern| (depth, pattern)));
        self.at.path.push(step.to_owned());
        walk(self);
        self.at.path.truncate(depth);
        self.at.patterns.truncate(patterns);
    }

    /// What need not hold.
    fn perhaps(&mut self, walk: impl FnOnce(&mut Self)) {
        let is_certain = std::mem::replace(&mut self.at.is_certain, false);
        walk(self);
        self.at.is_certain = is_certain;
    }
}
