//! Takes one level of a strictly read text apart, without copying and without judging it again.

use super::index::{KnownMembers, MemberPlace, NotedObject};
use super::ordinary::soon;
use super::{Text, decode, push_string};
use bytes::Bytes;
use memchr::memchr2;
use std::borrow::Cow;
use std::collections::HashSet;

/// The members of one object, in order, one level deep. Edits keep every other member as it was
/// written.
#[derive(Debug, Clone, Default)]
pub struct Object {
    members: Vec<ObjectMember>,
}

/// Names that most messages have: they are kept without memory of their own.
const USUAL_NAMES: &[&str] = &[
    "name",
    "arguments",
    "_meta",
    "content",
    "isError",
    "structuredContent",
    "resultType",
    "type",
    "text",
    "progressToken",
    "traceparent",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/serverInfo",
    "dev.toolgate/fence",
];

fn kept_name(name: &str) -> Cow<'static, str> {
    match USUAL_NAMES.iter().find(|usual| **usual == name) {
        Some(usual) => Cow::Borrowed(usual),
        None => Cow::Owned(name.to_owned()),
    }
}

#[derive(Debug, Clone)]
struct ObjectMember {
    name: Cow<'static, str>,
    /// The name as it was written, where it is none of characters only.
    written: Option<Text>,
    value: Text,
}

impl ObjectMember {
    fn push(&self, out: &mut Vec<u8>) {
        match &self.written {
            Some(written) => out.extend_from_slice(&written.bytes),
            None => push_string(out, &self.name),
        }
        out.push(b':');
        out.extend_from_slice(&self.value.bytes);
    }
}

impl Object {
    pub(super) fn split(text: &Text) -> Self {
        let mut walk = JsonMembers::new(text);
        let mut members = Vec::new();
        while let Some(place) = walk.step() {
            let key = place.key.clone();
            let Some(name) = decode(&text.bytes[key.clone()]) else {
                break;
            };
            let is_lossy = name.contains(char::REPLACEMENT_CHARACTER);
            members.push(ObjectMember {
                name: kept_name(&name),
                written: is_lossy.then(|| Text::of_bytes(text.bytes.slice(key))),
                value: text.part(place),
            });
        }
        Self { members }
    }

    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<&Text> {
        self.members
            .iter()
            .find(|member| member.name == key)
            .map(|member| &member.value)
    }

    /// All members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Text)> {
        self.members
            .iter()
            .map(|member| (&*member.name, &member.value))
    }

    /// Sets `key`, in its place if it was there.
    pub fn set(&mut self, key: &str, value: Text) {
        match self.members.iter_mut().find(|member| member.name == key) {
            Some(member) => member.value = value,
            None => self.members.push(ObjectMember {
                name: kept_name(key),
                written: None,
                value,
            }),
        }
    }

    /// Adds a member at the end, whether one of that name is there or not.
    pub fn add(&mut self, key: &str, value: Text) {
        self.members.push(ObjectMember {
            name: kept_name(key),
            written: None,
            value,
        });
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Text> {
        let at = self.members.iter().position(|member| member.name == key)?;
        Some(self.members.remove(at).value)
    }

    /// Leaves the members in whose names are `kept`.
    pub fn retain(&mut self, kept: impl Fn(&str) -> bool) {
        self.members.retain(|member| kept(&member.name));
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The text of the object.
    pub fn text(&self) -> Text {
        let size: usize = self
            .members
            .iter()
            .map(|member| member.name.len() + member.value.bytes.len() + 4)
            .sum();
        // Exactly so many, if no name has to be escaped: a buffer that is full needs no other memory.
        let mut out = Vec::with_capacity((size + 1).max(2));
        self.push(&mut out);
        Text::of_bytes(Bytes::from(out))
    }

    /// Appends the text of the object.
    pub fn push(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, member) in self.members.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            member.push(out);
        }
        out.push(b'}');
    }

    /// Appends its members to an object that has some and is not closed yet.
    pub fn push_more(&self, out: &mut Vec<u8>) {
        for member in &self.members {
            out.push(b',');
            member.push(out);
        }
    }
}

/// Walks the members of an object in a text.
pub struct JsonMembers<'a> {
    text: &'a Text,
    at: usize,
    known: Option<KnownMembers<'a>>,
}

impl<'a> JsonMembers<'a> {
    pub(super) fn new(text: &'a Text) -> Self {
        Self {
            text,
            at: 1,
            known: text.noted.as_ref().map(NotedObject::members),
        }
    }

