//! Refuses a call for which a rule of the contract is true, with that rule's own code.
//!
//! After permission, so that values are judged only for who may call at all. A rule that fails, or
//! says neither true nor false, refuses like one that is true: what could not be judged is not
//! sent.

use super::evidence::{Permit, Ruled};
use super::{Section, is_own_code};
use crate::expression::{
    ARGUMENTS_TOO_LONG_MESSAGE, CompiledExpression, ExpressionSet, ExpressionSetBuilder, LazyCaller,
};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::refusal::Refusal;
use crate::schema::PropertyNames;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

mod decided;

use decided::Outlook;

/// The rules of a contract, in the order in which they are tried.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "Rules")]
pub(crate) struct Settings(pub Vec<RuleSettings>);

/// One rule, as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rule")]
pub(crate) struct RuleSettings {
    /// The code of the refusal: lower-case letters, digits and `_`, at most 64 characters.
    pub code: String,
    /// CEL over `arguments` and `caller`; the call is refused when it is true, and when it fails.
    pub when: String,
    /// What the agent reads as expected.
    pub expected: Option<String>,
}

/// As run. The default refuses nothing.
#[derive(Default)]
pub struct Rule {
    lines: Vec<CompiledRule>,
    reading: ExpressionSet,
    /// The arguments that the expressions name, as paths from the root.
    reads: Vec<Vec<String>>,
    names: PropertyNames,
}

struct CompiledRule {
    code: Arc<str>,
    when: CompiledExpression,
    expected: String,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.lines.iter().map(|line| &line.code))
            .finish()
    }
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "rules";

    fn compile(self, problems: &mut Problems) -> Rule {
        self.read(None, problems)
    }
}

impl Settings {
    /// As [`Section::compile`], in a contract whose `arguments` are `schema`: warns of rules that
    /// never refuse, refuse always, or come after one that does.
    pub(crate) fn compile_beside(
        self,
        schema: &Map<String, Value>,
        problems: &mut Problems,
    ) -> Rule {
        self.read(Some(schema), problems)
    }

    fn read(self, schema: Option<&Map<String, Value>>, problems: &mut Problems) -> Rule {
        let (mut lines, mut gathering) = (Vec::new(), ExpressionSetBuilder::default());
        let mut before: Option<String> = None;
        for (index, written) in self.0.into_iter().enumerate() {
            let line = problems.under(index.to_string(), |problems| {
                problems.under("code", |problems| judge_code(&written.code, problems));
                problems.under("when", |problems| gathering.read(&written.when, problems))
            });
            if let Some((tree, when)) = line {
                if let Some(outlook) = schema.map(|schema| decided::outlook(&tree, schema)) {
                    let place = index.to_string();
                    problems.under(place, |problems| {
                        judge_reach(outlook, &written.code, &mut before, problems);
                    });
                }
                let default =
                    || format!("a call that the contract's rule `{}` allows", written.code);
                let expected = written.expected.clone().unwrap_or_else(default);
                lines.push(CompiledRule {
                    code: Arc::from(written.code),
                    when,
                    expected,
                });
            }
        }
        let (reading, reads) = gathering.finish();
        let names = PropertyNames::on(reads.iter().map(Vec::as_slice));
        Rule {
            lines,
            reading,
            reads,
            names,
        }
    }
}

/// `before`: the first rule that refuses every call, once there is one.
fn judge_reach(outlook: Outlook, code: &str, before: &mut Option<String>, problems: &mut Problems) {
    if let Some(before) = before {
        let hint = "put it before that one, or take it away";
        problems.warning(
            format!("is never tried: `{before}` refuses every call before it"),
            hint,
        );
    } else if !outlook.no {
        problems.warning(
            "refuses every call",
            "correct `when`, or take the tool off with `layers`",
        );
        *before = Some(code.to_owned());
    } else if !outlook.yes {
        let hint = "take the rule away, or let `arguments` leave it to the rule";
        problems.warning(
            "is never true: the contract's `arguments`, or the rule itself, rule it out",
            hint,
        );
    }
}

fn judge_code(code: &str, problems: &mut Problems) {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if code.len() > 64
        || !code.starts_with(|c: char| c.is_ascii_lowercase())
        || !code.chars().all(letters)
    {
        let hint = "start with a letter; lower-case letters, digits and `_`, at most 64";
        problems.error("not a code", hint);
    }
    if is_own_code(code) {
        problems.error(
            format!("`{code}` is a code of toolgate's own"),
            "give the rule a code of its own",
        );
    }
}

// === impl Rule ===

impl Rule {
    /// The arguments that the rules name, as paths from the root.
    pub fn reads(&self) -> &[Vec<String>] {
        &self.reads
    }

    /// The rules' codes, in order.
    pub fn codes(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| &*line.code)
    }

    /// Tries the rules in order.
    pub fn apply(
        &self,
        caller: &Caller,
        arguments: &Value,
        permit: &Permit,
    ) -> Result<Ruled, Refusal> {
        if self.lines.is_empty() {
            return Ok(Ruled::mint(permit));
        }
        self.names.judge(arguments).map_err(Refusal::from)?;
        match self.first(caller, arguments)? {
            Some((_, line)) => Err(Refusal::Rule {
                code: line.code.clone(),
                expected: line.expected.clone(),
            }),
            None => Ok(Ruled::mint(permit)),
        }
    }

    /// Which rule refuses a call, from 0, if one does.
    pub fn deciding(&self, caller: &Caller, arguments: &Value) -> Option<usize> {
        self.first(caller, arguments).ok()?.map(|(index, _)| index)
    }

    /// The first rule that is not false.
    fn first(
        &self,
        caller: &Caller,
        arguments: &Value,
    ) -> Result<Option<(usize, &CompiledRule)>, Refusal> {
        let seen = LazyCaller::new(caller);
        let too_long = || Refusal::SchemaInvalid {
            pointer: String::new(),
            expected: ARGUMENTS_TOO_LONG_MESSAGE.to_owned(),
        };
        let sight = self.reading.sight(&seen, arguments).ok_or_else(too_long)?;
        Ok(self
            .lines
            .iter()
            .enumerate()
            .find(|(_, line)| !sight.is_false(&line.when)))
    }
}

#[cfg(test)]
mod tests;
