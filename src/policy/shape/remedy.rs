//! A value of the wrong kind: what would be right, by an example.

use super::stand_in;
use crate::model::looks::is_secret_key;
use crate::model::spelling::suggest;
use jsonschema::JsonType;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Number, Value, json};

/// By what a tree is judged.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) schema: &'a Value,
    /// The tree as its author wrote it, without what variables stand for: no other text is
    /// repeated.
    pub(super) written: &'a Value,
}

/// A value, and what is wanted in its place.
pub(super) struct Wanted<'a> {
    pub(super) path: &'a [String],
    pub(super) given: &'a Value,
    pub(super) judged: Judged<'a>,
    /// The part of it that the value breaks.
    pub(super) shape: Option<&'a Value>,
}

/// The longest text that an example repeats, in characters.
const REPEATED_CHARS_MAX: usize = 60;
/// How the descriptions of spans of time begin, and of pointers.
const SPAN_WORDS: [&str; 8] = [
    "How long",
    "how long",
    "For how long",
    "in how much time",
    "Time from",
    "How often",
    "How old",
    "when it has waited",
];
/// How the descriptions of modes of files begin.
const MODE_WORDS: &str = "The mode of";
const POINTER_WORDS: [&str; 3] = ["JSON pointer", "A JSON pointer", "which arguments"];

/// What is read in place of the value, so that the rest can be judged; none: it can be read itself.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the keywords that no struct of ours produces share one answer"
)]
pub(super) fn stand_in(kind: &ValidationErrorKind, wanted: &Wanted<'_>) -> Option<Value> {
    let of_shape = || stand_in::of(wanted.judged.schema, wanted.shape.unwrap_or(&Value::Null));
    match kind {
        ValidationErrorKind::MaxLength { .. }
        | ValidationErrorKind::MinLength { .. }
        | ValidationErrorKind::MinItems { .. }
        | ValidationErrorKind::MaxItems { .. } => None,
        ValidationErrorKind::Type { kind } => {
            let listed = is_among(JsonType::Array, kind) && !wanted.given.is_object();
            let is_text = wanted.shape.is_some_and(|shape| {
                stand_in::resolved(wanted.judged.schema, &shape["items"])["type"] == "string"
            });
            let is_number = is_among(JsonType::Integer, kind);
            let number = wanted.given.as_str().filter(|_| is_number);
            let number = number.and_then(|text| text.parse::<u64>().ok());
            Some(if let Some(number) = number {
                json!(number)
            } else if listed && is_text && wanted.given.is_string() {
                json!([wanted.given])
            } else {
                of_shape()
            })
        }
        _ => Some(of_shape()),
    }
}

