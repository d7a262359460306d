//! The read that shows whether a call was taken back: that its tool has answered does not.

use super::taken;
use crate::model::ids::ToolName;
use serde_json::{Map, Value, json};

/// A read, and what stands in its structured result once the effect is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoCheck {
    /// What is read with: `server__tool`.
    pub tool: ToolName,
    /// Its arguments, as the contract names them.
    pub arguments: Map<String, Value>,
    /// The values, by JSON pointer.
    pub expect: Map<String, Value>,
}

impl UndoCheck {
    /// The parts of `from` that the arguments name behind `prefix`.
    pub fn taken(&self, prefix: &str, from: &Value) -> Map<String, Value> {
        taken(&self.arguments, prefix, from)
    }

    /// As it is kept with a call.
    pub fn kept(&self) -> Value {
        json!({ "tool": self.tool, "arguments": self.arguments, "expect": self.expect })
    }

    /// Reads what [`Self::kept`] gave.
    pub fn of(kept: &Value) -> Option<Self> {
        let members = |name: &str| kept.get(name)?.as_object().cloned();
        Some(Self {
            tool: ToolName::new(kept.get("tool")?.as_str()?),
            arguments: members("arguments")?,
            expect: members("expect")?,
        })
    }

    /// Whether a structured result shows that the effect is gone: every value stands where it is expected.
    pub fn holds(&self, result: &Value) -> bool {
        let mut expected = self.expect.iter();
        expected.all(|(pointer, value)| result.pointer(pointer) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 003-64: fields are compared, not only that there was an answer; and what is kept is read as it was.
    #[test]
    fn the_fields_say_it() {
        let kept = json!({
            "tool": "bank__show", "arguments": { "id": "result#/id" }, "expect": { "/status": "gone", "/open": false },
        });
        let check = UndoCheck::of(&kept).unwrap();
        assert_eq!(check.kept(), kept);
        for (result, holds) in [
            (json!({ "status": "gone", "open": false, "more": 1 }), true),
            (json!({ "status": "gone", "open": true }), false),
            (json!({ "status": "gone" }), false),
            (json!({}), false),
            (Value::Null, false),
        ] {
            assert_eq!(check.holds(&result), holds, "{result}");
        }
        assert_eq!(UndoCheck::of(&json!({ "tool": "bank__show" })), None);
    }
}
