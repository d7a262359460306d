//! Where two JSON values differ, by pointer, and how that is shown.

use crate::mcp::canonical;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::pretty::{plain, pretty};
use crate::model::pointer;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Differences that are kept; more are only counted.
const MAX_DIFFERENCES: usize = 100;
/// Lines that are shown at most.
const MAX_LINES: usize = 200;
/// Characters of a line at most.
const LINE_CHARS_MAX: usize = 500;
/// Bytes of a value that are given to programs.
const VALUE_BYTES_MAX: usize = 4 << 10;

/// One place where they differ.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    /// Where it stands.
    place: String,
    /// What stands there in the first; none where nothing does.
    recorded: Option<Value>,
    /// The same in the second.
    now: Option<Value>,
}

/// All of them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Differences {
    pub(super) shown: Vec<Difference>,
    /// How many there are besides.
    pub(super) left_out: usize,
}

/// Where the walk is: in the value, or in a text of it that is JSON itself.
#[derive(Clone, Default)]
struct ValuePlace {
    /// The text's place, before what stands in it.
    outer: String,
    path: Vec<String>,
}

impl ValuePlace {
    fn at(&self, step: &str) -> Self {
        let mut place = self.clone();
        place.path.push(step.to_owned());
        place
    }

    fn within(&self) -> Self {
        Self {
            outer: format!("{} as JSON ", self.words()),
            path: Vec::new(),
        }
    }

    fn words(&self) -> String {
        format!("{}{}", self.outer, pointer::of(&self.path))
    }
}

impl Differences {
    /// Between what was recorded and what is now.
    pub(super) fn between(recorded: &Value, now: &Value) -> Self {
        let mut found = Self::default();
        found.walk(&ValuePlace::default(), recorded, now);
        found
    }

    fn walk(&mut self, place: &ValuePlace, recorded: &Value, now: &Value) {
        if canonical::form(recorded) == canonical::form(now) {
            return;
        }
        match (recorded, now) {
            (Value::Object(recorded), Value::Object(now)) => self.members(place, recorded, now),
            (Value::Array(recorded), Value::Array(now)) => self.elements(place, recorded, now),
            (Value::String(recorded_text), Value::String(now_text)) => {
                let inner = [recorded_text, now_text].map(|text| inner(text));
                match inner {
                    [Some(recorded), Some(now)] if place.outer.is_empty() => {
                        let before = self.shown.len() + self.left_out;
                        self.walk(&place.within(), &recorded, &now);
                        if before == self.shown.len() + self.left_out {
                            // The same JSON, spelt otherwise.
                            self.add(
                                place,
                                Some(recorded_text.as_str().into()),
                                Some(now_text.as_str().into()),
                            );
                        }
                    }
                    _ => self.add(
                        place,
                        Some(recorded_text.as_str().into()),
                        Some(now_text.as_str().into()),
                    ),
                }
            }
            (recorded, now) => self.add(place, Some(recorded.clone()), Some(now.clone())),
        }
    }

    fn members(
        &mut self,
        place: &ValuePlace,
        recorded: &Map<String, Value>,
        now: &Map<String, Value>,
    ) {
        let mut names: Vec<&String> = recorded.keys().chain(now.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let place = place.at(name);
            match (recorded.get(name), now.get(name)) {
                (Some(recorded), Some(now)) => self.walk(&place, recorded, now),
                (recorded, now) => self.add(&place, recorded.cloned(), now.cloned()),
            }
        }
    }

    /// What both begin and end with is left out; what stands between is compared one by one, and the
    /// rest of the longer is there or gone.
    fn elements(&mut self, place: &ValuePlace, recorded: &[Value], now: &[Value]) {
        let is_same = |one: &Value, other: &Value| canonical::form(one) == canonical::form(other);
        let (begin, end) = shared_ends(recorded, now, is_same);
        let (recorded, now) = (
            &recorded[begin..recorded.len() - end],
            &now[begin..now.len() - end],
        );
        for index in 0..recorded.len().max(now.len()) {
            let place = place.at(&(begin + index).to_string());
            match (recorded.get(index), now.get(index)) {
                (Some(recorded), Some(now)) => self.walk(&place, recorded, now),
                (recorded, now) => self.add(&place, recorded.cloned(), now.cloned()),
            }
        }
    }

    fn add(&mut self, place: &ValuePlace, recorded: Option<Value>, now: Option<Value>) {
        if self.shown.len() == MAX_DIFFERENCES {
            self.left_out += 1;
            return;
        }
        self.shown.push(Difference {
            place: place.words(),
            recorded,
            now,
        });
    }

