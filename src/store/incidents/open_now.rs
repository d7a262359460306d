//! How many incidents are open, and for how long: for the metrics.

use super::Incidents;
use super::record::Incident;
use crate::store::state::Millis;
use jiff::Timestamp;
use std::time::Duration;

impl Incidents {
    /// For how long each of the open ones has been open at `now`.
    pub(crate) async fn open_for(&self, now: Millis) -> Vec<Duration> {
        let known = self.known.lock().await;
        let open = known.values().filter(|one| one.is_open());
        open.map(|one| age(one, now)).collect()
    }
}

/// None where its time cannot be told: it counts all the same.
fn age(incident: &Incident, now: Millis) -> Duration {
    let opened = incident.opened.parse::<Timestamp>();
    let opened = opened.map_or(now, |opened| {
        u64::try_from(opened.as_millisecond()).unwrap_or_default()
    });
    Duration::from_millis(now.saturating_sub(opened))
}
