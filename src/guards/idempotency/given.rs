//! The key that came with a call: in `_meta`, as an argument, in a header. Several must agree.

use super::KeySource;
use crate::model::refusal::{Refusal, RefusalCode, RefusalFacts, RefusalKind, Retry};
use serde_json::Value;
use std::borrow::Cow;

/// Where agents put the key in `_meta`.
pub(crate) const KEY_META_NAME: &str = "dev.toolgate/idempotencyKey";
/// The argument that holds the key.
pub(crate) const KEY_ARGUMENT_NAME: &str = "idempotency_key";
/// Characters of a key at most.
const KEY_CHARS_MAX: usize = 255;

/// What every call that must have a key must have.
pub(super) const KEY_EXPECTED_MESSAGE: &str =
    "one idempotency key of 1 to 255 characters, the same whenever this very call is sent again";
/// Where it goes: an agent without a word of its contract has to find it out here.
const KEY_PLACE_HINT: &str = "Call again with such a key: in `_meta` as `dev.toolgate/idempotencyKey`, or as the argument \
     `idempotency_key` where the tool lists it.";
const KEY_UNUSABLE_MESSAGE: &str =
    "an idempotency key that is a text of 1 to 255 characters without control characters";
const KEYS_DISAGREE_MESSAGE: &str =
    "one idempotency key: those in `_meta`, the arguments and the header differ";

pub(in crate::guards) const IDEMPOTENCY_KEY_REQUIRED: RefusalCode = RefusalCode {
    code: "idempotency_key_required",
    meaning: "the call has no idempotency key that can be used",
    remedy: "call again with one key, the same whenever this very call is sent again",
    kind: RefusalKind::Other,
};

/// 004-11: the contract asks for a key, and the call came without `expected`.
pub(in crate::guards) fn key_required(expected: &str) -> Refusal {
    let facts = RefusalFacts {
        retry: Retry::NewKey,
        ..RefusalFacts::new(
            &IDEMPOTENCY_KEY_REQUIRED,
            format!("expected {expected}"),
            KEY_PLACE_HINT,
        )
    };
    facts.into()
}

/// The keys that came with a call.
#[derive(Debug, Default, Clone, Copy)]
pub struct Given<'a> {
    /// `_meta["dev.toolgate/idempotencyKey"]`.
    pub meta: Option<&'a Value>,
    /// What `Rule::split` found among the arguments.
    pub argument: Option<&'a Value>,
    /// The `Idempotency-Key` header.
    pub header: Option<&'a str>,
}

impl<'a> Given<'a> {
    /// The one key of the call and where it stands first, if it came with any.
    pub(super) fn one(&self) -> Result<Option<(KeySource, Cow<'a, str>)>, Refusal> {
        let unusable = || key_required(KEY_UNUSABLE_MESSAGE);
        let text = |value: &'a Value| value.as_str().map(Cow::Borrowed).ok_or_else(unusable);
        let all = [
            (KeySource::Meta, self.meta.map(text).transpose()?),
            (KeySource::Argument, self.argument.map(text).transpose()?),
            (KeySource::Header, self.header.map(unquoted)),
        ];
        let mut found: Option<(KeySource, Cow<'a, str>)> = None;
        for (source, key) in all {
            let Some(key) = key else { continue };
            if key.is_empty()
                || key.chars().count() > KEY_CHARS_MAX
                || key.chars().any(char::is_control)
            {
                return Err(unusable());
            }
            match &found {
                Some((_, first)) if *first != key => {
                    return Err(key_required(KEYS_DISAGREE_MESSAGE));
                }
                Some(_) => {}
                None => found = Some((source, key)),
            }
        }
        Ok(found)
    }
}

/// The header is a string of RFC 8941 by its draft, and a bare text in practice.
fn unquoted(header: &str) -> Cow<'_, str> {
    let header = header.trim_matches([' ', '\t']);
    let inner = header
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let Some(inner) = inner else {
        return Cow::Borrowed(header);
    };
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let (mut plain, mut escaped) = (String::with_capacity(inner.len()), false);
    for letter in inner.chars() {
        if letter == '\\' && !escaped {
            escaped = true;
        } else {
            plain.push(letter);
            escaped = false;
        }
    }
    Cow::Owned(plain)
}
