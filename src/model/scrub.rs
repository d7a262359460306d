//! Takes secrets out of bytes: the values themselves, and what base64, hexadecimal, percent and
//! backslash escapes make of them, however the bytes were cut into chunks (002-31, threat-model §3F
//! F2).
//!
//! A server that means to smuggle a value out finds a form that is not looked for. Where a secret
//! may go is the control; this keeps what is merely repeated from agents, logs and the journal.

mod automaton;
mod forms;
mod known_secrets;
mod lens;
mod stream;

use super::secret::Secret;
use automaton::Automaton;
use lens::Lens;
use std::sync::Arc;

pub use forms::MIN_SECRET_BYTES;
pub use known_secrets::{KNOWN_SECRETS, KnownScrubStream, KnownSecrets, SecretsTooLong};
pub use stream::ScrubStream;

/// What is looked through: the bytes as they are, and as they read once escapes are taken away, up
/// to two layers deep; where backslashes stand before them, deeper.
const LENS_STACKS: [&[Lens]; 8] = [
    &[],
    &[Lens::Escapes],
    &[Lens::Runs],
    &[Lens::Percent],
    &[Lens::Escapes, Lens::Escapes],
    &[Lens::Escapes, Lens::Percent],
    &[Lens::Percent, Lens::Escapes],
    &[Lens::Percent, Lens::Percent],
];

/// Values to look for. Without `Debug`: it is made of secrets.
pub struct Scrubber {
    words: Automaton,
    /// What stands in the place of each secret.
    placeholders: Vec<String>,
}

/// Where a secret stands, as offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretSpan {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last one.
    pub end: usize,
    secret: usize,
}

impl Scrubber {
    /// Looks for these values, each under its name.
    pub fn new<'s>(secrets: impl IntoIterator<Item = (&'s str, &'s Secret)>) -> Self {
        let (mut words, mut placeholders) = (Automaton::default(), Vec::new());
        for (index, (name, value)) in secrets.into_iter().enumerate() {
            forms::of(value.expose().as_bytes(), |form| words.add(form, index));
            placeholders.push(format!("<secret_ref:{name}>"));
        }
        words.link();
        Self {
            words,
            placeholders,
        }
    }

    /// What stands in the place of what was found.
    pub fn placeholder(&self, found: &SecretSpan) -> &str {
        self.placeholders
            .get(found.secret)
            .map_or("<secret_ref>", String::as_str)
    }

    /// Every secret in the pieces, which are read as one text; offsets count from the first byte of
    /// the first piece. In order, and no two overlap. An escape does not reach from one piece
    /// into the next.
    pub fn find(&self, pieces: &[impl AsRef<[u8]>]) -> Vec<SecretSpan> {
        let has = |byte: u8| pieces.iter().any(|piece| piece.as_ref().contains(&byte));
        let (escapes, percent) = (has(b'\\'), has(b'%'));
        let mut found = Vec::new();
        for lenses in LENS_STACKS {
            let is_worth_it = match lenses.first() {
                None => true,
                Some(Lens::Escapes | Lens::Runs) => escapes,
                Some(Lens::Percent) => percent,
            };
            if is_worth_it {
                let mut view = stream::LensStack::new(lenses, &self.words);
                let mut at = 0;
                for piece in pieces {
                    view.read(piece.as_ref(), at, &self.words, &mut found);
                    view.flush(&self.words, &mut found);
                    at += piece.as_ref().len();
                }
            }
        }
        stream::merge(&mut found);
        found
    }

    /// The bytes without secrets; none if there are none in them.
    pub fn scrub(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let found = self.find(&[bytes]);
        if found.is_empty() {
            return None;
        }
        let mut clean = Vec::with_capacity(bytes.len());
        let mut at = 0;
        for one in &found {
            clean.extend_from_slice(bytes.get(at..one.start).unwrap_or_default());
            clean.extend_from_slice(self.placeholder(one).as_bytes());
            at = one.end;
        }
        clean.extend_from_slice(bytes.get(at..).unwrap_or_default());
        Some(clean)
    }

    /// The text without secrets; none if there are none in it.
    pub fn scrub_text(&self, text: &str) -> Option<String> {
        self.scrub(text.as_bytes())
            .map(|clean| String::from_utf8_lossy(&clean).into_owned())
    }

    /// Begins to take secrets out of bytes that come in chunks.
    pub fn stream(self: &Arc<Self>) -> ScrubStream {
        ScrubStream::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
