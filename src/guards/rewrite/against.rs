//! What can be said of the steps when the rest of the contract is known: pointers to what its
//! schema does not let in, values that it refuses, and arguments that are nobody's to change.

use super::Rule;
use super::place::ArgumentPlace;
use crate::model::diagnostic::Problems;
use crate::schema::Schema;
use serde_json::Value;

/// What to do about a step that makes a key.
const KEY_STEP_HINT: &str = "take the step away; for a key of your own making write `idempotency: { derive: [/order_id], upstream: { argument: NAME } }`";

impl Rule {
    /// Judges the steps by `schema`, the contract's own; `holders`: the arguments, by name, that
    /// can hold a call's key.
    pub fn judge_by(&self, schema: &Value, holders: &[&str], problems: &mut Problems) {
        for (index, (_, change)) in self.steps.iter().enumerate() {
            let verb = change.verb();
            let mut at = |place: &ArgumentPlace, within: usize, judge: &dyn Fn(&mut Problems)| {
                let key = change.key(within, place);
                problems.under(index.to_string(), |problems| {
                    problems.under(verb, |problems| {
                        problems.under(key, |problems| judge(problems));
                    });
                });
            };
            for (within, place) in change.places().enumerate() {
                at(place, within, &|problems| {
                    judge_place(schema, place, problems);
                });
                if holders.contains(&place.argument()) {
                    at(place, within, &|problems| {
                        problems
                            .error("this argument holds the call's idempotency key, which only its agent gives", KEY_STEP_HINT);
                    });
                }
            }
            for (place, value) in change.values() {
                at(place, 0, &|problems| {
                    judge_value(schema, place, value, problems);
                });
            }
            for (place, bounds) in change.bounds() {
                for bound in [&bounds.min, &bounds.max].into_iter().flatten() {
                    at(place, 0, &|problems| {
                        judge_value(schema, place, &Value::Number(bound.clone()), problems);
                    });
                }
            }
        }
    }
}

/// Where a closed object does not name it, no call can have it.
fn judge_place(schema: &Value, place: &ArgumentPlace, problems: &mut Problems) {
    let mut at = schema;
    for step in &place.path {
        let Some(properties) = at.get("properties").and_then(Value::as_object) else {
            return;
        };
        let closed = at.get("additionalProperties") == Some(&Value::Bool(false));
        match properties.get(step) {
            Some(below) => at = below,
            None if closed => {
                let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                let message = format!("the contract allows no argument `{}`", step.escape_debug());
                return problems.error(message, format!("it has: {}", known.join(", ")));
            }
            None => return,
        }
    }
}

/// A value that the contract itself refuses would refuse every call.
fn judge_value(schema: &Value, place: &ArgumentPlace, value: &Value, problems: &mut Problems) {
    let below = place
        .path
        .iter()
        .try_fold(schema, |at, step| at.get("properties")?.get(step));
    // A part of a schema that refers to another part cannot be judged alone.
    let Some(part) = below.and_then(|below| Schema::compile_contract(below).ok()) else {
        return;
    };
    if let Err(violation) = part.accepts(value) {
        let message = "the contract's own schema refuses this value";
        problems.error(message, format!("it expects {}", violation.expected));
    }
}
