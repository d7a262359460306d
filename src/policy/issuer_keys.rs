//! Keeps the keys of issuers: fetched anew before they get old, and for a token that names an
//! unknown key. One fetch of an issuer's keys at a time: tokens that need the same keys wait for that one.

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
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
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
    flights: Mutex<HashMap<FlightKey, watch::Receiver<()>>>,
}

/// An issuer, and where its keys are.
type FlightKey = (String, IssuerKeySource);

/// A fetch that is under way. One that ends without an answer, as when it panics, has failed.
struct KeyFlight {
    keys: Arc<IssuerKeys>,
    key: FlightKey,
    ring: Arc<KeyRing>,
    is_answered: bool,
    /// Tokens wait for it until this is dropped.
    _ends: watch::Sender<()>,
}

impl KeyFlight {
    async fn run(mut self) {
        self.keys.fetch(&self.ring).await;
        self.is_answered = true;
    }
}

impl Drop for KeyFlight {
    fn drop(&mut self) {
        if !self.is_answered {
            self.ring.failed(Clock.steady());
        }
        self.keys.flights.lock().remove(&self.key);
    }
}

impl fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerKeys").finish_non_exhaustive()
    }
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

    /// Keeps the keys of the issuers of `policy`, and of those that `others` are by then, for as long as toolgate runs.
    pub(crate) async fn keep(
        self: Arc<Self>,
        policy: Arc<LivePolicy>,
        others: impl Fn() -> Vec<Arc<KeyRing>> + Send,
    ) {
        let (mut swaps, mut shown) = (policy.swaps(), BTreeSet::new());
        loop {
            let rings = rings(&policy, &others());
            for ring in &rings {
                let now = Clock.steady();
                if ring.is_due(now) {
                    drop(self.flight(ring, false));
                }
            }
            show_ages(&self.metrics, &rings, &mut shown, Clock.steady());
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
        let key = (ring.issuer.clone(), ring.source.clone());
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&key) {
            return (flight.clone(), false);
        }
        let (ends, flight) = watch::channel(());
        flights.insert(key.clone(), flight.clone());
        drop(flights);
        ring.begins();
        if for_token {
            ring.looks(Clock.steady());
        }
        let begun = KeyFlight {
            keys: self.clone(),
            key,
            ring: ring.clone(),
            is_answered: false,
            _ends: ends,
        };
        tasks::spawn("issuer keys", begun.run());
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
            Ok(keys) => {
                let weak = keys.weak;
                if ring.arrived(keys, now) && weak > 0 {
                    tracing::warn!(
                        issuer = ring.issuer,
                        keys = weak,
                        "RSA keys of fewer than 2048 bits are left out of an issuer's keys: tokens that they sign are not taken"
                    );
                }
            }
            Err(error) => {
                ring.failed(now);
                let then = if ring.age(now).is_some() {
                    "its last ones count for as long as `max_stale` says"
                } else {
                    "until they are, its tokens are answered 503"
                };
                let issuer = &ring.issuer;
                tracing::warn!(
                    issuer,
                    error,
                    "the keys of an issuer could not be fetched; {then}"
                );
            }
        }
    }
}

/// The keys of the issuers of the policy in force, and `others`, which share what is known of an issuer
/// that is among both.
fn rings(policy: &LivePolicy, others: &[Arc<KeyRing>]) -> Vec<Arc<KeyRing>> {
    let policy = policy.current();
    let issued = policy.identity.issued().into_iter();
    let mut rings: Vec<_> = issued.flat_map(|issued| issued.rings().cloned()).collect();
    for other in others {
        for ring in &rings {
            ring.join(other);
        }
    }
    rings.extend(others.iter().cloned());
    rings
}

