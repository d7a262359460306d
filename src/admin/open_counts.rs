//! How many calls have no known outcome, how many wait for operators, and how many undos are not done, counted
//! for the metrics.

use crate::model::digest::Digest;
use crate::store::claims::Store;
use crate::store::operator::MAX_CLAIMS_LISTED;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::hold::Hold;
use crate::store::undos::wanted::{WANTED_STATES, wanted};
use crate::telemetry::metrics::Metrics;
use std::time::Duration;

/// Counts them now, and gives the held calls, those too that wait no longer. What the store cannot tell stays as
/// it was counted last.
pub(crate) async fn count(store: &dyn Store, metrics: &Metrics) -> Vec<(Digest, Hold)> {
    if let Ok(open) = store.unsettled(MAX_CLAIMS_LISTED).await {
        let unknown = open
            .iter()
            .filter(|(_, claim)| matches!(claim.phase, ClaimPhase::Unknown { .. }));
        let since: Vec<_> = unknown.map(|(_, claim)| claim.changed).collect();
        let oldest = since.iter().min();
        let oldest = oldest.map_or(0, |oldest| store.now().saturating_sub(*oldest));
        metrics.unknown(since.len(), Duration::from_millis(oldest));
    }
    if let Ok(undos) = wanted(store, None).await {
        for state in WANTED_STATES {
            let of_state = undos.iter().filter(|undo| undo.state == state);
            metrics.set_open_undos(state, of_state.count());
        }
    }
    let Ok(holds) = store.holds(MAX_CLAIMS_LISTED).await else {
        return Vec::new();
    };
    let now = store.now();
    let waiting = holds.iter().filter(|(_, hold)| hold.is_waiting(now));
    metrics.set_held_calls(waiting.count());
    holds
}
