//! What a server may ask a person: a page on the web by a plain address, or a form that asks for no
//! secret (threat-model §3C C7).

use crate::mcp::json::{ScalarKind, Text};
use crate::mcp::readable::is_misleading;
use crate::mcp::uri::Uri;

/// Names and values of one form that are looked at; a form with more is refused.
const MAX_FORM_TEXTS: usize = 4_096;
/// Bytes of all names and titles of one form; a form with more is refused.
const FORM_TEXT_BYTES_MAX: usize = 64 << 10;
/// Words that name a secret.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "secrets",
    "token",
    "credential",
    "credentials",
    "pin",
    "otp",
    "cvv",
    "cvc",
    "mnemonic",
    "ssn",
];
/// The same, in several words.
const SECRET_PHRASES: &[&str] = &[
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "authtoken",
    "accesstoken",
    "bearertoken",
    "seedphrase",
];
const PASSWORD_WORD: &str = "password";

/// Why a person is not asked this.
pub(super) fn judge(params: Option<&Text>) -> Result<(), &'static str> {
    let Some(params) = params else {
        return Err("it asks nothing");
    };
    let mode = params.get("mode");
    let mode = mode.as_ref().and_then(Text::as_str);
    let url = params.get("url");
    match (mode.as_deref(), &url) {
        (Some("url"), Some(url)) => judge_url(&url.as_str().unwrap_or_default()),
        (None | Some("form"), None) => params
            .get("requestedSchema")
            .map_or(Ok(()), |schema| judge_form(&schema)),
        _ => Err("neither a form nor a page"),
    }
}

fn judge_url(url: &str) -> Result<(), &'static str> {
    let uri = Uri::read(url).map_err(|_| "its address has more than one reading")?;
    let is_web = uri.as_str().starts_with("https://") || uri.as_str().starts_with("http://");
    if is_web {
        Ok(())
    } else {
        Err("its address is none of the web")
    }
}

/// Names and titles wherever they stand: a client may show more of a schema than the revision
/// allows.
fn judge_form(schema: &Text) -> Result<(), &'static str> {
    let mut letters = 0;
    for (index, scalar) in schema.scalars().enumerate() {
        let is_read = matches!(
            (scalar.kind, scalar.under),
            (ScalarKind::Key, _) | (ScalarKind::String, b"title")
        );
        let is_format = scalar.kind == ScalarKind::String && scalar.under == b"format";
        letters += if is_read { scalar.range.len() } else { 0 };
        if index >= MAX_FORM_TEXTS || letters > FORM_TEXT_BYTES_MAX {
            return Err("a form that is too large");
        }
        if (is_read && is_secret(&scalar.value())) || (is_format && is_password(&scalar.value())) {
            return Err("a field asks for a secret");
        }
    }
    Ok(())
}

fn is_password(format: &str) -> bool {
    visible(format)
        .collect::<String>()
        .eq_ignore_ascii_case(PASSWORD_WORD)
}

/// The letters that a person sees.
fn visible(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|letter| !is_misleading(*letter))
}

/// Does a name say that what it names is secret: by one of its words, or as a whole?
fn is_secret(name: &str) -> bool {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in visible(name) {
        let begins = !letter.is_alphanumeric() || (letter.is_uppercase() && was_small);
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        was_small = letter.is_lowercase() || letter.is_ascii_digit();
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
    }
    let whole = words.concat();
    let is_named = |word: &str| {
        SECRET_WORDS.contains(&word.trim_matches(|letter: char| letter.is_ascii_digit()))
    };
    words.iter().any(|word| is_named(word))
        || is_named(&whole)
        || SECRET_PHRASES
            .iter()
            .chain([&PASSWORD_WORD, &"passwd", &"passphrase"])
            .any(|secret| whole.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn asked(params: &Value) -> Result<(), &'static str> {
        judge(Some(&Text::of(params)))
    }

    /// threat-model §3C C7: a person is sent to plain pages only.
    #[test]
    fn c7_only_plain_pages_are_opened() {
        for (url, passes) in [
            ("https://pay.example/confirm?id=1", true),
            ("http://127.0.0.1:8080/cb", true),
            ("javascript:alert(1)", false),
            ("data:text/html,x", false),
            ("file:///etc/passwd", false),
            ("https://bank.example@evil.example/", false),
            ("https://bank.example\\@evil.example/", false),
            ("https://b\u{430}nk.example/", false),
            ("//evil.example", false),
            ("HTTPS://pay.example/", true),
            ("intent://x#Intent;end", false),
            ("", false),
        ] {
            let params = json!({ "mode": "url", "message": "m", "url": url, "elicitationId": "1" });
            assert_eq!(asked(&params).is_ok(), passes, "{url}");
        }
        assert!(asked(&json!({ "mode": "page", "url": "https://a.example/" })).is_err());
        assert!(
            asked(&json!({ "url": "https://a.example/", "requestedSchema": { "properties": {} } }))
                .is_err()
        );
    }

    /// threat-model §3C C7: no form asks for a secret.
    #[test]
    fn c7_no_form_asks_for_a_secret() {
        for (name, passes) in [
            ("name", true),
            ("shipping", true),
            ("max_tokens", true),
            ("tokenizer", true),
            ("secretary", true),
            ("pincode_area", true),
            ("password", false),
            ("Password2", false),
            ("userPassword", false),
            ("new-password", false),
            ("api_key", false),
            ("apiKey", false),
            ("APIKey", false),
            ("access token", false),
            ("Token", false),
            ("card_cvv", false),
            ("pin", false),
            ("PASSWD", false),
            ("ssn", false),
            ("p\u{200b}in", false),
            ("pass\u{ad}word", false),
            ("\u{2060}o\u{200d}t\u{feff}p", false),
            ("p i n", false),
            ("pass_wd", false),
            ("to-ken", false),
            ("pin2", false),
            ("shipping_pinboard", true),
        ] {
            let form = |properties: Value| json!({ "message": "m", "requestedSchema": { "type": "object", "properties": properties } });
            assert_eq!(
                asked(&form(json!({ name: { "type": "string" } }))).is_ok(),
                passes,
                "{name}"
            );
            assert_eq!(
                asked(&form(json!({ "x": { "type": "string", "title": name } }))).is_ok(),
                passes,
                "title {name}"
            );
        }
        let format = json!({ "requestedSchema": { "properties": { "x": { "type": "string", "format": "password" } } } });
        assert!(asked(&format).is_err());
        let format = json!({ "requestedSchema": { "properties": { "x": { "type": "string", "format": "pass\u{200b}word" } } } });
        assert!(asked(&format).is_err());
    }

    /// threat-model §3C C7: nothing stands before a name that keeps it from being read, however
    /// long.
    #[test]
    fn c7_names_are_read_to_their_end() {
        for (before, after, passes) in [
            (300, "password", false),
            (300, " pin", false),
            (10_000, "_otp", false),
            (10_000, "_name", true),
            (FORM_TEXT_BYTES_MAX, "_name", false),
        ] {
            let name = format!("{}{after}", "x".repeat(before));
            let form =
                json!({ "requestedSchema": { "properties": { name: { "type": "string" } } } });
            assert_eq!(asked(&form).is_ok(), passes, "{before} {after}");
        }
    }
}
