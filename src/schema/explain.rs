//! Says in words why arguments break a schema, after it is known that they do.
//!
//! A walk of our own in bounded steps: the errors that jsonschema builds take exponential time on
//! recursive schemas and quote the instance (threat-model §2.2). Values of the schema may be shown;
//! of the arguments only names are, made safe.

use super::dialect::{Dialect, dialect};
use super::metered::equal;
use super::pattern::{self, SchemaPatterns};
use super::survey::unescape;
use super::violation::SchemaViolation;
use crate::model::work::{self, spend};
use serde_json::{Map, Number, Value, json};

mod conditions;
mod words;

pub(super) use words::{cut, pointer, shown};

/// Pairs of a subschema and a value that one explanation looks at.
const MAX_EXPLAIN_STEPS: usize = 2_000;
/// What one explanation may take, in units of work.
const EXPLAIN_WORK_UNITS_MAX: u64 = work::INLINE_WORK_UNITS / 4;
/// What a step takes, and a format, for which a validator is made.
const STEP_WORK_UNITS: u64 = 20;
const FORMAT_WORK_UNITS: u64 = 2_000;
/// References followed without reaching another value.
const MAX_REFERENCE_CHAIN: usize = 16;

/// Why `arguments`, which `schema` does not accept, are not accepted.
pub(super) fn explain(
    schema: &Value,
    patterns: &SchemaPatterns,
    arguments: &Value,
) -> SchemaViolation {
    let reference_alone = dialect(schema) == Some(Dialect::Draft07);
    let mut walk = ExplainWalk {
        root: schema,
        reference_alone,
        patterns,
        left: MAX_EXPLAIN_STEPS,
        path: Vec::new(),
    };
    let found = work::within(EXPLAIN_WORK_UNITS_MAX, || {
        pattern::unbroken(|| walk.find(schema, arguments, 0))
    });
    let found = found.ok().flatten().flatten();
    let Breach {
        pointer,
        expected,
        got,
    } = found.unwrap_or_else(|| Breach {
        pointer: String::new(),
        expected: "arguments that match the tool's input schema".to_owned(),
        got: None,
    });
    SchemaViolation {
        pointer,
        expected: got.map_or(expected.clone(), |got| format!("{expected}, got {got}")),
    }
}

/// A violation in the making.
struct Breach {
    pointer: String,
    expected: String,
    /// The type of the value, where that is what is wrong with it.
    got: Option<&'static str>,
}

struct ExplainWalk<'a> {
    root: &'a Value,
    /// Draft-07 ignores what stands beside a `$ref`.
    reference_alone: bool,
    patterns: &'a SchemaPatterns,
    left: usize,
    path: Vec<String>,
}

impl<'a> ExplainWalk<'a> {
    fn violation(&self, expected: String) -> Breach {
        Breach {
            pointer: pointer(&self.path),
            expected,
            got: None,
        }
    }

