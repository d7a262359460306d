//! What of the configuration is kept with a policy: what a reload applies, as it is written. What is
//! written out where a secret belongs is left out, and so is what no setting has a name for: it may
//! be a secret under a misspelt name.

use crate::model::looks::is_secret;
use crate::policy::sources::{PolicySources, SourceFile};
use serde_json::{Map, Value};
use std::path::Path;

/// What stands where something is left out. No token and no key is that short.
pub(crate) const KEPT_OUT: &str = "(kept out)";

/// Letters of a step of a path that is taken for a word …
const WORD_CHARS_MAX: usize = 20;
/// … and digits in it, such as those of a version.
const WORD_DIGITS_MAX: usize = 4;

/// The keys that a reload applies, but for those whose values have secrets in them.
const PLAIN_KEYS: &[&str] = &[
    "mode",
    "groups",
    "policies",
    "methods",
    "session_header",
    "meta_max_bytes",
    "pins",
    "packs",
    "auth",
];
/// The others, and the members of each of their entries that hold no secret.
const SECRET_KEYS: &[(&str, &[&str])] = &[
    (
        "callers",
        &[
            "agent",
            "certificate",
            "front_end",
            "tenant",
            "roles",
            "group",
            "model",
            "owner",
            "profile",
            "environment",
            "users",
            "needs_user",
            "parent",
            "schemas",
            "rate",
            "user_limits",
            "limits",
        ],
    ),
    ("front_ends", &["name", "header", "user_header"]),
    (
        "hooks",
        &["name", "on", "tools", "timeout", "unencrypted", "url"],
    ),
    (
        "secrets",
        &["env", "file", "command", "ttl", "timeout", "for"],
    ),
];

/// Whether a reload applies what stands under this key, so that it is kept with the policy.
pub(crate) fn is_part(key: &str) -> bool {
    PLAIN_KEYS.contains(&key) || SECRET_KEYS.iter().any(|(known, _)| *known == key)
}

/// What is kept of the configuration `tree`.
pub(crate) fn of(tree: &Value) -> Map<String, Value> {
    let members = tree.as_object().into_iter().flatten();
    let kept = members.filter(|(key, _)| is_part(key)).map(|(key, value)| {
        let named = SECRET_KEYS.iter().find(|(known, _)| known == key);
        let value = named.map_or_else(|| value.clone(), |(_, members)| without(value, members));
        (key.clone(), value)
    });
    kept.collect()
}

/// What was read of a policy, with what is kept of the configuration `tree` in `directory`.
pub(super) fn sources(directory: &Path, tree: &Value, files: Vec<SourceFile>) -> PolicySources {
    PolicySources {
        directory: directory.to_owned(),
        settings: of(tree),
        files,
    }
}

/// The entries of a list or a map, each without secrets.
fn without(entries: &Value, known: &[&str]) -> Value {
    match entries {
        Value::Array(entries) => entries.iter().map(|entry| judged(entry, known)).collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(name, entry)| (name.clone(), judged(entry, known)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => kept_out(entries),
    }
}

fn judged(entry: &Value, known: &[&str]) -> Value {
    let Some(members) = entry.as_object() else {
        return kept_out(entry);
    };
    let one = |(name, value): (&String, &Value)| {
        let is_plain = known.contains(&name.as_str()) && (name != "url" || is_plain_address(value));
        let value = if is_plain {
            value.clone()
        } else {
            kept_out(value)
        };
        (name.clone(), value)
    };
    members.iter().map(one).collect()
}

/// A name of a variable says nothing of its value; anything else stays out.
fn kept_out(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if is_variable(text) => value.clone(),
        _ => Value::String(KEPT_OUT.to_owned()),
    }
}

