//! What agents have of something that is for all of them.

use crate::model::ids::AgentId;
use std::collections::HashMap;

/// How much is taken, in all and by agent.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    all: usize,
    by: HashMap<AgentId, usize>,
}

impl Shares {
    /// What all have.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// What `agent` has.
    pub(crate) fn of(&self, agent: &AgentId) -> usize {
        self.by.get(agent).copied().unwrap_or_default()
    }

    /// `agent` has `amount` more.
    pub(crate) fn add(&mut self, agent: &AgentId, amount: usize) {
        self.all += amount;
        *self.by.entry(agent.clone()).or_default() += amount;
    }

    /// `agent` has `amount` less; an agent that has nothing takes no memory.
    pub(crate) fn remove(&mut self, agent: &AgentId, amount: usize) {
        self.all = self.all.saturating_sub(amount);
        let left = self.of(agent).saturating_sub(amount);
        if left == 0 {
            self.by.remove(agent);
        } else {
            self.by.insert(agent.clone(), left);
        }
    }

    /// Agents that have something.
    #[cfg(test)]
    pub(crate) fn agents(&self) -> usize {
        self.by.len()
    }
}
