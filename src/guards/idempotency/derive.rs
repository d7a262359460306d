//! The hashes: what a call is known by, and how a key is made from the call itself.

use super::{KeyRequest, seed};
use crate::mcp::canonical;
use crate::mcp::json::push_string;
use crate::model::diagnostic::Problems;
use crate::model::digest::Digest;
use crate::model::ids::TenantId;
use crate::model::pointer::is_pointer;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// Pointers at most.
const MAX_DERIVE_POINTERS: usize = 16;
/// The words that may stand in place of pointers.
const ARGUMENTS_WORD: &str = "arguments";
const SEED_WORD: &str = "sha256-32";
const RETRY_WORD: &str = "retry";

/// JSON pointers to the arguments that make two calls the same, or one word.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum DeriveSettings {
    /// `[/tenant_id, /customer_id]`
    Pointers(Vec<String>),
    /// `arguments`, `retry` or `sha256-32`
    Word(String),
}

impl JsonSchema for DeriveSettings {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Derive".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["array", "string"], "items": { "type": "string" } })
    }
}

/// As run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeriveRule {
    /// From all arguments: equal fingerprints, equal keys.
    Arguments,
    /// From some arguments.
    Pointers(Vec<String>),
    /// By the documents' formula (004-22).
    Seed,
    /// From all arguments and the place: only what is sent again is the same.
    Retry,
}

/// A derived key.
pub(super) struct Derived {
    pub(super) kind: KeyKind,
    pub(super) bytes: Vec<u8>,
    /// The key as others compute it, too.
    pub(super) seed: Option<String>,
}

/// What kind of key it is, so that one of one kind never equals one of another.
#[derive(Clone, Copy)]
pub(super) enum KeyKind {
    Given,
    Arguments,
    Pointers,
    Seed,
    Retry,
    /// No key: what makes calls much alike.
    Near,
}

// === impl DeriveSettings ===

impl DeriveSettings {
    /// Whether only what is sent again is to be the same.
    pub(super) fn is_retry(&self) -> bool {
        matches!(self, Self::Word(word) if word == RETRY_WORD)
    }

    pub(super) fn compile(self, problems: &mut Problems) -> DeriveRule {
        match self {
            Self::Word(word) if word == ARGUMENTS_WORD => DeriveRule::Arguments,
            Self::Word(word) if word == SEED_WORD => DeriveRule::Seed,
            Self::Word(word) if word == RETRY_WORD => DeriveRule::Retry,
            Self::Word(_) => {
                problems.error(
                    "no such way to derive a key",
                    format!(
                        "list pointers, or write {ARGUMENTS_WORD}, {RETRY_WORD} or {SEED_WORD}"
                    ),
                );
                DeriveRule::Arguments
            }
            Self::Pointers(pointers) => {
                if pointers.is_empty() || pointers.len() > MAX_DERIVE_POINTERS {
                    let hint = format!(
                        "list 1 to {MAX_DERIVE_POINTERS} pointers, or write {ARGUMENTS_WORD}"
                    );
                    problems.error("no key can be made of this", hint);
                }
                judge_each(&pointers, problems);
                DeriveRule::Pointers(pointers)
            }
        }
    }
}

/// Are these 1 to 16 JSON pointers to arguments?
pub(super) fn judge_all(pointers: &[String], problems: &mut Problems) {
    if pointers.is_empty() || pointers.len() > MAX_DERIVE_POINTERS {
        let hint = format!("list 1 to {MAX_DERIVE_POINTERS} pointers");
        problems.error("nothing can be compared by this", hint);
    }
    judge_each(pointers, problems);
}

fn judge_each(pointers: &[String], problems: &mut Problems) {
    for (index, pointer) in pointers.iter().enumerate() {
        problems.under(index.to_string(), |problems| {
            judge(pointer, problems);
            if pointers[..index].contains(pointer) {
                problems.error("is there twice", "take one away");
            }
        });
    }
}

/// Is this a JSON pointer to an argument?
pub(super) fn judge(pointer: &str, problems: &mut Problems) {
    if !is_pointer(pointer) {
        problems.error(
            "not a JSON pointer to an argument",
            "write `/` and the argument's name, such as `/tenant_id`",
        );
    }
}

// === impl DeriveRule ===

