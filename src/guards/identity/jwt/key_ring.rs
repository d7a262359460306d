//! The keys of one issuer, as they were fetched last, and when they may be fetched again. What
//! fetches them is elsewhere (`policy::issuer_keys`): here is only what is known, and until when it
//! counts.

use super::key_set::KeySet;
use super::rejected::TokenRejected;
use crate::model::ids::unguessable_bytes;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Between two fetches for keys that tokens name and nobody knows.
const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(10);
/// How old keys get before they are fetched anew, though no token asks for it …
const REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// … and a file, which is near.
const FILE_REFRESH_INTERVAL: Duration = Duration::from_secs(15);
/// Between two fetches of which the first has failed: twice as long after each, up to the last.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
const LAST_RETRY_DELAY: Duration = Duration::from_mins(1);
/// Doublings of it.
const MAX_RETRY_DOUBLINGS: u32 = 6;
/// The generations of all keys: of no two rings the same, so that what was checked by the keys of one
/// is checked again where another's take their place.
static LAST_GENERATION: AtomicU64 = AtomicU64::new(0);
/// Keys that are remembered as looked for and not there.
const MAX_ABSENT_KEYS: usize = 32;

/// Where the keys are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum IssuerKeySource {
    /// At an address, by HTTP.
    Url(String),
    /// In a file.
    File(PathBuf),
}

/// The keys of one issuer. A reload puts another ring in its place, which goes on with what this one
/// knows.
#[derive(Debug)]
pub(crate) struct KeyRing {
    /// Whose they are.
    pub(crate) issuer: String,
    /// Where they are.
    pub(crate) source: IssuerKeySource,
    /// For how long the last good ones count.
    max_stale: Duration,
    known: ArcSwap<Mutex<FetchedKeys>>,
}

#[derive(Debug, Default)]
struct FetchedKeys {
    keys: Option<Arc<KeySet>>,
    /// Changes with the keys, so that what was checked by others is checked again.
    generation: u64,
    /// When they were fetched; steady time, as all of these.
    fetched: Duration,
    /// When they are fetched next.
    next: Duration,
    /// When they were fetched for a key that nobody knew.
    looked: Option<Duration>,
    /// The keys that were looked for since, and are not there.
    absent: Vec<String>,
    failures: u32,
    /// Whether they are being fetched.
    is_under_way: bool,
}

/// What is known at a moment.
#[derive(Debug)]
pub(super) struct GoodKeys {
    pub(super) keys: Arc<KeySet>,
    pub(super) generation: u64,
}

impl KeyRing {
    /// Nothing is known yet.
    pub(crate) fn new(issuer: String, source: IssuerKeySource, max_stale: Duration) -> Self {
        Self {
            issuer,
            source,
            max_stale,
            known: ArcSwap::default(),
        }
    }

    /// Goes on with what `before` knows, and whatever is fetched for it, if both are of one issuer.
    pub(crate) fn take_over(&self, before: &Self) {
        if (&self.issuer, &self.source) == (&before.issuer, &before.source) {
            self.known.store(before.known.load_full());
        }
    }

    /// From now on what one of them learns the other knows, too, if both are of one issuer:
    /// its keys are fetched once. The newer keys stay.
    pub(crate) fn join(&self, other: &Self) {
        if Arc::ptr_eq(&self.known.load(), &other.known.load()) {
            return;
        }
        if self.fetched() >= other.fetched() {
            other.take_over(self);
        } else {
            self.take_over(other);
        }
    }

    /// When its keys were fetched, if there are some.
    fn fetched(&self) -> Option<Duration> {
        let known = self.known.load();
        let known = known.lock();
        known.keys.as_ref().map(|_| known.fetched)
    }

    /// The keys that count at `now`.
    pub(super) fn good(&self, now: Duration) -> Result<GoodKeys, TokenRejected> {
        let known = self.known.load();
        let known = known.lock();
        match &known.keys {
            Some(keys) if now.saturating_sub(known.fetched) <= self.max_stale => Ok(GoodKeys {
                keys: keys.clone(),
                generation: known.generation,
            }),
            _ => Err(TokenRejected::KeysUnavailable),
        }
    }

    /// Why a token is not taken at `now` that names the key `id`, which is none of the known ones.
    pub(super) fn why_unknown(&self, id: Option<&str>, now: Duration) -> TokenRejected {
        let known = self.known.load();
        let known = known.lock();
        let Some(id) = id else {
            return TokenRejected::UnknownKey;
        };
        if known.absent.iter().any(|absent| absent == id) {
            return TokenRejected::UnknownKey;
        }
        let looked = known.looked.unwrap_or_default();
        TokenRejected::KeyPending {
            after: (looked + UNKNOWN_KEY_INTERVAL).saturating_sub(now),
        }
    }

