//! Digests of keys, eight bytes at a time: by them two keys of one object are known to be the same,
//! and none has to be kept.
//!
//! Equal keys have equal digests. Of others two may, which refuses a text and never lets one pass.

const LOW_BIT_OF_EACH_BYTE: u64 = 0x0101_0101_0101_0101;
const HIGH_BIT_OF_EACH_BYTE: u64 = 0x8080_8080_8080_8080;
/// The one control character of ASCII that no reader refuses in a string.
const DELETE_BYTE: u8 = 0x7F;
/// Odd, so that no two words become one by it.
const SPREADING_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// With what the digest of a key begins, beside its length.
const FIRST_DIGEST: u64 = 0xCBF2_9CE4_8422_2325;

/// What is found of a key that is plain ASCII without escapes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlainKey {
    pub(super) digest: u64,
    /// Whether there is a delete character in it.
    pub(super) has_delete: bool,
}

impl PlainKey {
    /// `folds`: the digest is that of the key in small letters.
    pub(super) fn of(key: &[u8], folds: bool) -> Self {
        let mut deletes = 0;
        let digest = digested(key, |word| {
            deletes |= bytes_that_are(word, DELETE_BYTE);
            if folds { in_small_letters(word) } else { word }
        });
        Self {
            digest,
            has_delete: deletes != 0,
        }
    }
}

/// The digest of a key as it is read.
pub(super) fn digest(key: &str) -> u64 {
    digested(key.as_bytes(), |word| word)
}

fn digested(key: &[u8], mut looked_at: impl FnMut(u64) -> u64) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let mut digest = FIRST_DIGEST ^ key.len() as u64;
    for word in words {
        digest = mixed(digest, looked_at(u64::from_le_bytes(*word)));
    }
    // The last bytes with as many before them as make eight; a shorter key is one word.
    let last = match key.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => rest
            .iter()
            .fold(0, |word, &byte| (word << 8) | u64::from(byte)),
    };
    mixed(digest, looked_at(last))
}

fn mixed(digest: u64, word: u64) -> u64 {
    let product = (digest ^ word).wrapping_mul(SPREADING_FACTOR);
    product ^ (product >> 32)
}

/// Zero if no byte of `word` is `byte`.
fn bytes_that_are(word: u64, byte: u8) -> u64 {
    let differing = word ^ (LOW_BIT_OF_EACH_BYTE * u64::from(byte));
    differing.wrapping_sub(LOW_BIT_OF_EACH_BYTE) & !differing & HIGH_BIT_OF_EACH_BYTE
}

/// Eight bytes of ASCII with small letters for capital ones. No sum of one byte reaches the next.
fn in_small_letters(word: u64) -> u64 {
    let from_a = word.wrapping_add(LOW_BIT_OF_EACH_BYTE * u64::from(0x80 - b'A'));
    let above_z = word.wrapping_add(LOW_BIT_OF_EACH_BYTE * u64::from(0x7F - b'Z'));
    let capital = from_a & !above_z & HIGH_BIT_OF_EACH_BYTE;
    word | (capital >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each letter of ASCII at each place of a word, and of a key that is longer or shorter than one.
    #[test]
    fn a_digest_is_that_of_small_letters_at_every_place() {
        for len in 1..=17 {
            for at in 0..len {
                for byte in 0..0x80_u8 {
                    let mut key = vec![b'@'; len];
                    key[at] = byte;
                    let folded = String::from_utf8(key.to_ascii_lowercase()).unwrap();
                    let found = PlainKey::of(&key, true);
                    assert_eq!(found.digest, digest(&folded), "{key:?}");
                    assert_eq!(found.has_delete, byte == DELETE_BYTE, "{key:?}");
                    let written = String::from_utf8(key.clone()).unwrap();
                    assert_eq!(PlainKey::of(&key, false).digest, digest(&written));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn keys_have_one_digest_exactly_if_they_are_one(one in "[ -~]{0,24}", other in "[a-cA-C]{0,3}") {
            let folded = |key: &str| PlainKey::of(key.as_bytes(), true).digest;
            for (at, _) in one.char_indices() {
                let (first, second) = one.split_at(at);
                let with = |inner: &str| format!("{first}{inner}{second}");
                let is_one = other.is_empty() || other.eq_ignore_ascii_case("a");
                let (bare, changed) = (with("a"), with(if other.is_empty() { "A" } else { &other }));
                prop_assert_eq!(folded(&bare) == folded(&changed), is_one);
                prop_assert_eq!(digest(&bare) == digest(&changed), bare == changed);
            }
        }
    }
}
