//! Who calls at all: the callers that the configuration names.

use super::Rule;
use crate::model::caller::Caller;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Rule {
    /// All callers.
    pub fn callers(&self) -> &[Arc<Caller>] {
        &self.callers
    }

    /// The groups that callers are in.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.callers
            .iter()
            .filter_map(|caller| caller.group.as_deref())
    }

    /// The roles that callers have.
    pub(crate) fn roles(&self) -> Vec<String> {
        let all = self.callers.iter().flat_map(|caller| &caller.roles);
        let all: BTreeSet<&String> = all.collect();
        all.into_iter().cloned().collect()
    }

    /// The models that callers have, and their providers.
    pub(crate) fn models(&self) -> Vec<String> {
        let models = self.callers.iter().flat_map(|caller| {
            let provider = caller.provider().map(str::to_owned);
            caller.model.clone().into_iter().chain(provider)
        });
        models.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The first caller of that agent, for the command line: `explain --agent`, `stdio`.
    pub fn of_agent(&self, agent: &str) -> Option<Arc<Caller>> {
        self.callers
            .iter()
            .find(|caller| caller.agent.as_str() == agent)
            .cloned()
    }
}
