//! Are the values that a rollback names ones that its tool takes? What stands for a part of a call is not
//! known before the call, and is not judged (003-64).

use super::shape::suggest;
use crate::guards::ToolRules;
use crate::guards::arguments;
use crate::guards::rollback::{Rollback, stands_for_a_part};
use crate::model::diagnostic::Problems;
use crate::schema::Schema;
use serde_json::{Map, Value, json};

/// Where a schema has what its parts refer to.
const DEFINING_KEYWORDS: [&str; 3] = ["$schema", "$defs", "definitions"];

/// Values that `schema`, the tool's or its contract's, lets nothing of come. `unfit` begins the message.
pub(super) fn judge_values(
    rollback: &Rollback,
    schema: &Value,
    unfit: &str,
    problems: &mut Problems,
) {
    let properties = schema["properties"].as_object();
    problems.under("arguments", |problems| {
        for (name, value) in rollback
            .arguments
            .iter()
            .filter(|(_, value)| is_known(value))
        {
            let Some(said) = properties.and_then(|properties| properties.get(name)) else {
                continue;
            };
            let mut alone: Map<String, Value> = DEFINING_KEYWORDS
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), schema.get(key)?.clone())))
                .collect();
            alone.insert("properties".to_owned(), json!({ name: said }));
            // A part of it that cannot be judged alone is judged when the call is made.
            let judged = Schema::compile(&Value::Object(alone))
                .map(|alone| arguments::fit(&alone, &json!({ name: value })));
            if let Ok(Err(violation)) = judged {
                problems.under(name.clone(), |problems| {
                    problems.error(
                        format!(
                            "{unfit}: `{}` does not take this value of `{name}`",
                            rollback.tool
                        ),
                        format!("expected {}", violation.expected),
                    );
                });
            }
        }
    });
}

/// A case that the contract of its tool does not have, or one that changes nothing.
pub(super) fn judge_case(
    rollback: &Rollback,
    contract: &ToolRules,
    unfit: &str,
    problems: &mut Problems,
) {
    let Some(variants) = &contract.variants else {
        return;
    };
    let arguments = Value::Object(rollback.arguments.clone());
    let chooses = arguments.pointer(variants.by());
    if chooses.is_some_and(|value| !is_known(value)) {
        return;
    }
    let (tool, by) = (&rollback.tool, variants.by());
    let (message, hint) = match variants.choose(&arguments) {
        Some(case) if case.side_effect => return,
        Some(_) => (
            format!("{unfit}: the case of `{tool}` that it chooses by `{by}` changes nothing"),
            "name a case that takes the effect back".to_owned(),
        ),
        None => {
            let cases: Vec<String> = variants.cases().map(|(name, _)| name.to_owned()).collect();
            let chosen = chooses.map_or_else(|| "nothing".to_owned(), Value::to_string);
            (
                format!("{unfit}: the contract of `{tool}` has no case for {chosen} at `{by}`"),
                suggest(chooses.and_then(Value::as_str).unwrap_or_default(), &cases),
            )
        }
    };
    problems.under("arguments", |problems| problems.error(message, hint));
}

/// Whether nothing in the value stands for a part of a call.
fn is_known(value: &Value) -> bool {
    match value {
        Value::String(text) => !stands_for_a_part(text),
        Value::Array(items) => items.iter().all(is_known),
        Value::Object(members) => members.values().all(is_known),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}
