//! The names that a schema declares, to find a key that is one of them in another case.
//!
//! A tool written on a JSON library that ignores case reads `Path` where the contract judged
//! `path`, so such a key is refused even where the schema is open (threat-model §3A, A3).

use super::explain;
use super::survey::{Applicator, Survey, SurveyNode, unescape};
use super::violation::SchemaViolation;
use crate::mcp::json::fold::folded;
use crate::model::work;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

mod excluded;
mod lacking;

/// Pairs of a subschema and a value that one search looks at; more is refused.
pub(super) const MAX_SEARCH_STEPS: usize = 1_000_000;

/// What one of them takes, in units of work.
pub(super) const STEP_WORK_UNITS: u64 = 8;

/// Bytes of a key up to which folding it takes no room of its own.
const FOLDED_KEY_BYTES: usize = 64;

/// The declared names, place by place.
#[derive(Debug, Default)]
pub struct PropertyNames {
    places: Vec<PropertyPlace>,
    /// The places that apply to the whole value.
    root: Vec<usize>,
    /// An object that fits the schema has no members but those declared, and no nested ones.
    is_flat: bool,
}

#[derive(Debug, Default)]
struct PropertyPlace {
    same: Vec<usize>,
    inside: Vec<usize>,
    properties: BTreeMap<String, usize>,
    /// Folded name to name.
    folded: BTreeMap<String, String>,
    /// The schema says itself what may come besides its properties.
    open: bool,
    /// Names that are not declared may come, and the schema says so.
    more: bool,
    /// What must come, always or beside something else.
    required: HashSet<String>,
}

/// Keywords that say so.
const OPENING_KEYWORDS: &[&str] = &[
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
];

/// Whether `schema` says that names may come which it does not declare: by a keyword, or because
/// one of its alternatives takes any object where another declares names.
fn takes_more(schema: &Value, root: &Value) -> bool {
    let says = |keyword: &str| {
        let is_empty = |said: &Value| said.as_object().is_some_and(serde_json::Map::is_empty);
        schema.get(keyword).is_some_and(|said| {
            *said != Value::Bool(false) && (keyword != "patternProperties" || !is_empty(said))
        })
    };
    let alternatives = || {
        ["anyOf", "oneOf"]
            .iter()
            .filter_map(|keyword| schema.get(keyword)?.as_array())
    };
    OPENING_KEYWORDS.iter().any(|keyword| says(keyword))
        || (schema.get("properties").is_none()
            && alternatives().any(|all| {
                all.iter()
                    .any(|one| takes_any(one, root, MAX_REFERENCE_CHAIN))
            }))
}

/// References from one to the next that are followed.
const MAX_REFERENCE_CHAIN: usize = 16;

/// Whether an alternative takes any object. One that refers elsewhere, to where nobody knows, may.
fn takes_any(alternative: &Value, root: &Value, chain: usize) -> bool {
    let Some(members) = alternative.as_object() else {
        return *alternative == Value::Bool(true);
    };
    let is_object = members
        .get("type")
        .is_none_or(|said| match said.as_array() {
            Some(kinds) => kinds.iter().any(|kind| kind == "object"),
            None => said == "object",
        });
    let mut named = NAMING_KEYWORDS
        .iter()
        .filter(|key| members.contains_key(**key));
    let Some(reference) = members.get("$ref") else {
        return is_object && named.next().is_none();
    };
    let target = reference
        .as_str()
        .and_then(|text| root.pointer(&unescape(text.strip_prefix('#')?)?));
    is_object
        && named.all(|key| *key == "$ref")
        && chain > 0
        && target.is_none_or(|target| takes_any(target, root, chain - 1))
}

/// Keywords by which an alternative may declare names, or take only some objects.
const NAMING_KEYWORDS: &[&str] = &[
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "const",
    "enum",
    "if",
    "not",
    "properties",
    "required",
];

