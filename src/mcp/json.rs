//! The strict JSON reader: every message, from an agent or a tool server, is read here first.
//!
//! What it accepts has exactly one reading, whatever parser a peer uses (threat-model §3A): no
//! duplicate keys, no keys that differ in case only down to a call's arguments, no numbers that
//! change or vanish, no control characters in keys, bounded depth and size.
//! The text itself is kept, so that what no rule touches travels as it was sent.

use bytes::Bytes;
use index::{MemberPlace, NotedObject};
use scan::Scanned;
use serde_json::Value;
use std::borrow::Cow;

mod beyond;
mod bounds;
mod digests;
pub(crate) mod fold;
mod index;
mod levels;
mod numbers;
mod ordinary;
pub(crate) mod path_edit;
pub(crate) mod place;
mod scalars;
mod scan;
mod split;
mod writer;

pub use levels::{Level, LookAlike, MemberContent};
pub use scalars::{Scalar, ScalarKind, Scalars};
pub use split::{JsonMembers, Object};
pub(crate) use writer::ObjectWriter;

/// What the reader allows. Sizes in bytes.
#[derive(Debug, Clone, Copy)]
pub struct JsonLimits {
    /// The whole text.
    pub bytes: usize,
    /// Nested arrays and objects.
    pub depth: usize,
    /// Values in all.
    pub nodes: usize,
    /// One key, as written.
    pub key: usize,
    /// One string, as written.
    pub string: usize,
    /// Refuse what another parser would read differently: numbers that neither 64 bits nor a double
    /// hold exactly, negative zero, NUL.
    pub differential: bool,
    /// Objects nested so deeply, the outermost is 1, in which keys that are equal under case folding
    /// are refused.
    pub folded_depth: usize,
}

/// How deep the members of a call's arguments stand, and those of `_meta`: below the message and
/// `params`. Deeper down, a guard that decides by a name looks for others like it itself
/// (threat-model §3A A3).
const MEMBERS_OF_ARGUMENTS_DEPTH: usize = 3;

/// For what agents send (threat-model §8).
pub const AGENT_JSON_LIMITS: JsonLimits = JsonLimits {
    bytes: 4 << 20,
    depth: 64,
    nodes: 200_000,
    key: 256,
    string: 1 << 20,
    differential: true,
    folded_depth: MEMBERS_OF_ARGUMENTS_DEPTH,
};

/// For what tool servers send: results are data, so exotic numbers and keys travel; size and shape
/// are still bounded. One level more, and `serde_json` makes no tree of it.
pub const SERVER_JSON_LIMITS: JsonLimits = JsonLimits {
    bytes: 4 << 20,
    depth: 127,
    nodes: 1_000_000,
    key: 4096,
    string: 4 << 20,
    differential: false,
    folded_depth: 0,
};

/// Why a text was refused, and where. Never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Malformed {
    /// The rule that was broken.
    pub what: &'static str,
    /// Offset in bytes from the start of the text.
    pub at: usize,
}

/// A JSON value that has passed the strict reader: shared text without surrounding white space.
#[derive(Clone)]
pub struct Text {
    bytes: Bytes,
    /// Where its members stand, and those in them; of an object that was read, or is in one.
    noted: Option<NotedObject>,
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Text {}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Text({} bytes)", self.bytes.len())
    }
}

impl Text {
    fn of_bytes(bytes: Bytes) -> Self {
        Self { bytes, noted: None }
    }

    fn of_scanned(bytes: &Bytes, scanned: Scanned) -> Self {
        Self {
            bytes: bytes.slice(scanned.range),
            noted: scanned.noted,
        }
    }

    /// The value of the member that stands there in it.
    fn part(&self, MemberPlace { value, known, .. }: MemberPlace<'_>) -> Self {
        let is_object = self.bytes.get(value.start) == Some(&b'{');
        let known = known.filter(|_| is_object);
        let noted = self.noted.as_ref().zip(known);
        Self {
            noted: noted.and_then(|(noted, known)| noted.inside(value.start, &known)),
            bytes: self.bytes.slice(value),
        }
    }

