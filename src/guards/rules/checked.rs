//! What a rule can be held to before any call: the arguments that its tool has, their types, and
//! the roles that callers have.

use crate::expression::kinds::{self, ExpressionKind, KnownValues};
use crate::model::diagnostic::Problems;
use crate::schema::DeclaredArguments;
use crate::schema::kinds::{ELEMENT_STEP, JsonKind};

/// What rules read, as far as it is known.
pub(super) struct RuleArguments<'a> {
    pub(super) declared: DeclaredArguments<'a>,
    /// None: the roles are not judged.
    pub(super) roles: &'a [String],
}

impl RuleArguments<'_> {
    /// Notes what in the rule `when` can only fail, or never be true.
    pub(super) fn judge(&self, when: &str, problems: &mut Problems) {
        kinds::judge(when, self, problems);
    }
}

impl KnownValues for RuleArguments<'_> {
    const ELEMENT_STEP: &'static str = ELEMENT_STEP;

    fn kind(&self, path: &[String]) -> ExpressionKind {
        match self.declared.kind(path) {
            None => ExpressionKind::Any,
            Some(JsonKind::Null) => ExpressionKind::Null,
            Some(JsonKind::Boolean) => ExpressionKind::Truth,
            Some(JsonKind::Number) => ExpressionKind::Number,
            Some(JsonKind::String) => ExpressionKind::Text,
            Some(JsonKind::Array) => ExpressionKind::List,
            Some(JsonKind::Object) => ExpressionKind::Map,
        }
    }

    fn absent(&self, path: &[String]) -> Option<Vec<String>> {
        self.declared
            .excludes(path)
            .then(|| self.declared.beside(path))
    }

    fn roles(&self) -> &[String] {
        self.roles
    }
}
