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

/// Refuses a key of `value` that neither `known` nor `contract` names, wherever `contract` names
/// any.
pub(crate) fn judge(
    known: &[&PropertyNames],
    contract: &[&PropertyNames],
    value: &Value,
) -> Result<(), SchemaViolation> {
    if contract.iter().all(|names| names.is_empty()) {
        return Ok(());
    }
    let mut search = UnknownNameSearch {
        known,
        contract,
        left: MAX_SEARCH_STEPS,
        path: Vec::new(),
    };
    let root = |parts: &[&PropertyNames]| parts.iter().map(|names| names.root()).collect();
    let at = AppliedPlaces {
        known: root(known),
        contract: root(contract),
    };
    search.look(&at, value)
}

/// What applies to one value: places of each part of what is known, and of each part of the
/// contract.
struct AppliedPlaces {
    known: Vec<Vec<usize>>,
    contract: Vec<Vec<usize>>,
}

struct UnknownNameSearch<'a> {
    known: &'a [&'a PropertyNames],
    contract: &'a [&'a PropertyNames],
    left: usize,
    path: Vec<String>,
}

impl UnknownNameSearch<'_> {
    fn look(&mut self, at: &AppliedPlaces, value: &Value) -> Result<(), SchemaViolation> {
        work::spend(
            STEP_WORK_UNITS
                * (4 + at
                    .known
                    .iter()
                    .chain(&at.contract)
                    .map(Vec::len)
                    .sum::<usize>()) as u64,
        );
        if at.contract.iter().all(Vec::is_empty) {
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

    fn spend(&mut self, at: &AppliedPlaces, values: usize) -> Result<(), SchemaViolation> {
        let places = at
            .known
            .iter()
            .chain(&at.contract)
            .map(Vec::len)
            .sum::<usize>();
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
    fn closes(&self, at: &AppliedPlaces) -> bool {
        let parts = || self.contract.iter().zip(&at.contract);
        parts().any(|(names, places)| names.names_any(places))
            && !parts().any(|(names, places)| names.is_open(places))
    }

    fn all_named(
        &self,
        at: &AppliedPlaces,
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
        at: &AppliedPlaces,
        value: &Value,
    ) -> Result<(), SchemaViolation> {
        if !is_nested(value) {
            return Ok(());
        }
        let under = |parts: &[&PropertyNames], places: &[Vec<usize>]| {
            parts
                .iter()
                .zip(places)
                .map(|(names, places)| names.below(places, step))
                .collect()
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