    /// Reads `bytes` strictly, as one JSON value.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the text keeps them: who needs them too says so with a clone"
    )]
    pub fn read(bytes: Bytes, limits: &JsonLimits) -> Result<Self, Malformed> {
        let scanned = scan::scan(&bytes, limits)?;
        Ok(Self::of_scanned(&bytes, scanned))
    }

    /// Reads `bytes` as one JSON value, with the first of what `limits` refuses in it though it is
    /// JSON. Such a text travels as it is; no tree of it says all that it says, so that no guard
    /// decides by one.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the text keeps them: who needs them too says so with a clone"
    )]
    pub fn read_oddly(
        bytes: Bytes,
        limits: &JsonLimits,
    ) -> Result<(Self, Option<Malformed>), Malformed> {
        let scanned = scan::scan_oddly(&bytes, limits)?;
        let odd = scanned.odd;
        Ok((Self::of_scanned(&bytes, scanned), odd))
    }

    /// The text of a value of ours. Serializing a `Value` cannot break the reader's rules except
    /// those for agents.
    pub fn of(value: &Value) -> Self {
        Self::of_bytes(Bytes::from(value.to_string()))
    }

    /// A JSON array of texts.
    pub fn array(elements: impl IntoIterator<Item = Self>) -> Self {
        let mut out = vec![b'['];
        for (index, element) in elements.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&element.bytes);
        }
        out.push(b']');
        Self::of_bytes(Bytes::from(out))
    }

    /// A JSON object of these members; no two keys may be equal.
    pub fn members_of(members: &[(&str, Self)]) -> Self {
        let size: usize = members
            .iter()
            .map(|(key, value)| key.len() + value.bytes.len() + 4)
            .sum();
        let mut out = Vec::with_capacity((size + 1).max(2));
        out.push(b'{');
        for (index, (key, value)) in members.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            push_string(&mut out, key);
            out.push(b':');
            out.extend_from_slice(&value.bytes);
        }
        out.push(b'}');
        Self::of_bytes(Bytes::from(out))
    }

    /// `true` or `false`.
    pub fn bool(value: bool) -> Self {
        Self::of_bytes(Bytes::from_static(if value { b"true" } else { b"false" }))
    }

    /// A JSON string.
    pub fn string(value: &str) -> Self {
        let mut out = Vec::with_capacity(value.len() + 2);
        push_string(&mut out, value);
        Self::of_bytes(Bytes::from(out))
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text, shared.
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The tree. Safe because duplicate keys, depth and `serde_json`'s private keys were refused on
    /// reading.
    pub fn value(&self) -> Value {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place: the text was read strictly"
        )]
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// The text as a type of ours. The error is serde's, without values of the text.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place: the text was read strictly"
        )]
        serde_json::from_slice(&self.bytes)
    }

    /// The string this text is, decoded; none for any other value.
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        decode(&self.bytes)
    }

    /// The bytes of the string this is, shared, where it is written without escapes.
    pub fn unescaped(&self) -> Option<Bytes> {
        let is_plain = matches!(self.as_str()?, Cow::Borrowed(_));
        is_plain.then(|| self.bytes.slice(1..self.bytes.len() - 1))
    }

    /// Whether this is an object.
    pub fn is_object(&self) -> bool {
        self.bytes.first() == Some(&b'{')
    }

    /// Whether this is an array.
    pub fn is_array(&self) -> bool {
        self.bytes.first() == Some(&b'[')
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        self.bytes.as_ref() == b"null"
    }

    /// Whether this is `true`.
    pub fn is_true(&self) -> bool {
        self.bytes.as_ref() == b"true"
    }

    /// The members of an object, in order; none for any other value.
    pub fn object(&self) -> Option<Object> {
        self.is_object().then(|| Object::split(self))
    }

    /// Walks the members of an object; none for any other value.
    pub fn members(&self) -> Option<JsonMembers<'_>> {
        self.is_object().then(|| JsonMembers::new(self))
    }

    /// Whether this is an object in which two members have the same name: who reads it has the
    /// choice.
    pub fn has_twins(&self) -> bool {
        self.is_object() && split::has_twins(self)
    }

    /// The elements of an array, in order; none for any other value.
    pub fn elements(&self) -> Option<Vec<Text>> {
        self.is_array().then(|| split::elements(&self.bytes))
    }

    /// The member `key` of an object.
    pub fn get(&self, key: &str) -> Option<Text> {
        self.members()?.value_of(key)
    }

    /// Follows `keys` into nested objects.
    pub fn at(&self, keys: &[&str]) -> Option<Text> {
        let Some((last, outer)) = keys.split_last() else {
            return Some(self.clone());
        };
        let members = outer
            .iter()
            .try_fold(self.members()?, |members, key| members.inside(key))?;
        members.value_of(last)
    }
}

/// The string that `text` is, with U+FFFD for what is no character; none for any other value.
fn decode(text: &[u8]) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inner.contains(&b'\\') {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place: the text was read strictly"
        )]
        let read = serde_json::from_slice(text)
            .or_else(|_| serde_json::from_slice(text).map(|LossyString(string)| string));
        return read.ok().map(Cow::Owned);
    }
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

/// A string that may hold lone surrogates.
struct LossyString(String);

impl<'de> serde::Deserialize<'de> for LossyString {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(LossyVisitor).map(Self)
    }
}

struct LossyVisitor;

impl serde::de::Visitor<'_> for LossyVisitor {
    type Value = String;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Appends `text` as a JSON string.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    if ordinary::unescaped(text.as_bytes()) == text.len() {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(Value::String(text.to_owned()).to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests;
