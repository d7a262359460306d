//! Keeps the keys of issuers: fetched anew before they get old, and for a token that names a key which
//! nobody knows. One fetch of an issuer's keys at a time: who needs the same keys waits for that one.

use super::live::LivePolicy;
use crate::guards::identity::jwt::LackingKey;
use crate::guards::identity::jwt::key_ring::{IssuerKeySource, KeyRing};
use crate::guards::identity::jwt::key_set::{KEY_SET_BYTES_MAX, KeySet};
use crate::model::clock::Clock;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::tasks;
use crate::upstream::http::Connections;
use crate::upstream::key_sets;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often it is looked which keys are due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The same where there are no issuers.
const IDLE_LOOK_INTERVAL: Duration = Duration::from_mins(1);
/// How long a request waits for the keys of its token's issuer: less than the door waits for the head of the next.
const SUPPLY_TIMEOUT: Duration = Duration::from_secs(3);
/// A fetch that began before a key was published does not have it.
const MAX_FETCHES_WAITED: usize = 2;

/// Fetches keys.
pub(crate) struct IssuerKeys {
    connections: Connections,
    metrics: Arc<Metrics>,
    /// What is under way, by issuer and source: it ends when its sender is dropped.
    flights: Mutex<HashMap<(String, String), watch::Receiver<()>>>,
}

impl IssuerKeys {
    /// Nothing is fetched yet.
    pub(crate) fn new(connections: Connections, metrics: Arc<Metrics>) -> Self {
        Self {
            connections,
            metrics,
            flights: Mutex::default(),
        }
    }

    /// Fetches the keys that a token lacks, or waits for those who do, a few seconds at most.
    pub(crate) async fn supply(self: Arc<Self>, lacking: LackingKey) {
        let LackingKey { ring, id } = lacking;
        let waiting = async {
            let mut is_looked_for = false;
            for _ in 0..MAX_FETCHES_WAITED {
                if !ring.wants(id.as_deref(), Clock.steady()) {
                    break;
                }
                let (mut flight, is_own) = self.flight(&ring, true);
                // An error says that it has ended.
                while flight.changed().await.is_ok() {}
                is_looked_for |= is_own;
            }
            // A fetch that began before this token came says nothing of its key.
            if let Some(id) = id.filter(|_| is_looked_for) {
                ring.looked_for(&id);
            }
        };
        let _ = tokio::time::timeout(SUPPLY_TIMEOUT, waiting).await;
    }

    /// Keeps the keys of the issuers of `policy`, and those of `others`, for as long as toolgate runs.
    pub(crate) async fn keep(self: Arc<Self>, policy: Arc<LivePolicy>, others: Vec<Arc<KeyRing>>) {
        let mut swaps = policy.swaps();
        loop {
            let rings = rings(&policy, &others);
            for ring in &rings {
                let now = Clock.steady();
                if ring.is_due(now) {
                    drop(self.flight(ring, false));
                }
                self.metrics.issuer_keys_age(&ring.issuer, ring.age(now));
            }
            let pause = if rings.is_empty() {
                IDLE_LOOK_INTERVAL
            } else {
                LOOK_INTERVAL
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = swaps.changed() => if changed.is_err() { return },
            }
        }
    }

    /// The fetch of these keys that is under way, or one that begins; whether it begins.
    fn flight(
        self: &Arc<Self>,
        ring: &Arc<KeyRing>,
        for_token: bool,
    ) -> (watch::Receiver<()>, bool) {
        let key = (ring.issuer.clone(), format!("{:?}", ring.source));
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&key) {
            return (flight.clone(), false);
        }
        let (ends, flight) = watch::channel(());
        flights.insert(key.clone(), flight.clone());
        ring.begins();
        if for_token {
            ring.looks(Clock.steady());
        }
        let (this, ring) = (self.clone(), ring.clone());
        tasks::spawn("issuer keys", async move {
            this.fetch(&ring).await;
            this.flights.lock().remove(&key);
            drop(ends);
        });
        (flight, true)
    }

    async fn fetch(&self, ring: &KeyRing) {
        let fetched = match &ring.source {
            IssuerKeySource::Url(url) => {
                key_sets::fetch(&self.connections, url, KEY_SET_BYTES_MAX).await
            }
            IssuerKeySource::File(path) => key_sets::read(path, KEY_SET_BYTES_MAX).await,
        };
        let read = fetched
            .map_err(|error| error.to_string())
            .and_then(|bytes| KeySet::read(bytes).map_err(|error| error.to_string()));
        let now = Clock.steady();
        self.metrics.issuer_keys_fetched(&ring.issuer, read.is_ok());
        match read {
            Ok(keys) => ring.arrived(keys, now),
            Err(error) => {
                ring.failed(now);
                tracing::warn!(
                    issuer = ring.issuer,
                    error,
                    "the keys of an issuer could not be fetched; its last ones count for as long as `max_stale` says"
                );
            }
        }
    }
}

/// The keys of the issuers of the policy in force, and `others`.
fn rings(policy: &LivePolicy, others: &[Arc<KeyRing>]) -> Vec<Arc<KeyRing>> {
    let policy = policy.current();
    let issued = policy.identity.issued().into_iter();
    let rings = issued.flat_map(|issued| issued.rings().cloned());
    rings.chain(others.iter().cloned()).collect()
}