    /// Whether it helps to fetch the keys at `now` for a token that names the key `id`, or to wait for
    /// the fetch that is under way.
    pub(crate) fn wants(&self, id: Option<&str>, now: Duration) -> bool {
        let known = self.known.load();
        let known = known.lock();
        let Some(keys) = &known.keys else {
            // The first is made at once, those after one that failed in their own time.
            return known.is_under_way || known.failures == 0 || now >= known.next;
        };
        if now.saturating_sub(known.fetched) > self.max_stale {
            return known.is_under_way || now >= known.next;
        }
        let is_lacking = id.is_some_and(|id| !keys.has(id));
        if known.is_under_way {
            return is_lacking;
        }
        let may_look = |looked: Duration| now >= looked + UNKNOWN_KEY_INTERVAL;
        is_lacking
            && known.looked.is_none_or(may_look)
            && (known.failures == 0 || now >= known.next)
    }

    /// A fetch begins, which ends with [`KeyRing::arrived`] or [`KeyRing::failed`].
    pub(crate) fn begins(&self) {
        self.known.load().lock().is_under_way = true;
    }

    /// It is for a key that nobody knows. The first of all is for no key.
    pub(crate) fn looks(&self, now: Duration) {
        let known = self.known.load();
        let mut known = known.lock();
        if known.keys.is_some() {
            known.looked = Some(now);
        }
    }

    /// The key `id` was looked for. Where it is not there, tokens that name it are refused, and not
    /// asked to come again.
    pub(crate) fn looked_for(&self, id: &str) {
        let known = self.known.load();
        let mut known = known.lock();
        let is_there = known.keys.as_ref().is_none_or(|keys| keys.has(id));
        let has_failed = known.failures > 0;
        if is_there || has_failed || known.absent.iter().any(|absent| absent == id) {
            return;
        }
        if known.absent.len() >= MAX_ABSENT_KEYS {
            known.absent.remove(0);
        }
        known.absent.push(id.to_owned());
    }

    /// Whether it is time for the next fetch.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let known = self.known.load();
        let known = known.lock();
        // Another ring of theirs may let them get older.
        let is_old = known.keys.is_some()
            && known.failures == 0
            && now.saturating_sub(known.fetched) >= self.refresh_interval();
        is_old || now >= known.next
    }

    /// These were fetched at `now`; whether they are others than before.
    pub(crate) fn arrived(&self, keys: KeySet, now: Duration) -> bool {
        let known = self.known.load();
        let mut known = known.lock();
        known.fetched = now;
        known.is_under_way = false;
        known.failures = 0;
        known.absent.clear();
        known.next = now + jittered(self.refresh_interval());
        let are_others = known.keys.as_ref().is_none_or(|old| !old.is_same(&keys));
        if are_others {
            known.generation = LAST_GENERATION.fetch_add(1, Ordering::Relaxed) + 1;
        }
        known.keys = Some(Arc::new(keys));
        are_others
    }

    /// A fetch has failed at `now`. What was good stays so, for a while.
    pub(crate) fn failed(&self, now: Duration) {
        let known = self.known.load();
        let mut known = known.lock();
        let delay = FIRST_RETRY_DELAY * 2_u32.pow(known.failures.min(MAX_RETRY_DOUBLINGS));
        known.is_under_way = false;
        known.failures = known.failures.saturating_add(1);
        known.next = now + jittered(delay.min(LAST_RETRY_DELAY));
    }

    /// How old the keys are at `now`; none: there are none.
    pub(crate) fn age(&self, now: Duration) -> Option<Duration> {
        let known = self.known.load();
        let known = known.lock();
        let keys = known.keys.as_ref();
        keys.map(|_| now.saturating_sub(known.fetched))
    }

    fn refresh_interval(&self) -> Duration {
        let usual = match self.source {
            IssuerKeySource::Url(_) => REFRESH_INTERVAL,
            IssuerKeySource::File(_) => FILE_REFRESH_INTERVAL,
        };
        usual.min(self.max_stale / 4)
    }
}

/// At least half of `delay`, so that not all toolgates come at once.
fn jittered(delay: Duration) -> Duration {
    let [byte, ..] = unguessable_bytes();
    delay / 2 + delay / 2 * u32::from(byte) / 255
}
