//! Bytes as hex digits: the one writer and the one reader.

/// `bytes` in hex digits, in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    let mut room = [0; 2 * HEX_PART_BYTES];
    for part in bytes.chunks(HEX_PART_BYTES) {
        text.push_str(hex_in(part, &mut room));
    }
    text
}

/// Bytes that are written at once: a SHA-256.
const HEX_PART_BYTES: usize = 32;

/// The same, in `room`; of what has no room there nothing is written.
pub(crate) fn hex_in<'r>(bytes: &[u8], room: &'r mut [u8]) -> &'r str {
    let mut length = 0;
    for (pair, byte) in room.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
        length += 2;
    }
    std::str::from_utf8(&room[..length]).unwrap_or_default()
}

/// The two digits of each byte: a hash is written with one look for each of its bytes.
static HEX_PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// The bytes that `text` gives in hex digits; none when it is something else.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(bytes)
}

/// The bytes that `text` gives in hex digits, however many; none when it is something else.
pub(crate) fn unhex_all(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    rest.is_empty()
        .then(|| pairs.iter().map(byte).collect())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = hex(&bytes);
        assert_eq!(text.get(..8), Some("00010203"));
        let one_by_one: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, one_by_one.concat());
        assert_eq!(hex(&bytes[..33]), text[..66]);
        assert_eq!(
            (hex(&[]), hex_in(&[1, 2], &mut [0; 2])),
            (String::new(), "01")
        );
        assert_eq!(unhex::<256>(&text).unwrap().as_slice(), bytes);
        assert_eq!(unhex_all(&text), Some(bytes));
        assert_eq!((unhex_all("f"), unhex_all("fg")), (None, None));
        assert_eq!(unhex::<1>("FF"), Some([255]));
        for wrong in ["", "f", "fff", "fg", "é"] {
            assert_eq!(unhex::<1>(wrong), None, "{wrong}");
        }
    }
}