    /// As a unified diff.
    pub(super) fn lines(&self) -> String {
        let mut lines = vec!["--- recorded".to_owned(), "+++ now".to_owned()];
        for difference in &self.shown {
            difference.show(&mut lines);
        }
        let more = lines.len().saturating_sub(MAX_LINES);
        let mut text = String::new();
        for line in lines.iter().take(MAX_LINES) {
            let cut = line.char_indices().nth(LINE_CHARS_MAX);
            let _ = match cut {
                Some((end, _)) => writeln!(text, "{}…", &line[..end]),
                None => writeln!(text, "{line}"),
            };
        }
        if more > 0 {
            let _ = writeln!(text, "… and {more} lines more");
        }
        if self.left_out > 0 {
            let _ = writeln!(text, "… and {} differences more", self.left_out);
        }
        text
    }
}

/// How many elements both begin with, and end with after these.
fn shared_ends<T>(one: &[T], other: &[T], is_same: impl Fn(&T, &T) -> bool) -> (usize, usize) {
    let pairs = one.iter().zip(other);
    let begin = pairs.take_while(|(one, other)| is_same(one, other)).count();
    let rest = one[begin..].iter().rev().zip(other[begin..].iter().rev());
    let end = rest.take_while(|(one, other)| is_same(one, other)).count();
    (begin, end)
}

/// The object or the list that a text is, if it is one.
fn inner(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let read = Text::read(text.to_owned().into(), &SERVER_JSON_LIMITS).ok()?;
    read.parse().ok()
}

impl Difference {
    /// For programs; what is long is left out.
    pub(super) fn fields(&self) -> Value {
        let mut fields = json!({ "pointer": self.place });
        for (name, value) in [("recorded", &self.recorded), ("now", &self.now)] {
            let Some(value) = value else { continue };
            let bytes = value.to_string().len();
            if bytes > VALUE_BYTES_MAX {
                fields[format!("{name}_bytes")] = json!(bytes);
            } else {
                fields[name] = value.clone();
            }
        }
        fields
    }

    fn show(&self, lines: &mut Vec<String>) {
        let place = plain(&self.place);
        if let (Some(Value::String(recorded)), Some(Value::String(now))) =
            (&self.recorded, &self.now)
            && (recorded.contains('\n') || now.contains('\n'))
        {
            let recorded: Vec<&str> = recorded.split('\n').collect();
            let now: Vec<&str> = now.split('\n').collect();
            let (begin, end) = shared_ends(&recorded, &now, |one, other| one == other);
            lines.push(format!("@@ {place}, line {}", begin + 1));
            for (mark, text) in [('-', &recorded), ('+', &now)] {
                let changed = &text[begin..text.len() - end];
                lines.extend(changed.iter().map(|line| format!("{mark}{}", plain(line))));
            }
            return;
        }
        lines.push(format!("@@ {place}"));
        for (mark, value) in [('-', &self.recorded), ('+', &self.now)] {
            let shown = value.as_ref().map(pretty).unwrap_or_default();
            lines.extend(shown.lines().map(|line| format!("{mark}{line}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(recorded: &Value, now: &Value) -> String {
        Differences::between(recorded, now).lines()
    }

    /// 004-51: each difference stands at its place, in texts by line and in JSON in a text by pointer,
    /// and nothing of it acts on a terminal.
    #[test]
    fn differences_stand_where_they_are() {
        let recorded = json!({
            "content": [{ "type": "text", "text": "one\ntwo\nthree" }, { "text": "{\"at\":1,\"n\":[1,2]}" }],
            "gone": { "x": null }, "same": 1.0, "list": [1, 2, 3],
        });
        let now = json!({
            "content": [{ "type": "text", "text": "one\n2\u{1b}\nthree" }, { "text": "{\"n\":[1,3],\"at\":1}" }],
            "come": "y", "same": 1, "list": [0, 1, 2, 3],
        });
        insta::assert_snapshot!(shown(&recorded, &now), @r#"
        --- recorded
        +++ now
        @@ /come
        +"y"
        @@ /content/0/text, line 2
        -two
        +2\u001b
        @@ /content/1/text as JSON /n/1
        -2
        +3
        @@ /gone
        -{
        -  "x": null
        -}
        @@ /list/0
        +0
        "#);
    }

    /// 004-51: a report is short, however much differs.
    #[test]
    fn reports_are_bounded() {
        let long: Vec<Value> = (0..5000)
            .map(|n| json!(format!("{n}{}", "x".repeat(9000))))
            .collect();
        let other: Vec<Value> = (0..5000).map(|n| json!(n)).collect();
        let report = shown(&json!(long), &json!(other));
        assert!(report.len() < 1 << 20, "{}", report.len());
        assert!(report.lines().count() <= 203);
        assert!(report.contains("… and 4900 differences more"));
        assert!(shown(&json!("a".repeat(9000)), &json!(1)).len() < 2000);
    }
}
