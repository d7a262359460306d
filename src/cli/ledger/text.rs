//! Text from the ledger as a terminal may see it: what agents and tool servers chose stays text
//! (threat-model §3G, G1).

use crate::mcp::seen::is_seen;
use crate::model::acting::acts;
use serde_json::Value;
use std::fmt::Write;

/// `text` for people: what acts is written as `\u{…}`.
pub(in crate::cli) fn plain(text: &str) -> String {
    without(text, acts)
}

/// A name for people, who tell it from others by looking at it: what nobody sees is written as
/// `\u{…}`, too.
pub(in crate::cli) fn name(text: &str) -> String {
    let is_hidden = |letter: char| acts(letter) || !is_seen(letter.encode_utf8(&mut [0; 4]));
    without(text, is_hidden)
}

fn without(text: &str, is_hidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_hidden(letter) {
            out.extend(letter.escape_unicode());
        } else {
            out.push(letter);
        }
    }
    out
}

/// Letters of a name in a line that has others beside it; agents choose names of tools as long as
/// they like.
const SHORT_TEXT_CHARS: usize = 80;

/// As [`plain`], cut where it is longer than a line can bear.
pub(in crate::cli) fn short(text: &str) -> String {
    let shown = plain(text);
    match shown.char_indices().nth(SHORT_TEXT_CHARS) {
        None => shown,
        Some(_) => shown
            .chars()
            .take(SHORT_TEXT_CHARS - 1)
            .chain(['…'])
            .collect(),
    }
}

/// JSON `text` for programs, and for people who look on: what acts is written as JSON escapes. That
/// is the same JSON, since such letters stand in strings only.
pub(in crate::cli) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if acts(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(letter);
        }
    }
    out
}

/// `value` on several lines, each as [`json()`] has it.
pub(in crate::cli) fn json_lines(value: &Value) -> String {
    let text = format!("{value:#}");
    let lines: Vec<String> = text.lines().map(json).collect();
    lines.join("\n")
}

/// As [`line()`], with the kind of the record.
pub(super) fn line_of(seq: u64, kind: &str, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let rest = text.strip_prefix('{').unwrap_or(&text);
    json(&format!("{{\"seq\":{seq},\"kind\":\"{kind}\",{rest}"))
}

/// The entry `text` as one line of JSON that begins with the record's number.
pub(super) fn line(seq: u64, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let rest = text.strip_prefix('{').unwrap_or(&text);
    json(&format!("{{\"seq\":{seq},{rest}"))
}
