//! Incidents of a toolgate that runs: what they freeze is out of reach before anything is served.

use crate::downstream::Door;
use crate::gate::Gate;
use crate::gate::record::breaking::BreakerTrip;
use crate::guards::allowlist::ToolPattern;
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use crate::policy::live::{LivePolicy, ReloadOutcome, ReloadReport};
use crate::store::incidents::{BREAKER, IncidentError, IncidentWish, Incidents, RunPacks};
use crate::telemetry::tasks;
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Freezes what the open incidents in `data` do; where agents are served, does the rest beside that. Blocks.
pub(super) fn open(
    data: &Path,
    gate: &Arc<Gate>,
    is_serving: bool,
) -> anyhow::Result<Arc<Incidents>> {
    let apply = gate.policy.clone();
    let apply = Arc::new(move |frozen| apply.freeze(frozen));
    let incidents = Incidents::open(data, (*gate.journal).clone(), apply);
    let incidents = incidents.map(Arc::new).context("no tool may be shown")?;
    if is_serving {
        keep(&incidents, gate);
    }
    Ok(incidents)
}

/// Does what a crash has left undone, beside what is served: the tools are out of reach already. Then opens
/// what breakers ask for.
fn keep(incidents: &Arc<Incidents>, gate: &Arc<Gate>) {
    let (incidents, gate) = (incidents.clone(), gate.clone());
    let trips = gate.watches.breakers.trips();
    tasks::spawn("incidents", async move {
        let store = &*gate.effects.store;
        incidents.repair(store).await;
        let Some(mut trips) = trips else { return };
        while let Some(BreakerTrip { tool, why }) = trips.recv().await {
            let frozen = incidents.frozen().await;
            if frozen.iter().any(|scope| scope.names(tool.as_str())) {
                continue;
            }
            let wish = IncidentWish {
                scope: tool.to_string(),
                tools: vec![tool],
                who: BREAKER.to_owned(),
                why,
            };
            match incidents.begin(store, wish).await {
                // What it asks for is done.
                Ok(_) | Err(IncidentError::AlreadyOpen(_)) => {}
                Err(error) => tracing::error!(%error, "a breaker could not open an incident"),
            }
        }
    });
}

/// Notes on open incidents that the policy files were read again.
pub(super) fn reloaded(incidents: &Arc<Incidents>, gate: &Arc<Gate>, report: &ReloadReport) {
    let words = match report.outcome {
        ReloadOutcome::Swapped => format!("policy {} → {}", report.before, report.version),
        ReloadOutcome::Unchanged => return,
        ReloadOutcome::KeptLastGood => {
            format!("the files have errors; policy {} stays", report.version)
        }
    };
    let (incidents, gate) = (incidents.clone(), gate.clone());
    tasks::spawn("incident reloads", async move {
        incidents.reloaded(&*gate.effects.store, &words).await;
    });
}

/// The tools that `pattern` is known to name; none where it is no pattern, or names tools of no server
/// that there is.
pub(super) fn scope_of(door: &Door, pattern: &str) -> Option<Vec<ToolName>> {
    let pattern = ToolPattern::compile(pattern, &mut Problems::default())?;
    let servers = door.servers.all();
    let is_reached = servers
        .iter()
        .any(|server| pattern.reaches(&server.settings.name));
    let (policy, listed) = (door.policy.current(), door.gate.tools.current());
    let contracts = policy.allowlist.contracts();
    let contracts = contracts.filter(|tool| !tool.as_str().contains('*'));
    let known = listed.known().map(|tool| &tool.name).chain(contracts);
    let named: BTreeSet<&ToolName> = known
        .filter(|tool| pattern.matches(tool.as_str()))
        .collect();
    is_reached.then(|| named.into_iter().cloned().collect())
}

/// As `packs`, which judge files: only while those files are what is in force, since the tools come back under
/// that, and not under what a reload has refused or not seen yet.
pub(super) fn of_files_in_force(policy: Arc<LivePolicy>, packs: Arc<RunPacks>) -> Arc<RunPacks> {
    Arc::new(move |samples| {
        let before = policy.files_in_force();
        let said = packs(samples)?;
        if before.is_some() && before == policy.files_in_force() {
            return Ok(said);
        }
        Err(
            "the packs pass, but the files are not what is in force: `toolgate check` says what is wrong with them; \
             if nothing is, close it again in a moment"
                .to_owned(),
        )
    })
}

/// Where no configuration says which packs there are.
pub(super) fn no_packs() -> Arc<RunPacks> {
    Arc::new(|_| Err("there is no configuration, and so no test pack".to_owned()))
}
