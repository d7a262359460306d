//! Texts and values as YAML that is read as they are: what others have chosen stands in quotes, with
//! everything written out that does not print.

use serde_json::Value;
use std::fmt::Write as _;

/// A key, in quotes where YAML could read it as something else than a text.
pub(super) fn key(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        .contains(&&*name.to_ascii_lowercase());
    let clear = !word
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(plain);
    if clear { name.to_owned() } else { quoted(name) }
}

/// A text in YAML's double quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\'' => out.push(letter),
            _ if letter.escape_debug().len() == 1 => out.push(letter),
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(letter));
            }
        }
    }
    out.push('"');
    out
}

/// A value on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(values) if values.is_empty() => "[]".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(flow).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let one = |(name, value): (&String, &Value)| format!("{}: {}", key(name), flow(value));
            let members: Vec<String> = members.iter().map(one).collect();
            format!("{{ {} }}", members.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quoted_texts_are_read_as_they_were() {
        for text in [
            "plain",
            "a: b # c",
            "\"'\\ ${X} $${",
            "\u{202e}\u{1b}\n\t\u{e0041}é発😀\u{feff}\u{85}",
            "null",
            "- x",
            "",
        ] {
            let document =
                crate::policy::locate::YamlDocument::parse("f", format!("a: {}\n", quoted(text)))
                    .map_err(|error| error.to_string());
            assert_eq!(document.unwrap().tree()["a"], text);
        }
    }

    #[test]
    fn values_on_one_line_are_read_as_they_were() {
        let value = json!({
            "yes": [true, null, -1, 2.5, "no", "{x}", []],
            "a: b, #c": { "": "]", "~": {}, "1": 1e-7, "<<": "*a &b !c" },
            "\u{85}\u{2028}": "\u{e0041}",
        });
        let written = format!("a: {}\n", flow(&value));
        let document = crate::policy::locate::YamlDocument::parse("f", written)
            .map_err(|error| error.to_string());
        assert_eq!(document.unwrap().tree()["a"], value);
    }
}
