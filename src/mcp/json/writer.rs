//! Writes what toolgate says into the buffer that it leaves from, once: objects, member after
//! member, and members of what others have written.

use super::index::AddedMember;
use super::ordinary::unescaped;
use super::split::JsonMembers;
use super::{Text, push_string};
use bytes::Bytes;
use serde::Serialize;
use std::fmt::Display;
use std::io::Write as _;
use std::ops::Range;

/// Room that is made for a member of ours, in bytes: most have no more.
const USUAL_MEMBER_BYTES: usize = 384;

/// An object that is being written. No two names may be equal.
pub(crate) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    has_members: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Begins one at the end of `out`.
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self {
            out,
            has_members: false,
        }
    }

    fn name(&mut self, name: &str) {
        if self.has_members {
            self.out.push(b',');
        }
        self.has_members = true;
        push_string(self.out, name);
        self.out.push(b':');
    }

    /// A member that is a string.
    pub(crate) fn string(&mut self, name: &str, value: &str) {
        self.name(name);
        push_string(self.out, value);
    }

    /// A member that is a string: `value` as it is shown.
    pub(crate) fn shown(&mut self, name: &str, value: &impl Display) {
        self.name(name);
        let start = self.out.len();
        self.out.push(b'"');
        // A buffer takes whatever is written.
        let _ = write!(self.out, "{value}");
        let inside = &self.out[start + 1..];
        if unescaped(inside) == inside.len() {
            self.out.push(b'"');
            return;
        }
        let inside = String::from_utf8_lossy(inside).into_owned();
        self.out.truncate(start);
        push_string(self.out, &inside);
    }

    /// A member that is a value of ours; `null` if that cannot be written.
    pub(crate) fn value(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.name(name);
        let start = self.out.len();
        if serde_json::to_writer(&mut *self.out, value).is_err() {
            self.out.truncate(start);
            self.out.extend_from_slice(b"null");
        }
    }

    /// Ends the object.
    pub(crate) fn end(self) {
        self.out.push(b'}');
    }
}

impl Text {
    /// What `write` appends, which is one JSON value of ours.
    pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut out = Vec::with_capacity(USUAL_MEMBER_BYTES);
        write(&mut out);
        Self::of_bytes(Bytes::from(out))
    }

    /// The object with one more member at its end, which must not be there yet; any other value as
    /// it is.
    #[must_use]
    pub fn with_new_member(&self, key: &str, value: &Self) -> Self {
        if !self.is_object() {
            return self.clone();
        }
        let mut out = Vec::with_capacity(self.bytes.len() + key.len() + value.bytes.len() + 4);
        let start = self.push_opened(&mut out, key);
        out.extend_from_slice(&value.bytes);
        out.push(b'}');
        self.grown(out, start..start + key.len() + 2, None)
    }

    /// The object with one more member in the object that its member `outer` is, at the end of that;
    /// `write` appends its value. Where there is no `outer`, that is a new member, too. All else
    /// stays as it was written. None where `outer` is no object or has that member, or this is no
    /// object.
    pub(crate) fn with_inner_member(
        &self,
        outer: &str,
        key: &str,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Self> {
        let place = self.members()?.place_of(outer);
        let mut out = Vec::with_capacity(self.bytes.len() + outer.len() + USUAL_MEMBER_BYTES);
        let Some(place) = place else {
            let start = self.push_opened(&mut out, outer);
            out.push(b'{');
            push_member(&mut out, key, write);
            out.extend_from_slice(b"}}");
            return Some(self.grown(out, start..start + outer.len() + 2, None));
        };
        let inside = place.value.start + 1..place.value.end - 1;
        if JsonMembers::of(self, place)?.place_of(key).is_some() {
            return None;
        }
        out.extend_from_slice(&self.bytes[..inside.end]);
        if !self.bytes[inside.clone()].trim_ascii().is_empty() {
            out.push(b',');
        }
        let start = out.len();
        push_member(&mut out, key, write);
        out.extend_from_slice(&self.bytes[inside.end..]);
        Some(self.grown(out, start..start + key.len() + 2, Some(inside)))
    }

    /// Appends the object up to the value of a new member. Where its key begins is told.
    fn push_opened(&self, out: &mut Vec<u8>, key: &str) -> usize {
        let opened = &self.bytes[..self.bytes.len() - 1];
        out.extend_from_slice(opened);
        if !opened[1..].trim_ascii().is_empty() {
            out.push(b',');
        }
        let start = out.len();
        push_string(out, key);
        out.push(b':');
        start
    }

    /// `out`, which is this text with one more member: its key stands at `key`, and is the last one of
    /// the object that had `inside` between its braces, or of all of it.
    fn grown(&self, out: Vec<u8>, key: Range<usize>, inside: Option<Range<usize>>) -> Self {
        let by = out.len() - self.bytes.len();
        let at = inside
            .as_ref()
            .map_or(self.bytes.len() - 1, |inside| inside.end);
        let name = &out[key.start + 1..key.end - 1];
        let is_plain = unescaped(name) == name.len();
        let added = AddedMember {
            at,
            by,
            value: key.end + 1..at + by,
            key,
            inside: inside.map(|inside| inside.start - 1),
        };
        let noted = self.noted.as_ref().filter(|_| is_plain);
        Self {
            noted: noted.and_then(|noted| noted.with(added)),
            bytes: Bytes::from(out),
        }
    }
}

