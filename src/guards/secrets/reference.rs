//! Where references stand in a call's arguments. What was meant to be one and is none is refused,
//! not sent.

use crate::mcp::json::Text;
use crate::model::refusal::Refusal;
use memchr::memchr2;
use serde_json::Value;

/// Longest name of a secret, in characters.
pub(crate) const SECRET_NAME_CHARS_MAX: usize = 64;

const REFERENCE_PREFIX: &str = "<secret_ref:";
const REFERENCE_SUFFIX: &str = ">";
/// What begins a reference, in either case: a model that writes it otherwise means one.
const ATTEMPTED_REFERENCE_PREFIX: &str = "<secret_ref";

/// Whether it is a secret's name: `[a-z][a-z0-9_]*`, at most [`SECRET_NAME_CHARS_MAX`].
pub(crate) fn is_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= SECRET_NAME_CHARS_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(letters)
}

/// Whether a text holds a reference, or what was meant to be one.
pub(super) fn is_meant(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = |at: usize| {
        bytes
            .get(at..at + ATTEMPTED_REFERENCE_PREFIX.len())
            .is_some_and(|part| part.eq_ignore_ascii_case(ATTEMPTED_REFERENCE_PREFIX.as_bytes()))
    };
    text.match_indices('<').any(|(at, _)| begins(at))
}

/// Whether a key or a string in `text` holds one, or what was meant to be one.
pub(super) fn stands_in(text: &Text) -> bool {
    // It begins with a sign that is written as it is, or with a backslash. Most texts have neither.
    let may_hold = memchr2(b'<', b'\\', text.as_bytes()).is_some();
    may_hold && text.scalars().any(|one| is_meant(&one.value()))
}

/// The same of arguments.
fn stands_among(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => is_meant(text),
        Value::Array(items) => items.iter().any(stands_among),
        Value::Object(members) => members
            .iter()
            .any(|(key, item)| is_meant(key) || stands_among(item)),
    }
}

/// Every reference: the path to it, and the name in it.
pub(super) fn find(arguments: &Value) -> Result<Vec<(Vec<String>, &str)>, Refusal> {
    let mut found = Vec::new();
    // Most have none, and a path to it needs memory.
    if stands_among(arguments) {
        walk(arguments, &mut Vec::new(), &mut found)?;
    }
    Ok(found)
}

enum ArgumentStep<'v> {
    Key(&'v str),
    Index(usize),
}

/// As deep as the reader lets arguments be.
fn walk<'v>(
    value: &'v Value,
    path: &mut Vec<ArgumentStep<'v>>,
    found: &mut Vec<(Vec<String>, &'v str)>,
) -> Result<(), Refusal> {
    match value {
        Value::String(text) if is_meant(text) => {
            let name = text
                .strip_prefix(REFERENCE_PREFIX)
                .and_then(|rest| rest.strip_suffix(REFERENCE_SUFFIX));
            let name = name
                .filter(|name| is_name(name))
                .ok_or(Refusal::SecretDenied)?;
            let steps = path.iter().map(|step| match step {
                ArgumentStep::Key(key) => (*key).to_owned(),
                ArgumentStep::Index(index) => index.to_string(),
            });
            found.push((steps.collect(), name));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(ArgumentStep::Index(index));
                walk(item, path, found)?;
                path.pop();
            }
        }
        Value::Object(members) => {
            for (key, item) in members {
                if is_meant(key) {
                    return Err(Refusal::SecretDenied);
                }
                path.push(ArgumentStep::Key(key));
                walk(item, path, found)?;
                path.pop();
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::SERVER_JSON_LIMITS;

    /// threat-model §3B B3: a reference is found however it is written, and in keys.
    #[test]
    fn what_is_passed_over_holds_no_reference() {
        for (json, holds) in [
            (r#"{"a":"<secret_ref:x>"}"#, true),
            (r#"{"a":["\u003csecret_ref:x>"]}"#, true),
            (r#"{"a":"x \u003CSECRET_REF"}"#, true),
            (r#"{"a":{"\u003csecret_ref:x>":1}}"#, true),
            (r#"{"a":{"<Secret_Ref:x>":1}}"#, true),
            (r#"{"a":"\u003cb>","c":"\n"}"#, false),
            (r#"{"a":"<b>"}"#, false),
            (r#"{"a":"secret_ref:x","b":[1,null,true]}"#, false),
        ] {
            let text = Text::read(json.into(), &SERVER_JSON_LIMITS).unwrap();
            assert_eq!(stands_in(&text), holds, "{json}");
            assert_eq!(stands_among(&text.value()), holds, "{json}");
            let found = find(&text.value()).map(|found| !found.is_empty());
            assert_eq!(found.unwrap_or(true), holds, "{json}");
        }
    }
}