    /// Where the next member stands.
    fn step(&mut self) -> Option<MemberPlace<'a>> {
        if let Some(known) = &mut self.known {
            return known.step();
        }
        let text = &self.text.bytes;
        let start = skip_any(text, self.at, b", \t\n\r");
        if text.get(start) != Some(&b'"') {
            return None;
        }
        let key = start..skip(text, start);
        let start = skip_any(text, key.end, b": \t\n\r");
        self.at = skip(text, start);
        Some(MemberPlace {
            key,
            value: start..self.at,
            is_plain: false,
            known: None,
        })
    }

    /// Where the first member `key` stands. Nothing is copied on the way: on the path of a call most
    /// members are passed over.
    pub(super) fn place_of(&mut self, key: &str) -> Option<MemberPlace<'a>> {
        loop {
            if let Some(known) = &mut self.known {
                known.pass_others(key.as_bytes(), &self.text.bytes);
            }
            let member = self.step()?;
            let name = &self.text.bytes[member.key.clone()];
            if name.get(1..name.len() - 1) == Some(key.as_bytes())
                || (!member.is_plain && name.contains(&b'\\') && decode(name)? == key)
            {
                return Some(member);
            }
        }
    }

    /// The value of `key`.
    pub(super) fn value_of(mut self, key: &str) -> Option<Text> {
        let place = self.place_of(key)?;
        Some(self.text.part(place))
    }

    /// The members of the object that the member `key` is, if it is one.
    pub(super) fn inside(mut self, key: &str) -> Option<Self> {
        let place = self.place_of(key)?;
        Self::of(self.text, place)
    }

    /// The members of the object that stands there in `text`, if it is one.
    pub(super) fn of(text: &'a Text, place: MemberPlace<'a>) -> Option<Self> {
        let MemberPlace { value, known, .. } = place;
        let is_object = text.bytes.get(value.start) == Some(&b'{');
        is_object.then(|| Self {
            text,
            at: value.start + 1,
            known,
        })
    }
}

impl<'a> JsonMembers<'a> {
    /// The members with their names, of which those are made texts that are asked for.
    pub(crate) fn parts(mut self) -> impl Iterator<Item = (Cow<'a, str>, MemberPart<'a>)> {
        std::iter::from_fn(move || self.next_part())
    }

    fn next_part(&mut self) -> Option<(Cow<'a, str>, MemberPart<'a>)> {
        let (text, place) = (self.text, self.step()?);
        let name = decode(&text.bytes[place.key.clone()])?;
        Some((name, MemberPart { text, place }))
    }
}

impl<'a> Iterator for JsonMembers<'a> {
    type Item = (Cow<'a, str>, Text);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, part) = self.next_part()?;
        Some((name, part.text()))
    }
}

/// The value of a member, where it stands.
pub(crate) struct MemberPart<'a> {
    text: &'a Text,
    place: MemberPlace<'a>,
}

impl MemberPart<'_> {
    /// The value as a text of its own.
    pub(crate) fn text(self) -> Text {
        self.text.part(self.place)
    }
}

/// Whether two members of an object have the same name.
pub(super) fn has_twins(text: &Text) -> bool {
    let mut names = HashSet::new();
    !JsonMembers::new(text)
        .parts()
        .all(|(name, _)| names.insert(name))
}

pub(super) fn elements(text: &Bytes) -> Vec<Text> {
    let mut found = Vec::new();
    let mut at = 1;
    loop {
        at = skip_any(text, at, b", \t\n\r");
        if matches!(text.get(at), None | Some(b']')) {
            return found;
        }
        let end = skip(text, at);
        found.push(Text::of_bytes(text.slice(at..end)));
        at = end;
    }
}

pub(super) fn skip_any(text: &[u8], mut at: usize, over: &[u8]) -> usize {
    while text.get(at).is_some_and(|byte| over.contains(byte)) {
        at += 1;
    }
    at
}

/// The end of the value that starts at `at`.
pub(super) fn skip(text: &[u8], mut at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => skip_string(text, at),
        Some(b'{' | b'[') => {
            let mut depth = 0_usize;
            while let Some(byte) = text.get(at) {
                match byte {
                    b'"' => {
                        at = skip_string(text, at);
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
            at
        }
        Some(_) => {
            while text
                .get(at)
                .is_some_and(|byte| !b",]} \t\n\r".contains(byte))
            {
                at += 1;
            }
            at
        }
        None => at,
    }
}

pub(super) fn skip_string(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    // Most strings end soon; what is long is passed as fast as this machine can.
    at += soon(&text[at..]);
    loop {
        match text.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => {}
            None => return text.len(),
        }
        let rest = text.get(at..).unwrap_or_default();
        at += memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    }
}
