//! A call that changes nothing and finds out what became of one that did not answer.

use super::derive::judge;
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use crate::model::times::between;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long a call that was sent may still be on its way.
const DEFAULT_ABSENT_AFTER: Duration = Duration::from_secs(30);
const ABSENT_AFTER_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(1);
/// Stands for the key as the tool server knows it.
const KEY_PLACEHOLDER: &str = "key#";
/// Stands for a part of the call's arguments.
const ARGUMENTS_PREFIX: &str = "arguments#";

/// The question, and how to read the answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Probe")]
pub(crate) struct ProbeSettings {
    /// the tool to call: `server__tool`; its contract says that it only reads
    pub tool: String,
    /// Its arguments; `arguments#/pointer` stands for an argument of the call, `key#` for its key.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// JSON pointer into the structured result to what is there when the call was done
    pub found: String,
    /// How long after the call was sent a probe that finds nothing proves that it was not done
    /// [default: 30s].
    #[serde(default)]
    pub absent_after: Option<String>,
}

/// As run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The tool to call.
    pub tool: ToolName,
    arguments: Map<String, Value>,
    found: String,
    absent_after: Duration,
}

/// What a probe has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// The call was done.
    Found,
    /// It was not, and no longer will be.
    Absent,
    /// Nothing is proven.
    Unclear,
}

impl ProbeSettings {
    pub(super) fn compile(self, problems: &mut Problems) -> Probe {
        let Self {
            tool,
            arguments,
            found,
            absent_after,
        } = self;
        problems.under("found", |problems| judge(&found, problems));
        problems.under("arguments", |problems| {
            for (name, value) in &arguments {
                if let Some(pointer) = value
                    .as_str()
                    .and_then(|text| text.strip_prefix(ARGUMENTS_PREFIX))
                {
                    problems.under(name.clone(), |problems| judge(pointer, problems));
                }
            }
        });
        let absent_after = between(
            "absent_after",
            absent_after.as_deref(),
            ABSENT_AFTER_BOUNDS,
            problems,
        );
        let absent_after = absent_after.unwrap_or(DEFAULT_ABSENT_AFTER);
        Probe {
            tool: ToolName::new(&tool),
            arguments,
            found,
            absent_after,
        }
    }
}

impl Probe {
    /// The arguments of the question; none when an argument it needs was not in the call.
    pub fn ask(&self, arguments: &Value, key: &str) -> Option<Value> {
        let fill = |(name, value): (&String, &Value)| {
            let filled = match value.as_str() {
                Some(KEY_PLACEHOLDER) => Value::from(key),
                Some(text) => match text.strip_prefix(ARGUMENTS_PREFIX) {
                    Some(pointer) => arguments.pointer(pointer)?.clone(),
                    None => value.clone(),
                },
                None => value.clone(),
            };
            Some((name.clone(), filled))
        };
        self.arguments
            .iter()
            .map(fill)
            .collect::<Option<Map<_, _>>>()
            .map(Value::Object)
    }

    /// Reads the structured result of the question, asked so long after the call was sent. An empty
    /// place is as good as none.
    pub fn read(&self, result: &Value, since_sent: Duration) -> ProbeVerdict {
        let there = match result.pointer(&self.found) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Array(elements)) => !elements.is_empty(),
            Some(Value::Object(members)) => !members.is_empty(),
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Number(_) | Value::Bool(true)) => true,
        };
        match there {
            true => ProbeVerdict::Found,
            false if result.is_object() && since_sent >= self.absent_after => ProbeVerdict::Absent,
            false => ProbeVerdict::Unclear,
        }
    }
}