/// Shows how old the keys of each issuer are, the oldest where several entries are of one; an issuer that was
/// `shown` before and has gone is forgotten, since an alert on its keys would never end.
fn show_ages(
    metrics: &Metrics,
    rings: &[Arc<KeyRing>],
    shown: &mut BTreeSet<String>,
    now: Duration,
) {
    let mut ages: BTreeMap<&str, Option<Duration>> = BTreeMap::new();
    for ring in rings {
        let age = ring.age(now);
        let oldest = ages.entry(&ring.issuer).or_insert(age);
        *oldest = oldest.zip(age).map(|(one, other)| one.max(other));
    }
    shown.retain(|issuer| {
        let is_there = ages.contains_key(issuer.as_str());
        if !is_there {
            metrics.issuer_keys_gone(issuer);
        }
        is_there
    });
    for (issuer, age) in ages {
        metrics.issuer_keys_age(issuer, age);
        if !shown.contains(issuer) {
            shown.insert(issuer.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::MetricsFormat;
    use crate::upstream::http::connections;
    use bytes::Bytes;

    const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    /// The keys of `issuer`, fetched at this second, or never.
    fn ring(issuer: &str, fetched: Option<u64>) -> Arc<KeyRing> {
        let source = IssuerKeySource::Url(format!("{issuer}/{fetched:?}"));
        let ring = KeyRing::new(issuer.to_owned(), source, Duration::from_hours(1));
        if let Some(second) = fetched {
            let keys = KeySet::read(Bytes::from_static(KEYS.as_bytes())).unwrap();
            ring.arrived(keys, Duration::from_secs(second));
        }
        Arc::new(ring)
    }

    /// The alert on keys stands on this: of one issuer at both doors the worse counts, and one that was taken
    /// out of the configuration is no longer shown.
    #[test]
    fn ages_are_of_the_issuers_that_there_are() {
        let (metrics, mut shown) = (Metrics::new(), BTreeSet::new());
        let mut ages = |rings: &[Arc<KeyRing>]| {
            show_ages(&metrics, rings, &mut shown, Duration::from_secs(100));
            let text = metrics.render(MetricsFormat::OpenMetrics);
            let lines = text
                .lines()
                .filter_map(|line| line.strip_prefix("toolgate_issuer_keys_age_seconds{issuer="));
            let mut lines: Vec<String> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let (old, new, never) = (
            ring("https://a", Some(10)),
            ring("https://a", Some(90)),
            ring("https://b", None),
        );
        let known = ring("https://b", Some(90));
        let both = [r#""https://a"} 90"#, r#""https://b"} -1"#];
        assert_eq!(
            ages(&[old.clone(), new.clone(), never.clone(), known.clone()]),
            both
        );
        assert_eq!(ages(&[new.clone(), old, known, never]), both);
        assert_eq!(ages(&[new]), [r#""https://a"} 10"#]);
        assert_eq!(ages(&[]), [""; 0]);
    }

    /// A fetch that breaks off is no fetch for ever: the keys are due again, and who waits goes on.
    #[tokio::test]
    async fn a_fetch_that_breaks_off_is_made_again() {
        let metrics = Arc::new(Metrics::new());
        let keys = Arc::new(IssuerKeys::new(connections().unwrap(), metrics));
        let source = IssuerKeySource::File("none.json".into());
        let (issuer, max_stale) = ("https://login.example.com", Duration::from_hours(1));
        let ring = KeyRing::new(issuer.to_owned(), source, max_stale);
        let ring = Arc::new(ring);
        let (ends, mut waits) = watch::channel(());
        let key = (ring.issuer.clone(), ring.source.clone());
        keys.flights.lock().insert(key.clone(), waits.clone());
        ring.begins();
        let before = Clock.steady();
        let begun = KeyFlight {
            keys: keys.clone(),
            key,
            ring: ring.clone(),
            is_answered: false,
            _ends: ends,
        };
        let run = tasks::spawn("a fetch that panics", async move {
            let _begun = begun;
            panic!("in the middle of a fetch");
        });
        assert!(run.await.unwrap_err().is_panic());
        assert!(waits.changed().await.is_err(), "who waits goes on");
        assert!(keys.flights.lock().is_empty());
        assert!(
            !ring.wants(None, before) && !ring.is_due(before),
            "it has failed"
        );
        assert!(ring.is_due(Clock.steady() + 2 * LOOK_INTERVAL));
    }
}
