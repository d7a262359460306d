//! What expressions read and what they cost, as far as their text says.

use crate::model::regular::Regular;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Our function: does text match a pattern that was compiled at load?
pub(super) const RE_FUNCTION: &str = "re";

/// Patterns by their text.
#[derive(Debug, Clone, Default)]
pub(super) struct RegexTable(Arc<HashMap<String, Regular>>);

/// The arguments that rules read.
#[derive(Debug)]
pub(super) enum ArgumentsRead {
    /// These.
    Named(BTreeSet<String>),
    /// All, because a rule names `arguments` as a whole.
    All,
}

impl Default for ArgumentsRead {
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

/// What expressions read.
#[derive(Debug, Default)]
pub(super) struct ExpressionReads {
    /// Paths into the arguments.
    pub(super) arguments: BTreeSet<Vec<String>>,
    /// All arguments at once.
    pub(super) all: bool,
    /// The caller.
    pub(super) caller: bool,
}

/// What an expression does, as far as its text says.
#[derive(Debug, Default)]
pub(super) struct ExpressionCost {
    /// Parts of it.
    pub(super) parts: u64,
    /// Whether some are done for each element of something.
    pub(super) loops: bool,
    /// The arguments that are looked at once for each element.
    pub(super) looped: Vec<Vec<String>>,
}

impl RegexTable {
    pub(super) fn extend(&mut self, more: HashMap<String, Regular>) {
        Arc::make_mut(&mut self.0).extend(more);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `text` matches; an error for a pattern that no expression has.
    pub(super) fn matches(&self, text: &str, pattern: &str) -> Result<bool, cel::ExecutionError> {
        let compiled = self
            .0
            .get(pattern)
            .ok_or_else(|| cel::ExecutionError::function_error(RE_FUNCTION, "unknown pattern"))?;
        Ok(compiled.is_match(text))
    }
}

impl ExpressionReads {
    pub(super) fn merge(&mut self, other: Self) {
        let Self {
            arguments,
            all,
            caller,
        } = other;
        self.arguments.extend(arguments);
        self.all |= all;
        self.caller |= caller;
    }

    /// The arguments to convert for a call.
    pub(super) fn wanted(&self) -> ArgumentsRead {
        if self.all {
            return ArgumentsRead::All;
        }
        ArgumentsRead::Named(
            self.arguments
                .iter()
                .filter_map(|path| path.first().cloned())
                .collect(),
        )
    }
}
