//! Does a probe read what its tool answers? One that looks where nothing ever stands takes each call for
//! not done, and has it run again (004-13).

use crate::guards::idempotency::{self, Probe};
use crate::guards::{ToolRules, variants};
use crate::model::diagnostic::{Problem, Problems};
use crate::model::ids::ToolName;
use crate::model::pointer::steps;
use crate::schema::Schema;
use serde_json::Value;

/// Kinds of values that are there also where nothing was found, and how an empty one is written in
/// `nothing`.
const EMPTY_VALUES: [(&str, &str); 3] = [("array", "[]"), ("integer", "0"), ("number", "0")];

/// What is wrong with the probes of the contract `name`, with each path beginning at the root of a
/// policy file. `result_of`: what a tool says of its results.
pub(super) fn problems<'a>(
    name: &str,
    rules: &ToolRules,
    result_of: &dyn Fn(&ToolName) -> Option<&'a Value>,
) -> Vec<Problem> {
    let probe = |rules: &ToolRules| {
        let probe = rules
            .idempotency
            .as_ref()
            .and_then(idempotency::Rule::probe);
        probe.cloned()
    };
    let own = probe(rules);
    let mut problems = Problems::default();
    problems.under("contracts", |problems| {
        problems.under(name, |problems| {
            judge(own.as_ref(), result_of, problems);
            let cases = rules.variants.iter().flat_map(variants::Rule::cases);
            for (case, rules) in cases {
                let other = probe(rules).filter(|probe| Some(probe) != own.as_ref());
                problems.under("variants", |problems| {
                    problems.under("cases", |problems| {
                        problems.under(case, |problems| judge(other.as_ref(), result_of, problems));
                    });
                });
            }
        });
    });
    problems.into_found()
}

fn judge<'a>(
    probe: Option<&Probe>,
    result_of: &dyn Fn(&ToolName) -> Option<&'a Value>,
    problems: &mut Problems,
) {
    let Some((probe, result)) = probe.and_then(|probe| Some((probe, result_of(&probe.tool)?)))
    else {
        return;
    };
    let Ok(schema) = Schema::compile(result) else {
        return;
    };
    let path = steps(probe.found());
    if schema.names().exclude(&path) {
        let message = format!(
            "the result of `{}` has no `{}`, so each call would be taken for not done, and run again",
            probe.tool,
            path.join(".")
        );
        let hint = "compare the spelling with the `outputSchema` in the tool's listing";
        at_found(problems, |problems| problems.error(message, hint));
        return;
    }
    let found = path
        .iter()
        .try_fold(result, |schema, step| schema["properties"].get(step));
    let kind = found.and_then(|found| found["type"].as_str());
    let empty = EMPTY_VALUES.iter().find(|(name, _)| Some(*name) == kind);
    if let (Some((kind, empty)), false) = (empty, probe.says_nothing()) {
        let message = format!(
            "what it finds is of type {kind}, and {empty} proves nothing: such a call stays unknown"
        );
        let hint = format!(
            "write `nothing: [{empty}]` if {empty} means that the call was not done, `nothing: []` if it was"
        );
        at_found(problems, |problems| problems.warning(message, hint));
    }
}

fn at_found(problems: &mut Problems, say: impl FnOnce(&mut Problems)) {
    problems.under("idempotency", |problems| {
        problems.under("probe", |problems| problems.under("found", say));
    });
}
