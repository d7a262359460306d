//! What a server may ask a person: a page on the web by a plain address, or a form that asks for no secret (SECURITY §3C C7).

use crate::mcp::json::{Kind, Text};
use crate::mcp::uri::Uri;

/// Names and values of one form that are looked at; a form with more is refused.
const FIELDS: usize = 4_096;
/// Words that name a secret.
const SECRET: &[&str] = &[
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
const SECRETS: &[&str] =
    &["apikey", "accesskey", "privatekey", "secretkey", "authtoken", "accesstoken", "bearertoken", "seedphrase"];
const PASSWORD: &str = "password";

/// Why a person is not asked this.
pub(super) fn judge(params: Option<&Text>) -> Result<(), &'static str> {
    let Some(params) = params else { return Err("it asks nothing") };
    let mode = params.get("mode");
    let mode = mode.as_ref().and_then(Text::as_str);
    let url = params.get("url");
    match (mode.as_deref(), &url) {
        (Some("url"), Some(url)) => judge_url(&url.as_str().unwrap_or_default()),
        (None | Some("form"), None) => params.get("requestedSchema").map_or(Ok(()), |schema| judge_form(&schema)),
        _ => Err("neither a form nor a page"),
    }
}

fn judge_url(url: &str) -> Result<(), &'static str> {
    let uri = Uri::read(url).map_err(|_| "its address has more than one reading")?;
    let is_web = uri.as_str().starts_with("https://") || uri.as_str().starts_with("http://");
    if is_web { Ok(()) } else { Err("its address is none of the web") }
}

/// Names and titles wherever they stand: a client may show more of a schema than the revision allows.
fn judge_form(schema: &Text) -> Result<(), &'static str> {
    for (index, scalar) in schema.scalars().enumerate() {
        let asks = match (scalar.kind, scalar.under) {
            (Kind::Key, _) | (Kind::String, b"title") => is_secret(&scalar.value()),
            (Kind::String, b"format") => scalar.value().eq_ignore_ascii_case(PASSWORD),
            (Kind::String | Kind::Number, _) => false,
        };
        if index >= FIELDS {
            return Err("a form that is too large");
        }
        if asks {
            return Err("a field asks for a secret");
        }
    }
    Ok(())
}

/// Does a name say that what it names is secret?
fn is_secret(name: &str) -> bool {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars().take(256) {
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
    words.iter().any(|word| SECRET.contains(&&**word))
        || SECRETS.iter().chain([&PASSWORD, &"passwd", &"passphrase"]).any(|secret| whole.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn asked(params: &Value) -> Result<(), &'static str> {
        judge(Some(&Text::of(params)))
    }

    /// SECURITY §3C C7: a person is sent to plain pages only.
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
        assert!(asked(&json!({ "url": "https://a.example/", "requestedSchema": { "properties": {} } })).is_err());
    }

    /// SECURITY §3C C7: no form asks for a secret.
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
        ] {
            let form = |properties: Value| json!({ "message": "m", "requestedSchema": { "type": "object", "properties": properties } });
            assert_eq!(asked(&form(json!({ name: { "type": "string" } }))).is_ok(), passes, "{name}");
            assert_eq!(
                asked(&form(json!({ "x": { "type": "string", "title": name } }))).is_ok(),
                passes,
                "title {name}"
            );
        }
        let format =
            json!({ "requestedSchema": { "properties": { "x": { "type": "string", "format": "password" } } } });
        assert!(asked(&format).is_err());
    }
}
