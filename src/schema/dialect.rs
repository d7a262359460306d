//! The dialects of JSON Schema that are compiled.

use serde_json::Value;

/// A dialect we compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Draft 2020-12, also when none is named.
    Draft202012,
    /// Draft-07.
    Draft07,
}

/// The dialect that `$schema` names.
pub(super) fn dialect(schema: &Value) -> Option<Dialect> {
    let Some(named) = schema.get("$schema") else {
        return Some(Dialect::Draft202012);
    };
    let named = named.as_str()?;
    let place = named
        .strip_prefix("https://")
        .or_else(|| named.strip_prefix("http://"))?;
    match place.strip_suffix('#').unwrap_or(place) {
        "json-schema.org/draft/2020-12/schema" => Some(Dialect::Draft202012),
        "json-schema.org/draft-07/schema" => Some(Dialect::Draft07),
        _ => None,
    }
}
