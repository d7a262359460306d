//! Says what an error of the tool server means, where the contract knows better than the protocol.
//!
//! At the end, when an answer is there: it decides whether the call counts as done, may be sent
//! again, or stays unknown (003-50, guarantees §4). What no line fits is judged by the protocol's
//! own rules.

use super::Section;
use crate::model::diagnostic::Problems;
use crate::model::pointer::is_pointer;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Characters of an error's text that are looked through.
const ERROR_TEXT_CHARS_READ: usize = 4096;
/// Lines of one contract.
const MAX_ERROR_RULES: usize = 64;

/// What errors of the tool server mean.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Output")]
pub(crate) struct Settings {
    /// The first that fits decides.
    pub errors: Vec<ErrorSettings>,
}

/// One kind of error. All that is written of it must fit.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "OutputError")]
pub(crate) struct ErrorSettings {
    /// HTTP status (400 to 599) or JSON-RPC code (negative).
    pub code: Option<i64>,
    /// What the error's message, or the text of a result with `isError`, contains; upper and lower
    /// case kept apart.
    pub says: Option<String>,
    /// JSON pointer into the structured result of one with `isError`, where `equals` stands.
    pub at: Option<String>,
    /// What stands at `at`.
    pub equals: Option<Value>,
    /// what it means for the call
    pub means: Meaning,
}

/// What an error means for the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Meaning {
    /// Nothing was done, and the same call may be sent again with the same key.
    Retryable,
    /// Nothing was done; the same call gets the same answer again.
    NotExecuted,
    /// It may have been done: the outcome stays unknown.
    Unknown,
    /// It is over, and this is its answer.
    Failed,
}

/// As run. The default knows no error.
#[derive(Debug, Default)]
pub struct Rule {
    lines: Vec<ErrorRule>,
}

#[derive(Debug)]
struct ErrorRule {
    code: Option<i64>,
    says: Option<String>,
    at: Option<(String, Value)>,
    means: Meaning,
}

/// An error as it came; absent is what it does not have.
#[derive(Debug, Default, Clone, Copy)]
pub struct UpstreamError<'a> {
    /// HTTP status of an exchange that brought no answer.
    pub status: Option<u16>,
    /// JSON-RPC code.
    pub code: Option<i64>,
    /// Message of the error, or first text of the result.
    pub text: Option<&'a str>,
    /// Structured result.
    pub structured: Option<&'a Value>,
}

// === impl Settings ===

impl Settings {
    /// These, then those of `contract`, for a variant of it.
    #[must_use]
    pub(crate) fn before(self, contract: &Self) -> Self {
        Self {
            errors: [self.errors, contract.errors.clone()].concat(),
        }
    }
}

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "output";

    fn compile(self, problems: &mut Problems) -> Rule {
        problems.under("errors", |problems| {
            if self.errors.len() > MAX_ERROR_RULES {
                problems.error(
                    format!("more than {MAX_ERROR_RULES} errors"),
                    "say less of each",
                );
            }
            let lines = self.errors.into_iter().enumerate();
            let compile = |(index, written): (usize, ErrorSettings)| {
                problems.under(index.to_string(), |problems| written.compile(problems))
            };
            Rule {
                lines: lines.map(compile).collect(),
            }
        })
    }
}

