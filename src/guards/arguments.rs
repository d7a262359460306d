//! Refuses a call whose arguments break the tool's schema or the contract's.
//!
//! Before permission and rules, so that these read arguments of a known shape. The server's schema
//! comes first: it is what the agent was shown.

use super::Section;
use super::evidence::Checked;
use crate::model::diagnostic::Problems;
use crate::model::pointer::steps;
use crate::model::refusal::Refusal;
use crate::schema::DeclaredArguments;
use crate::schema::mentions::Mention;
use crate::schema::{PropertyNames, Quarantine, Schema, SchemaViolation, closed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

mod bounds;
mod keyword_values;
mod overlay;

/// A JSON Schema (draft 2020-12), laid over the tool server's own: a call must satisfy both.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "Arguments")]
pub(crate) struct Settings(pub Map<String, Value>);

/// As run. The default lays nothing over the server's schema.
#[derive(Debug, Default)]
pub struct Rule {
    overlay: Option<Schema>,
    /// Arguments that other sections of the contract judge.
    judged: PropertyNames,
    /// Arguments that the contract names without judging them.
    named: PropertyNames,
    /// The contract has variants, and these arguments choose none: what would have been right.
    undecided: Option<SchemaViolation>,
    /// Is an empty text that nobody requires taken for an absent argument?
    strips: bool,
}

/// Judges arguments that a policy itself names, as those of a call are.
pub(crate) fn fit(schema: &Schema, arguments: &Value) -> Result<(), SchemaViolation> {
    schema.accepts(arguments)
}

// === impl Settings ===

impl Settings {
    /// Both at once, for a variant of a contract.
    #[must_use]
    pub(crate) fn and(self, contract: &Self) -> Self {
        match (self.0.is_empty(), contract.0.is_empty()) {
            (true, _) => contract.clone(),
            (_, true) => self,
            _ => Self(
                [("allOf".to_owned(), json!([contract.0, self.0]))]
                    .into_iter()
                    .collect(),
            ),
        }
    }
}

impl Settings {
    /// The properties of which it speaks, each with its key in the section.
    pub(crate) fn bounded(&self) -> Vec<Mention> {
        bounds::bounded(&self.0)
    }
}

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "arguments";

    fn compile(self, problems: &mut Problems) -> Rule {
        let written = Value::Object(self.0);
        // A typo leaves the schema without the constraint, so it must not compile.
        if !overlay::judge(&written, problems) {
            return Rule::default();
        }
        match Schema::compile_contract(&written) {
            Ok(schema) => Rule {
                overlay: Some(schema),
                ..Rule::default()
            },
            Err(reason) => {
                let place = if let Quarantine::Invalid { at } = &reason {
                    steps(at)
                } else {
                    Vec::new()
                };
                let hint = "write a JSON Schema of draft 2020-12 that describes the arguments";
                bounds::note(&place, problems, |problems| {
                    problems.error(reason.to_string(), hint);
                });
                Rule::default()
            }
        }
    }
}

// === impl Rule ===

impl Rule {
    /// The same for a contract that in other sections judges the arguments on the paths `judged`
    /// from the root, such as `["customer", "id"]`, and only names those in `named`.
    #[must_use]
    pub fn beside(self, judged: &[Vec<String>], named: &[String]) -> Self {
        let judged = PropertyNames::on(judged.iter().map(Vec::as_slice));
        Self {
            judged,
            named: PropertyNames::on(named.iter().map(std::slice::from_ref)),
            ..self
        }
    }

    /// The same for calls that choose none of the contract's variants, by the argument at
    /// `pointer`.
    #[must_use]
    pub fn undecided(self, pointer: &str, cases: &[&str]) -> Self {
        let expected = format!("one of {}", cases.join(", "));
        Self {
            undecided: Some(SchemaViolation {
                pointer: pointer.to_owned(),
                expected,
            }),
            ..self
        }
    }

    /// The same for a contract with `strip_empty_optionals: strips`.
    #[must_use]
    pub fn stripping(self, strips: bool) -> Self {
        Self { strips, ..self }
    }

    /// Whether it takes empty texts for absent arguments.
    pub(crate) fn is_stripping(&self) -> bool {
        self.strips
    }

    /// Without the arguments whose value is `""` and that neither schema requires: models send that
    /// for what they leave out (002-23). What is required stays, empty or not (002-24); so does
    /// everything below the top level.
    pub fn strip<'a>(&self, server: &Schema, arguments: &'a Value) -> Cow<'a, Value> {
        let Some(members) = arguments.as_object().filter(|_| self.strips) else {
            return Cow::Borrowed(arguments);
        };
        let schemas = || std::iter::once(server).chain(&self.overlay);
        let kept = |(name, value): (&String, &Value)| {
            value.as_str() != Some("") || schemas().any(|schema| schema.names().requires(name))
        };
        if members.iter().all(kept) {
            return Cow::Borrowed(arguments);
        }
        let rest = members.iter().filter(|(name, value)| kept((name, value)));
        Cow::Owned(Value::Object(
            rest.map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        ))
    }

    /// Judges `arguments` by the server's schema, then by the contract's. What the contract
    /// constrains is closed: only what it or the server's schema names may come (threat-model §3A
    /// A3).
    pub fn check(&self, server: &Schema, arguments: &Value) -> Result<Checked, Refusal> {
        for schema in std::iter::once(server).chain(&self.overlay) {
            fit(schema, arguments).map_err(Refusal::from)?;
        }
        self.judged.judge(arguments).map_err(Refusal::from)?;
        if let Some(undecided) = &self.undecided {
            return Err(undecided.clone().into());
        }
        let overlay = self.overlay.as_ref();
        let overlay = overlay.map_or(PropertyNames::none(), Schema::names);
        let contract = [overlay, &self.judged];
        closed::judge([server.names(), &self.named], contract, arguments).map_err(Refusal::from)?;
        Ok(Checked::mint())
    }

    /// What is known of the arguments of a tool with the schema `server`, once a call has passed.
    pub(crate) fn declared<'s>(&'s self, server: &'s Schema) -> DeclaredArguments<'s> {
        DeclaredArguments::of(server, self.overlay.as_ref())
    }

    /// What the contract lays over the server's schema, as written.
    pub fn laid_over(&self) -> Option<Value> {
        self.overlay.as_ref().map(Schema::source)
    }

    /// Notes where the overlay means what the server's schema does not say, or bounds what that
    /// schema lets no value of come; for `check`, when that schema is known.
    pub fn check_against(&self, server: &Schema, problems: &mut Problems) {
        if let Some(overlay) = &self.overlay {
            check_written(&overlay.source(), server, problems);
        }
    }

    /// The same for the rule of a case of a contract, of which `whole` is the contract's: what that
    /// says itself is judged there.
    pub fn check_case_against(&self, whole: &Self, server: &Schema, problems: &mut Problems) {
        let Some(merged) = self.laid_over() else {
            return;
        };
        match whole.laid_over() {
            None => check_written(&merged, server, problems),
            Some(whole) if whole == merged => {}
            // Both at once, by `Settings::and`.
            Some(_) => check_written(&merged["allOf"][1], server, problems),
        }
    }
}

fn check_written(written: &Value, server: &Schema, problems: &mut Problems) {
    overlay::compare(written, server, problems);
    bounds::compare(written, &server.source(), problems);
}

#[cfg(test)]
mod tests;
