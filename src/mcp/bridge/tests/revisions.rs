//! One revision of MCP as it was published, to check messages by.

use crate::mcp::revision::Revision;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One revision as it was published.
pub(super) struct PublishedRevision {
    schema: Value,
    validators: BTreeMap<String, jsonschema::Validator>,
}

impl PublishedRevision {
    /// As `tests/tools/schemas.mjs` has written it.
    pub(super) fn read(revision: Revision) -> Self {
        let directory = std::env::var("TOOLGATE_SCHEMAS")
            .expect("TOOLGATE_SCHEMAS names where tests/tools/schemas.mjs has written the schemas");
        let file = format!("{directory}/{}.json", revision.as_str());
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut schema: Value = serde_json::from_str(&text).unwrap();
        // In TypeScript, in which MCP is written, it is any JSON; what was made of that forgets `null`
        // and fractions.
        if revision == Revision::V2026_07_28 {
            schema["$defs"]["JSONValue"] = json!({});
        }
        // The same of the bounds of numbers.
        for place in ["definitions", "$defs"] {
            let bounds = schema.pointer_mut(&format!("/{place}/NumberSchema/properties"));
            for bound in bounds.into_iter().filter_map(Value::as_object_mut) {
                bound.insert("default".to_owned(), json!({ "type": "number" }));
                bound.insert("minimum".to_owned(), json!({ "type": "number" }));
                bound.insert("maximum".to_owned(), json!({ "type": "number" }));
            }
        }
        Self {
            schema,
            validators: BTreeMap::new(),
        }
    }

    fn place(&self) -> &'static str {
        if self.schema["$defs"].is_object() {
            "$defs"
        } else {
            "definitions"
        }
    }

    pub(super) fn definitions(&self) -> &Map<String, Value> {
        self.schema[self.place()].as_object().unwrap()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.definitions().contains_key(name)
    }

    /// What is wrong with a value as one of this definition.
    pub(super) fn fault(&mut self, name: &str, value: &Value) -> Option<String> {
        if !self.validators.contains_key(name) {
            assert!(self.has(name), "{name} is defined");
            let place = self.place();
            let mut whole = Map::new();
            whole.insert("$schema".to_owned(), self.schema["$schema"].clone());
            whole.insert("$ref".to_owned(), format!("#/{place}/{name}").into());
            whole.insert(place.to_owned(), self.schema[place].clone());
            let validator = jsonschema::validator_for(&Value::Object(whole)).unwrap();
            self.validators.insert(name.to_owned(), validator);
        }
        let errors = self.validators[name].iter_errors(value);
        let words: Vec<_> = errors
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}
