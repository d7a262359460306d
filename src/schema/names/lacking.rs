//! Does a schema have the argument that a contract names?
//!
//! Names may be said by a pattern as well: then all that it matches are meant.

use super::{PropertyNames, excluded};
use crate::schema::pattern::NamePattern;
use std::collections::BTreeSet;

impl PropertyNames {
    /// Whether the object at `path` declares a name at all, and whether it declares `name`.
    pub fn declares(&self, path: &[String], name: &str) -> (bool, bool) {
        let mut places = self.widen(vec![0]);
        for step in path {
            places = self.widen(self.under(&places, step));
        }
        let any = places
            .iter()
            .any(|&place| !self.places[place].properties.is_empty());
        (
            any,
            places
                .iter()
                .any(|&place| self.places[place].properties.contains_key(name)),
        )
    }

    /// Whether `path` leads nowhere: some object on it declares names, and not the next step. What
    /// says nothing of its names may hold any.
    pub fn lack(&self, path: &[String]) -> bool {
        path.iter()
            .enumerate()
            .any(|(depth, step)| self.declares(&path[..depth], step) == (true, false))
    }

    /// Whether `path` leads nowhere for certain: as [`Self::lack`], and no schema on the way says
    /// that other names may come.
    pub fn exclude(&self, path: &[String]) -> bool {
        self.exclude_matching(path, &[])
    }

    /// The same where the steps of `path` that `patterns` have by their index stand for every name
    /// that matches: all of them lead nowhere, or there is none. Not for certain either where that
    /// takes more work than [`excluded::MAX_NAME_SEARCH_UNITS`].
    pub fn exclude_matching(&self, path: &[String], patterns: &[(usize, NamePattern)]) -> bool {
        excluded::search(self, path, patterns).unwrap_or(false)
    }

    /// As [`Self::exclude`], where `*` in `path` is every member or element: all of them lead
    /// nowhere.
    pub fn exclude_each(&self, path: &[String]) -> bool {
        excluded::search_each(self, path).unwrap_or(false)
    }

    /// Whether `path` leads nowhere because a schema on the way says that no other names may come.
    pub fn forbid(&self, path: &[String]) -> bool {
        let depth = (0..path.len()).find(|&depth| self.exclude(&path[..=depth]));
        depth.is_some_and(|depth| {
            let places = self.places_at(&path[..depth]);
            places.iter().any(|&place| self.places[place].open)
        })
    }

    /// The names that stand beside the last step of `path`, up to which it leads somewhere.
    pub fn beside(&self, path: &[String]) -> Vec<String> {
        let depth = (0..path.len())
            .find(|&depth| self.exclude(&path[..=depth]))
            .unwrap_or(path.len().saturating_sub(1));
        let places = self.places_at(path.get(..depth).unwrap_or_default());
        self.declared(&places).into_iter().cloned().collect()
    }

    /// The names that one of `places` declares.
    pub(super) fn declared(&self, places: &[usize]) -> BTreeSet<&String> {
        places
            .iter()
            .flat_map(|&place| self.places[place].properties.keys())
            .collect()
    }

    fn places_at(&self, path: &[String]) -> Vec<usize> {
        let root = self.root().to_vec();
        path.iter()
            .fold(root, |places, step| self.below(&places, step))
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::Schema;
    use serde_json::{Value, json};

    fn excludes(schema: &Value, path: &[&str]) -> bool {
        let path: Vec<String> = path.iter().map(|step| (*step).to_owned()).collect();
        Schema::compile(schema).unwrap().names().exclude(&path)
    }

    /// 002-11: only an argument that the tool cannot have for certain is excluded.
    #[test]
    fn only_what_is_certain_is_excluded() {
        let named = json!({ "properties": { "a": {} } });
        let with = |more: Value| {
            let mut schema = named.clone();
            schema
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            schema
        };
        for (schema, is_excluded) in [
            (named.clone(), true),
            (json!({}), false),
            (json!({ "type": "object" }), false),
            (with(json!({ "additionalProperties": false })), true),
            (with(json!({ "additionalProperties": true })), false),
            (
                with(json!({ "additionalProperties": { "type": "string" } })),
                false,
            ),
            (with(json!({ "patternProperties": { "^x": {} } })), false),
            (with(json!({ "patternProperties": {} })), true),
            (with(json!({ "unevaluatedProperties": false })), true),
            (
                with(json!({ "allOf": [{ "properties": { "b": {} } }] })),
                false,
            ),
            (
                with(
                    json!({ "$ref": "#/$defs/d", "$defs": { "d": { "properties": { "b": {} } } } }),
                ),
                false,
            ),
            (with(json!({ "anyOf": [{ "required": ["a"] }, {}] })), true),
            (
                json!({ "anyOf": [named, { "properties": { "c": {} } }] }),
                true,
            ),
            (json!({ "anyOf": [named, { "type": "object" }] }), false),
            (json!({ "anyOf": [named, true] }), false),
            (
                json!({ "anyOf": [named, { "$ref": "#/$defs/f" }], "$defs": { "f": { "type": "object" } } }),
                false,
            ),
            (
                json!({ "anyOf": [named, { "$ref": "#/$defs/f" }], "$defs": { "f": { "properties": { "c": {} } } } }),
                true,
            ),
            (json!({ "oneOf": [named, { "type": "null" }] }), true),
            (
                json!({ "oneOf": [named, { "additionalProperties": true }] }),
                false,
            ),
        ] {
            assert_eq!(excludes(&schema, &["b"]), is_excluded, "{schema}");
        }
    }

    #[test]
    fn what_stands_deeper_is_excluded_in_its_place() {
        let schema = json!({ "properties": { "list": { "items": named_inside() }, "to": named_inside(), "free": {},
            "one_or_more": { "anyOf": [named_inside(), { "type": "array", "items": named_inside() }] } } });
        for (path, is_excluded) in [
            (&["list", "*", "a"][..], false),
            (&["list", "*", "b"], true),
            (&["one_or_more", "*", "a"], false),
            (&["one_or_more", "*", "b"], true),
            (&["one_or_more", "b"], true),
            (&["to", "b", "c"], true),
            (&["free", "b"], false),
            (&["lost", "b"], true),
        ] {
            assert_eq!(excludes(&schema, path), is_excluded, "{path:?}");
        }
        let names = Schema::compile(&schema).unwrap();
        let path = |steps: &[&str]| {
            steps
                .iter()
                .map(|step| (*step).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names.names().beside(&path(&["to", "b"])), ["a"]);
        assert_eq!(
            names.names().beside(&path(&["lost", "b"])),
            ["free", "list", "one_or_more", "to"]
        );
    }

    fn named_inside() -> Value {
        json!({ "type": "object", "properties": { "a": {} } })
    }
}
