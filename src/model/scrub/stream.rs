//! Secrets in bytes that come in chunks. What is given on is the same wherever the chunks were cut,
//! and no byte is held back that cannot be the beginning of a secret.

use super::automaton::Automaton;
use super::lens::{Lens, LensState, Unit};
use super::{LENS_STACKS, Scrubber, SecretSpan};
use std::sync::Arc;

/// One way to read the bytes.
pub(super) struct LensStack {
    lenses: Vec<LensState>,
    matcher: Matcher,
}

struct Matcher {
    state: usize,
    /// Where the last bytes began, as many as the longest word has; a power of two.
    starts: Vec<usize>,
    count: usize,
}

impl LensStack {
    pub(super) fn new(lenses: &[Lens], words: &Automaton) -> Self {
        let starts = vec![0; (words.longest() + 1).next_power_of_two()];
        let lenses = lenses.iter().copied().map(LensState::new).collect();
        Self {
            lenses,
            matcher: Matcher {
                state: 0,
                starts,
                count: 0,
            },
        }
    }

    /// Reads bytes that begin at the offset `at`.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        at: usize,
        words: &Automaton,
        found: &mut Vec<SecretSpan>,
    ) {
        let Self { lenses, matcher } = self;
        for (offset, byte) in bytes.iter().enumerate() {
            let start = at + offset;
            feed(
                lenses,
                Unit {
                    byte: *byte,
                    start,
                    end: start + 1,
                },
                &mut |unit| matcher.take(unit, words, found),
            );
        }
    }

    /// What is pending is no escape.
    pub(super) fn flush(&mut self, words: &Automaton, found: &mut Vec<SecretSpan>) {
        let Self { lenses, matcher } = self;
        for index in 0..lenses.len() {
            let (before, after) = lenses.split_at_mut(index + 1);
            if let Some(lens) = before.last_mut() {
                lens.flush(&mut |unit| {
                    feed(after, unit, &mut |unit| matcher.take(unit, words, found));
                });
            }
        }
    }

    /// From where on the bytes may be the beginning of a secret.
    fn earliest(&self, words: &Automaton) -> Option<usize> {
        let pending = self.lenses.iter().filter_map(LensState::earliest);
        pending.chain(self.matcher.earliest(words)).min()
    }
}

fn feed(lenses: &mut [LensState], unit: Unit, give: &mut dyn FnMut(Unit)) {
    match lenses.split_first_mut() {
        None => give(unit),
        Some((first, rest)) => first.push(unit, &mut |unit| feed(rest, unit, give)),
    }
}

impl Matcher {
    fn take(&mut self, unit: Unit, words: &Automaton, found: &mut Vec<SecretSpan>) {
        let mask = self.starts.len() - 1;
        self.starts[self.count & mask] = unit.start;
        self.count += 1;
        self.state = words.step(self.state, unit.byte);
        let Some((len, secret)) = words.hit(self.state) else {
            return;
        };
        let one = SecretSpan {
            start: self.starts[(self.count - len) & mask],
            end: unit.end,
            secret,
        };
        match found.last_mut() {
            // A long row of the same is one, not one for each byte.
            Some(last)
                if last.secret == one.secret && (last.start..last.end).contains(&one.start) =>
            {
                last.end = last.end.max(one.end);
            }
            _ => found.push(one),
        }
    }

    fn earliest(&self, words: &Automaton) -> Option<usize> {
        let begun = words.begun(self.state);
        (begun > 0).then(|| self.starts[(self.count - begun) & (self.starts.len() - 1)])
    }
}

/// Sorts, and makes one of what overlaps: under the name of what begins first.
pub(super) fn merge(found: &mut Vec<SecretSpan>) {
    found.sort_unstable_by_key(|one| (one.start, one.secret, one.end));
    found.dedup_by(|next, last| {
        let overlaps = next.start < last.end;
        if overlaps {
            last.end = last.end.max(next.end);
        }
        overlaps
    });
}

/// Takes secrets out of bytes that come in chunks.
pub struct ScrubStream {
    scrubber: Arc<Scrubber>,
    views: Vec<LensStack>,
    /// What was read and not given on yet, from the offset `base` on.
    held: Vec<u8>,
    base: usize,
    found: Vec<SecretSpan>,
}

impl ScrubStream {
    pub(super) fn new(scrubber: Arc<Scrubber>) -> Self {
        let views = LENS_STACKS
            .iter()
            .map(|lenses| LensStack::new(lenses, &scrubber.words))
            .collect();
        Self {
            scrubber,
            views,
            held: Vec::new(),
            base: 0,
            found: Vec::new(),
        }
    }

    /// Whether it looks for the secrets of `scrubber`.
    pub fn is_of(&self, scrubber: &Arc<Scrubber>) -> bool {
        Arc::ptr_eq(&self.scrubber, scrubber)
    }

    /// Reads a chunk; appends what is certain by now to `out`.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let at = self.base + self.held.len();
        for view in &mut self.views {
            view.read(chunk, at, &self.scrubber.words, &mut self.found);
        }
        self.held.extend_from_slice(chunk);
        let earliest = self
            .views
            .iter()
            .filter_map(|view| view.earliest(&self.scrubber.words))
            .min();
        self.release(earliest.unwrap_or(at + chunk.len()), out);
    }

    /// Nothing follows: appends the rest to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        for view in &mut self.views {
            view.flush(&self.scrubber.words, &mut self.found);
        }
        self.release(self.base + self.held.len(), out);
    }

    /// Gives on what stands before `safe`, and before what may still grow into it.
    fn release(&mut self, safe: usize, out: &mut Vec<u8>) {
        merge(&mut self.found);
        let growing = self
            .found
            .iter()
            .filter(|one| one.end > safe)
            .map(|one| one.start);
        let until = growing.min().unwrap_or(safe).min(safe);
        let (mut at, base) = (self.base, self.base);
        let part =
            |from: usize, to: usize| self.held.get(from - base..to - base).unwrap_or_default();
        for one in self.found.iter().filter(|one| one.end <= until) {
            out.extend_from_slice(part(at, one.start));
            out.extend_from_slice(self.scrubber.placeholder(one).as_bytes());
            at = one.end;
        }
        out.extend_from_slice(part(at, until));
        self.found.retain(|one| one.end > until);
        self.held.drain(..until - base);
        self.base = until;
    }
}
