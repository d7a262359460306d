//! Closes what a contract constrains: where it names properties, nothing else may come than what it
//! or the tool's own schema names, even where that schema is open (threat-model §3A A3).
//!
//! A tool that takes `file` for `path` would otherwise be reached with the argument that nobody
//! judged. A contract whose schema says itself what else may come (`additionalProperties` and its
//! like) is left alone in that place.

use super::explain;
use super::names::{MAX_SEARCH_STEPS, PropertyNames, STEP_WORK_UNITS, is_nested};
use super::violation::SchemaViolation;
use crate::model::work;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Of what is known, and of the contract: names of a schema, and names on paths.
type NamePair<'a> = [&'a PropertyNames; 2];

/// Refuses a key of `value` that neither `known` nor `contract` names, wherever `contract` names
/// any. `value` has to fit the schemas that they are of.
pub(crate) fn judge(
    known: NamePair<'_>,
    contract: NamePair<'_>,
    value: &Value,
) -> Result<(), SchemaViolation> {
    let mut all = known.iter().chain(&contract);
    let is_closed = value.is_object() && all.any(|names| names.is_flat());
    if is_closed || contract.iter().all(|names| names.is_empty()) {
        return Ok(());
    }
    let mut search = UnknownNameSearch {
        known,
        contract,
        left: MAX_SEARCH_STEPS,
        path: Vec::new(),
    };
    let at = AppliedPlaces {
        known: known.map(|names| Cow::Borrowed(names.root())),
        contract: contract.map(|names| Cow::Borrowed(names.root())),
    };
    search.look(&at, value)
}

/// What applies to one value: places of each part of what is known, and of each part of the
/// contract.
struct AppliedPlaces<'a> {
    known: [Cow<'a, [usize]>; 2],
    contract: [Cow<'a, [usize]>; 2],
}

impl AppliedPlaces<'_> {
    /// How many they are.
    fn count(&self) -> usize {
        let all = self.known.iter().chain(&self.contract);
        all.map(|places| places.len()).sum()
    }
}

struct UnknownNameSearch<'a> {
    known: NamePair<'a>,
    contract: NamePair<'a>,
    left: usize,
    path: Vec<String>,
}

