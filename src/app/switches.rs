//! What operators can do to a toolgate that runs, as their door is given it.

use super::{App, incidents};
use crate::admin::tools::Switches;
use crate::gate::reconciling::Reconciler;
use crate::gate::undoing::CallUndoer;
use crate::model::ids::{NAME_SEPARATOR, ToolName};
use crate::policy::live::LivePolicy;
use crate::store::disabling::Disabling;
use crate::store::journal::Journal;
use anyhow::Context as _;
use std::path::Path;
use std::sync::Arc;

/// The tools that operators have taken away; each change goes into `policy` at once.
pub(super) fn disabling(
    data: &Path,
    journal: &Journal,
    policy: &Arc<LivePolicy>,
) -> anyhow::Result<Disabling> {
    let apply = policy.clone();
    let apply = Arc::new(move |disabled| apply.take_away(disabled));
    Disabling::open(data, journal.clone(), apply).context("no tool may be shown")
}

impl App {
    /// How operators take tools away. A tool whose server was never up may exist.
    pub(super) fn switches(&self) -> Switches {
        let door = self.door.clone();
        let is_known = move |tool: &ToolName| {
            let (contract, listed) = (door.policy.current(), door.gate.tools.current());
            let server = door.servers.all().iter().find(|server| {
                let own = tool.as_str().strip_prefix(server.settings.name.as_str());
                own.and_then(|rest| rest.strip_prefix(NAME_SEPARATOR))
                    .is_some_and(|own| !own.is_empty())
            });
            let is_away = server.is_some_and(|server| server.up().is_none());
            is_away || listed.find(tool).is_some() || contract.allowlist.contract_of(tool).is_some()
        };
        let (store, scoped) = (self.door.gate.effects.store.clone(), self.door.clone());
        let metrics = self.door.metrics.clone();
        let gate = self.door.gate.clone();
        Switches {
            disabling: self.disabling.clone(),
            incidents: self.incidents.clone(),
            scope_of: Arc::new(move |pattern| incidents::scope_of(&scoped, pattern)),
            packs: self.packs.clone(),
            evidence: self.evidence.clone(),
            store,
            metrics,
            recount: self.recount.clone(),
            is_known: Arc::new(is_known),
            grants: gate.clone(),
            edits: gate.clone(),
            undo: self.undoer(),
            looks: gate.watches.looks.clone(),
            void: Arc::new(move |hold| gate.void(hold)),
            asker: Arc::new(self.reconciler()),
            policies: self.door.policy.swaps(),
        }
    }

    /// What takes calls back.
    pub(crate) fn undoer(&self) -> Arc<CallUndoer> {
        Arc::new(CallUndoer {
            gate: self.door.gate.clone(),
            links: self.door.links.clone(),
            running: self.door.running.clone(),
        })
    }

    /// What finds out about calls with an unknown outcome.
    pub(super) fn reconciler(&self) -> Reconciler {
        Reconciler::new(self.door.gate.clone(), self.door.links.clone())
    }
}
