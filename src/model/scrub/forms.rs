//! The forms of a value that are looked for as they are; what escapes make of them is for the
//! lenses.

use crate::model::hex::hex;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// Shorter values, in bytes, are words that occur by themselves: none of them is taken for a
/// secret.
pub const MIN_SECRET_BYTES: usize = 8;

/// Gives every form of `value` to `add`.
pub(super) fn of(value: &[u8], mut add: impl FnMut(&[u8])) {
    if value.len() < MIN_SECRET_BYTES {
        return;
    }
    add(value);
    add(&value.iter().rev().copied().collect::<Vec<u8>>());
    if let Ok(text) = std::str::from_utf8(value) {
        add(text.chars().rev().collect::<String>().as_bytes());
    }
    add(hex(value).as_bytes());
    if value.contains(&b' ') {
        // As forms are encoded; what they write in percent is for the lens.
        add(&value
            .iter()
            .map(|byte| if *byte == b' ' { b'+' } else { *byte })
            .collect::<Vec<u8>>());
    }
    add(STANDARD.encode(value).as_bytes());
    add(urlsafe(&STANDARD.encode(value)).as_bytes());
    for before in 0..3 {
        let core = within(value, before);
        add(core.as_bytes());
        add(urlsafe(&core).as_bytes());
    }
    let lines = value
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .map(<[u8]>::trim_ascii);
    // The frame of a key in PEM is no secret.
    for line in lines.filter(|line| {
        line.len() >= MIN_SECRET_BYTES && line.len() < value.len() && !line.starts_with(b"-----")
    }) {
        add(line);
    }
}

/// The part of a longer text's base64 that `value` alone decides, when `before` (modulo 3) bytes
/// stand in front of it.
fn within(value: &[u8], before: usize) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, before)
        .chain(value.iter().copied())
        .collect();
    let encoded = STANDARD_NO_PAD.encode(&padded);
    let first = [0, 2, 3][before];
    encoded
        .get(first..padded.len() * 8 / 6)
        .unwrap_or_default()
        .to_owned()
}

fn urlsafe(base64: &str) -> String {
    base64.replace('+', "-").replace('/', "_")
}
