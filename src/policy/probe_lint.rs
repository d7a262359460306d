//! Can a probe be asked, and does it read what its tool answers? One that asks for something else, or
//! looks where nothing ever stands, takes each call for not done, and has it run again (004-13).

use super::named_call::{NamedCall, declared_names};
use super::shape::suggest;
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

/// What begins a message about the question.
const UNASKABLE: &str = "the probe can't be asked";

/// What is known of the tools of a contract with probes.
pub(super) struct ProbeContext<'a> {
    /// The input schema of the contract's own tool.
    pub(super) own: Option<&'a Schema>,
    /// The input schema of a tool.
    pub(super) arguments: &'a dyn Fn(&ToolName) -> Option<&'a Value>,
    /// What a tool says of its results.
    pub(super) result: &'a dyn Fn(&ToolName) -> Option<&'a Value>,
}

/// What is wrong with the probes of the contract `name`, with each path beginning at the root of a
/// policy file.
pub(super) fn problems(name: &str, rules: &ToolRules, context: &ProbeContext<'_>) -> Vec<Problem> {
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
            judge(own.as_ref(), context, problems);
            let cases = rules.variants.iter().flat_map(variants::Rule::cases);
            for (case, rules) in cases {
                let other = probe(rules).filter(|probe| Some(probe) != own.as_ref());
                problems.under("variants", |problems| {
                    problems.under("cases", |problems| {
                        problems.under(case, |problems| judge(other.as_ref(), context, problems));
                    });
                });
            }
        });
    });
    problems.into_found()
}

fn judge(probe: Option<&Probe>, context: &ProbeContext<'_>, problems: &mut Problems) {
    let Some(probe) = probe else { return };
    problems.under("idempotency", |problems| {
        problems.under("probe", |problems| {
            judge_question(probe, context, problems);
            let result = (context.result)(&probe.tool);
            if let Some(result) = result {
                problems.under("found", |problems| judge_found(probe, result, problems));
            }
        });
    });
}

/// Asked wrongly, it finds nothing of a call that was done.
fn judge_question(probe: &Probe, context: &ProbeContext<'_>, problems: &mut Problems) {
    if let Some(schema) = (context.arguments)(&probe.tool) {
        let call = NamedCall {
            tool: &probe.tool,
            arguments: probe.arguments(),
            unfit: UNASKABLE,
            parts: &["arguments#/"],
            filled: Vec::new(),
            stands_for_a_part: Probe::stands_for_a_part,
        };
        call.judge(schema, declared_names(schema).as_deref(), problems);
    }
    let Some(own) = context.own else { return };
    problems.under("arguments", |problems| {
        for (name, pointer) in probe.taken_over() {
            let path = steps(pointer);
            if own.names().exclude(&path) {
                let message = format!("{UNASKABLE}: the call has no argument `{}`", path.join("."));
                let last = path.last().map_or("", String::as_str);
                let hint = suggest(last, &own.names().beside(&path));
                problems.under(name.clone(), |problems| problems.error(message, hint));
            }
        }
    });
}

/// Looks it where something stands?
fn judge_found(probe: &Probe, result: &Value, problems: &mut Problems) {
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
        problems.error(message, hint);
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
        problems.warning(message, hint);
    }
}
