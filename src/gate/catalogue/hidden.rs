//! Tools that a profile cannot show: never silent (001-21). Operators find them in the log, in
//! `/metrics`, with `doctor` and at `/api/quarantined`.

use crate::gate::Gate;
use crate::gate::catalogue::list::is_visible;
use crate::gate::catalogue::view::ListAsked;
use crate::model::caller::Caller;
use crate::model::ids::{ServerName, ToolName};
use crate::model::reads::Profile;
use crate::model::scope::Scope;
use crate::policy::Policy;
use crate::schema::normalize::NormalizeError;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A tool that a caller could use, if its profile could show it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hidden {
    /// Where it lives.
    pub server: ServerName,
    /// As policies name it.
    pub tool: ToolName,
    /// In which profile.
    pub profile: Profile,
    /// Why.
    pub reason: NormalizeError,
}

impl Gate {
    /// Every tool that some caller could use, if its profile could show it.
    pub fn hidden(&self) -> Vec<Hidden> {
        let (policy, tools) = (self.policy.current(), self.tools.current().clone());
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        for caller in policy
            .identity
            .callers()
            .iter()
            .filter(|caller| !caller.reads.is_all())
        {
            let asked = ListAsked {
                links: None,
                caller,
                scope: &Scope::All,
            };
            let visible = tools
                .all
                .iter()
                .filter(|tool| is_visible(&policy, caller, tool));
            let (_, hidden) = self.fitting(&policy, &tools, asked, visible.collect());
            for (tool, reason) in hidden {
                let (server, profile) = (tool.server.settings.name.clone(), caller.reads.profile);
                let one = Hidden {
                    server,
                    tool: tool.name.clone(),
                    profile,
                    reason,
                };
                if seen.insert(one.clone()) {
                    found.push(one);
                }
            }
        }
        found
    }

    /// Why the caller's profile cannot show the tool, for the ledger.
    pub(in crate::gate) fn why_hidden(
        &self,
        policy: &Policy,
        caller: &Caller,
        name: &ToolName,
    ) -> Option<String> {
        let tools = self.tools.current();
        let reason = self.variant(policy, caller, tools.find(name)?).err()?;
        Some(format!("profile {}: {reason}", caller.reads.profile))
    }

    /// Counts what is hidden and tells of what is new, after every change of tools or policy, until
    /// `stop`.
    pub async fn watch_hidden(
        self: Arc<Self>,
        mut changed: watch::Receiver<u64>,
        stop: CancellationToken,
    ) {
        let mut told = HashSet::new();
        loop {
            changed.borrow_and_update();
            let gate = self.clone();
            let hidden = tokio::task::spawn_blocking(move || gate.hidden())
                .await
                .unwrap_or_default();
            let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
            for one in &hidden {
                *counts
                    .entry((one.reason.label(), one.profile.as_str()))
                    .or_default() += 1;
            }
            let counts: Vec<_> = counts
                .into_iter()
                .map(|((reason, profile), count)| (reason, profile, count))
                .collect();
            self.metrics.hidden(&counts);
            for Hidden {
                tool,
                profile,
                reason,
                ..
            } in hidden.iter().filter(|one| !told.contains(*one))
            {
                tracing::warn!(%tool, %profile, words = %reason, "tool is quarantined for this profile: no caller of it is shown it");
            }
            told = hidden.into_iter().collect();
            tokio::select! {
                still = changed.changed() => if still.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }
}
