//! What a drill reads before and after: fields of a read, which are the same again once nothing is left
//! (003-P4f).

use super::agent::{DrillAgent, DrillCall};
use crate::guards::rollback::{
    ACTION_PLACEHOLDER, ARGUMENTS_PREFIX, Rollback, UndoCheck, filled, taken,
};
use crate::mcp::canonical;
use crate::model::caller::Caller;
use crate::model::digest::sha256;
use crate::model::ids::ToolName;
use crate::policy::Policy;
use crate::policy::pack::{BaselineTerms, DrillTerms};
use serde_json::{Map, Value};

const NO_READ: &str = "its baseline is no call that the agent may make and that changes nothing";
const NO_CHECK: &str = "nothing says what its baseline is: give `drill.baseline`";
const OF_RESULT: &str = "what its contract checks names a part of the result, which is not there before the call: give `drill.baseline`";

/// A read, and what of its result is compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Baseline {
    pub(super) tool: ToolName,
    pub(super) arguments: Value,
    fields: Vec<String>,
}

/// The fields as they were read; one that is not there is left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BaselineReading(Map<String, Value>);

impl Baseline {
    /// What the drill of a call with these arguments reads.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(super) fn of(
        terms: &DrillTerms,
        rollback: &Rollback,
        arguments: &Value,
    ) -> Result<Self, String> {
        let check = rollback.check.as_deref();
        let (named, is_checked) = match (&terms.baseline, check) {
            (Some(named), _) => (named.clone(), false),
            (None, Some(check)) => (fields_of(check), true),
            (None, None) => return Err(NO_CHECK.to_owned()),
        };
        let parts = taken(&named.arguments, ARGUMENTS_PREFIX, arguments);
        let names_action = names_action(&Value::Object(named.arguments.clone()));
        let made = filled(&named.arguments, &parts, "").ok();
        match made.filter(|_| !names_action) {
            Some(made) => Ok(Self {
                tool: named.tool,
                arguments: Value::Object(made),
                fields: named.fields,
            }),
            None if is_checked => Err(OF_RESULT.to_owned()),
            None => {
                Err("its baseline names a part that is not among the call's arguments".to_owned())
            }
        }
    }

    /// Whether it is a read that `caller` may make.
    pub(super) fn is_read_for(&self, caller: &Caller, policy: &Policy) -> Result<(), String> {
        let admitted = policy.allowlist.admit(caller, &self.tool);
        let admitted = admitted.map_err(|_| NO_READ.to_owned())?;
        if admitted.on(&self.arguments).rules().side_effect {
            return Err(NO_READ.to_owned());
        }
        Ok(())
    }

    /// Reads it.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub(super) async fn read(&self, agent: &mut DrillAgent) -> Result<BaselineReading, String> {
        let call = DrillCall {
            tool: &self.tool,
            arguments: &self.arguments,
            key: None,
        };
        let answer = agent.call(call).await;
        if !answer.is_good() {
            let (tool, said) = (&self.tool, &answer.words);
            return Err(format!("{tool} cannot be read: {said}"));
        }
        let found = self.fields.iter().filter_map(|field| {
            let value = answer.structured.pointer(field)?;
            Some((field.clone(), value.clone()))
        });
        Ok(BaselineReading(found.collect()))
    }
}

impl BaselineReading {
    /// Whether nothing of it was there.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields that are not the same.
    pub(super) fn differing(&self, other: &Self) -> Vec<String> {
        let mut fields: Vec<&String> = self.0.keys().chain(other.0.keys()).collect();
        fields.sort();
        fields.dedup();
        let differs = |field: &&String| self.0.get(*field) != other.0.get(*field);
        fields.into_iter().filter(differs).cloned().collect()
    }

    /// What tells it from any other, and nothing else of what was read.
    pub(super) fn hash(&self) -> String {
        sha256(&canonical::exact(&Value::Object(self.0.clone())))
    }
}

/// What an undo is checked by, as a baseline.
fn fields_of(check: &UndoCheck) -> BaselineTerms {
    BaselineTerms {
        tool: check.tool.clone(),
        arguments: check.arguments.clone(),
        fields: check.expect.keys().cloned().collect(),
    }
}

/// Whether the action id of the call stands for one of the values. The levels are those of a file, which are
/// bounded where it is read.
fn names_action(value: &Value) -> bool {
    match value {
        Value::String(text) => text == ACTION_PLACEHOLDER,
        Value::Array(items) => items.iter().any(names_action),
        Value::Object(members) => members.values().any(names_action),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn members(value: Value) -> Map<String, Value> {
        let Value::Object(members) = value else {
            unreachable!()
        };
        members
    }

    /// 003-P4f: what is read before a call cannot know what the call will give; and of its arguments, only
    /// what is there.
    #[test]
    fn a_baseline_is_there_before_the_call() {
        let check = |arguments: Value| UndoCheck {
            tool: ToolName::new("bank__look"),
            arguments: members(arguments),
            expect: members(json!({ "/status": "gone", "/sum": 0 })),
        };
        let call = json!({ "account": "a" });
        let of = |named: Option<Value>, checked: Option<Value>| {
            let rollback = Rollback {
                tool: ToolName::new("bank__undo"),
                arguments: Map::new(),
                within: Duration::from_hours(1),
                by_agent: false,
                check: checked.map(|arguments| Box::new(check(arguments))),
            };
            let baseline = named.map(|arguments| BaselineTerms {
                tool: ToolName::new("bank__books"),
                arguments: members(arguments),
                fields: vec!["/total".to_owned()],
            });
            Baseline::of(&DrillTerms { baseline }, &rollback, &call)
        };
        let by_check = of(None, Some(json!({ "of": "arguments#/account" }))).unwrap();
        assert_eq!(
            (by_check.tool.as_str(), &by_check.arguments),
            ("bank__look", &json!({ "of": "a" }))
        );
        assert_eq!(by_check.fields, ["/status", "/sum"]);
        let named = of(Some(json!({ "x": 1 })), Some(json!({ "id": "result#/id" }))).unwrap();
        assert_eq!(named.tool.as_str(), "bank__books");
        for (named, checked, why) in [
            (None, None, NO_CHECK),
            (None, Some(json!({ "id": "result#/id" })), OF_RESULT),
            (
                None,
                Some(json!({ "ids": [{ "of": "action#" }] })),
                OF_RESULT,
            ),
            (
                Some(json!({ "of": "arguments#/none" })),
                None,
                "its baseline names a part that is not among the call's arguments",
            ),
        ] {
            assert_eq!(of(named, checked).unwrap_err(), why);
        }
    }

    /// A field that comes or goes is another one, and the hash says so without the value.
    #[test]
    fn fields_are_compared() {
        let reading = |value: Value| BaselineReading(members(value));
        let before = reading(json!({ "/a": 1, "/b": null }));
        assert!(before.differing(&before.clone()).is_empty());
        for (after, fields) in [
            (json!({ "/a": 1 }), vec!["/b"]),
            (json!({ "/a": 2, "/b": null }), vec!["/a"]),
            (json!({ "/a": 1, "/b": null, "/c": 0 }), vec!["/c"]),
            (json!({}), vec!["/a", "/b"]),
        ] {
            let after = reading(after);
            assert_eq!(before.differing(&after), fields);
            assert_ne!(before.hash(), after.hash());
        }
        assert!(reading(json!({})).is_empty());
    }
}
