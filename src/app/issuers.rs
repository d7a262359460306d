//! The keys of the issuers of tokens, at both doors.

use super::App;
use crate::gate::Gate;
use crate::policy::issuer_keys::IssuerKeys;
use crate::telemetry::tasks;
use crate::upstream::http::connections;
use std::sync::Arc;

/// What fetches them.
pub(super) fn keys(gate: &Gate) -> anyhow::Result<Arc<IssuerKeys>> {
    let connections = connections().map_err(anyhow::Error::msg)?;
    Ok(Arc::new(IssuerKeys::new(connections, gate.metrics.clone())))
}

impl App {
    /// Keeps them for as long as toolgate runs.
    pub(super) fn keep_issuer_keys(&self) {
        let (keys, policy) = (self.door.keys.clone(), self.door.policy.clone());
        let operators = self.operators.clone();
        let others = move || operators.issuer_rings();
        tasks::spawn("issuers", keys.keep(policy, others));
    }
}
