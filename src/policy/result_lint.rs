//! Does a contract read of results what its tool answers? What is taken out where nothing ever stands
//! stays where it is, and a cost that is never told is never counted.

use super::shape::suggest;
use crate::guards::{ToolRules, variants};
use crate::model::diagnostic::{Problem, Problems};
use crate::schema::Schema;
use serde_json::Value;

/// What does not fit `result`, what the tool says of its results, with each path beginning at the
/// root of a policy file.
pub(super) fn problems(name: &str, rules: &ToolRules, result: &Value) -> Vec<Problem> {
    let mut problems = Problems::default();
    let Ok(schema) = Schema::compile(result) else {
        return Vec::new();
    };
    problems.under("contracts", |problems| {
        problems.under(name, |problems| {
            judge_redactions(rules, &schema, problems);
            judge_cost(rules, &schema, problems);
            let own = rules.budget.cost_path();
            let cases = rules.variants.iter().flat_map(variants::Rule::cases);
            for (case, rules) in cases.filter(|(_, rules)| rules.budget.cost_path() != own) {
                problems.under("variants", |problems| {
                    problems.under("cases", |problems| {
                        problems.under(case, |problems| judge_cost(rules, &schema, problems));
                    });
                });
            }
        });
    });
    problems.into_found()
}

/// A warning only: the place may be one of a text that is JSON.
fn judge_redactions(rules: &ToolRules, schema: &Schema, problems: &mut Problems) {
    problems.under("results", |problems| {
        problems.under("redact", |problems| {
            for (index, path) in rules.results.places() {
                if !schema.names().exclude_each(&path) {
                    continue;
                }
                problems.under(index.to_string(), |problems| {
                    problems.under("pointer", |problems| {
                        problems
                            .warning(missing(&path, "nothing is taken out"), near(&path, schema));
                    });
                });
            }
        });
    });
}

fn judge_cost(rules: &ToolRules, schema: &Schema, problems: &mut Problems) {
    let Some(path) = rules.budget.cost_path() else {
        return;
    };
    if !schema.names().lack(&path) {
        return;
    }
    let message = missing(&path, "each call counts as its `cost`");
    problems.under("budget", |problems| {
        problems.under("cost_from", |problems| {
            if schema.names().forbid(&path) {
                problems.error(message, near(&path, schema));
            } else {
                problems.warning(message, near(&path, schema));
            }
        });
    });
}

fn missing(path: &[String], follows: &str) -> String {
    let path = path.join(".");
    format!("the tool's output schema has no `{path}`, so {follows}")
}

fn near(path: &[String], schema: &Schema) -> String {
    let beside = schema.names().beside(path);
    let depth = (0..path.len()).find(|&depth| schema.names().lack(&path[..=depth]));
    let step = depth.map_or("", |depth| path[depth].as_str());
    suggest(step, &beside)
}
