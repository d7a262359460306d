//! Walks the strings and numbers of a strictly read text where they stand, and puts others in their
//! places.

use super::split::skip_string;
use super::{Text, decode};
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::Range;

/// What a scalar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarKind {
    /// The key of a member.
    Key,
    /// A string that is a value.
    String,
    /// A number.
    Number,
}

/// A string or a number in a text.
#[derive(Debug, Clone)]
pub struct Scalar<'t> {
    /// What it is.
    pub kind: ScalarKind,
    /// Where it stands, with the quotes of a string.
    pub range: Range<usize>,
    /// The next key above it, as written, without its quotes; empty if there is none. Of a key: of
    /// the object it is in.
    pub under: &'t [u8],
    text: &'t Bytes,
}

impl<'t> Scalar<'t> {
    /// The string, decoded; the number as written.
    pub fn value(&self) -> Cow<'t, str> {
        let written = &self.text[self.range.clone()];
        decode(written).unwrap_or_else(|| String::from_utf8_lossy(written))
    }
}

/// An object or array that is not closed yet.
struct OpenContainer<'t> {
    is_object: bool,
    /// In an object: the next string is a key.
    key_follows: bool,
    /// The key that what comes next is under.
    under: &'t [u8],
    /// The key that all of it is under.
    above: &'t [u8],
}

/// Walks the scalars of a text, in order.
pub struct Scalars<'t> {
    text: &'t Bytes,
    at: usize,
    open: Vec<OpenContainer<'t>>,
}

impl Text {
    /// Its strings and numbers, in order.
    pub fn scalars(&self) -> Scalars<'_> {
        Scalars {
            text: &self.bytes,
            at: 0,
            open: Vec::new(),
        }
    }

    /// The text with others in the place of what stands in these ranges: scalars of it, in order.
    /// Everything else stays as it was written. That no two keys become equal is for the caller
    /// to see to.
    #[must_use]
    pub fn replaced(&self, edits: &[(Range<usize>, Self)]) -> Self {
        let mut out = Vec::with_capacity(self.bytes.len());
        let mut at = 0;
        for (range, new) in edits {
            out.extend_from_slice(&self.bytes[at..range.start]);
            out.extend_from_slice(&new.bytes);
            at = range.end;
        }
        out.extend_from_slice(&self.bytes[at..]);
        Self::of_bytes(Bytes::from(out))
    }
}

impl<'t> Scalars<'t> {
    fn begin(&mut self, is_object: bool) {
        let above = self.open.last().map_or(&b""[..], |open| open.under);
        self.open.push(OpenContainer {
            is_object,
            key_follows: is_object,
            under: above,
            above,
        });
    }

    fn string(&mut self) -> Scalar<'t> {
        let range = self.at..skip_string(self.text, self.at);
        self.at = range.end;
        let text = self.text;
        match self.open.last_mut() {
            Some(open) if open.key_follows => {
                open.key_follows = false;
                open.under = &text[range.start + 1..range.end - 1];
                Scalar {
                    kind: ScalarKind::Key,
                    range,
                    under: open.above,
                    text,
                }
            }
            open => Scalar {
                kind: ScalarKind::String,
                range,
                under: open.map_or(&b""[..], |open| open.under),
                text,
            },
        }
    }

    fn number(&mut self) -> Scalar<'t> {
        let rest = &self.text[self.at..];
        let len = rest
            .iter()
            .position(|byte| b",]} \t\n\r".contains(byte))
            .unwrap_or(rest.len());
        let range = self.at..self.at + len;
        self.at = range.end;
        let under = self.open.last().map_or(&b""[..], |open| open.under);
        Scalar {
            kind: ScalarKind::Number,
            range,
            under,
            text: self.text,
        }
    }
}

impl<'t> Iterator for Scalars<'t> {
    type Item = Scalar<'t>;

    fn next(&mut self) -> Option<Scalar<'t>> {
        loop {
            match self.text.get(self.at)? {
                b'"' => return Some(self.string()),
                b'-' | b'0'..=b'9' => return Some(self.number()),
                b'{' => self.begin(true),
                b'[' => self.begin(false),
                b'}' | b']' => drop(self.open.pop()),
                b',' => {
                    if let Some(open) = self.open.last_mut() {
                        open.key_follows = open.is_object;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::SERVER_JSON_LIMITS;

    fn text(json: &'static str) -> Text {
        Text::read(Bytes::from_static(json.as_bytes()), &SERVER_JSON_LIMITS).unwrap()
    }

    #[test]
    fn scalars_are_found_with_the_key_above_them() {
        let text = text(
            r#"{ "a" : [ 1.5e3, "x", { "b\"" : "y" }, "z" ], "c":{}, "d": [[-2]], "e": true, "f": "\u0041" }"#,
        );
        let found: Vec<String> = text
            .scalars()
            .map(|one| {
                format!(
                    "{:?} {} < {}",
                    one.kind,
                    one.value(),
                    String::from_utf8_lossy(one.under)
                )
            })
            .collect();
        let expected = [
            "Key a < ",
            "Number 1.5e3 < a",
            "String x < a",
            "Key b\" < a",
            "String y < b\\\"",
            "String z < a",
            "Key c < ",
            "Key d < ",
            "Number -2 < d",
            "Key e < ",
            "Key f < ",
            "String A < f",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_not_replaced_stays_as_it_was_written() {
        let text = text(r#"{ "a" : 1.50, "b":"x" , "c":["x"] }"#);
        let edits: Vec<_> = text
            .scalars()
            .filter(|one| one.kind == ScalarKind::String)
            .map(|one| (one.range, Text::string("\"y")))
            .collect();
        assert_eq!(
            text.replaced(&edits).as_bytes(),
            br#"{ "a" : 1.50, "b":"\"y" , "c":["\"y"] }"#
        );
    }
}