/// `${NAME}` and nothing else: a default would be a value.
fn is_variable(text: &str) -> bool {
    let name = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// An address can have a password before its host, a key behind a question mark, and in its path the token of a web
/// hook; a default of a variable would be a value.
fn is_plain_address(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let (_, rest) = text.split_once("://").unwrap_or(("", text));
    let mut steps = rest.split('/');
    let host = steps.next().unwrap_or_default();
    !text.contains(['@', '?', '#'])
        && !text.contains(":-")
        && !host.split('.').any(is_secret)
        && steps.all(is_plain_step)
}

/// Whether a step of a path is a word, a version or a variable: in doubt it is a token.
fn is_plain_step(step: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || b"-_.".contains(&byte);
    let (letters, digits): (Vec<u8>, Vec<u8>) = step.bytes().partition(|byte| is_word(*byte));
    let is_short = letters.len() <= WORD_CHARS_MAX && digits.len() <= WORD_DIGITS_MAX;
    let is_of_digits = digits.iter().all(u8::is_ascii_digit);
    is_variable(step) || (is_short && is_of_digits && !is_secret(step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigSettings;
    use crate::config::RESTART_KEYS;
    use serde_json::json;
    use std::collections::BTreeSet;

    /// 003-42: a setting that is added is either applied by a restart only, or kept with the policy.
    #[test]
    fn every_key_is_kept_or_needs_a_restart() {
        let schema = schemars::schema_for!(ConfigSettings).to_value();
        let keys: BTreeSet<&str> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert!(keys.len() > 15, "{keys:?}");
        for key in keys {
            assert_ne!(is_part(key), RESTART_KEYS.contains(&key), "{key}");
        }
    }

    /// A member that is added is named here, or is left out: as a secret is.
    #[test]
    fn every_member_is_named_or_a_secret() {
        let schema = schemars::schema_for!(ConfigSettings).to_value();
        for (key, definition, secrets) in [
            ("callers", "Caller", &["token", "previous"][..]),
            ("front_ends", "FrontEnd", &["token", "previous"]),
            ("hooks", "Hook", &["secret"]),
            ("secrets", "Secret", &[]),
        ] {
            let (_, named) = SECRET_KEYS.iter().find(|(known, _)| *known == key).unwrap();
            let written = schema["$defs"][definition]["properties"].as_object();
            let mut written: BTreeSet<&str> = written.unwrap().keys().map(String::as_str).collect();
            for secret in secrets {
                assert!(written.remove(secret), "{key}");
            }
            assert_eq!(written, named.iter().copied().collect(), "{key}");
        }
    }

    /// 003-42: no bundle holds a secret.
    #[test]
    fn what_is_written_out_is_left_out() {
        let tree = json!({
            "admin": { "tokens": [ { "name": "ann", "token": "written-out-for-ann" } ] },
            "mode": "enforce",
            "callers": [
                { "agent": "a", "token": "${A_TOKEN}", "roles": ["payer"] },
                { "agent": "b", "token": "written-out-for-b" },
                { "agent": "c", "token": "${C:-written-out-default}" },
                { "agent": "d", "tokn": "written-out-misspelt" },
                { "agent": "e", "token": "$${written-out-escaped}" },
                "written-out-alone",
            ],
            "hooks": [
                { "name": "h", "url": "https://u:written-out@h/", "secret": ["written-out"] },
                { "name": "i", "url": "https://h/path/v1", "secret": "${KEY}" },
                { "name": "j", "url": "https://h/${HOOK_TOKEN}", "secret": "${KEY}" },
                { "name": "k", "url": "https://h/${HOOK_TOKEN:-written-out}" },
                { "name": "l", "url": "https://h/services/T0123/WRITTENOUTTOKEN" },
                { "name": "m", "url": "https://h/hooks/12345678/now" },
                { "name": "n", "url": "https://a1b2c3d4e5f6a1b2c3d4e5f6.h/" },
            ],
            "secrets": { "k": { "file": "/run/k", "value": "written-out-value" } },
            "caller": "written-out-under-no-key",
        });
        let kept = of(&tree);
        let text = Value::Object(kept.clone()).to_string();
        assert!(!text.contains("written-out"), "{text}");
        assert_eq!(
            kept.keys().collect::<Vec<_>>(),
            ["mode", "callers", "hooks", "secrets"]
        );
        assert_eq!(
            kept["callers"][0],
            json!({ "agent": "a", "token": "${A_TOKEN}", "roles": ["payer"] })
        );
        assert_eq!(kept["callers"][1]["token"], KEPT_OUT);
        assert_eq!(kept["hooks"][1]["url"], "https://h/path/v1");
        assert_eq!(kept["hooks"][2]["url"], "https://h/${HOOK_TOKEN}");
        for hook in 3..=6 {
            assert_eq!(kept["hooks"][hook]["url"], KEPT_OUT, "{hook}");
        }
        assert_eq!(kept["secrets"]["k"]["file"], "/run/k");
    }
}