    /// A certain fault of `value` under `schema`; none when there is none or it is not among what
    /// is looked for.
    fn find(&mut self, schema: &Value, value: &Value, chain: usize) -> Option<Breach> {
        self.left = self.left.checked_sub(1)?;
        spend(STEP_WORK_UNITS);
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(false) => return Some(self.violation("no value here".to_owned())),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => return None,
        };
        if self.reference_alone && members.contains_key("$ref") {
            return self.combined(members, value, chain);
        }
        if let Some(expected) = words::itself(members, value) {
            return Some(Breach {
                got: words::another_kind(members, value),
                ..self.violation(expected)
            });
        }
        let found = match value {
            Value::String(_) => self.text(members, value),
            Value::Object(object) => self.object(members, object),
            Value::Array(elements) => self.array(members, elements),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        };
        found.or_else(|| self.combined(members, value, chain))
    }

    fn text(&self, members: &Map<String, Value>, value: &Value) -> Option<Breach> {
        if let Some(pattern) = members.get("pattern").and_then(Value::as_str)
            && let Some(compiled) = self.patterns.get(pattern)
            && !compiled.matches(value)
        {
            return Some(self.violation(format!(
                "text that matches the pattern `{}`",
                cut(pattern, 128)
            )));
        }
        let format = members.get("format").and_then(Value::as_str)?;
        spend(FORMAT_WORK_UNITS);
        let options = jsonschema::options().should_validate_formats(true);
        let judge = options.build(&json!({ "format": format })).ok()?;
        (!judge.is_valid(value))
            .then(|| self.violation(format!("text in the format `{}`", shown(format))))
    }

    fn object(
        &mut self,
        members: &Map<String, Value>,
        object: &Map<String, Value>,
    ) -> Option<Breach> {
        let required = members.get("required").and_then(Value::as_array);
        let absent = required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find(|name| !object.contains_key(*name));
        if let Some(name) = absent {
            return Some(self.violation(format!("the property `{}` to be present", shown(name))));
        }
        let declared = members.get("properties").and_then(Value::as_object);
        let by_pattern = members
            .get("patternProperties")
            .and_then(Value::as_object)
            .is_some_and(|all| !all.is_empty());
        let additional = members.get("additionalProperties").filter(|_| !by_pattern);
        for (name, value) in object {
            let found = match declared
                .and_then(|declared| declared.get(name))
                .or(additional)
            {
                Some(Value::Bool(false)) => {
                    Some(self.violation(format!("no property named `{}`", shown(name))))
                }
                Some(schema) => self.below(name, schema, value),
                None => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn array(&mut self, members: &Map<String, Value>, elements: &[Value]) -> Option<Breach> {
        let first = ["prefixItems", "items"]
            .into_iter()
            .find_map(|keyword| members.get(keyword)?.as_array());
        let first = first.map_or(&[][..], Vec::as_slice);
        let rest = members.get("items").filter(|items| !items.is_array());
        elements.iter().enumerate().find_map(|(index, element)| {
            let schema = first.get(index).or(rest)?;
            self.below(&index.to_string(), schema, element)
        })
    }

    fn below(&mut self, step: &str, schema: &Value, value: &Value) -> Option<Breach> {
        self.path.push(step.to_owned());
        let found = self.find(schema, value, 0);
        self.path.pop();
        found
    }

    fn combined(
        &mut self,
        members: &Map<String, Value>,
        value: &Value,
        chain: usize,
    ) -> Option<Breach> {
        if chain > MAX_REFERENCE_CHAIN {
            return None;
        }
        if let Some(target) = members
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|target| self.target(target))
        {
            if let Some(found) = self.find(target, value, chain + 1) {
                return Some(found);
            }
            if self.reference_alone {
                return None;
            }
        }
        for schema in members
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(found) = self.find(schema, value, chain + 1) {
                return Some(found);
            }
        }
        let found = ["anyOf", "oneOf"].into_iter().find_map(|keyword| {
            let branches = members.get(keyword)?.as_array()?;
            // Only when each branch has a certain fault is the whole at fault.
            let faults: Option<Vec<_>> = branches
                .iter()
                .map(|branch| self.find(branch, value, chain + 1))
                .collect();
            self.one_of(faults?)
        });
        found.or_else(|| self.conditional(members, value, chain))
    }

    /// One violation out of those of all branches: the alternatives here, or else the branch that
    /// got furthest.
    fn one_of(&self, faults: Vec<Breach>) -> Option<Breach> {
        let here = pointer(&self.path);
        if faults.len() <= 4 && faults.iter().all(|fault| fault.pointer == here) {
            // Of another type for all of them, or not the type is what is wrong.
            let got = faults
                .iter()
                .map(|fault| fault.got)
                .reduce(Option::and)
                .flatten();
            let mut words: Vec<String> = faults.into_iter().map(|fault| fault.expected).collect();
            words.dedup();
            return Some(Breach {
                got,
                ..self.violation(words::shortened(words.join(", or "), 300))
            });
        }
        faults.into_iter().reduce(|best, fault| {
            if fault.pointer.len() > best.pointer.len() {
                fault
            } else {
                best
            }
        })
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(&unescape(reference.strip_prefix('#')?)?)
    }
}

fn as_integer(number: &Number) -> bool {
    number.is_i64()
        || number.is_u64()
        || number.as_f64().is_some_and(|double| double.fract() == 0.0)
}