impl ErrorSettings {
    fn compile(self, problems: &mut Problems) -> ErrorRule {
        let Self {
            code,
            says,
            at,
            equals,
            means,
        } = self;
        if code.is_none() && says.is_none() && at.is_none() {
            problems.error(
                "fits every error",
                "say which one: `code`, `says`, or `at` and `equals`",
            );
        }
        let is_status = code.is_some_and(|code| (400..=599).contains(&code));
        if code.is_some_and(|code| code >= 0) && !is_status {
            let hint = "write an HTTP status from 400 to 599, or a JSON-RPC code below 0";
            problems.under("code", |problems| {
                problems.error("is no error of a tool server", hint);
            });
        }
        if is_status && (means == Meaning::Failed || says.is_some() || at.is_some()) {
            let hint = "name only `code`, and one of `retryable`, `not_executed`, `unknown`";
            problems.under("code", |problems| {
                problems.error("an HTTP status brings no answer to look at or give", hint);
            });
        }
        if says.as_ref().is_some_and(|text| text.trim().is_empty()) {
            problems.under("says", |problems| {
                problems.error("is blank", "write a part of the error's text");
            });
        }
        if at.is_some() != equals.is_some() {
            problems.error("`at` and `equals` go together", "write both, or none");
        }
        if at.as_ref().is_some_and(|at| !is_pointer(at)) {
            let hint = "write `/` and a name, such as `/error/code`";
            problems.under("at", |problems| {
                problems.error("not a JSON pointer into the result", hint);
            });
        }
        ErrorRule {
            code,
            says,
            at: at.zip(equals),
            means,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// What the contract says that this error means, if it says anything.
    pub fn judge(&self, said: UpstreamError<'_>) -> Option<Meaning> {
        self.lines
            .iter()
            .find(|line| line.fits(said))
            .map(|line| line.means)
    }

    /// Does the contract say anything of errors?
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl ErrorRule {
    fn fits(&self, said: UpstreamError<'_>) -> bool {
        let UpstreamError {
            status,
            code,
            text,
            structured,
        } = said;
        let named = |wanted: i64| status.map(i64::from) == Some(wanted) || code == Some(wanted);
        let contains = |wanted: &String| {
            let end = text
                .and_then(|text| text.char_indices().nth(ERROR_TEXT_CHARS_READ))
                .map(|(end, _)| end);
            text.is_some_and(|text| text[..end.unwrap_or(text.len())].contains(wanted.as_str()))
        };
        let equals = |(at, wanted): &(String, Value)| {
            structured.and_then(|value| value.pointer(at)) == Some(wanted)
        };
        self.code.is_none_or(named)
            && self.says.as_ref().is_none_or(contains)
            && self.at.as_ref().is_none_or(equals)
    }
}

impl Meaning {
    /// The word in policies and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::NotExecuted => "not_executed",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compile(errors: &Value) -> (Rule, Vec<String>) {
        let mut problems = Problems::default();
        let settings: Settings = serde_json::from_value(json!({ "errors": errors })).unwrap();
        let rule = settings.compile(&mut problems);
        (
            rule,
            problems
                .into_found()
                .into_iter()
                .map(|problem| problem.message)
                .collect(),
        )
    }

    /// 003-50: the first line that fits says what the error means; without one the protocol's rules
    /// count.
    #[test]
    fn the_first_line_that_fits_says_what_an_error_means() {
        let (rule, problems) = compile(&json!([
            { "at": "/error/code", "equals": "LOCKED", "means": "retryable" },
            { "code": -32050, "says": "quota", "means": "not_executed" },
            { "code": 502, "means": "retryable" },
            { "says": "timed out", "means": "unknown" },
            { "code": -32603, "means": "failed" },
        ]));
        assert_eq!(problems, [""; 0]);
        let locked = json!({ "error": { "code": "LOCKED" } });
        let far = format!("{}timed out", "x".repeat(ERROR_TEXT_CHARS_READ));
        let coded = |code, text| UpstreamError {
            code: Some(code),
            text,
            ..UpstreamError::default()
        };
        let said = |text| UpstreamError {
            text: Some(text),
            ..UpstreamError::default()
        };
        let structured = UpstreamError {
            structured: Some(&locked),
            ..said("timed out")
        };
        let status = UpstreamError {
            status: Some(502),
            ..UpstreamError::default()
        };
        for (said, means) in [
            (structured, Some("retryable")),
            (coded(-32050, Some("no quota left")), Some("not_executed")),
            (coded(-32050, Some("other")), None),
            (status, Some("retryable")),
            (said("the bank timed out"), Some("unknown")),
            (said("the bank TIMED OUT"), None),
            (said(&far), None),
            (coded(-32603, None), Some("failed")),
            (UpstreamError::default(), None),
        ] {
            assert_eq!(rule.judge(said).map(Meaning::word), means, "{said:?}");
        }
    }

    /// 003-50: a line that cannot mean what it says does not load.
    #[test]
    fn a_line_that_cannot_mean_what_it_says_does_not_load() {
        for (line, message) in [
            (json!({ "means": "unknown" }), "fits every error"),
            (
                json!({ "code": 200, "means": "unknown" }),
                "is no error of a tool server",
            ),
            (
                json!({ "code": 500, "means": "failed" }),
                "an HTTP status brings no answer to look at or give",
            ),
            (
                json!({ "code": 500, "says": "x", "means": "unknown" }),
                "an HTTP status brings no answer to look at or give",
            ),
            (json!({ "says": " ", "means": "unknown" }), "is blank"),
            (
                json!({ "at": "/a", "means": "unknown" }),
                "`at` and `equals` go together",
            ),
            (
                json!({ "at": "a", "equals": 1, "means": "unknown" }),
                "not a JSON pointer into the result",
            ),
        ] {
            assert_eq!(compile(&json!([line])).1, [message], "{line}");
        }
    }
}
