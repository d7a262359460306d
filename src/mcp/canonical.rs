//! The RFC 8785 form of arguments, in which whole numbers of 64 bits keep every digit: that form
//! writes those beyond 2^53, which it does not allow for, as the double that is nearest, so that two
//! calls that a server tells apart would be one. Other numbers, whose shortest form is an art of its
//! own, are written by the library.

use super::json::push_string;
use serde_json::{Number, Value};

/// The form; none if a value has none.
pub fn form(value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    push(value, &mut out)?;
    Some(out)
}

fn push(value: &Value, out: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => push_number(number, out)?,
        Value::String(text) => push_string(out, text),
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push(element, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            // The order of UTF-16 units; in plain ASCII it is that of bytes.
            if members.iter().all(|(key, _)| key.is_ascii()) {
                members.sort_unstable_by_key(|(key, _)| *key);
            } else {
                members
                    .sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            }
            out.push(b'{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push_string(out, key);
                out.push(b':');
                push(value, out)?;
            }
            out.push(b'}');
        }
    }
    Some(())
}

/// The same, but with every number as it is written: two calls that a server could tell apart never
/// look the same.
pub fn exact(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    push_exact(value, &mut out);
    out
}

fn push_exact(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Null | Value::Bool(_) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::String(text) => push_string(out, text),
        Value::Array(elements) => {
            out.push(b'[');
            for element in elements {
                push_exact(element, out);
                out.push(b',');
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (key, value) in members {
                push_string(out, key);
                out.push(b':');
                push_exact(value, out);
                out.push(b',');
            }
            out.push(b'}');
        }
    }
}

fn push_number(number: &Number, out: &mut Vec<u8>) -> Option<()> {
    let negative = number.as_i64().is_some_and(i64::is_negative);
    let whole = number.as_i64().map(i64::unsigned_abs);
    let Some(mut rest) = whole.or_else(|| number.as_u64()) else {
        let written = serde_json_canonicalizer::to_vec(number).ok()?;
        out.extend_from_slice(&written);
        return Some(());
    };
    let (mut digits, mut at) = ([0_u8; 20], 20);
    loop {
        at -= 1;
        // A remainder of ten fits.
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arguments() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
            (-70_i64..70).prop_map(Value::from),
            (-3_i64..=0).prop_map(|near| Value::from((1_i64 << 53) + near)),
            (0_i64..3).prop_map(|near| Value::from(near - (1_i64 << 53))),
            proptest::num::f64::NORMAL.prop_map(Value::from),
            Just(Value::from(-0.0)),
        ];
        let text = prop_oneof![
            "[ -~]{0,12}",
            "\\PC{0,6}",
            "[\\x00-\\x1f\"\\\\\\x7f\u{2028}\u{ffff}\u{10000}]{0,6}"
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            proptest::bool::ANY.prop_map(Value::Bool),
            number,
            text.clone().prop_map(Value::String)
        ];
        leaf.prop_recursive(4, 48, 6, move |inner| {
            let list = prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array);
            let object = prop::collection::vec((text.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect()));
            prop_oneof![list, object]
        })
    }

    proptest! {
        /// 003-70: a program that computes the hash elsewhere, with any implementation of RFC 8785, gets the same.
        #[test]
        fn is_what_the_library_writes(value in arguments()) {
            let library = serde_json_canonicalizer::to_vec(&value).ok();
            let ours = form(&value);
            prop_assert_eq!(ours.as_deref().map(String::from_utf8_lossy), library.as_deref().map(String::from_utf8_lossy));
        }
    }

    /// design §6.1: RFC 8785 writes each two of these alike, and a server can tell them apart.
    #[test]
    fn numbers_beyond_doubles_stay_apart() {
        for (one, other) in [
            ((1_u64 << 53).to_string(), ((1_u64 << 53) + 1).to_string()),
            (u64::MAX.to_string(), (u64::MAX - 1).to_string()),
            (i64::MIN.to_string(), (i64::MIN + 1).to_string()),
        ] {
            let of = |number: &str| {
                let text = format!(r#"{{"b":[{number},0.5],"a":1}}"#);
                serde_json::from_str::<Value>(&text).unwrap()
            };
            let written = |number: &str| format!(r#"{{"a":1,"b":[{number},0.5]}}"#);
            for number in [&one, &other] {
                let form = form(&of(number)).map(|form| String::from_utf8(form).unwrap());
                assert_eq!(form, Some(written(number)));
            }
            assert_ne!(exact(&of(&one)), exact(&of(&other)));
        }
    }

    #[test]
    fn writes_the_common_ones_itself() {
        let value = serde_json::json!({ "b": [1, -20, 0, null, true], "a": { "\u{e9}": "\n\u{1}\"x", "z": "" } });
        let mut out = Vec::new();
        assert_eq!(push(&value, &mut out), Some(()));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"a\":{\"z\":\"\",\"\u{e9}\":\"\\n\\u0001\\\"x\"},\"b\":[1,-20,0,null,true]}"
        );
    }
}
