//! Drafted arguments, tried before they are written.

use super::arguments::DraftedArguments;
use crate::guards::{Section as _, arguments};
use crate::model::diagnostic::{Problem, Problems, Severity};
use crate::schema::Schema;
use serde_json::{Map, Value, json};

/// Drafted arguments as the gate would judge by them.
pub(super) struct TriedArguments {
    pub(super) drafted: DraftedArguments,
    rule: arguments::Rule,
    schema: Schema,
}

impl TriedArguments {
    /// None where they are more than a contract may say.
    pub(super) fn of(drafted: DraftedArguments, schema: Option<&Value>) -> Option<Self> {
        let mut problems = Problems::default();
        let rule = arguments::Settings(drafted.schema()).compile(&mut problems);
        let anything = json!({ "type": "object" });
        let schema = Schema::compile(schema.unwrap_or(&anything)).ok()?;
        rule.check_against(&schema, &mut problems);
        let found = problems.into_found();
        let is_wrong = |problem: &Problem| problem.severity == Severity::Error;
        (!found.iter().any(is_wrong)).then_some(Self {
            drafted,
            rule,
            schema,
        })
    }

    pub(super) fn passes(&self, arguments: &Map<String, Value>) -> bool {
        let arguments = Value::Object(arguments.clone());
        self.rule.check(&self.schema, &arguments).is_ok()
    }
}
