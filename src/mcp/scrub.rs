//! Takes the secrets that this process knows out of a message before anybody reads it (002-31,
//! threat-model §3F F2).
//!
//! Strings are read as they are meant, not as they are written. All strings under one key are read
//! as one text, so that a secret split over two blocks of content is found, too.

use super::json::{Malformed, SERVER_JSON_LIMITS, ScalarKind, Text};
use crate::model::scrub::{KNOWN_SECRETS, MIN_SECRET_BYTES, Scrubber};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// Strings that are read as one text.
#[derive(PartialEq, Eq, Hash)]
enum StringRun<'t> {
    Keys,
    Under(&'t [u8]),
}

/// Where each of them stands, and what it says.
type StringSpans<'t> = Vec<(Range<usize>, Cow<'t, str>)>;

type Edits = Vec<(Range<usize>, Text)>;

/// The text without secrets, the rest as it was written. None if there are none in it.
fn cleaned(text: &Text) -> Option<Text> {
    let scrubber = KNOWN_SECRETS.scrubber()?;
    let edits = edits(text, &scrubber);
    if edits.is_empty() {
        return None;
    }
    KNOWN_SECRETS.note_removed();
    Some(text.replaced(&edits))
}

fn edits(text: &Text, scrubber: &Scrubber) -> Edits {
    let mut rows: HashMap<StringRun<'_>, StringSpans<'_>> = HashMap::new();
    let mut edits = Edits::new();
    for scalar in text.scalars() {
        let row = match scalar.kind {
            ScalarKind::Key => StringRun::Keys,
            ScalarKind::String => StringRun::Under(scalar.under),
            ScalarKind::Number => {
                edits.extend(number(&scalar.value(), scrubber).map(|new| (scalar.range, new)));
                continue;
            }
        };
        rows.entry(row)
            .or_default()
            .push((scalar.range.clone(), scalar.value()));
    }
    for (row, strings) in &rows {
        clean_row(strings, *row == StringRun::Keys, scrubber, &mut edits);
    }
    edits.sort_unstable_by_key(|(range, _)| range.start);
    edits
}

/// A number is one secret, or none.
fn number(written: &str, scrubber: &Scrubber) -> Option<Text> {
    if written.len() < MIN_SECRET_BYTES {
        return None;
    }
    let found = scrubber.find(&[written]);
    let whole = found
        .iter()
        .find(|one| one.start == 0 && one.end == written.len());
    whole.map(|one| Text::string(scrubber.placeholder(one)))
}

fn clean_row(
    strings: &[(Range<usize>, Cow<'_, str>)],
    are_keys: bool,
    scrubber: &Scrubber,
    edits: &mut Edits,
) {
    let pieces: Vec<&str> = strings.iter().map(|(_, string)| &**string).collect();
    let found = scrubber.find(&pieces);
    let (mut before, mut offset, mut keys) = (0, 0, 0_usize);
    for (range, string) in strings {
        let end = offset + string.len();
        before += found[before..]
            .iter()
            .take_while(|one| one.end <= offset)
            .count();
        let here: Vec<_> = found[before..]
            .iter()
            .take_while(|one| one.start < end)
            .collect();
        if !here.is_empty() {
            let (mut clean, mut at) = (Vec::with_capacity(string.len()), 0);
            for one in here {
                clean.extend_from_slice(
                    string
                        .as_bytes()
                        .get(at..one.start.saturating_sub(offset))
                        .unwrap_or_default(),
                );
                if one.start >= offset {
                    clean.extend_from_slice(scrubber.placeholder(one).as_bytes());
                }
                at = one.end.min(end) - offset;
            }
            clean.extend_from_slice(string.as_bytes().get(at..).unwrap_or_default());
            if are_keys {
                // No two keys may become equal.
                keys += 1;
                clean.extend_from_slice(format!("#{keys}").as_bytes());
            }
            edits.push((
                range.clone(),
                Text::string(&String::from_utf8_lossy(&clean)),
            ));
        }
        offset = end;
    }
}

/// Bytes of a message with no secret in them, and the first of what the strict reader refuses in
/// it; the reader of a message of a tool server. What stands in the place of a secret makes nothing
/// odd that was not.
pub(crate) fn read_oddly(bytes: Bytes) -> Result<(Text, Option<Malformed>), Malformed> {
    let (text, odd) = Text::read_oddly(bytes, &SERVER_JSON_LIMITS)?;
    match cleaned(&text) {
        Some(clean) => {
            let (clean, other) = Text::read_oddly(clean.bytes(), &SERVER_JSON_LIMITS)?;
            Ok((clean, odd.or(other)))
        }
        None => Ok((text, odd)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::secret::Secret;

    fn cleaned(json: &str) -> String {
        let secrets = [
            ("key", Secret::new("hunter2-SECRET".to_owned())),
            ("pin", Secret::new("1234567890".to_owned())),
        ];
        let scrubber = Scrubber::new(secrets.iter().map(|(name, value)| (*name, value)));
        let text =
            Text::read(Bytes::copy_from_slice(json.as_bytes()), &SERVER_JSON_LIMITS).unwrap();
        let clean = text.replaced(&edits(&text, &scrubber)).bytes();
        let clean = Text::read(clean, &SERVER_JSON_LIMITS).unwrap();
        String::from_utf8(clean.as_bytes().to_vec()).unwrap()
    }

    /// 002-31, threat-model §3F F2: in values and keys, escaped, in JSON within JSON, as a number,
    /// split over blocks; the rest of the message stays as it was written.
    #[test]
    fn secrets_leave_a_message_and_nothing_else_does() {
        for (json, expected) in [
            (r#"{ "n" : 1.50, "t":"x" }"#, r#"{ "n" : 1.50, "t":"x" }"#),
            (
                r#"{ "n" : 1.50, "t":"a hunter2-SECRET b" }"#,
                r#"{ "n" : 1.50, "t":"a <secret_ref:key> b" }"#,
            ),
            (
                r#"{"t":"\u0068unter2\u002dSECRET"}"#,
                r#"{"t":"<secret_ref:key>"}"#,
            ),
            (
                r#"{"t":"{\"k\":\"\\u0068unter2-SECRET\"}"}"#,
                r#"{"t":"{\"k\":\"<secret_ref:key>\"}"}"#,
            ),
            (
                r#"{"hunter2-SECRET":1,"a":{"hunter2-SECRET":2}}"#,
                r#"{"<secret_ref:key>#1":1,"a":{"<secret_ref:key>#2":2}}"#,
            ),
            (
                r"[1234567890,12345678901,-1234567890]",
                r#"["<secret_ref:pin>",12345678901,-1234567890]"#,
            ),
            (
                r#"[{"type":"text","text":"a hunt"},{"type":"text","text":"er2-"},{"type":"text","text":"SECRET b"}]"#,
                r#"[{"type":"text","text":"a <secret_ref:key>"},{"type":"text","text":""},{"type":"text","text":" b"}]"#,
            ),
            (r#"["hunter2-","SECRET"]"#, r#"["<secret_ref:key>",""]"#),
        ] {
            assert_eq!(cleaned(json), expected);
        }
    }
}
