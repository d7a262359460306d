//! What of recorded arguments no draft says: in doubt a text is a secret, or a number that is of one
//! person.

mod telling;

use crate::guards::secrets;
use crate::model::looks::{is_secret, is_telling};
use serde_json::{Map, Number, Value};
use telling::{is_value, list_tells, names_tell, tells};

/// Digits in a row from which on they may be those of a card, an account or a telephone.
const MIN_NUMBER_DIGITS: usize = 9;
/// What stands for a text that is not told.
const TEXT_EXAMPLE: &str = "example";

/// The names among `members` whose values are not told, whatever they are.
pub(super) fn hidden_names(members: &Map<String, Value>) -> impl Fn(&str) -> bool + use<> {
    let names_tell = names_tell(members);
    move |name| is_telling(name) || (names_tell && is_value(name))
}

/// Whether nothing in a list is told: an element says that another is a secret.
pub(super) fn is_hidden_list(values: &[Value]) -> bool {
    list_tells(values)
}

/// Whether a text is not told: it may be a secret, or hold one.
pub(super) fn is_hidden_text(text: &str) -> bool {
    let ends_part =
        |letter: char| letter.is_whitespace() || "/=:,;\"'()[]{}<>&?#|@`\\".contains(letter);
    is_secret(text)
        || text.split_whitespace().any(is_secret)
        || text.split(ends_part).any(is_secret)
        || has_long_number(text)
        || tells(text)
}

/// Whether a value, or anything below it, is not told.
pub(super) fn is_hidden(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => has_long_number(&number.to_string()),
        Value::String(text) => is_hidden_text(text),
        Value::Array(values) => is_hidden_list(values) || values.iter().any(is_hidden),
        Value::Object(members) => {
            let is_hidden_under = hidden_names(members);
            members.iter().any(|(name, value)| {
                is_hidden_under(name) || is_hidden_text(name) || is_hidden(value)
            })
        }
    }
}

/// Whether a value is a reference to a secret, or holds one.
pub(super) fn is_reference(value: &Value) -> bool {
    secrets::Rule::is_in(value)
}

/// The arguments with examples in place of all that is not told; what is under a name that is not told
/// itself is left out.
pub(super) fn told(arguments: &Map<String, Value>) -> Map<String, Value> {
    members(arguments, false)
}

fn members(of: &Map<String, Value>, is_hidden: bool) -> Map<String, Value> {
    let is_hidden_under = hidden_names(of);
    of.iter()
        .filter(|(name, _)| !is_hidden_text(name))
        .map(|(name, value)| {
            (
                name.clone(),
                example(value, is_hidden || is_hidden_under(name)),
            )
        })
        .collect()
}

fn example(value: &Value, is_hidden: bool) -> Value {
    match value {
        Value::Number(number) if is_hidden || has_long_number(&number.to_string()) => {
            Value::Number(Number::from(1))
        }
        Value::String(text) if is_hidden || is_hidden_text(text) => TEXT_EXAMPLE.into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        Value::Array(values) => {
            let is_hidden = is_hidden || is_hidden_list(values);
            values.iter().map(|one| example(one, is_hidden)).collect()
        }
        Value::Object(of) => members(of, is_hidden).into(),
    }
}

/// Digits may be in groups, as people write them.
fn has_long_number(text: &str) -> bool {
    let mut digits = 0;
    let mut is_split = false;
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            digits += 1;
            is_split = false;
        } else if matches!(letter, ' ' | '-') && digits > 0 && !is_split {
            is_split = true;
        } else {
            digits = 0;
        }
        if digits >= MIN_NUMBER_DIGITS {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_may_be_a_secret_is_not_told_wherever_it_stands() {
        for hidden in [
            json!("ghp_canary0123456789abcdef"),
            json!("send it with sk-canary please"),
            json!("https://example.com/x?y=AKIACANARY"),
            json!("/srv/ghp_canary0123456789abcdef/x"),
            json!("Authorization: Bearer eyJcanary"),
            json!("550e8400-e29b-41d4-a716-446655440000"),
            json!("4111 1111 1111 1111"),
            json!(4_111_111_111_111_111_u64),
            json!({ "deep": [{ "api_key": "short" }] }),
            json!("PGPASSWORD=hunter2 psql -h db"),
            json!(["--password", "hunter2"]),
            json!([{ "key": "A_TOKEN", "value": "hunter2" }]),
            json!(["Authorization: Basic YW5uOnNlc2FtZQ=="]),
            json!({ "ghp_canary0123456789abcdef": 1 }),
        ] {
            assert!(is_hidden(&hidden), "{hidden}");
            let told = told(&Map::from_iter([("a".to_owned(), hidden)]));
            let told = Value::Object(told);
            assert!(
                !told["a"].is_null() && !is_hidden(&without_names(&told)),
                "{told}"
            );
        }
        for open in [
            json!("/srv/docs/read me.txt"),
            json!("2026-07-28"),
            json!("https://example.com/docs"),
            json!({ "deep": ["word", 12.5, true, null] }),
            json!(99_999),
        ] {
            assert!(!is_hidden(&open), "{open}");
            let arguments = Map::from_iter([("a".to_owned(), open)]);
            assert_eq!(told(&arguments), arguments);
        }
    }

    /// The values alone: names that hide theirs stay.
    fn without_names(value: &Value) -> Value {
        match value {
            Value::Object(members) => members.values().map(without_names).collect(),
            Value::Array(values) => values.iter().map(without_names).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }
}
