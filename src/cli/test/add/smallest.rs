//! The smallest arguments that show the same: whatever can go while the policy still refuses the call with
//! the code that is expected.

use crate::gate::supposing::{Question, Silent, judge};
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use crate::policy::Policy;
use crate::policy::pack::TaskBefore;
use crate::schema::Schema;
use serde_json::Value;

/// Parts of arguments that are tried to be left out.
const MAX_TRIED: usize = 256;
/// How deep they are looked for.
const MAX_DEPTH: usize = 8;

/// What is asked about arguments.
pub(super) struct ShownRefusal<'a> {
    pub(super) policy: &'a Policy,
    pub(super) caller: &'a Caller,
    pub(super) tool: &'a ToolName,
    pub(super) schema: &'a Schema,
    /// What was so when the call was made.
    pub(super) before: &'a TaskBefore,
    /// The code of the refusal that is expected.
    pub(super) code: &'a str,
}

/// One step from arguments to a part of them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PartStep {
    Member(String),
    Element(usize),
}

impl ShownRefusal<'_> {
    /// Of `arguments` what it takes for that refusal; all of them, where the policy does not say that code
    /// now: nothing tells then which of them matter.
    pub(super) fn smallest(&self, arguments: Value) -> Value {
        if !self.is_shown_by(&arguments) {
            return arguments;
        }
        let read = self.read_by_rules(&arguments);
        let mut smallest = arguments;
        let mut parts = Vec::new();
        collect(&smallest, &mut Vec::new(), &mut parts);
        // What holds others is tried before them, and of a list the last one first.
        parts.reverse();
        parts.retain(|part| !read.iter().any(|path| touches(part, path)));
        parts.sort_by_key(Vec::len);
        for part in parts.into_iter().take(MAX_TRIED) {
            let mut without = smallest.clone();
            if remove(&mut without, &part) && self.is_shown_by(&without) {
                smallest = without;
            }
        }
        smallest
    }

    /// The paths of the arguments that rules read: a rule refuses with its code also where it cannot be judged
    /// without one, and would show nothing then.
    fn read_by_rules(&self, arguments: &Value) -> Vec<Vec<String>> {
        let admitted = self.policy.allowlist.admit(self.caller, self.tool);
        let Ok(admitted) = admitted.map(|admitted| admitted.on(arguments)) else {
            return Vec::new();
        };
        admitted.rules().rules.reads().to_vec()
    }

    fn is_shown_by(&self, arguments: &Value) -> bool {
        let question = Question {
            caller: self.caller,
            tool: self.tool,
            schema: self.schema,
            arguments,
            key: None,
            before: self.before,
        };
        let verdict = judge(self.policy, &question, &mut Silent);
        verdict.is_err_and(|refusal| refusal.code() == self.code)
    }
}

/// Whether what stands at `path` is the part, in it, or holds it.
fn touches(part: &[PartStep], path: &[String]) -> bool {
    let same = |(step, name): (&PartStep, &String)| match step {
        PartStep::Member(member) => member == name,
        PartStep::Element(index) => index.to_string() == *name,
    };
    part.iter().zip(path).all(same)
}

/// Every part of `value`, which `path` leads to.
fn collect(value: &Value, path: &mut Vec<PartStep>, parts: &mut Vec<Vec<PartStep>>) {
    if path.len() >= MAX_DEPTH || parts.len() >= MAX_TRIED {
        return;
    }
    let mut each = |step: PartStep, below: &Value| {
        path.push(step);
        parts.push(path.clone());
        collect(below, path, parts);
        path.pop();
    };
    match value {
        Value::Object(members) => {
            for (name, below) in members {
                each(PartStep::Member(name.clone()), below);
            }
        }
        Value::Array(elements) => {
            for (index, below) in elements.iter().enumerate() {
                each(PartStep::Element(index), below);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Takes the part that `path` leads to out of `value`; whether it was there.
fn remove(value: &mut Value, path: &[PartStep]) -> bool {
    let Some((last, before)) = path.split_last() else {
        return false;
    };
    let mut at = value;
    for step in before {
        let below = match step {
            PartStep::Member(name) => at.get_mut(name.as_str()),
            PartStep::Element(index) => at.get_mut(*index),
        };
        let Some(below) = below else { return false };
        at = below;
    }
    match (at, last) {
        (Value::Object(members), PartStep::Member(name)) => members.shift_remove(name).is_some(),
        (Value::Array(elements), PartStep::Element(index)) if *index < elements.len() => {
            elements.remove(*index);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_are_found_and_taken_out() {
        let mut value = json!({ "a": { "b": [1, 2] }, "c": 3 });
        let mut parts = Vec::new();
        collect(&value, &mut Vec::new(), &mut parts);
        assert_eq!(parts.len(), 5, "{parts:?}");
        let member = |name: &str| PartStep::Member(name.to_owned());
        assert!(remove(
            &mut value,
            &[member("a"), member("b"), PartStep::Element(1)]
        ));
        assert!(!remove(
            &mut value,
            &[member("a"), member("b"), PartStep::Element(1)]
        ));
        assert!(remove(&mut value, &[member("c")]));
        assert!(!remove(&mut value, &[]));
        assert_eq!(value, json!({ "a": { "b": [1] } }));
    }

    /// What a rule reads stays, with what holds it and what is in it.
    #[test]
    fn what_a_rule_reads_is_touched() {
        let member = |name: &str| PartStep::Member(name.to_owned());
        let path = ["a".to_owned(), "b".to_owned()];
        for (part, is_touched) in [
            (vec![member("a")], true),
            (vec![member("a"), member("b")], true),
            (vec![member("a"), member("b"), PartStep::Element(0)], true),
            (vec![member("a"), member("c")], false),
            (vec![member("b")], false),
        ] {
            assert_eq!(touches(&part, &path), is_touched, "{part:?}");
        }
    }
}
