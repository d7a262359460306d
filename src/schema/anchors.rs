//! Where a `$ref` in a schema without resources of its own leads: a pointer, or an anchor.

use super::survey::unescape;
use crate::model::pointer::steps;
use serde_json::Value;

/// Keywords that name a place.
const ANCHORING_KEYWORDS: [&str; 2] = ["$anchor", "$dynamicAnchor"];
/// Values within each other that are searched.
const MAX_SEARCH_DEPTH: usize = 64;

/// The schema that `reference` means in `root`, with its keys.
pub(super) fn target<'s>(root: &'s Value, reference: &str) -> Option<(Vec<String>, &'s Value)> {
    let fragment = unescape(reference.strip_prefix('#')?)?;
    if fragment.is_empty() || fragment.starts_with('/') {
        let target = root.pointer(&fragment)?;
        return Some((steps(&fragment), target));
    }
    let mut key = Vec::new();
    let target = anchored(root, &fragment, &mut key, MAX_SEARCH_DEPTH)?;
    Some((key, target))
}

fn anchored<'s>(
    at: &'s Value,
    name: &str,
    key: &mut Vec<String>,
    depth: usize,
) -> Option<&'s Value> {
    let depth = depth.checked_sub(1)?;
    let mut within = |step: String, below: &'s Value| {
        key.push(step);
        let found = anchored(below, name, key, depth);
        if found.is_none() {
            key.pop();
        }
        found
    };
    match at {
        Value::Object(members) => {
            let names = |keyword: &&str| members.get(*keyword).is_some_and(|said| said == name);
            if ANCHORING_KEYWORDS.iter().any(names) {
                return Some(at);
            }
            members
                .iter()
                .find_map(|(step, below)| within(step.clone(), below))
        }
        Value::Array(elements) => elements
            .iter()
            .enumerate()
            .find_map(|(index, below)| within(index.to_string(), below)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reference_leads_to_a_pointer_or_an_anchor() {
        let root = json!({
            "properties": { "a": {}, "b": { "allOf": [{ "$anchor": "q", "type": "null" }] } },
            "$defs": { "x y": { "$dynamicAnchor": "d" } },
        });
        for (reference, key) in [
            ("#", Some("")),
            ("#q", Some("properties.b.allOf.0")),
            ("#d", Some("$defs.x y")),
            ("#/$defs/x%20y", Some("$defs.x y")),
            ("#none", None),
            ("#/none", None),
            ("other.json#q", None),
        ] {
            let found = target(&root, reference);
            assert_eq!(
                found.as_ref().map(|(key, _)| key.join(".")).as_deref(),
                key,
                "{reference}"
            );
        }
    }
}