impl DeriveRule {
    /// The key; none when not one of the arguments it is made of is there.
    pub(super) fn apply(&self, asked: &KeyRequest<'_>, fingerprint: Digest) -> Option<Derived> {
        match self {
            Self::Arguments => Some(Derived {
                kind: KeyKind::Arguments,
                bytes: fingerprint.as_bytes().to_vec(),
                seed: None,
            }),
            Self::Retry => Some(Derived {
                kind: KeyKind::Retry,
                bytes: [
                    asked.place.key.as_bytes().as_slice(),
                    fingerprint.as_bytes(),
                ]
                .concat(),
                seed: None,
            }),
            Self::Seed => {
                let seed = seed::key(asked.tool, &seed::of_caller(asked.caller), asked.arguments);
                Some(Derived {
                    kind: KeyKind::Seed,
                    bytes: seed.clone().into_bytes(),
                    seed: Some(seed),
                })
            }
            Self::Pointers(pointers) => Some(Derived {
                kind: KeyKind::Pointers,
                bytes: of_pointers(pointers, asked.arguments)?,
                seed: None,
            }),
        }
    }
}

/// What stands at `pointers` among the arguments, as bytes; none when nothing does.
pub(super) fn of_pointers(pointers: &[String], arguments: &Value) -> Option<Vec<u8>> {
    let found: Vec<Option<&Value>> = pointers
        .iter()
        .map(|pointer| arguments.pointer(pointer))
        .collect();
    if found.iter().all(Option::is_none) {
        return None;
    }
    // An absent argument is not the same as `null`: no value has the form of nothing.
    let forms: Vec<Vec<u8>> = found
        .into_iter()
        .map(|value| value.map(form).unwrap_or_default())
        .collect();
    let named = pointers
        .iter()
        .zip(&forms)
        .flat_map(|(pointer, form)| [pointer.as_bytes(), form]);
    let parts: Vec<&[u8]> = named.collect();
    let digest = Digest::of_parts("toolgate key of arguments", &parts);
    Some(digest.as_bytes().to_vec())
}

impl DeriveRule {
    pub(super) fn pointers(&self) -> &[String] {
        match self {
            Self::Pointers(pointers) => pointers,
            Self::Arguments | Self::Seed | Self::Retry => &[],
        }
    }
}

impl fmt::Display for DeriveRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments => f.write_str("all arguments"),
            Self::Pointers(pointers) => f.write_str(&pointers.join(" ")),
            Self::Seed => f.write_str(SEED_WORD),
            Self::Retry => f.write_str("what is sent again"),
        }
    }
}

// === hashes ===

/// SHA-256 over the RFC 8785 form of `[server, tool, arguments]` (guarantees §3).
pub(super) fn fingerprint(asked: &KeyRequest<'_>) -> Digest {
    let mut text = vec![b'['];
    push_string(&mut text, asked.server.as_str());
    text.push(b',');
    push_string(&mut text, asked.tool);
    text.push(b',');
    text.extend_from_slice(&form(asked.arguments));
    text.push(b']');
    Digest::of(&text)
}

/// SHA-256 over what a key belongs to and the key, each with its length (004-24, 004-27).
pub(super) fn call_key(asked: &KeyRequest<'_>, kind: KeyKind, key: &[u8]) -> Digest {
    let kind: &[u8] = match kind {
        KeyKind::Given => b"given",
        KeyKind::Arguments => b"arguments",
        KeyKind::Pointers => b"pointers",
        KeyKind::Seed => b"seed",
        KeyKind::Retry => b"retry",
        KeyKind::Near => b"near",
    };
    let KeyRequest {
        caller,
        server,
        tool,
        ..
    } = asked;
    let agent = caller.agent.as_str().as_bytes();
    let tenant = caller.tenant.as_ref().map(TenantId::as_str);
    let has_tenant: &[u8] = if tenant.is_some() { b"tenant" } else { b"none" };
    let tenant = tenant.unwrap_or_default().as_bytes();
    let parts = [
        has_tenant,
        tenant,
        agent,
        server.as_str().as_bytes(),
        tool.as_bytes(),
        kind,
        key,
    ];
    caller.digest("toolgate call key", &parts)
}

fn form(value: &Value) -> Vec<u8> {
    canonical::form(value).unwrap_or_else(|| value.to_string().into_bytes())
}
