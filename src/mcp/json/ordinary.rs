//! Which bytes of a string need no look of their own.

/// So many bytes of a string are passed in words before it counts as long.
const SHORT_STRING_BYTES: usize = 64;
/// Bytes of a long string that are looked at together.
const STRIDE_BYTES: usize = 64;
/// The lowest byte that is none of ASCII.
const FIRST_BEYOND_ASCII: u8 = 0x80;

/// How many bytes from the start are ordinary in a string: printable ASCII, neither quote nor
/// backslash.
pub(super) fn ordinary(text: &[u8]) -> usize {
    run::<true>(text)
}

/// How many bytes from the start mean themselves in a string, whatever letters they are of: neither
/// quote nor backslash, nor a control character.
pub(super) fn unescaped(text: &[u8]) -> usize {
    run::<false>(text)
}

/// The same, of the first bytes only.
pub(super) fn soon(text: &[u8]) -> usize {
    words::<false>(&text[..text.len().min(SHORT_STRING_BYTES)])
}

fn run<const ASCII: bool>(text: &[u8]) -> usize {
    // Most strings end soon; long ones are passed in strides that the compiler turns into vector
    // instructions.
    let mut at = words::<ASCII>(&text[..text.len().min(SHORT_STRING_BYTES)]);
    if at < SHORT_STRING_BYTES {
        return at;
    }
    while let Some(stride) = text[at..].first_chunk::<STRIDE_BYTES>() {
        let special = stride.iter().fold(0, |special, &byte| {
            let is_foreign = ASCII && byte >= FIRST_BEYOND_ASCII;
            special
                | u8::from(byte < 0x20)
                | u8::from(is_foreign)
                | u8::from(byte == b'"')
                | u8::from(byte == b'\\')
        });
        if special != 0 {
            break;
        }
        at += STRIDE_BYTES;
    }
    at + words::<ASCII>(&text[at..])
}

/// Eight bytes at a time.
fn words<const ASCII: bool>(text: &[u8]) -> usize {
    const LOW_BIT_OF_EACH_BYTE: u64 = 0x0101_0101_0101_0101;
    const HIGH_BIT_OF_EACH_BYTE: u64 = 0x8080_8080_8080_8080;
    let (all, rest) = text.as_chunks::<8>();
    for (index, chunk) in all.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (LOW_BIT_OF_EACH_BYTE * u64::from(b'"'));
        let slash = word ^ (LOW_BIT_OF_EACH_BYTE * u64::from(b'\\'));
        let special = (word.wrapping_sub(LOW_BIT_OF_EACH_BYTE * 0x20) & !word)
            | (quote.wrapping_sub(LOW_BIT_OF_EACH_BYTE) & !quote)
            | (slash.wrapping_sub(LOW_BIT_OF_EACH_BYTE) & !slash)
            | if ASCII { word } else { 0 };
        // A byte may be taken for special only above one that is.
        let hits = special & HIGH_BIT_OF_EACH_BYTE;
        if hits != 0 {
            return 8 * index + (hits.trailing_zeros() / 8) as usize;
        }
    }
    let is_special = |&byte: &u8| {
        byte < 0x20 || byte == b'"' || byte == b'\\' || (ASCII && byte >= FIRST_BEYOND_ASCII)
    };
    8 * all.len() + rest.iter().position(is_special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte at each place, alone and before each special one.
    #[test]
    fn a_run_ends_at_the_first_byte_that_is_special() {
        for len in [1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 200] {
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'x'; len];
                    text[at] = byte;
                    text.extend_from_slice(b"\"\\\x1f\xff");
                    let is_special = matches!(byte, 0..0x20 | b'"' | b'\\');
                    let end = if is_special { at } else { len };
                    assert_eq!(unescaped(&text), end, "{byte:#x} at {at} of {len}");
                    let end = if byte < FIRST_BEYOND_ASCII { end } else { at };
                    assert_eq!(ordinary(&text), end, "{byte:#x} at {at} of {len}");
                    assert_eq!(soon(&text), unescaped(&text[..text.len().min(64)]));
                }
            }
        }
    }
}