impl Wanted<'_> {
    /// What would be right, where something of another type stands.
    pub(super) fn example(&self, kind: &TypeKind) -> String {
        let example = if is_among(JsonType::Boolean, kind) {
            let negative = ["no", "n", "off", "false", "never", "0"];
            let given = self.given.as_str().unwrap_or_default().to_lowercase();
            (!negative.contains(&given.as_str())).to_string()
        } else if is_among(JsonType::Integer, kind) || is_among(JsonType::Number, kind) {
            let digits = self
                .given
                .as_str()
                .filter(|text| text.parse::<u32>().is_ok() && self.repeatable());
            digits.unwrap_or("5").to_owned()
        } else if is_among(JsonType::Array, kind) {
            self.listed()
        } else if is_among(JsonType::Object, kind) {
            self.mapping()
        } else {
            self.text()
        };
        self.written(&example)
    }

    /// The words that may stand here.
    pub(super) fn options(&self) -> Vec<String> {
        let shape = self.shape.unwrap_or(&Value::Null);
        let of_enum = shape["enum"].as_array().into_iter().flatten();
        let of_one = shape["oneOf"].as_array().into_iter().flatten();
        let words = of_enum
            .filter_map(Value::as_str)
            .chain(of_one.filter_map(|one| one["const"].as_str()));
        words.map(str::to_owned).collect()
    }

    /// Which of them may have been meant.
    pub(super) fn option(&self, options: &[String]) -> String {
        let Some(given) = self.given.as_str() else {
            return options
                .first()
                .map_or_else(String::new, |first| self.written(first));
        };
        let near = suggest(given, options);
        if near.starts_with("did you mean") {
            return near;
        }
        options
            .first()
            .map_or_else(String::new, |first| self.written(first))
    }

    /// The key, or a list of it, with `example` as its value.
    pub(super) fn written(&self, example: &str) -> String {
        let is_index = |step: &&String| step.bytes().all(|byte| byte.is_ascii_digit());
        let mut steps = self.path.iter().rev();
        match steps.next() {
            None => format!("write `{example}`"),
            Some(step) if is_index(&step) => match steps.find(|step| !is_index(step)) {
                Some(key) => format!("write `{key}: [{example}]`"),
                None => format!("write `[{example}]`"),
            },
            Some(key) => format!("write `{key}: {example}`"),
        }
    }

    /// May the value be repeated?
    fn repeatable(&self) -> bool {
        let is_secret = |step: &String| is_secret_key(step);
        let is_short = match self.given {
            Value::String(text) => {
                text.chars().count() <= REPEATED_CHARS_MAX
                    && !text.contains(['`', '\n', '{', '[', '#', ':', ','])
            }
            Value::Number(_) => true,
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        };
        is_short && !self.path.iter().any(is_secret) && self.is_written()
    }

    /// Did the author write it here, and no variable?
    fn is_written(&self) -> bool {
        let there = self
            .path
            .iter()
            .try_fold(self.judged.written, |at, step| match at {
                Value::Array(items) => items.get(step.parse::<usize>().ok()?),
                Value::Object(map) => map.get(step),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            });
        there.is_some_and(|there| there == self.given || there.get(0) == Some(self.given))
    }

    fn description(&self) -> &str {
        self.shape
            .and_then(|shape| shape["description"].as_str())
            .unwrap_or_default()
    }

    fn text(&self) -> String {
        let begins = |with: &&str| self.description().starts_with(*with);
        if SPAN_WORDS.iter().any(begins) {
            let seconds = self.given.as_u64();
            return seconds.map_or_else(|| "5m".to_owned(), |seconds| format!("{seconds}s"));
        }
        if self.is_pointer() {
            return "/argument".to_owned();
        }
        match self.given {
            Value::Array(items) => match items.as_slice() {
                [Value::String(one)]
                    if Self {
                        given: &items[0],
                        ..*self
                    }
                    .repeatable() =>
                {
                    one.clone()
                }
                _ => "text".to_owned(),
            },
            Value::Number(number) if self.repeatable() => format!("\"{}\"", self.digits(number)),
            Value::Bool(truth) if !self.path.iter().any(|step| is_secret_key(step)) => {
                format!("\"{truth}\"")
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => "text".to_owned(),
        }
    }

    /// What its author wrote for `number`, as far as that is known: YAML takes `0600` for 600.0, and tells
    /// `0o600` from 384 no more.
    fn digits(&self, number: &Number) -> String {
        let text = number.to_string();
        let zeroed = text.strip_suffix(".0");
        if !self.description().starts_with(MODE_WORDS) {
            return zeroed.unwrap_or(&text).to_owned();
        }
        zeroed.map_or_else(|| "0600".to_owned(), |digits| format!("{digits:0>4}"))
    }

    fn is_pointer(&self) -> bool {
        let begins = |with: &&str| self.description().starts_with(*with);
        POINTER_WORDS.iter().any(begins)
    }

    fn listed(&self) -> String {
        match self.given {
            Value::String(text) if self.repeatable() => format!("[{text}]"),
            Value::Number(number) if self.repeatable() => format!("[{number}]"),
            Value::Object(_) => "[{ … }]".to_owned(),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                let example = if self.is_pointer() {
                    "[/argument]"
                } else {
                    "[name]"
                };
                example.to_owned()
            }
        }
    }

    /// A mapping with what it needs, else with the first of what it may have.
    fn mapping(&self) -> String {
        let shape = stand_in::resolved(self.judged.schema, self.shape.unwrap_or(&Value::Null));
        let needed = shape["required"].as_array().into_iter().flatten();
        let mut keys: Vec<&str> = needed.filter_map(Value::as_str).collect();
        if keys.is_empty() {
            let known = shape["properties"].as_object().into_iter().flatten();
            keys.extend(known.map(|(key, _)| key.as_str()).take(1));
        }
        let keys: Vec<String> = keys.iter().map(|key| format!("{key}: …")).collect();
        let name = if keys.is_empty() {
            "name: …".to_owned()
        } else {
            keys.join(", ")
        };
        format!("{{ {name} }}")
    }
}

fn is_among(one: JsonType, kind: &TypeKind) -> bool {
    match kind {
        TypeKind::Single(single) => *single == one,
        TypeKind::Multiple(several) => several.contains(one),
    }
}
