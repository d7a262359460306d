//! Whether a normalized schema is within what its provider takes of one schema.

use super::super::limits::ProfileLimits;
use super::NormalizeError;
use serde_json::Value;

/// Members of an `enum` from which their text counts by itself (policy §8).
const LONG_ENUM_MEMBERS: usize = 250;

#[derive(Default)]
struct SchemaTotals {
    properties: usize,
    depth: usize,
    enum_values: usize,
    enum_text: usize,
    text: usize,
    optional: usize,
    unions: usize,
}

/// Judges `schema`, which [`write`](super::write::write) made.
pub(super) fn judge(schema: &Value, limits: &ProfileLimits) -> Result<(), NormalizeError> {
    let mut sums = SchemaTotals::default();
    sums.add(schema, 1);
    for (what, sum, most) in [
        ("properties", sums.properties, limits.properties),
        ("levels of nesting", sums.depth, limits.depth),
        (
            "members of enumerations",
            sums.enum_values,
            limits.enum_values,
        ),
        (
            "characters in one enumeration",
            sums.enum_text,
            limits.enum_text,
        ),
        ("characters of names and constants", sums.text, limits.text),
        ("optional properties", sums.optional, limits.optional),
        ("unions", sums.unions, limits.unions),
    ] {
        if let Some(most) = most.filter(|most| sum > *most) {
            return Err(NormalizeError::TooLarge { what, most });
        }
    }
    Ok(())
}

impl SchemaTotals {
    fn add(&mut self, schema: &Value, depth: usize) {
        let below = |keyword: &str| schema.get(keyword).filter(|part| part.is_object());
        let list = |keyword: &str| {
            schema
                .get(keyword)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        self.depth = self.depth.max(depth);
        let required = || list("required");
        for (name, part) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            self.properties += 1;
            self.text += name.chars().count();
            self.optional += usize::from(!required().any(|required| required == name));
            self.add(part, depth + 1);
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(part) = below(keyword) {
                self.add(part, depth + 1);
            }
        }
        for part in list("prefixItems") {
            self.add(part, depth + 1);
        }
        let several = schema.get("type").is_some_and(Value::is_array);
        self.unions += usize::from(several || list("anyOf").next().is_some());
        for part in list("anyOf") {
            self.add(part, depth);
        }
        let length = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
                .chars()
                .count()
        };
        let (values, text) = (
            list("enum").count(),
            list("enum").map(length).sum::<usize>(),
        );
        self.enum_values += values;
        self.text += text + schema.get("const").map_or(0, length);
        if values > LONG_ENUM_MEMBERS {
            self.enum_text = self.enum_text.max(text);
        }
    }
}
