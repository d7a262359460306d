//! Does a rollback choose a case of its tool's contract that takes something back (003-64)?

use super::named_call::is_known;
use super::shape::suggest;
use crate::guards::ToolRules;
use crate::guards::rollback::{Rollback, stands_for_a_part};
use crate::model::diagnostic::Problems;
use serde_json::Value;

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
    if chooses.is_some_and(|value| !is_known(value, stands_for_a_part)) {
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
