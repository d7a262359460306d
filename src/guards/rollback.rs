//! How the effect of a call is undone, in the words of its contract (003-19, 003-52, 003-64).
//! toolgate undoes nothing by itself: operators read the words and ask for the call that is named, and
//! tests say which calls take another one back.

use crate::model::ids::ToolName;
use serde_json::{Map, Value};
use std::time::Duration;

mod check;
mod parts;

pub(crate) use check::UndoCheck;
pub(crate) use parts::{filled, taken};

/// What stands for a part of the result of the call that is taken back, in front of a pointer.
pub(crate) const RESULT_PREFIX: &str = "result#";
/// For a part of its arguments.
pub(crate) const ARGUMENTS_PREFIX: &str = "arguments#";
/// For its action id; nothing follows.
pub(crate) const ACTION_PLACEHOLDER: &str = "action#";

/// The word that a contract has for undoing. Exactly one, where a call changes something.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Undo {
    /// There is no word: nothing is changed, or there is no contract.
    #[default]
    Unsaid,
    /// Another call takes the effect back.
    Call(Rollback),
    /// A person does, as the contract says.
    Manual(String),
    /// Nothing is lost, so there is nothing to take back.
    Additive,
    /// Nothing takes it back, so a person is asked before each call.
    Irreversible,
}

/// Which call takes another one back.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollback {
    /// What it calls: `server__tool`.
    pub tool: ToolName,
    /// Its arguments, as the contract names them.
    pub arguments: Map<String, Value>,
    /// For how long after the call's end it can be made.
    pub within: Duration,
    /// What shows that the effect is gone, beside that the tool has answered.
    pub check: Option<Box<UndoCheck>>,
    /// Whether the agent may ask for it itself.
    pub by_agent: bool,
}

impl Undo {
    /// The call that takes the effect back, if one does.
    pub fn call(&self) -> Option<&Rollback> {
        if let Self::Call(rollback) = self {
            Some(rollback)
        } else {
            None
        }
    }

    /// Does nothing take the effect back?
    pub fn is_irreversible(&self) -> bool {
        *self == Self::Irreversible
    }

    /// As operators and the ledger read it.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::Unsaid => None,
            Self::Call(rollback) => Some(format!("call {}", rollback.tool)),
            Self::Manual(how) => Some(format!("by hand: {how}")),
            Self::Additive => Some("not needed: nothing is lost".to_owned()),
            Self::Irreversible => Some("impossible".to_owned()),
        }
    }
}

impl Rollback {
    /// Whether `call` has just the arguments that take back a call with the arguments `back`. What
    /// that one's result was is not known: any value may stand for a part of it, and any text
    /// for its action id.
    pub fn fits(&self, call: &Value, back: &Value) -> bool {
        call.as_object()
            .is_some_and(|call| has_members(&self.arguments, call, back))
    }
}

/// Whether `text` stands for a part of the call that is taken back, which is not known before that call.
pub(crate) fn stands_for_a_part(text: &str) -> bool {
    text.starts_with(RESULT_PREFIX)
        || text.starts_with(ARGUMENTS_PREFIX)
        || text == ACTION_PLACEHOLDER
}

fn has_members(named: &Map<String, Value>, given: &Map<String, Value>, back: &Value) -> bool {
    let fits = |(name, named): (&String, &Value)| {
        given
            .get(name)
            .is_some_and(|given| stands_for(named, given, back))
    };
    named.len() == given.len() && named.iter().all(fits)
}

fn stands_for(named: &Value, given: &Value, back: &Value) -> bool {
    match (named, given) {
        (Value::String(text), _) if text.starts_with(RESULT_PREFIX) => true,
        (Value::String(text), _) if text == ACTION_PLACEHOLDER => {
            given.as_str().is_some_and(|id| !id.is_empty())
        }
        (Value::String(text), _) => match text.strip_prefix(ARGUMENTS_PREFIX) {
            Some(pointer) => back.pointer(pointer) == Some(given),
            None => named == given,
        },
        (Value::Object(named), Value::Object(given)) => has_members(named, given, back),
        (Value::Array(named), Value::Array(given)) => {
            named.len() == given.len()
                && named
                    .iter()
                    .zip(given)
                    .all(|(named, given)| stands_for(named, given, back))
        }
        (named, given) => named == given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 003-64, 003-106: only the call with the very arguments that the contract names takes another
    /// one back.
    #[test]
    fn only_the_named_arguments_take_a_call_back() {
        let named = json!({
            "tenant": "arguments#/tenant", "ids": ["result#/id"], "why": { "by": "action#", "word": "undo" }, "all": "result#",
        });
        let back = json!({ "tenant": "t_001", "amount": 7 });
        let with = |key: &str, value: Value| {
            let mut call = json!({ "tenant": "t_001", "ids": [7], "why": { "by": "0190", "word": "undo" }, "all": { "id": 7 } });
            call[key] = value;
            call
        };
        let Value::Object(arguments) = named else {
            unreachable!()
        };
        let rollback = Rollback {
            tool: ToolName::new("bank__undo"),
            arguments,
            within: Duration::from_hours(24),
            check: None,
            by_agent: false,
        };
        for (key, value, expected) in [
            ("tenant", json!("t_001"), true),
            ("tenant", json!("t_002"), false),
            ("ids", json!(["any"]), true),
            ("ids", json!([]), false),
            ("ids", json!([1, 2]), false),
            ("why", json!({ "by": "another", "word": "undo" }), true),
            ("why", json!({ "by": "", "word": "undo" }), false),
            ("why", json!({ "by": 7, "word": "undo" }), false),
            ("why", json!({ "by": "0190", "word": "redo" }), false),
            ("why", json!({ "by": "0190" }), false),
            ("more", json!(1), false),
        ] {
            let call = with(key, value);
            assert_eq!(rollback.fits(&call, &back), expected, "{call}");
        }
        assert!(
            !rollback.fits(&with("tenant", json!(null)), &json!({})),
            "what the call does not have"
        );
    }
}
