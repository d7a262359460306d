//! Refuses a call for which a rule of the contract is true, with that rule's own code.
//!
//! After permission, so that values are judged only for who may call at all. What could not be
//! judged is not sent. Where a rule fails because the agent left an argument out, or gave one that
//! no schema bounds in another type than the rule takes, it refuses like one that is true (003-24);
//! where it fails over arguments that the schemas let through, that is its author's mistake, and
//! `rule_failed` says so to operators.

use super::evidence::{Permit, Ruled};
use super::{Section, is_own_code};
use crate::expression::verdict::{ExpressionFailure, ExpressionVerdict};
use crate::expression::{
    ARGUMENTS_TOO_LONG_MESSAGE, CompiledExpression, ExpressionSet, ExpressionSetBuilder, LazyCaller,
};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::refusal::Refusal;
use crate::schema::DeclaredArguments;
use crate::schema::PropertyNames;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

mod checked;
mod decided;

use checked::RuleArguments;
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
    /// How many were written, of which some could not be read.
    written: usize,
    reading: ExpressionSet,
    /// The arguments that the expressions name, as paths from the root.
    reads: Vec<Vec<String>>,
    names: PropertyNames,
}

struct CompiledRule {
    /// Its place among those that were written, of which some could not be read.
    written_at: usize,
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
        self.read(None, &[], problems)
    }
}

impl Settings {
    /// As [`Section::compile`], in a contract whose `arguments` are `schema`, for callers with these
    /// roles: warns of rules that never refuse, refuse always, or come after one that does.
    pub(crate) fn compile_beside(
        self,
        schema: &Map<String, Value>,
        roles: &[String],
        problems: &mut Problems,
    ) -> Rule {
        self.read(Some(schema), roles, problems)
    }

    fn read(
        self,
        schema: Option<&Map<String, Value>>,
        roles: &[String],
        problems: &mut Problems,
    ) -> Rule {
        let whole = schema.map_or(Value::Null, |schema| Value::Object(schema.clone()));
        let known = RuleArguments {
            declared: DeclaredArguments::written(&whole),
            roles,
        };
        let written = self.0.len();
        let (mut lines, mut gathering) = (Vec::new(), ExpressionSetBuilder::default());
        let mut before: Option<String> = None;
        for (index, written) in self.0.into_iter().enumerate() {
            problems.under(index.to_string(), |problems| {
                problems.under("code", |problems| judge_code(&written.code, problems));
                let read = problems.under("when", |problems| {
                    let read = gathering.read(&written.when, problems);
                    read.inspect(|_| known.judge(&written.when, problems))
                });
                if let Some((tree, when)) = read {
                    if let Some(schema) = schema {
                        let outlook = decided::outlook(&tree, schema);
                        judge_reach(outlook, &written.code, &mut before, problems);
                    }
                    lines.push(CompiledRule::of(index, written, when));
                }
            });
        }
        let (reading, reads) = gathering.finish();
        let names = PropertyNames::on(reads.iter().map(Vec::as_slice));
        Rule {
            lines,
            written,
            reading,
            reads,
            names,
        }
    }
}