/// The names under `required`, and those that `dependentRequired` and draft-07's `dependencies` ask
/// for.
fn required(schema: &Value) -> HashSet<String> {
    let beside = ["dependentRequired", "dependencies"]
        .into_iter()
        .filter_map(|keyword| schema.get(keyword)?.as_object());
    let lists = schema
        .get("required")
        .into_iter()
        .chain(beside.flat_map(serde_json::Map::values));
    lists
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Whether an object that fits the schema at `node` has no members but its properties, of which
/// none has members or elements of its own. A schema that applies more to the same object counts as
/// one that may let others come.
fn is_flat(node: &SurveyNode<'_>) -> bool {
    let is_alone = node.steps.iter().all(|(step, _)| *step != Applicator::Same);
    let is_closed = node.schema.get("additionalProperties") == Some(&Value::Bool(false))
        && node.schema.get("patternProperties").is_none();
    let properties = node.schema.get("properties").and_then(Value::as_object);
    is_alone && is_closed && properties.is_none_or(|all| all.values().all(is_scalar))
}

/// Whether what fits `schema` is neither an object nor an array. Beside a reference its type may
/// count for nothing.
fn is_scalar(schema: &Value) -> bool {
    let is_scalar = |kind: &Value| {
        kind.as_str()
            .is_some_and(|kind| SCALAR_TYPES.contains(&kind))
    };
    schema.get("$ref").is_none()
        && match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().all(is_scalar),
            Some(kind) => is_scalar(kind),
            None => false,
        }
}

/// Types of what has neither members nor elements.
const SCALAR_TYPES: &[&str] = &["string", "number", "integer", "boolean", "null"];

/// What `look` finds under `key` without its case. Nearly all keys are short and of ASCII: these
/// are folded where they are looked up.
fn found_folded<T>(key: &str, look: impl FnOnce(&str) -> T) -> T {
    let mut room = [0; FOLDED_KEY_BYTES];
    if let (true, Some(letters)) = (key.is_ascii(), room.get_mut(..key.len())) {
        letters.copy_from_slice(key.as_bytes());
        letters.make_ascii_lowercase();
        if let Ok(folded) = std::str::from_utf8(letters) {
            return look(folded);
        }
    }
    look(&folded(key))
}

impl PropertyNames {
    /// No names, of no schema.
    pub(crate) fn none() -> &'static Self {
        static NO_NAMES: PropertyNames = PropertyNames {
            places: Vec::new(),
            root: Vec::new(),
            is_flat: false,
        };
        &NO_NAMES
    }

    pub(super) fn of(survey: &Survey<'_>) -> Self {
        let root = survey.nodes.first().map(|node| node.schema);
        let place = |node: &super::survey::SurveyNode<'_>| {
            let open = OPENING_KEYWORDS
                .iter()
                .any(|keyword| node.schema.get(keyword).is_some());
            let mut place = PropertyPlace {
                open,
                more: root.is_some_and(|root| takes_more(node.schema, root)),
                required: required(node.schema),
                ..PropertyPlace::default()
            };
            for &(step, target) in &node.steps {
                match step {
                    Applicator::Same => place.same.push(target),
                    Applicator::Inside => place.inside.push(target),
                    Applicator::Property(name) => {
                        place.properties.insert(name.to_owned(), target);
                        place.folded.insert(folded(name), name.to_owned());
                    }
                    Applicator::Aside | Applicator::Kept => {}
                }
            }
            place
        };
        let places = survey.nodes.iter().map(place).collect();
        Self {
            is_flat: survey.nodes.first().is_some_and(is_flat),
            ..Self::at(places)
        }
    }

    /// With the root that these places have.
    fn at(places: Vec<PropertyPlace>) -> Self {
        let names = Self {
            places,
            ..Self::default()
        };
        let root = if names.places.is_empty() {
            Vec::new()
        } else {
            names.widen(vec![0])
        };
        Self { root, ..names }
    }

    /// The names on these paths from the root, such as `["customer", "id"]`.
    pub fn on<'a>(paths: impl IntoIterator<Item = &'a [String]>) -> Self {
        let mut names = Self::at(vec![PropertyPlace::default()]);
        for path in paths {
            let mut at = 0;
            for name in path {
                let next = names.places.len();
                let found = *names.places[at]
                    .properties
                    .entry(name.clone())
                    .or_insert(next);
                names.places[at].folded.insert(folded(name), name.clone());
                if found == next {
                    names.places.push(PropertyPlace::default());
                }
                at = found;
            }
        }
        names
    }

    /// Whether the whole value may have to have the member `name`: a schema that applies to it says
    /// so, always or beside something else.
    pub fn requires(&self, name: &str) -> bool {
        self.root
            .iter()
            .any(|&place| self.places[place].required.contains(name))
    }

    /// Whether no name is declared anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.places.iter().all(|place| place.properties.is_empty())
    }

    /// The places that apply to the whole value.
    pub(super) fn root(&self) -> &[usize] {
        &self.root
    }

    /// Whether an object that fits the schema has no members but those declared, and none of them is
    /// nested.
    pub(super) fn is_flat(&self) -> bool {
        self.is_flat
    }

    /// The places that apply to a member or an element of what `places` apply to.
    pub(super) fn below(&self, places: &[usize], step: &str) -> Vec<usize> {
        self.widen(self.under(places, step))
    }

    /// Whether one of `places` names properties.
    pub(super) fn names_any(&self, places: &[usize]) -> bool {
        places
            .iter()
            .any(|&place| !self.places[place].properties.is_empty())
    }

    /// Whether one of `places` names this property.
    pub(super) fn names(&self, places: &[usize], key: &str) -> bool {
        places
            .iter()
            .any(|&place| self.places[place].properties.contains_key(key))
    }

    /// Whether one of `places` says itself what else may come.
    pub(super) fn is_open(&self, places: &[usize]) -> bool {
        places.iter().any(|&place| self.places[place].open)
    }

    /// Refuses a key that is a declared name in another case.
    pub fn judge(&self, value: &Value) -> Result<(), SchemaViolation> {
        if self.places.iter().all(|place| place.folded.is_empty()) {
            return Ok(());
        }
        let mut search = OtherCaseSearch {
            names: self,
            left: MAX_SEARCH_STEPS,
            path: Vec::new(),
        };
        search.look(&self.root, value)
    }

    /// `places` and all that apply to the same value.
    fn widen(&self, mut places: Vec<usize>) -> Vec<usize> {
        if places
            .iter()
            .all(|&place| self.places[place].same.is_empty())
        {
            return places;
        }
        let mut seen: HashSet<usize> = places.iter().copied().collect();
        let mut next = 0;
        while let Some(&place) = places.get(next) {
            places.extend(
                self.places[place]
                    .same
                    .iter()
                    .filter(|&&same| seen.insert(same)),
            );
            next += 1;
        }
        places
    }

    fn under(&self, places: &[usize], key: &str) -> Vec<usize> {
        let named: Vec<usize> = places
            .iter()
            .filter_map(|&place| self.places[place].properties.get(key).copied())
            .collect();
        if named.is_empty() {
            self.inside(places)
        } else {
            named
        }
    }

    fn inside(&self, places: &[usize]) -> Vec<usize> {
        places
            .iter()
            .flat_map(|&place| self.places[place].inside.iter().copied())
            .collect()
    }
}

