//! One thing that is taken out of results: what stands at a place, or what matches a pattern.

use crate::mcp::json::path_edit::PathStep;
use crate::mcp::json::{Scalar, Text};
use crate::model::diagnostic::Problems;
use crate::model::pointer::{is_pointer, steps};
use crate::model::regular::Regular;
use schemars::JsonSchema;
use serde::Deserialize;

/// Longest pattern in bytes (threat-model §4).
const PATTERN_BYTES_MAX: usize = 512;
/// Longest replacement in bytes.
const REPLACEMENT_BYTES_MAX: usize = 256;
/// Shorter values, in bytes, occur by themselves: taken out of one place, they stay in others.
const VALUE_BYTES_MIN: usize = 4;
/// What stands for what was taken out.
const DEFAULT_REPLACEMENT: &str = "[redacted]";

/// What is taken out: one of `pointer` and `pattern`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Redaction")]
pub(crate) struct RedactionSettings {
    /// JSON pointer into `structuredContent`, and into texts that are JSON; a step `*` is every
    /// member or element.
    pub pointer: Option<String>,
    /// A regular expression (RE2 syntax, linear time) that is looked for in every text of the
    /// result, and in the names and numbers of `structuredContent`.
    pub pattern: Option<String>,
    /// What stands there instead [default: `[redacted]`].
    pub with: Option<String>,
}

/// As run.
#[derive(Debug)]
pub(super) enum Redaction {
    Place { path: Vec<PathStep>, with: Text },
    Pattern { pattern: Regular, with: String },
}

impl RedactionSettings {
    pub(super) fn compile(self, problems: &mut Problems) -> Option<Redaction> {
        let Self {
            pointer,
            pattern,
            with,
        } = self;
        let with = with.unwrap_or_else(|| DEFAULT_REPLACEMENT.to_owned());
        if with.len() > REPLACEMENT_BYTES_MAX {
            let message = format!("is longer than {REPLACEMENT_BYTES_MAX} bytes");
            problems.under("with", |problems| problems.error(message, "shorten it"));
        }
        match (pointer, pattern) {
            (Some(pointer), None) => problems.under("pointer", |problems| {
                if !is_pointer(&pointer) {
                    problems.error(
                        "not a JSON pointer",
                        "write `/` and a name, such as `/customer/iban` or `/rows/*/iban`",
                    );
                    return None;
                }
                let path = steps(&pointer).into_iter().map(|step| {
                    if step == "*" {
                        PathStep::Each
                    } else {
                        PathStep::To(step)
                    }
                });
                Some(Redaction::Place {
                    path: path.collect(),
                    with: Text::string(&with),
                })
            }),
            (None, Some(pattern)) => problems.under("pattern", |problems| {
                let pattern = compile(&pattern, problems)?;
                Some(Redaction::Pattern { pattern, with })
            }),
            (Some(_), Some(_)) | (None, None) => {
                problems.error(
                    "says not what to take out",
                    "write one of `pointer` and `pattern`",
                );
                None
            }
        }
    }
}

impl Redaction {
    /// The place, as a path from the root in which `*` is every member or element.
    pub(super) fn place(&self) -> Option<Vec<String>> {
        let Self::Place { path, .. } = self else {
            return None;
        };
        let step = |step: &PathStep| match step {
            PathStep::Each => "*".to_owned(),
            PathStep::To(name) => name.clone(),
        };
        Some(path.iter().map(step).collect())
    }
}

fn compile(pattern: &str, problems: &mut Problems) -> Option<Regular> {
    let hint = "write a regular expression in RE2 syntax: no look-around, no back-references";
    if pattern.len() > PATTERN_BYTES_MAX {
        problems.error(
            format!("is longer than {PATTERN_BYTES_MAX} bytes"),
            "make several of it",
        );
        return None;
    }
    match Regular::new(pattern) {
        Some(compiled) if compiled.is_match("") => {
            problems.error(
                "matches nothing at all",
                "write a pattern that needs at least one character",
            );
            None
        }
        Some(compiled) => Some(compiled),
        None => {
            problems.error("cannot be used as a pattern", hint);
            None
        }
    }
}

/// What a value that was taken out may be called in a plain text.
pub(super) fn plain_text(value: &Text) -> Option<String> {
    if value.is_object() || value.is_array() || value.is_null() {
        return None;
    }
    let said = value.as_str().map_or_else(
        || String::from_utf8_lossy(value.as_bytes()).into_owned(),
        std::borrow::Cow::into_owned,
    );
    (said.len() >= VALUE_BYTES_MIN && !matches!(said.as_str(), "true" | "false")).then_some(said)
}

/// Whether a string is the protocol's: kinds, and handles that the server must get back as it gave
/// them.
pub(super) fn is_protocol(one: &Scalar<'_>) -> bool {
    const PROTOCOL_KINDS: [&str; 6] = [
        "text",
        "image",
        "audio",
        "resource",
        "resource_link",
        "form",
    ];
    match one.under {
        b"requestState" | b"taskId" | b"resultType" | b"progressToken" | b"elicitationId" => true,
        b"type" => PROTOCOL_KINDS.contains(&&*one.value()),
        _ => false,
    }
}
