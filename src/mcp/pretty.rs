//! JSON for people's eyes: indented, keys in order, and nothing in it that does not print or prints
//! as something else (threat-model §3D D6, §3E E5).

use super::readable::is_misleading;
use serde_json::Value;
use std::fmt::Write as _;

/// The value as JSON on lines of their own; equal values give equal texts. What reads it gets the
/// same value back.
pub fn pretty(value: &Value) -> String {
    let mut out = String::new();
    push(&mut out, value, 0, false);
    out
}

/// As [`pretty`], with long texts broken after lines and sentences, so that a difference shows
/// where it is. No JSON.
pub fn readable(value: &Value) -> String {
    let mut out = String::new();
    push(&mut out, value, 0, true);
    out
}

/// A text as it can be shown on a terminal: what does not print stands there as its escape.
pub fn plain(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, letter| {
            push_letter(&mut out, letter);
            out
        })
}

fn push(out: &mut String, value: &Value, depth: usize, broken: bool) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            let _ = write!(out, "{value}");
        }
        Value::String(text) => push_text(out, text, broken.then_some(depth + 1)),
        Value::Array(elements) if elements.is_empty() => out.push_str("[]"),
        Value::Object(members) if members.is_empty() => out.push_str("{}"),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                next(out, index, depth + 1);
                push(out, element, depth + 1, broken);
            }
            line(out, depth);
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, member)) in members.into_iter().enumerate() {
                next(out, index, depth + 1);
                push_text(out, key, None);
                out.push_str(": ");
                push(out, member, depth + 1, broken);
            }
            line(out, depth);
            out.push('}');
        }
    }
}

fn next(out: &mut String, index: usize, depth: usize) {
    if index > 0 {
        out.push(',');
    }
    line(out, depth);
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// `broken`: how deep the parts of a long text stand.
fn push_text(out: &mut String, text: &str, broken: Option<usize>) {
    out.push('"');
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            _ => push_letter(out, letter),
        }
        let ends = letter == '\n' || (letter == ' ' && out.ends_with(". "));
        if let Some(depth) = broken.filter(|_| ends && letters.peek().is_some()) {
            line(out, depth);
        }
    }
    out.push('"');
}

/// What prints, as it is; everything else as JSON escapes it: control and format characters, those
/// that turn the direction or join what stands before them, and those without a meaning.
fn push_letter(out: &mut String, letter: char) {
    let prints = matches!(letter, '"' | '\'' | '\\')
        || letter.escape_debug().len() == 1 && !is_misleading(letter);
    match letter {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        _ if prints => out.push(letter),
        _ => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// threat-model §3D D6, §3E E5: nothing of a definition can hide in what is shown of it.
    #[test]
    fn e5_what_does_not_print_is_written_out() {
        let hidden =
            "a\u{1b}[2J\u{202e}b\u{200b}\u{e0041}\u{feff}\u{85}\u{2028}\u{3164}\u{115f}é発😀";
        let shown = pretty(&json!({ "b": [], "a": hidden, "\u{202e}": {} }));
        let text =
            "a\\u001b[2J\\u202eb\\u200b\\udb40\\udc41\\ufeff\\u0085\\u2028\\u3164\\u115fé発😀";
        assert_eq!(
            shown,
            format!("{{\n  \"a\": \"{text}\",\n  \"b\": [],\n  \"\\u202e\": {{}}\n}}")
        );
        assert_eq!(plain(hidden), text);
        let said = json!({ "description": "Reads. Never writes.\nAsk \"first\".", "n": 1.50 });
        assert_eq!(
            readable(&said),
            "{\n  \"description\": \"Reads. \n    Never writes.\\n\n    Ask \\\"first\\\".\",\n  \"n\": 1.5\n}"
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_is_the_value_and_prints(text in "\\PC{0,6}|[\\x00-\\x1f\"\\\\\u{202e}\u{200d}]{0,6}", number: f64, flag: bool) {
            let number = if number.is_finite() { number } else { 0.0 };
            let value = json!({ text.as_str(): [text, number, { "x": flag }], "z": i64::MAX, "y": null });
            let shown = pretty(&value);
            prop_assert_eq!(&serde_json::from_str::<Value>(&shown).unwrap(), &value);
            prop_assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()));
        }
    }
}