struct OtherCaseSearch<'a> {
    names: &'a PropertyNames,
    left: usize,
    path: Vec<String>,
}

impl OtherCaseSearch<'_> {
    fn look(&mut self, places: &[usize], value: &Value) -> Result<(), SchemaViolation> {
        work::spend(STEP_WORK_UNITS * (1 + places.len() as u64));
        if places.is_empty() {
            return Ok(());
        }
        match value {
            Value::Object(members) => {
                self.spend(places.len() * members.len())?;
                members
                    .iter()
                    .try_for_each(|(key, member)| self.member(places, key, member))
            }
            Value::Array(elements) => {
                self.spend(places.len() + elements.len())?;
                let inside = self.names.widen(self.names.inside(places));
                elements
                    .iter()
                    .enumerate()
                    .filter(|(_, element)| is_nested(element))
                    .try_for_each(|(index, element)| {
                        self.below(&index.to_string(), &inside, element)
                    })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn spend(&mut self, steps: usize) -> Result<(), SchemaViolation> {
        let expected = || SchemaViolation {
            pointer: String::new(),
            expected: "arguments with fewer values".to_owned(),
        };
        self.left = self.left.checked_sub(steps).ok_or_else(expected)?;
        work::spend(STEP_WORK_UNITS * steps as u64);
        Ok(())
    }

    fn member(
        &mut self,
        places: &[usize],
        key: &str,
        member: &Value,
    ) -> Result<(), SchemaViolation> {
        let declared = |place: &usize| self.names.places[*place].properties.contains_key(key);
        if !places.iter().any(declared) {
            let names = self.names;
            let name = found_folded(key, |folded| {
                places
                    .iter()
                    .find_map(|&place| names.places[place].folded.get(folded))
            });
            if let Some(name) = name {
                self.path.push(key.to_owned());
                let expected = format!("the property `{}`, spelt exactly so", explain::shown(name));
                return Err(SchemaViolation {
                    pointer: explain::pointer(&self.path),
                    expected,
                });
            }
        }
        if !is_nested(member) {
            return Ok(());
        }
        let under = self.names.widen(self.names.under(places, key));
        self.below(key, &under, member)
    }

    fn below(
        &mut self,
        step: &str,
        places: &[usize],
        value: &Value,
    ) -> Result<(), SchemaViolation> {
        self.path.push(step.to_owned());
        self.look(places, value)?;
        self.path.pop();
        Ok(())
    }
}

pub(super) fn is_nested(value: &Value) -> bool {
    value.is_object() || value.is_array()
}
