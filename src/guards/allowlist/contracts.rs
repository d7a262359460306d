//! Contracts by tool: one for a tool, or one for several by a pattern. A tool's own counts before
//! any pattern, and of patterns the most specific.

use super::ToolPattern;
use crate::guards::ToolRules;
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// All contracts. That no two patterns are equally specific for one name is the compiler's
/// business.
#[derive(Debug, Default, Clone)]
pub struct Contracts {
    own: HashMap<ToolName, Arc<ToolRules>>,
    /// The most specific first.
    shared: Vec<PatternContract>,
}

#[derive(Debug, Clone)]
struct PatternContract {
    name: ToolName,
    pattern: ToolPattern,
    rules: Arc<ToolRules>,
}

impl Contracts {
    /// The contract that counts for `tool`.
    pub fn get(&self, tool: &ToolName) -> Option<&Arc<ToolRules>> {
        self.own
            .get(tool)
            .or_else(|| self.shared_by(tool).map(|shared| &shared.rules))
    }

    /// The name of the contract that counts for `tool`, as written.
    pub fn name_of(&self, tool: &ToolName) -> Option<&ToolName> {
        let own = self.own.get_key_value(tool).map(|(name, _)| name);
        own.or_else(|| self.shared_by(tool).map(|shared| &shared.name))
    }

    /// Whether the contract that counts for `tool` leaves the arguments of every call as they are: by
    /// whichever variant, it has no key among them, and strips none.
    pub(super) fn take_as_written(&self, tool: &ToolName) -> bool {
        self.get(tool).is_some_and(|rules| {
            let is_plain = rules.variants.is_none() && rules.idempotency.is_none();
            is_plain && !rules.arguments.is_stripping()
        })
    }

    fn shared_by(&self, tool: &ToolName) -> Option<&PatternContract> {
        self.shared
            .iter()
            .find(|shared| shared.pattern.matches(tool.as_str()))
    }

    /// The names that have a contract, patterns as written, in no order.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.own
            .keys()
            .chain(self.shared.iter().map(|shared| &shared.name))
    }

    /// All of them with their names, in no order.
    pub fn named(&self) -> impl Iterator<Item = (&ToolName, &Arc<ToolRules>)> {
        self.own.iter().chain(
            self.shared
                .iter()
                .map(|shared| (&shared.name, &shared.rules)),
        )
    }

    /// All of them, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ToolRules>> {
        self.own
            .values()
            .chain(self.shared.iter().map(|shared| &shared.rules))
    }
}

impl From<HashMap<ToolName, Arc<ToolRules>>> for Contracts {
    fn from(all: HashMap<ToolName, Arc<ToolRules>>) -> Self {
        let mut contracts = Self::default();
        for (name, rules) in all {
            // What is no pattern was reported where it was compiled.
            match ToolPattern::compile(name.as_str(), &mut Problems::default())
                .filter(ToolPattern::is_wild)
            {
                Some(pattern) => contracts.shared.push(PatternContract {
                    name,
                    pattern,
                    rules,
                }),
                None => drop(contracts.own.insert(name, rules)),
            }
        }
        contracts
            .shared
            .sort_by_key(|shared| (Reverse(shared.pattern.weight()), shared.name.clone()));
        contracts
    }
}