impl UnknownNameSearch<'_> {
    fn look(&mut self, at: &AppliedPlaces<'_>, value: &Value) -> Result<(), SchemaViolation> {
        work::spend(STEP_WORK_UNITS * (4 + at.count()) as u64);
        if at.contract.iter().all(|places| places.is_empty()) {
            return Ok(());
        }
        match value {
            Value::Object(members) => {
                self.spend(at, members.len())?;
                if self.closes(at) {
                    self.all_named(at, members)?;
                }
                members
                    .iter()
                    .try_for_each(|(key, member)| self.below(key, at, member))
            }
            Value::Array(elements) => {
                self.spend(at, elements.len())?;
                let numbered = elements.iter().enumerate();
                numbered
                    .into_iter()
                    .try_for_each(|(index, element)| self.below(&index.to_string(), at, element))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn spend(&mut self, at: &AppliedPlaces<'_>, values: usize) -> Result<(), SchemaViolation> {
        let places = at.count();
        let expected = || SchemaViolation {
            pointer: String::new(),
            expected: "arguments with fewer values".to_owned(),
        };
        self.left = self
            .left
            .checked_sub(places.saturating_mul(values))
            .ok_or_else(expected)?;
        work::spend(STEP_WORK_UNITS * (places.saturating_mul(values) + values) as u64);
        Ok(())
    }

    /// Whether the contract names properties here, and does not say what else may come.
    fn closes(&self, at: &AppliedPlaces<'_>) -> bool {
        let parts = || self.contract.iter().zip(&at.contract);
        parts().any(|(names, places)| names.names_any(places))
            && !parts().any(|(names, places)| names.is_open(places))
    }

    fn all_named(
        &self,
        at: &AppliedPlaces<'_>,
        members: &Map<String, Value>,
    ) -> Result<(), SchemaViolation> {
        let parts = || {
            self.contract
                .iter()
                .zip(&at.contract)
                .chain(self.known.iter().zip(&at.known))
        };
        let named = |key: &&String| parts().any(|(names, places)| names.names(places, key));
        let Some(key) = members.keys().find(|key| !named(key)) else {
            return Ok(());
        };
        let path: Vec<String> = self.path.iter().chain([key]).cloned().collect();
        let expected = "only what the tool's schema or its contract names".to_owned();
        Err(SchemaViolation {
            pointer: explain::pointer(&path),
            expected,
        })
    }

    fn below(
        &mut self,
        step: &str,
        at: &AppliedPlaces<'_>,
        value: &Value,
    ) -> Result<(), SchemaViolation> {
        if !is_nested(value) {
            return Ok(());
        }
        let under = |[one, other]: NamePair<'_>, [of_one, of_other]: &[Cow<'_, [usize]>; 2]| {
            [one.below(of_one, step), other.below(of_other, step)].map(Cow::Owned)
        };
        let below = AppliedPlaces {
            known: under(self.known, &at.known),
            contract: under(self.contract, &at.contract),
        };
        self.path.push(step.to_owned());
        self.look(&below, value)?;
        self.path.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use serde_json::json;

    /// What is known, by whether it says all that may come.
    fn known() -> Vec<(Value, bool)> {
        let closed = |properties: Value| json!({ "type": "object", "properties": properties, "additionalProperties": false });
        let with = |name: &str, value: Value| {
            let mut schema = closed(json!({ "a": { "type": "string" } }));
            schema[name] = value;
            schema
        };
        let text = json!({ "type": "string" });
        vec![
            (
                closed(json!({ "a": text, "n": { "type": ["integer", "null"] } })),
                true,
            ),
            (closed(json!({})), true),
            (json!({ "properties": { "a": text } }), false),
            (closed(json!({ "a": {} })), false),
            (closed(json!({ "a": true })), false),
            (closed(json!({ "a": { "type": "object" } })), false),
            (
                closed(json!({ "a": { "type": ["string", "array"] } })),
                false,
            ),
            (
                closed(json!({ "a": { "type": "string", "$ref": "#/$defs/d" } })),
                false,
            ),
            (with("patternProperties", json!({ "^x": {} })), false),
            (with("allOf", json!([{ "properties": { "b": {} } }])), false),
            (with("$ref", json!("#/$defs/d")), false),
        ]
        .into_iter()
        .map(|(mut schema, is_flat)| {
            schema["$defs"] = json!({ "d": { "properties": { "b": {} } } });
            (schema, is_flat)
        })
        .collect()
    }

    /// threat-model §3A A3: what no look is taken at cannot hold a name that nobody declares.
    #[test]
    fn only_a_schema_that_says_all_spares_the_search() {
        let contract = PropertyNames::on([&["a".to_owned()][..]]);
        let values = [
            json!({ "a": "x" }),
            json!({ "a": "x", "n": 1 }),
            json!({ "a": "x", "other": 1 }),
            json!({ "a": "x", "x1": { "other": 1 } }),
            json!({ "a": { "other": 1 } }),
            json!({ "a": [{ "other": 1 }] }),
        ];
        for (source, is_flat) in known() {
            let schema = Schema::compile(&source).unwrap();
            assert_eq!(schema.names().is_flat(), is_flat, "{source}");
            for value in values.iter().filter(|value| schema.accepts(value).is_ok()) {
                let searched = UnknownNameSearch {
                    known: [schema.names(), PropertyNames::none()],
                    contract: [PropertyNames::none(), &contract],
                    left: MAX_SEARCH_STEPS,
                    path: Vec::new(),
                };
                let judged = judge(searched.known, searched.contract, value);
                assert_eq!(
                    judged.is_ok(),
                    is_taken(searched, value),
                    "{source} {value}"
                );
            }
        }
    }

    /// Whether the whole search, without its short cut, takes `value`.
    fn is_taken(mut search: UnknownNameSearch<'_>, value: &Value) -> bool {
        let at = AppliedPlaces {
            known: search.known.map(|names| Cow::Borrowed(names.root())),
            contract: search.contract.map(|names| Cow::Borrowed(names.root())),
        };
        search.look(&at, value).is_ok()
    }
}
