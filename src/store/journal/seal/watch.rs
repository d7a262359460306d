//! Watches the seals of a journal from batch to batch: which key sealed what, and whether it was
//! its turn.

use super::super::frame::{self, Batch, REKEYED_RECORD};
use super::super::segment;
use super::{KeyId, SealVerdict, SealingKeys};
use serde::{Deserialize, Serialize};

/// Stretches that are told of; no journal changes its key so often.
const MAX_STRETCHES: usize = 256;

/// Batches next to each other that one key sealed, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedStretch {
    /// Which key; none: they are not sealed.
    pub key: Option<KeyId>,
    /// Their first record.
    pub first: u64,
    /// Their last one.
    pub last: u64,
    /// Whether the key was there to check the seals with.
    pub checked: bool,
}

/// Watches seals.
pub(in super::super) struct SealWatch<'a> {
    keys: &'a SealingKeys,
    begun: bool,
    /// Which key sealed the last batch; none where it was not sealed, or was to be the last one
    /// that is.
    pub(in super::super) last: Option<KeyId>,
    /// Keys whose time is over.
    replaced: Vec<KeyId>,
    pub(in super::super) stretches: Vec<SealedStretch>,
}

/// What is wrong with a seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum SealFault {
    #[error(
        "the seal does not fit: this batch, or what is before it, was rewritten by someone without the key `{0}`, and the \
         chain made anew"
    )]
    Forged(KeyId),
    #[error("it is sealed with the key `{0}`, which is not given")]
    Unknown(KeyId),
    #[error(
        "it is sealed with the key `{0}`, which had been replaced before: someone who has that key wrote it"
    )]
    Replaced(KeyId),
    #[error(
        "it is not sealed, though what is before it is: someone without the key `{0}` wrote it"
    )]
    Bare(KeyId),
    #[error(
        "nothing here is sealed with the key `{0}`: toolgate has not run with it, or what it wrote since was removed or \
         written anew without it"
    )]
    Never(KeyId),
    #[error(
        "what is last is sealed with the key `{0}`, and not with `{1}`: toolgate has not run with that one, or what it wrote since was removed. \
         If toolgate has not been restarted since that key was configured, check with the one before (`--key FILE`)"
    )]
    Outdated(KeyId, KeyId),
}

/// What stands in a record that another key seals from here on.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct Rekeyed {
    /// When, in UTC.
    pub(in super::super) time: String,
    /// Which key; none: nothing is sealed any more.
    pub(in super::super) key: Option<String>,
    /// Which one sealed before.
    pub(in super::super) previous: Option<String>,
}

impl<'a> SealWatch<'a> {
    pub(in super::super) fn new(keys: &'a SealingKeys) -> Self {
        Self {
            keys,
            begun: false,
            last: None,
            replaced: Vec::new(),
            stretches: Vec::new(),
        }
    }

    /// A segment begins; what is before the first one is taken from its header, which the seals
    /// after it cover.
    pub(in super::super) fn segment(&mut self, header: &segment::SegmentHeader) {
        if !std::mem::replace(&mut self.begun, true) {
            self.last = header.key;
        }
    }

    /// The next batch, and what is wrong with its seal.
    pub(in super::super) fn batch(&mut self, batch: &Batch) -> Result<(), SealFault> {
        let checked = match (&batch.seal, self.last) {
            (Some(seal), last) => {
                let checked = match self.keys.verify_seal(seal) {
                    SealVerdict::Good => true,
                    SealVerdict::Forged => return Err(SealFault::Forged(seal.key)),
                    SealVerdict::Unknown if !self.keys.is_empty() => {
                        return Err(SealFault::Unknown(seal.key));
                    }
                    SealVerdict::Lost | SealVerdict::Unknown => false,
                };
                if last != Some(seal.key) && self.replaced.contains(&seal.key) {
                    return Err(SealFault::Replaced(seal.key));
                }
                self.replaced.extend(last.filter(|last| *last != seal.key));
                self.last = Some(seal.key);
                // Who cannot check the seal takes the word of who wrote it.
                if (checked || self.keys.is_empty()) && ends(batch) {
                    self.replaced.extend(self.last.take());
                }
                checked
            }
            (None, Some(last)) => return Err(SealFault::Bare(last)),
            (None, None) => false,
        };
        self.note(SealedStretch {
            key: batch.seal.as_ref().map(|seal| seal.key),
            first: batch.header.first,
            last: batch.head.seq,
            checked,
        });
        Ok(())
    }

    /// What is wrong with how it ends.
    pub(in super::super) fn end(&self) -> Result<(), SealFault> {
        match (self.keys.sealing(), self.last) {
            (Some(current), None) => Err(SealFault::Never(current)),
            (Some(current), Some(last)) if current != last => {
                Err(SealFault::Outdated(last, current))
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, next: SealedStretch) {
        let is_full = self.stretches.len() >= MAX_STRETCHES;
        match self.stretches.last_mut() {
            Some(last) if last.key == next.key || is_full => last.last = next.last,
            _ => self.stretches.push(next),
        }
    }
}

/// Whether `batch` says that nothing is sealed any more.
fn ends(batch: &Batch) -> bool {
    frame::each(batch.payload.clone()).any(|(kind, words)| {
        let text = (kind == REKEYED_RECORD)
            .then(|| std::str::from_utf8(&words).ok())
            .flatten();
        text.and_then(|text| serde_json::from_str::<Rekeyed>(text).ok())
            .is_some_and(|rekeyed| rekeyed.key.is_none())
    })
}
