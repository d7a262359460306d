//! The documents' key, byte for byte as Python writes it (004-22): the first 32 hexadecimal digits
//! of SHA-256 over `json.dumps({"name": …, "user": …, "args": …}, sort_keys=True,
//! ensure_ascii=False)`.
//!
//! Unlike RFC 8785 it tells `1` from `1.0` (004-23). Both tell composed from decomposed letters.

use crate::mcp::json::push_string;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use serde_json::{Number, Value};
use std::borrow::Cow;

/// Exponents between which Python writes a number without one.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -4..16;

/// What the formula calls the user: the agent, and in a second line the person behind it, as no
/// name of a person has line ends. Two agents may call two people by one name.
pub(super) fn of_caller(caller: &Caller) -> Cow<'_, str> {
    let agent = caller.agent.as_str();
    match &caller.user {
        None => Cow::Borrowed(agent),
        Some(user) => Cow::Owned(format!("{agent}\n{user}")),
    }
}

/// The key of a call of `name` by `caller`, in the words of [`of_caller`].
pub(super) fn key(name: &str, caller: &str, arguments: &Value) -> String {
    let mut text = Vec::with_capacity(256);
    text.extend_from_slice(b"{\"args\": ");
    push(&mut text, arguments);
    text.extend_from_slice(b", \"name\": ");
    push_string(&mut text, name);
    text.extend_from_slice(b", \"user\": ");
    push_string(&mut text, caller);
    text.push(b'}');
    Digest::of(&text).to_string().chars().take(32).collect()
}

fn push(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Value::Number(number) => out.extend_from_slice(written(number).as_bytes()),
        Value::String(text) => push_string(out, text),
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                separate(out, index);
                push(out, element);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            // Python sorts by code points, which is the order of UTF-8 too.
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (index, (key, member)) in members.into_iter().enumerate() {
                separate(out, index);
                push_string(out, key);
                out.extend_from_slice(b": ");
                push(out, member);
            }
            out.push(b'}');
        }
    }
}

fn separate(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.extend_from_slice(b", ");
    }
}

/// A number as Python's `repr`: the shortest digits, `.0` after a whole one, an exponent of two
/// digits at least.
fn written(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !PLAIN_EXPONENTS.contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => {
            let plain = format!("{float}");
            if plain.contains('.') {
                plain
            } else {
                plain + ".0"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 004-22: known answers of Python 3.
    #[test]
    fn is_what_python_computes() {
        let order = json!({ "sku": "s1", "business_id": "b1", "amount": 3 });
        assert_eq!(
            key("create_order", "u_1", &order),
            "17a18697bf690ebed865fd2594482433"
        );
        let numbers = json!([1, 1.0, 1e16, 1e-7, -0.5, 123_456_789_012_i64, 1e22, 0.1]);
        let other = json!({ "note": "é\n\"\u{2028}", "n": numbers, "z": null, "a": true, "nested": { "b": {}, "a": [] } });
        assert_eq!(
            key("发货", "顾客", &other),
            "20b8134981591c37ac5ce14653cc0f8c"
        );
    }

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        let cases = [
            (json!(1), "1"),
            (json!(-3), "-3"),
            (json!(1.0), "1.0"),
            (json!(100_000.0), "100000.0"),
            (json!(1e15), "1000000000000000.0"),
            (json!(1e16), "1e+16"),
            (json!(1.5e16), "1.5e+16"),
            (json!(0.0001), "0.0001"),
            (json!(0.00001), "1e-05"),
            (json!(1.25e-7), "1.25e-07"),
            (json!(1e100), "1e+100"),
            (json!(-0.0), "-0.0"),
            (json!(0.1), "0.1"),
        ];
        for (number, expected) in cases {
            let mut out = Vec::new();
            push(&mut out, &number);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
