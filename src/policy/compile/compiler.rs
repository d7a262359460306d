//! What was read of the policy files so far, and what was found wrong with them.

use super::references::ToolReference;
use crate::guards::allowlist::Contracts;
use crate::guards::budget::TaskLimits;
use crate::guards::secrets::Bindings;
use crate::guards::{ToolRules, pins, repetition};
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::{AgentId, ServerName, ToolName};
use crate::policy::breakers::Breaker;
use crate::policy::known_tools::KnownTools;
use crate::policy::known_tools::hooked::HookedTool;
use crate::policy::layers;
use crate::policy::locate::YamlDocument;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A contract, and where it stands.
pub(super) struct CompiledContract {
    pub(super) rules: Arc<ToolRules>,
    pub(super) place: Diagnostic,
}

/// What was found so far.
#[derive(Default)]
pub(super) struct Compiler {
    pub(super) servers: Vec<ServerName>,
    pub(super) timeouts: BTreeMap<ServerName, Duration>,
    pub(super) agents: Vec<AgentId>,
    /// Tokens may name other agents.
    pub(super) any_agent: bool,
    pub(super) groups: Vec<String>,
    /// The roles that callers have.
    pub(super) roles: Vec<String>,
    /// The models that callers have, as `provider/model`, and their providers.
    pub(super) models: Vec<String>,
    /// The headers in which servers are told who writes.
    pub(super) fences: BTreeMap<ServerName, String>,
    pub(super) secrets: Bindings,
    pub(super) tasks: TaskLimits,
    pub(super) repetition: Option<repetition::Rule>,
    pub(super) breakers: Vec<Breaker>,
    pub(super) contracts: BTreeMap<ToolName, CompiledContract>,
    /// The layers and groups of each file; compiled when all files are read.
    pub(super) written: Vec<(YamlDocument, layers::WrittenLayers)>,
    /// The tools that contracts name to go with them, and where.
    pub(super) pairs: Vec<ToolReference>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// All files could be read: what none of them has is nowhere.
    pub(super) is_complete: bool,
}

impl Compiler {
    /// Nothing is read yet.
    pub(super) fn new(
        servers: Vec<ServerName>,
        timeouts: BTreeMap<ServerName, Duration>,
        agents: Vec<AgentId>,
        groups: Vec<String>,
        secrets: Bindings,
    ) -> Self {
        Self {
            servers,
            timeouts,
            agents,
            groups,
            secrets,
            is_complete: true,
            ..Self::default()
        }
    }

    /// Judges what was read against the tools that are pinned.
    pub(super) fn judge_pinned(
        &mut self,
        contracts: &Contracts,
        pins: &pins::Rule,
        hooked: &[HookedTool],
    ) {
        let documents: Vec<&YamlDocument> =
            self.written.iter().map(|(document, _)| document).collect();
        let known = KnownTools::pinned(pins);
        let found = known.judge(contracts, &documents);
        self.diagnostics.extend(found);
        self.diagnostics.extend(known.judge_hooked(hooked));
    }

    /// The contracts so far.
    pub(super) fn contracts(&self) -> Contracts {
        let contracts = self
            .contracts
            .iter()
            .map(|(name, held)| (name.clone(), held.rules.clone()));
        contracts.collect::<HashMap<_, _>>().into()
    }
}

pub(super) fn about(path: &Path, severity: Severity, message: &str, hint: &str) -> Diagnostic {
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    Diagnostic {
        severity,
        file: path.display().to_string(),
        line: 0,
        column: 0,
        length: 0,
        message: message.to_owned(),
        hint,
    }
}
