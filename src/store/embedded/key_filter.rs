//! Which claims the index may hold: a Bloom filter over their keys, so that a key nobody has used
//! before, which is what nearly every call brings, is not looked for. That it says no is certain;
//! that it says yes means: look.
//!
//! What an index holds when it is opened is learned behind everybody's back; until all is known,
//! every key has to be looked for.

use crate::model::digest::Digest;

/// Keys of the first layer; each further one has room for twice as many.
const FIRST_LAYER_KEYS: usize = 1 << 14;
/// Layers at most: four million keys in 8 MiB.
const MAX_LAYERS: usize = 8;
/// Bits for each key. With one bit for each of a key's four words, a full layer is wrong once in
/// 400 times.
const BITS_PER_KEY: usize = 16;

/// The keys, or some of them.
#[derive(Debug)]
pub(super) struct KeyFilter {
    layers: Vec<FilterLayer>,
    learned: FilterCoverage,
}

/// How much of the index is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterCoverage {
    /// The keys before this one, and those written since.
    Until(Digest),
    All,
    /// There are too many to know.
    Nothing,
}

#[derive(Debug)]
struct FilterLayer {
    bits: Vec<u64>,
    /// Keys that still fit.
    room: usize,
}

impl KeyFilter {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            layers: Vec::new(),
            learned: FilterCoverage::Until(Digest::new([0; 32])),
        }
    }

    /// False when the index does not hold `key`.
    pub(super) fn may_hold(&self, key: &Digest) -> bool {
        self.learned != FilterCoverage::All || self.has(key)
    }

    /// Notes `key`, before it is written. True when the index did not hold it.
    pub(super) fn add(&mut self, key: &Digest) -> bool {
        if self.learned == FilterCoverage::Nothing || self.has(key) {
            return false;
        }
        let is_new = self.learned == FilterCoverage::All;
        let full = self.layers.last().is_none_or(|layer| layer.room == 0);
        if full && self.layers.len() < MAX_LAYERS {
            self.layers.push(FilterLayer::with_room(
                FIRST_LAYER_KEYS << self.layers.len(),
            ));
        } else if full {
            // Many of them are forgotten by now; where all still count, there are too many.
            self.layers.clear();
            let again = FilterCoverage::Until(Digest::new([0; 32]));
            self.learned = if is_new {
                again
            } else {
                FilterCoverage::Nothing
            };
            return is_new;
        }
        if let Some(layer) = self.layers.last_mut() {
            layer.room -= 1;
            bits(key, layer.bits.len()).for_each(|(word, bit)| layer.bits[word] |= bit);
        }
        is_new
    }

    /// The key from which on the index is to be read; none when there is nothing to learn.
    pub(super) fn next(&self) -> Option<Digest> {
        if let FilterCoverage::Until(next) = self.learned {
            Some(next)
        } else {
            None
        }
    }

    /// Notes `keys`, which the index holds from [`KeyFilter::next`] on; with the `last` of them, all
    /// are known.
    pub(super) fn learn(&mut self, keys: &[Digest], last: bool) {
        for key in keys {
            self.add(key);
        }
        if let (FilterCoverage::Until(next), Some(newest)) = (&mut self.learned, keys.last()) {
            *next = *newest;
        }
        if last && self.learned != FilterCoverage::Nothing {
            self.learned = FilterCoverage::All;
        }
    }

    fn has(&self, key: &Digest) -> bool {
        self.layers
            .iter()
            .any(|layer| bits(key, layer.bits.len()).all(|(word, bit)| layer.bits[word] & bit != 0))
    }
}

impl FilterLayer {
    fn with_room(room: usize) -> Self {
        Self {
            bits: vec![0; room * BITS_PER_KEY / 64],
            room,
        }
    }
}

/// Where the bits of `key` are in a layer of so many `words`, a power of two. A key is a hash: its
/// own bytes say where.
fn bits(key: &Digest, words: usize) -> impl Iterator<Item = (usize, u64)> {
    key.as_bytes().chunks_exact(8).map(move |part| {
        let at = part
            .iter()
            .fold(0_usize, |at, byte| at << 8 | usize::from(*byte));
        ((at >> 6) % words, 1 << (at & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Digest {
        Digest::of(&n.to_le_bytes())
    }

    /// Whatever it is asked, it never says that a key is not there that is.
    #[test]
    fn a_no_is_certain_and_a_yes_nearly() {
        let mut known = KeyFilter::new();
        assert!(known.may_hold(&key(0)), "nothing is learned yet");
        let there: Vec<_> = (0..FIRST_LAYER_KEYS * 4).map(key).collect();
        let (first, second) = there.split_at(FIRST_LAYER_KEYS);
        known.learn(first, false);
        assert_eq!(known.next(), first.last().copied());
        assert!(!known.add(&key(usize::MAX)), "it may have been there");
        known.learn(second, true);
        assert_eq!(known.next(), None);
        assert!(there.iter().all(|key| known.may_hold(key)) && known.may_hold(&key(usize::MAX)));
        let wrong = (0..10_000)
            .filter(|n| known.may_hold(&key(FIRST_LAYER_KEYS * 4 + n)))
            .count();
        assert!(wrong < 200, "{wrong} of 10000");
        assert!(known.add(&key(FIRST_LAYER_KEYS * 5)) && !known.add(&key(FIRST_LAYER_KEYS * 5)));
    }

    /// It takes up no more memory than it may: full, it learns what still counts; when that is too
    /// much, it gives up.
    #[test]
    fn it_begins_anew_when_it_is_full() {
        let mut known = KeyFilter::new();
        known.learn(&[], true);
        known.layers = (0..MAX_LAYERS)
            .map(|_| FilterLayer {
                room: 0,
                ..FilterLayer::with_room(64)
            })
            .collect();
        assert!(known.add(&key(1)));
        assert_eq!(
            (known.next(), known.layers.len()),
            (Some(Digest::new([0; 32])), 0)
        );
        assert!(known.may_hold(&key(2)));
        known.layers = (0..MAX_LAYERS)
            .map(|_| FilterLayer {
                room: 0,
                ..FilterLayer::with_room(64)
            })
            .collect();
        known.learn(&[key(3)], true);
        assert_eq!((known.next(), known.layers.len()), (None, 0));
        assert!(known.may_hold(&key(4)) && !known.add(&key(4)));
    }
}
