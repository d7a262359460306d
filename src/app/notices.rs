//! People elsewhere are told of calls that wait, where the configuration names receivers.

use crate::config::Config;
use crate::gate::Gate;
use crate::notify::{Notifier, NotifierParts};
use tokio_util::sync::CancellationToken;

/// Tells receivers from now on, until `stop`.
pub(super) fn start(config: &Config, gate: &Gate, stop: &CancellationToken) -> anyhow::Result<()> {
    if config.notify.is_empty() {
        return Ok(());
    }
    let parts = NotifierParts {
        receivers: config.notify.clone(),
        public_url: config.admin.public_url.clone(),
        data: config.data.clone(),
        journal: gate.journal.clone(),
        store: gate.effects.store.clone(),
        metrics: gate.metrics.clone(),
    };
    let notifier = Notifier::open(parts).map_err(anyhow::Error::msg)?;
    notifier.start(stop);
    Ok(())
}
