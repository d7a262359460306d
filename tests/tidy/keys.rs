//! Each key of the configuration, of policies and of packs stands in the book, as code: who reads only the book finds it.

use super::documents::chapters;
use super::{read, report};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What `toolgate schema` says of each file that people write.
const SCHEMAS: [&str; 4] = ["toolgate", "policy", "pack", "exemptions"];

/// The keys of `schema` and of all in it, each with where it stands first.
fn keys(schema: &Value, at: &str, found: &mut BTreeMap<String, String>) {
    match schema {
        Value::Object(members) => {
            let properties = members.get("properties").and_then(Value::as_object);
            for (key, value) in properties.into_iter().flatten() {
                let at = format!("{at}.{key}");
                found.entry(key.clone()).or_insert_with(|| at.clone());
                keys(value, &at, found);
            }
            let rest = members.iter().filter(|(name, _)| *name != "properties");
            rest.for_each(|(_, value)| keys(value, at, found));
        }
        Value::Array(some) => some.iter().for_each(|value| keys(value, at, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The words of code in the book: between backquotes, and in fences.
fn code_words() -> BTreeSet<String> {
    let code = Regex::new(r"(?s)```.*?```|`[^`\n]+`").unwrap();
    let word = Regex::new(r"[A-Za-z_][A-Za-z0-9_]*").unwrap();
    let pages = chapters().into_iter().chain(["README.md".to_owned()]);
    let mut words = BTreeSet::new();
    for page in pages {
        let text = read(&page);
        for part in code.find_iter(&text) {
            let found = word.find_iter(part.as_str());
            words.extend(found.map(|found| found.as_str().to_owned()));
        }
    }
    words
}

#[test]
fn the_book_names_each_key() {
    let words = code_words();
    let mut missing = Vec::new();
    for name in SCHEMAS {
        let schema = read(&format!("policies/{name}.schema.json"));
        let mut found = BTreeMap::new();
        keys(&serde_json::from_str(&schema).unwrap(), name, &mut found);
        assert!(found.len() > 5, "{name} has keys");
        let unnamed = found.into_iter().filter(|(key, _)| !words.contains(key));
        missing.extend(unnamed.map(|(_, at)| at));
    }
    report("keys that no chapter of the book names", missing);
}
