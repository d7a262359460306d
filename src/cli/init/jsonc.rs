//! JSON with comments and trailing commas, as agents' own configurations have it: read strictly,
//! and changed only where a value is replaced, so that everything else stays byte for byte.

use crate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, Text};
use bytes::Bytes;
use std::ops::Range;

/// Bytes of such a file.
const JSONC_BYTES_MAX: usize = 4 << 20;

/// A file, and the same with blanks in place of what plain JSON does not have.
pub(super) struct JsoncDocument {
    written: String,
    blanked: Text,
    /// Bytes before the value.
    offset: usize,
}

/// One member of an object: its name, and where key and value stand in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsoncMember {
    pub(super) name: String,
    pub(super) value: Range<usize>,
    /// From the key to the end of the value.
    pub(super) whole: Range<usize>,
}

impl JsoncDocument {
    /// Reads `written`; the error says what is wrong and where.
    pub(super) fn read(written: String) -> Result<Self, String> {
        let blanked = blank(&written);
        let limits = JsonLimits {
            bytes: JSONC_BYTES_MAX,
            differential: false,
            ..AGENT_JSON_LIMITS
        };
        let place = |at: usize| {
            written[..written.floor_char_boundary(at)]
                .matches('\n')
                .count()
                + 1
        };
        let offset = blanked.len() - blanked.trim_ascii_start().len();
        let read = Text::read(Bytes::from(blanked), &limits);
        let blanked =
            read.map_err(|malformed| format!("line {}: {}", place(malformed.at), malformed.what))?;
        Ok(Self {
            written,
            blanked,
            offset,
        })
    }

    /// The file as it was read.
    pub(super) fn written(&self) -> &str {
        &self.written
    }

    /// What the file says.
    pub(super) fn text(&self) -> &Text {
        &self.blanked
    }

    /// The members of the object under `path`, in order; none if there is no object.
    pub(super) fn members(&self, path: &[&str]) -> Option<Vec<JsoncMember>> {
        let mut found = self.members_at(0)?;
        for step in path {
            let member = found.into_iter().find(|member| member.name == *step)?;
            found = self.members_at(member.value.start - self.offset)?;
        }
        Some(found)
    }

    fn members_at(&self, start: usize) -> Option<Vec<JsoncMember>> {
        let bytes = self.blanked.as_bytes();
        (bytes.get(start) == Some(&b'{')).then_some(())?;
        let (mut found, mut at) = (Vec::new(), skip(bytes, start + 1));
        while bytes.get(at) == Some(&b'"') {
            let key = at..end_of(bytes, at);
            let colon = skip(bytes, key.end);
            let value = skip(bytes, colon + 1);
            let value = value..end_of(bytes, value);
            let moved = |range: Range<usize>| range.start + self.offset..range.end + self.offset;
            let read = Text::read(
                Bytes::copy_from_slice(&bytes[key.clone()]),
                &AGENT_JSON_LIMITS,
            )
            .ok()?;
            let name = read.as_str()?.into_owned();
            found.push(JsoncMember {
                name,
                value: moved(value.clone()),
                whole: moved(key.start..value.end),
            });
            at = skip(bytes, value.end);
            if bytes.get(at) == Some(&b',') {
                at = skip(bytes, at + 1);
            }
        }
        Some(found)
    }
}

/// What stands before `at` on its line, if that is only white space.
pub(super) fn indentation(text: &str, at: usize) -> &str {
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    if line.trim().is_empty() { line } else { "" }
}

/// How the lines of `text` end.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((line, _)) if line.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// What is written of `value` in a file of such lines, behind so much white space.
pub(super) fn pretty_in(text: &str, value: &serde_json::Value, indentation: &str) -> String {
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    pretty.replace('\n', &format!("{}{indentation}", line_end(text)))
}

fn skip(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Where the value that begins at `at` ends, in a text that was read strictly.
fn end_of(bytes: &[u8], mut at: usize) -> usize {
    let (mut depth, mut quoted) = (0_usize, false);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted && depth > 0 => depth -= 1,
            b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if !quoted && depth == 0 => {
                return at;
            }
            _ => {}
        }
        at += 1;
        if depth == 0 && !quoted && matches!(byte, b'"' | b'}' | b']') {
            return at;
        }
    }
    at
}

/// Comments, trailing commas and a byte order mark become blanks, so that every other byte stays
/// where it is.
fn blank(written: &str) -> Vec<u8> {
    let mut bytes = written.as_bytes().to_vec();
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes[..3].fill(b' ');
    }
    let (mut at, mut comma) = (0, None);
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                comma = None;
                at = end_of(&bytes, at);
                continue;
            }
            (b'/', Some(b'/')) => bytes[at..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(bytes.len(), |end| at + end),
            (b'/', Some(b'*')) => {
                let close = bytes[at + 2..].windows(2).position(|pair| pair == b"*/");
                // One that is never closed stays, and is refused.
                let Some(close) = close else { break };
                at + close + 4
            }
            (byte, _) => {
                if let (b'}' | b']', Some(comma)) = (byte, comma) {
                    bytes[comma] = b' ';
                }
                if !byte.is_ascii_whitespace() {
                    comma = (byte == b',').then_some(at);
                }
                at += 1;
                continue;
            }
        };
        for byte in bytes[at..end].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
        at = end;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "\u{feff}// mine\n{\n  \"a//b\": \"/* no comment */ \\\" // é\",\n  /* two\n lines */ \"servers\": {\n    \"one\": { \"x\": [1, 2,], }, // first\n    \"tw\\u006f\": true,\n  },\n}\n";

    #[test]
    fn members_are_found_where_they_stand() {
        let document = JsoncDocument::read(WRITTEN.to_owned()).unwrap();
        assert_eq!(
            document
                .text()
                .at(&["servers", "one", "x"])
                .unwrap()
                .value(),
            serde_json::json!([1, 2])
        );
        let servers = document.members(&["servers"]).unwrap();
        let shown: Vec<_> = servers
            .iter()
            .map(|member| {
                (
                    member.name.as_str(),
                    &WRITTEN[member.value.clone()],
                    &WRITTEN[member.whole.clone()],
                )
            })
            .collect();
        let one = "{ \"x\": [1, 2,], }";
        assert_eq!(
            shown,
            [
                ("one", one, &*format!("\"one\": {one}")),
                ("two", "true", "\"tw\\u006f\": true")
            ]
        );
        assert_eq!(document.members(&[]).unwrap().len(), 2);
        assert!(document.members(&["a//b"]).is_none() && document.members(&["none"]).is_none());
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_line() {
        for (text, line) in [
            ("{\n \"a\": 1,\n \"a\": 2 }", "line 3: "),
            ("{ /* ", "line 1: "),
            ("{ \"a\": ,, }", "line 1: "),
            ("", "line 1: "),
            ("{\n \"a\": \"b }", "line 2: "),
        ] {
            let error = JsoncDocument::read(text.to_owned()).err().unwrap();
            assert!(error.starts_with(line), "{text:?}: {error}");
        }
    }
}
