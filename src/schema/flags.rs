//! Finds the argument by which a tool does several things (002-32).

use serde_json::Value;

/// How such arguments are called.
const FLAG_NAMES: &[&str] = &[
    "action",
    "operation",
    "op",
    "command",
    "cmd",
    "mode",
    "method",
    "verb",
    "subcommand",
];

/// The first property of `schema` that is called so and names several values, with those.
pub(crate) fn of(schema: &Value) -> Option<(&str, Vec<&str>)> {
    let properties = schema.get("properties")?.as_object()?;
    properties
        .iter()
        .filter(|(name, _)| FLAG_NAMES.contains(&name.as_str()))
        .find_map(|(name, property)| {
            let values: Vec<&str> = property
                .get("enum")?
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .collect();
            (values.len() > 1).then_some((name.as_str(), values))
        })
}