fn push_member(out: &mut Vec<u8>, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
    push_string(out, key);
    out.push(b':');
    write(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::SERVER_JSON_LIMITS;
    use serde_json::json;

    #[test]
    fn an_object_is_written_as_serde_writes_it() {
        let mut out = b"[".to_vec();
        let mut object = ObjectWriter::new(&mut out);
        object.string("a\"b", "line\nend");
        object.shown("n", &7);
        object.shown("q", &"say \"no\"\\");
        object.value("f", &1.0);
        object.value("nan", &f64::NAN);
        object.value("list", &["x", "y"]);
        object.end();
        ObjectWriter::new(&mut out).end();
        let expected = json!({
            "a\"b": "line\nend", "n": "7", "q": "say \"no\"\\", "f": 1.0, "nan": null, "list": ["x", "y"]
        });
        assert_eq!(String::from_utf8(out).unwrap(), format!("[{expected}{{}}"));
    }

    #[test]
    fn an_inner_member_is_added_and_nothing_else_changes() {
        for (text, expected) in [
            ("{}", Some(r#"{"_meta":{"k":1}}"#)),
            ("{ }", Some(r#"{ "_meta":{"k":1}}"#)),
            (r#"{"a": 1.50 }"#, Some(r#"{"a": 1.50 ,"_meta":{"k":1}}"#)),
            (r#"{"_meta":{}}"#, Some(r#"{"_meta":{"k":1}}"#)),
            (r#"{"_meta":{ }}"#, Some(r#"{"_meta":{ "k":1}}"#)),
            (
                r#"{ "_meta" : { "x":{"k":2} } , "a":[{"_meta":3}] }"#,
                Some(r#"{ "_meta" : { "x":{"k":2} ,"k":1} , "a":[{"_meta":3}] }"#),
            ),
            (
                r#"{"\u005fmeta":{"x":"}"},"a":{"_meta":{}}}"#,
                Some(r#"{"\u005fmeta":{"x":"}","k":1},"a":{"_meta":{}}}"#),
            ),
            (r#"{"_meta":{"k":2}}"#, None),
            (r#"{"_meta":{"\u006b":2}}"#, None),
            (r#"{"_meta":null}"#, None),
            (r#"{"_meta":[1]}"#, None),
            (r#"{"_meta":"{}"}"#, None),
            ("[]", None),
            ("7", None),
        ] {
            let read = Text::read(Bytes::from(text), &SERVER_JSON_LIMITS).unwrap();
            for text in [read.clone(), Text::of_bytes(read.bytes())] {
                let with = text.with_inner_member("_meta", "k", |out| out.push(b'1'));
                let with = with.map(|with| String::from_utf8(with.bytes().to_vec()).unwrap());
                assert_eq!(with.as_deref(), expected);
            }
        }
    }
}
