//! A call that changes nothing and finds out what became of one that did not answer.

use super::derive::judge;
use crate::model::diagnostic::Problems;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::model::number;
use crate::model::times::{between, millis};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long a call that was sent may still be on its way.
const DEFAULT_ABSENT_AFTER: Duration = Duration::from_secs(30);
const ABSENT_AFTER_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(1);
/// Values that `nothing` lists at most.
const MAX_NOTHINGS: usize = 16;
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
    /// what stands there when the call was not done, beside null and `false`: numbers, texts, `[]`
    /// or `{}`. Anything else that stands there then means that it was done. Without this list,
    /// `0`, an empty text, list or object proves nothing
    #[serde(default)]
    pub nothing: Option<Vec<Value>>,
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
    nothing: Option<Vec<Value>>,
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
    /// What stands there is empty, and the contract does not say what that means.
    Unsaid,
}

impl ProbeVerdict {
    /// The word in the ledger.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Absent => "absent",
            Self::Unclear => "unclear",
            Self::Unsaid => "empty, and `probe.nothing` does not say what that means",
        }
    }

    /// The same as a label of metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Unsaid => "empty",
            Self::Found | Self::Absent | Self::Unclear => self.word(),
        }
    }
}

impl ProbeSettings {
    pub(super) fn compile(self, problems: &mut Problems) -> Probe {
        let Self {
            tool,
            arguments,
            found,
            nothing,
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
        problems.under("nothing", |problems| {
            judge_nothings(nothing.as_deref().unwrap_or_default(), problems);
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
            nothing,
            absent_after,
        }
    }
}

fn judge_nothings(nothings: &[Value], problems: &mut Problems) {
    if nothings.len() > MAX_NOTHINGS {
        problems.error(
            format!("lists more than {MAX_NOTHINGS} values"),
            "name what stands there when the call was not done",
        );
    }
    for (index, value) in nothings.iter().enumerate().take(MAX_NOTHINGS) {
        problems.under(index.to_string(), |problems| match value {
            Value::Number(_) | Value::String(_) => {}
            Value::Bool(false) => {
                problems.error("means nothing anyway", "leave it out");
            }
            value if is_empty(value) => {}
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => problems.error(
                "cannot be listed",
                "numbers, texts, `[]` and `{}` can; let `found` point to one of them",
            ),
        });
    }
}

/// Whether the value is a zero or has nothing in it: some servers say so that nothing is there, and
/// others that something is.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Number(number) => number::compare(number, &0.into()).is_eq(),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Numbers are compared as numbers, as everywhere in a policy.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => number::compare(one, other).is_eq(),
        _ => one == other,
    }
}

impl Probe {
    /// SHA-256 over all that the contract says of it: another one asks or reads otherwise.
    pub(crate) fn digest(&self) -> Digest {
        let Self {
            tool,
            arguments,
            found,
            nothing,
            absent_after,
        } = self;
        let written = json!([
            tool.as_str(),
            arguments,
            found,
            nothing,
            millis(*absent_after)
        ]);
        Digest::of_parts("probe", &[written.to_string().as_bytes()])
    }

    /// Where it looks, in the structured result.
    pub(crate) fn found(&self) -> &str {
        &self.found
    }

    /// The arguments of the question, as written.
    pub(crate) fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// Whether `text` stands for a part of the call that is asked about.
    pub(crate) fn stands_for_a_part(text: &str) -> bool {
        text == KEY_PLACEHOLDER || text.starts_with(ARGUMENTS_PREFIX)
    }

    /// By name, those arguments that stand for one of the call, with the pointer to that.
    pub(crate) fn taken_over(&self) -> impl Iterator<Item = (&String, &str)> {
        self.arguments.iter().filter_map(|(name, value)| {
            let pointer = value.as_str()?.strip_prefix(ARGUMENTS_PREFIX)?;
            Some((name, pointer))
        })
    }

    /// Whether the contract says what else means that the call was not done.
    pub(crate) fn says_nothing(&self) -> bool {
        self.nothing.is_some()
    }

    /// Whether the question names the key of the call that it is about.
    pub fn asks_by_key(&self) -> bool {
        let mut values = self.arguments.values();
        values.any(|value| value.as_str() == Some(KEY_PLACEHOLDER))
    }

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

    /// Reads the structured result of the question, asked so long after the call was sent.
    pub fn read(&self, result: &Value, since_sent: Duration) -> ProbeVerdict {
        let is_nothing = match (result.pointer(&self.found), &self.nothing) {
            (None | Some(Value::Null | Value::Bool(false)), _) => true,
            (Some(value), Some(nothing)) => nothing.iter().any(|nothing| is_same(nothing, value)),
            (Some(value), None) if is_empty(value) => return ProbeVerdict::Unsaid,
            (Some(_), None) => false,
        };
        match is_nothing {
            false => ProbeVerdict::Found,
            true if result.is_object() && since_sent >= self.absent_after => ProbeVerdict::Absent,
            true => ProbeVerdict::Unclear,
        }
    }
}
