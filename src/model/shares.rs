//! What agents have of something that is for all of them.

use crate::model::ids::AgentId;
use std::collections::HashMap;

/// How much is taken, in all and by agent.
#[derive(Debug, Default)]
pub struct Shares {
    all: usize,
    by: HashMap<AgentId, usize>,
}

impl Shares {
    /// What all have.
    pub fn all(&self) -> usize {
        self.all
    }

    /// What `agent` has.
    pub fn of(&self, agent: &AgentId) -> usize {
        self.by.get(agent).copied().unwrap_or_default()
    }

    /// `agent` has `amount` more.
    pub fn add(&mut self, agent: &AgentId, amount: usize) {
        self.all += amount;
        *self.by.entry(agent.clone()).or_default() += amount;
    }

    /// `agent` has `amount` less; an agent that has nothing takes no memory.
    pub fn remove(&mut self, agent: &AgentId, amount: usize) {
        self.all = self.all.saturating_sub(amount);
        let left = self.of(agent).saturating_sub(amount);
        if left == 0 {
            self.by.remove(agent);
        } else {
            self.by.insert(agent.clone(), left);
        }
    }

    /// Agents that have something.
    pub fn agents(&self) -> usize {
        self.by.len()
    }
}
