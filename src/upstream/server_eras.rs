//! Which eras a server speaks, and what it said of itself in each.

use crate::mcp::bridge::{discovered_of, initialized_of, makes_tasks};
use crate::mcp::json::Text;
use crate::mcp::revision::{Era, Revision};

/// What a server speaks, and what it said of itself.
#[derive(Debug)]
pub struct ServerEras {
    /// Its answer to `server/discover`.
    pub discovered: Option<Text>,
    /// Its answer to `initialize`.
    pub initialized: Option<Text>,
    /// Whether its sessions are HTTP+SSE of 2024-11-05.
    pub over_events: bool,
    /// Whether it is modern and was not asked by `initialize`. A process speaks the era of its first request: one
    /// that has answered `server/discover` may refuse `initialize`, as Python's SDK does, or is no modern one any more
    /// afterwards, as with TypeScript's. So one process cannot answer both, and the second is started only once a
    /// legacy agent comes (`UpstreamServer::settle_legacy`).
    pub is_legacy_unasked: bool,
}

impl ServerEras {
    /// Whether it speaks any revision of the era.
    pub fn speaks_era(&self, era: Era) -> bool {
        match era {
            Era::Modern => self.discovered.is_some(),
            Era::Legacy => self.initialized.is_some(),
        }
    }

    /// What it said of itself, on the newer wire if it speaks both.
    pub fn introduction(&self) -> Option<&Text> {
        self.discovered.as_ref().or(self.initialized.as_ref())
    }

    /// What it said of itself, as a modern server says it.
    pub fn as_modern(&self) -> Option<Text> {
        let legacy = || self.initialized.as_ref().map(discovered_of);
        self.discovered.clone().or_else(legacy)
    }

    /// What it said of itself, as a legacy server says it to an agent that asked for `revision`.
    pub fn as_legacy(&self, revision: Revision) -> Option<Text> {
        let Some(said) = &self.initialized else {
            let said = self.discovered.as_ref()?;
            return Some(initialized_of(said, revision));
        };
        let own = said.get("protocolVersion");
        let own = own.and_then(|own| Revision::of_server(&own.as_str()?));
        let mut said = said.object()?;
        let agreed = own.map_or(revision, |own| own.min(revision).max(Revision::OLDEST));
        said.set("protocolVersion", Text::string(agreed.as_str()));
        Some(said.text())
    }

    fn capabilities(&self) -> Option<Text> {
        self.introduction()?.get("capabilities")
    }

    /// Whether it declares a capability, tasks in either era's way.
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities()
            .is_some_and(|capabilities| capabilities.get(capability).is_some())
            || (capability == "tasks" && self.discovered.as_ref().is_some_and(makes_tasks))
    }

    /// Whether it tells when its tools change.
    pub fn tells_changes(&self) -> bool {
        self.capabilities()
            .and_then(|capabilities| capabilities.at(&["tools", "listChanged"]))
            .is_some_and(|flag| flag.is_true())
    }

    /// For logs.
    pub fn words(&self) -> &'static str {
        match (self.discovered.is_some(), self.initialized.is_some()) {
            (true, true) => "modern and legacy",
            (true, false) => "modern",
            (false, true) if self.over_events => "legacy, over HTTP+SSE of 2024-11-05",
            (false, true) => "legacy",
            (false, false) => "none",
        }
    }
}