impl CompiledRule {
    fn of(written_at: usize, written: RuleSettings, when: CompiledExpression) -> Self {
        let default = || format!("a call that the contract's rule `{}` allows", written.code);
        Self {
            written_at,
            expected: written.expected.unwrap_or_else(default),
            code: Arc::from(written.code),
            when,
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

    /// How many rules were written.
    pub(crate) fn written_count(&self) -> usize {
        self.written
    }

    /// Notes what can only fail in a tool whose arguments are `declared`; those before `from` are
    /// judged elsewhere.
    pub(crate) fn check_against(
        &self,
        declared: DeclaredArguments<'_>,
        from: usize,
        problems: &mut Problems,
    ) {
        let known = RuleArguments {
            declared,
            roles: &[],
        };
        let lines = self.lines.iter().filter(|line| line.written_at >= from);
        for line in lines {
            problems.under((line.written_at - from).to_string(), |problems| {
                problems.under("when", |problems| known.judge(line.when.source(), problems));
            });
        }
    }

    /// Tries the rules in order, on a call that has passed what is `declared` of its arguments.
    pub fn apply(
        &self,
        caller: &Caller,
        arguments: &Value,
        declared: &DeclaredArguments<'_>,
        permit: &Permit,
    ) -> Result<Ruled, Refusal> {
        if self.lines.is_empty() {
            return Ok(Ruled::mint(permit));
        }
        self.names.judge(arguments).map_err(Refusal::from)?;
        match self.first(caller, arguments)? {
            Some(refusing) => Err(refusing.refusal(arguments, declared)),
            None => Ok(Ruled::mint(permit)),
        }
    }

    /// Which rule refuses a call, from 0, if one does.
    pub fn deciding(&self, caller: &Caller, arguments: &Value) -> Option<usize> {
        let first = self.first(caller, arguments).ok()?;
        first.map(|refusing| refusing.index)
    }

    /// The first rule that is not false.
    fn first(
        &self,
        caller: &Caller,
        arguments: &Value,
    ) -> Result<Option<RefusingRule<'_>>, Refusal> {
        let seen = LazyCaller::new(caller);
        let too_long = || Refusal::SchemaInvalid {
            pointer: String::new(),
            expected: ARGUMENTS_TOO_LONG_MESSAGE.to_owned(),
        };
        let sight = self.reading.sight(&seen, arguments).ok_or_else(too_long)?;
        let refusing = |(index, line): (usize, _)| {
            let line: &CompiledRule = line;
            let failed = match sight.verdict(&line.when) {
                ExpressionVerdict::False => return None,
                ExpressionVerdict::True => None,
                ExpressionVerdict::Failed(failed) => Some(failed),
            };
            Some(RefusingRule {
                index,
                line,
                failed,
            })
        };
        Ok(self.lines.iter().enumerate().find_map(refusing))
    }
}

/// The rule that refuses a call.
struct RefusingRule<'r> {
    index: usize,
    line: &'r CompiledRule,
    /// Why it could not be judged; none: it is true.
    failed: Option<ExpressionFailure>,
}

impl RefusingRule<'_> {
    fn refusal(&self, arguments: &Value, declared: &DeclaredArguments<'_>) -> Refusal {
        match self.failed {
            Some(failed) if !self.is_of_agent(failed, arguments, declared) => Refusal::RuleFailed {
                code: self.line.code.clone(),
                why: failed.words(),
            },
            _ => Refusal::Rule {
                code: self.line.code.clone(),
                expected: self.line.expected.clone(),
            },
        }
    }

    /// Whether it failed over what the agent left out, or over a type that no schema rules out.
    fn is_of_agent(
        &self,
        failed: ExpressionFailure,
        arguments: &Value,
        declared: &DeclaredArguments<'_>,
    ) -> bool {
        if matches!(
            failed,
            ExpressionFailure::DividesByZero | ExpressionFailure::Overflow
        ) {
            return false;
        }
        let Some(reads) = self.line.when.reads() else {
            // It looks at all arguments, of which the schemas never say all.
            return true;
        };
        match failed {
            ExpressionFailure::Absent => {
                let is_there = |path: &Vec<String>| {
                    path.iter()
                        .try_fold(arguments, |value, name| value.get(name))
                        .is_some()
                };
                let mut absent = reads.iter().filter(|path| !is_there(path)).peekable();
                // Nothing that it names is absent: an element lacks something.
                let is_container = |path: &Vec<String>| {
                    path.iter()
                        .try_fold(arguments, |value, name| value.get(name))
                        .is_some_and(|value| value.is_object() || value.is_array())
                };
                let is_inside = absent.peek().is_none() && reads.iter().any(is_container);
                is_inside || absent.any(|path| !declared.excludes(path))
            }
            ExpressionFailure::OtherType | ExpressionFailure::NoTruth => {
                reads.iter().any(|path| !declared.settles(path))
            }
            ExpressionFailure::DividesByZero | ExpressionFailure::Overflow => false,
        }
    }
}

#[cfg(test)]
mod tests;
