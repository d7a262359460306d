//! Which bytes of a string need no look of their own.

/// So many bytes of a string are passed in words before it counts as long.
const SHORT_STRING_BYTES: usize = 64;
/// Bytes of a long string that are looked at together.
const STRIDE_BYTES: usize = 64;

/// How many bytes from the start are ordinary in a string: printable ASCII, neither quote nor
/// backslash.
pub(super) fn ordinary(text: &[u8]) -> usize {
    // Most strings end soon; long ones are passed in strides that the compiler turns into vector
    // instructions.
    let mut at = soon(text);
    if at < SHORT_STRING_BYTES {
        return at;
    }
    while let Some(stride) = text[at..].first_chunk::<STRIDE_BYTES>() {
        let special = stride.iter().fold(0, |special, &byte| {
            special
                | u8::from(!(0x20..0x80).contains(&byte))
                | u8::from(byte == b'"')
                | u8::from(byte == b'\\')
        });
        if special != 0 {
            break;
        }
        at += STRIDE_BYTES;
    }
    at + words(&text[at..])
}

/// The same, of the first bytes only.
pub(super) fn soon(text: &[u8]) -> usize {
    words(&text[..text.len().min(SHORT_STRING_BYTES)])
}

/// The same, eight bytes at a time.
fn words(text: &[u8]) -> usize {
    const LOW_BIT_OF_EACH_BYTE: u64 = 0x0101_0101_0101_0101;
    const HIGH_BIT_OF_EACH_BYTE: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(chunk) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or([0; 8]));
        let quote = word ^ (LOW_BIT_OF_EACH_BYTE * u64::from(b'"'));
        let slash = word ^ (LOW_BIT_OF_EACH_BYTE * u64::from(b'\\'));
        let special = (word.wrapping_sub(LOW_BIT_OF_EACH_BYTE * 0x20) & !word)
            | (quote.wrapping_sub(LOW_BIT_OF_EACH_BYTE) & !quote)
            | (slash.wrapping_sub(LOW_BIT_OF_EACH_BYTE) & !slash)
            | word;
        let hits = special & HIGH_BIT_OF_EACH_BYTE;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = &text[at..];
    at + rest
        .iter()
        .position(|&byte| !(0x20..0x80).contains(&byte) || byte == b'"' || byte == b'\\')
        .unwrap_or(rest.len())
}
