//! Claims as the index keeps them: shorter, since what sled does with a value costs by its length.
//! Digests stand as bytes instead of 64 digits, the names of a claim's members as one byte each.
//! What is not packed reads as it stands.

/// Stands before the 32 bytes of a digest; like the names' bytes, none that JSON has.
const DIGEST_TAG: u8 = 0;
/// The first name's byte.
const FIRST_NAME_TAG: u8 = 0x0e;
/// What a name's byte stands for. Never to be changed but at the end, up to the byte 0x1f.
const PACKED_NAMES: [&[u8]; 17] = [
    b"\"action\":",
    b"\"fingerprint\":",
    b"\"attempt\":",
    b"\"phase\":",
    b"\"completed\":",
    b"\"size\":",
    b"\"digest\":",
    b"\"began\":",
    b"\"changed\":",
    b"\"ttl\":",
    b"\"keep\":",
    b"\"task\":",
    b"\"session\":",
    b"\"fence\":",
    b"\"reserved\":",
    b"\"tool\":",
    b"\"agent\":",
];
/// Bytes of a digest as JSON.
const JSON_DIGEST_BYTES: usize = 66;

const _: () = assert!(
    FIRST_NAME_TAG as usize + PACKED_NAMES.len() <= 0x20,
    "JSON may hold the bytes from here on"
);

/// Packs `record`, JSON on a line and what follows it.
pub(super) fn pack(record: &[u8]) -> Vec<u8> {
    let end = record
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(record.len());
    let (mut head, rest) = record.split_at(end);
    let mut out = Vec::with_capacity(record.len());
    while let Some(quote) = head.iter().position(|byte| *byte == b'"') {
        out.extend_from_slice(&head[..quote]);
        head = &head[quote..];
        let taken = if let Some((name, byte)) = PACKED_NAMES
            .iter()
            .zip(FIRST_NAME_TAG..)
            .find(|(name, _)| head.starts_with(name))
        {
            out.push(byte);
            name.len()
        } else if let Some(digest) = digest(head) {
            out.push(DIGEST_TAG);
            out.extend_from_slice(&digest);
            JSON_DIGEST_BYTES
        } else {
            out.push(b'"');
            1
        };
        head = &head[taken..];
    }
    out.extend_from_slice(head);
    out.extend_from_slice(rest);
    out
}

/// What was packed into `record`.
pub(super) fn unpack(mut record: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(record.len() * 2);
    while let Some((byte, rest)) = record.split_first() {
        record = rest;
        match *byte {
            b'\n' => {
                out.push(b'\n');
                out.extend_from_slice(rest);
                break;
            }
            DIGEST_TAG => {
                let (digest, rest) = rest.split_at(rest.len().min(32));
                out.push(b'"');
                let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                out.extend(digits.map(|digit| {
                    if digit < 10 {
                        b'0' + digit
                    } else {
                        b'a' + digit - 10
                    }
                }));
                out.push(b'"');
                record = rest;
            }
            byte => match byte
                .checked_sub(FIRST_NAME_TAG)
                .and_then(|name| PACKED_NAMES.get(usize::from(name)))
            {
                Some(name) => out.extend_from_slice(name),
                None => out.push(byte),
            },
        }
    }
    out
}

/// The digest that `text` begins with, in quotes and small digits.
fn digest(text: &[u8]) -> Option<[u8; 32]> {
    let text = text
        .first_chunk::<JSON_DIGEST_BYTES>()
        .filter(|text| text[JSON_DIGEST_BYTES - 1] == b'"')?;
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(text[1..].chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is packed comes back byte for byte, whatever texts it holds, and what was not packed
    /// stays as it is.
    #[test]
    fn records_come_back_as_they_were() {
        let digest = "0123456789abcdef".repeat(4);
        let record = |text: &str| {
            format!(
                "{{\"action\":\"{text}\",\"task\":\"{digest}\",\"tool\":\"{}\"}}\n\0\u{e}\"{digest}\"",
                digest.to_uppercase()
            )
        };
        for text in ["", "\\\"tool\\\":", &digest, &digest[1..], "é", "\\u0000"] {
            let record = record(text);
            let packed = pack(record.as_bytes());
            assert_eq!(unpack(&packed), record.as_bytes());
            assert!(
                packed.len() < record.len() - 40,
                "{} of {}",
                packed.len(),
                record.len()
            );
            let (head, _) = record.split_once('\n').unwrap();
            assert_eq!(
                unpack(head.as_bytes()),
                head.as_bytes(),
                "as an older toolgate wrote it"
            );
        }
    }

    proptest! {
        /// Any JSON comes back, and bytes that nobody packed do no harm.
        #[test]
        fn any_record_comes_back(texts in prop::collection::vec(any::<String>(), 0..8), body: Vec<u8>) {
            let mut record = serde_json::to_vec(&texts).unwrap();
            record.push(b'\n');
            record.extend_from_slice(&body);
            prop_assert_eq!(unpack(&pack(&record)), record);
            unpack(&body);
        }
    }
}
