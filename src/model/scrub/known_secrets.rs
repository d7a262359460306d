//! The secrets that this process has given away, for everything that writes or hands on what came
//! from elsewhere.
//!
//! One for the process: a channel that had to be given it could be forgotten.

use super::{ScrubStream, Scrubber};
use crate::model::secret::Secret;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of all values together: what looks for them takes some fifty times that.
const MAX_SECRETS_BYTES: usize = 64 << 10;
/// Values of one name that are looked for: a server may repeat one that was replaced meanwhile.
const MAX_VERSIONS_PER_NAME: usize = 4;

/// The secrets of this process.
pub static KNOWN_SECRETS: KnownSecrets = KnownSecrets::new();

/// Secrets that may come back.
pub struct KnownSecrets {
    scrubber: ArcSwapOption<Scrubber>,
    /// Whether `kept` has values that `scrubber` does not look for: it is made when it is asked
    /// for, once for all that came together.
    is_behind: AtomicBool,
    kept: Mutex<Vec<(String, Arc<Secret>)>>,
    removed: AtomicU64,
}

/// All values together are too long to be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all secrets together are longer than {MAX_SECRETS_BYTES} bytes")]
pub struct SecretsTooLong;

impl KnownSecrets {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            scrubber: ArcSwapOption::const_empty(),
            is_behind: AtomicBool::new(false),
            kept: Mutex::new(Vec::new()),
            removed: AtomicU64::new(0),
        }
    }

    /// What looks for them; none while there are none.
    pub fn scrubber(&self) -> Option<Arc<Scrubber>> {
        if self.is_behind.load(Ordering::Acquire) {
            let kept = self.kept.lock();
            if self.is_behind.load(Ordering::Acquire) {
                let all = kept.iter().map(|(name, value)| (name.as_str(), &**value));
                self.scrubber.store(Some(Arc::new(Scrubber::new(all))));
                self.is_behind.store(false, Ordering::Release);
            }
        }
        self.scrubber.load_full()
    }

    /// Looks for `value` from now on. Call it before the value leaves.
    pub fn add(&self, name: &str, value: &Arc<Secret>) -> Result<(), SecretsTooLong> {
        let mut kept = self.kept.lock();
        if kept
            .iter()
            .any(|(known, old)| known == name && old.expose() == value.expose())
        {
            return Ok(());
        }
        if kept.iter().filter(|(known, _)| known == name).count() >= MAX_VERSIONS_PER_NAME
            && let Some(oldest) = kept.iter().position(|(known, _)| known == name)
        {
            kept.remove(oldest);
        }
        let bytes: usize = kept.iter().map(|(_, old)| old.expose().len()).sum();
        if bytes + value.expose().len() > MAX_SECRETS_BYTES {
            return Err(SecretsTooLong);
        }
        kept.push((name.to_owned(), value.clone()));
        self.is_behind.store(true, Ordering::Release);
        Ok(())
    }

    /// Counts messages and comments that secrets were taken out of.
    pub fn note_removed(&self) {
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// The text without the secrets that are known.
    pub fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let clean = self
            .scrubber()
            .and_then(|scrubber| scrubber.scrub_text(text));
        clean.map_or(Cow::Borrowed(text), |clean| {
            self.note_removed();
            Cow::Owned(clean)
        })
    }
}

impl Default for KnownSecrets {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes the secrets that are known at the time out of bytes that come in chunks.
#[derive(Default)]
pub struct KnownScrubStream {
    stream: Option<ScrubStream>,
}

impl KnownScrubStream {
    /// What of the bytes so far is certain to hold no secret.
    pub fn push<'b>(&mut self, chunk: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(scrubber) = KNOWN_SECRETS.scrubber() else {
            return Cow::Borrowed(chunk);
        };
        let mut out = Vec::with_capacity(chunk.len());
        // What was looked for before is looked for still; nobody can repeat the first half of what
        // nobody had.
        if let Some(old) = self.stream.take_if(|stream| !stream.is_of(&scrubber)) {
            old.finish(&mut out);
        }
        self.stream
            .get_or_insert_with(|| scrubber.stream())
            .push(chunk, &mut out);
        Cow::Owned(out)
    }

    /// The rest; nothing follows.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(stream) = self.stream.take() {
            stream.finish(&mut out);
        }
        out
    }
}
