//! A schema taken apart: references written out, one dialect, and only what is a schema where
//! schemas stand, so that a property may be called `title` (002-19).

use serde_json::{Map, Value};

/// One subschema.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SchemaNode {
    /// Keywords without subschemas, as written.
    pub(super) facts: Map<String, Value>,
    /// `properties`, in their order.
    pub(super) members: Vec<PropertyNode>,
    /// `required`.
    pub(super) required: Vec<String>,
    /// `additionalProperties`.
    pub(super) rest: Rest,
    /// `patternProperties`.
    pub(super) patterns: Vec<(String, SchemaNode)>,
    /// `prefixItems`.
    pub(super) prefix: Vec<SchemaNode>,
    /// `items`.
    pub(super) items: Option<Box<SchemaNode>>,
    /// One list of alternatives for each union; all of them hold.
    pub(super) unions: Vec<Vec<SchemaNode>>,
    /// Keywords whose subschemas are not walked, as written: they are told as they are, or not at
    /// all.
    pub(super) asides: Map<String, Value>,
    /// What the shown text of an `enum` member stands for.
    pub(super) values: Vec<(String, Value)>,
}

/// One property.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PropertyNode {
    pub(super) name: String,
    /// The name it is shown under, where that is another one.
    pub(super) shown: Option<String>,
    /// Whether `null` stands for its absence.
    pub(super) null_is_absent: bool,
    pub(super) node: SchemaNode,
}

/// What else may come.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Rest {
    /// Anything.
    #[default]
    Open,
    /// Nothing.
    Closed,
    /// What this takes.
    Like(Box<SchemaNode>),
}

impl SchemaNode {
    pub(super) fn member(&self, name: &str) -> Option<&PropertyNode> {
        self.members.iter().find(|member| member.name == name)
    }

    pub(super) fn is_required(&self, name: &str) -> bool {
        self.required.iter().any(|required| required == name)
    }

    /// The types that `type` names; none if it is absent.
    pub(super) fn types(&self) -> Vec<&str> {
        match self.facts.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn set_types(&mut self, types: &[&str]) {
        let types = match types {
            [one] => Value::from(*one),
            several => several.iter().map(|one| Value::from(*one)).collect(),
        };
        self.facts.insert("type".to_owned(), types);
    }

    pub(super) fn is_of(&self, kind: &str) -> bool {
        self.types().contains(&kind)
    }

    /// The values that it takes, if it names them.
    pub(super) fn literals(&self) -> Option<Vec<Value>> {
        match (self.facts.get("const"), self.facts.get("enum")) {
            (Some(one), _) => Some(vec![one.clone()]),
            (None, Some(Value::Array(several))) => Some(several.clone()),
            (None, _) => None,
        }
    }

    /// Leaves out of `enum` what its own type does not take, unless nothing would be left.
    pub(super) fn keep_typed(&mut self) {
        let types: Vec<String> = self.types().into_iter().map(str::to_owned).collect();
        let Some(Value::Array(values)) = self.facts.get_mut("enum") else {
            return;
        };
        let fits = |value: &Value| types.is_empty() || types.iter().any(|kind| is_of(value, kind));
        if values.iter().any(fits) {
            values.retain(fits);
        }
    }

    /// Whether it is nothing but a list of values.
    pub(super) fn is_literal(&self) -> bool {
        let plain = |keyword: &String| {
            matches!(keyword.as_str(), "const" | "enum" | "type" | "description")
        };
        self.literals().is_some() && self.has_no_parts() && self.facts.keys().all(plain)
    }

    /// Whether it has no subschema.
    pub(super) fn has_no_parts(&self) -> bool {
        self.members.is_empty()
            && self.rest == Rest::Open
            && self.patterns.is_empty()
            && self.prefix.is_empty()
            && self.items.is_none()
            && self.unions.is_empty()
            && self.asides.is_empty()
    }

    /// Whether it takes null, as far as can be told.
    pub(super) fn takes_null(&self) -> bool {
        let types = self.types();
        (types.is_empty() || types.contains(&"null"))
            && self
                .literals()
                .is_none_or(|values| values.contains(&Value::Null))
            && self
                .unions
                .iter()
                .all(|union| union.iter().any(Self::takes_null))
    }

    /// What it weighs: its subschemas, and their text.
    pub(super) fn weight(&self) -> usize {
        let members = self.members.iter().map(|member| &member.node);
        let rest = match &self.rest {
            Rest::Like(node) => Some(&**node),
            Rest::Open | Rest::Closed => None,
        };
        let elements = self
            .prefix
            .iter()
            .chain(self.items.as_deref())
            .chain(self.unions.iter().flatten());
        let below = members
            .chain(rest)
            .chain(self.patterns.iter().map(|(_, node)| node))
            .chain(elements);
        1 + weight(&self.facts) + weight(&self.asides) + below.map(Self::weight).sum::<usize>()
    }

    /// Adds a sentence for the model.
    pub(super) fn describe(&mut self, words: &str) {
        let said = self
            .facts
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let said = if said.is_empty() {
            words.to_owned()
        } else {
            format!("{said} {words}")
        };
        self.facts.insert("description".to_owned(), said.into());
    }
}

/// Bytes of text that weigh as much as a subschema.
const TEXT_BYTES_PER_NODE: usize = 32;

/// What the text of keywords weighs.
pub(super) fn weight(facts: &Map<String, Value>) -> usize {
    facts
        .iter()
        .map(|(keyword, value)| keyword.len() + length(value))
        .sum::<usize>()
        / TEXT_BYTES_PER_NODE
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => elements.iter().map(length).sum::<usize>() + 2,
        Value::Object(members) => {
            members
                .iter()
                .map(|(key, value)| key.len() + length(value))
                .sum::<usize>()
                + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// The JSON Schema type of a value; a whole number is an integer.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a value is of that JSON Schema type: 1.0 is an integer, and an integer is a number.
pub(super) fn is_of(value: &Value, kind: &str) -> bool {
    let whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    type_of(value) == kind
        || (value.is_number() && (kind == "number" || (kind == "integer" && whole())))
}
