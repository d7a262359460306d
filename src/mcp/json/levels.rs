//! Members whose names only look like known ones: one pass over a text, along what is known of it
//! (threat-model §3A A2).
//!
//! Some peers fold the case of names, and the last of two equal ones wins with them: to them `Name`
//! is the `name`.

use super::Text;
use super::decode;
use super::fold::folded;
use super::index::{KnownMembers, MemberPlace, NotedObject};
use super::split::{skip, skip_any, skip_string};
use bytes::Bytes;
use std::ops::Range;

/// What is known of the members of an object.
#[derive(Debug)]
pub struct Level {
    /// The object, as people read of it.
    pub place: &'static str,
    /// The names of members, and what stands in them. What is frequent stands first.
    pub members: &'static [(&'static str, MemberContent)],
    /// Beginnings of names that belong to a vendor.
    pub prefixes: &'static [&'static str],
}

/// What stands in a member.
#[derive(Debug, Clone, Copy)]
pub enum MemberContent {
    /// What nobody here knows.
    Anything,
    /// An object, or a list of such objects.
    Objects(&'static Level),
    /// An object whose members have names of anybody's choice, each of them such an object.
    Each(&'static Level),
}

/// A member whose name only looks like a known one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookAlike {
    /// The object it is in.
    pub place: &'static str,
    /// Its name.
    pub name: String,
    /// What it looks like.
    pub like: &'static str,
    /// Where name and value stand in the text; empty where there is no text.
    pub range: Range<usize>,
}

impl Level {
    /// What `name` looks like, if it only looks like a known one.
    pub fn alike(&self, name: &str) -> Option<&'static str> {
        if self.inside(name.as_bytes()).is_some() {
            return None;
        }
        if name.is_ascii() {
            let is_like = |known: &str| known.eq_ignore_ascii_case(name);
            let begins = |prefix: &str| {
                name.get(..prefix.len())
                    .is_some_and(|start| start != prefix && start.eq_ignore_ascii_case(prefix))
            };
            return self.find(is_like, begins);
        }
        // Some take the capital dotted i for an i, and drop the dot.
        let folded = folded(name).replace('\u{307}', "");
        let begins = |prefix: &str| folded.starts_with(prefix) && !name.starts_with(prefix);
        self.find(|known| known.eq_ignore_ascii_case(&folded), begins)
    }

    fn find(
        &self,
        is_like: impl Fn(&str) -> bool,
        begins: impl Fn(&str) -> bool,
    ) -> Option<&'static str> {
        let known = self
            .members
            .iter()
            .map(|(known, _)| *known)
            .find(|known| is_like(known));
        known.or_else(|| self.prefixes.iter().copied().find(|prefix| begins(prefix)))
    }

    fn inside(&self, name: &[u8]) -> Option<MemberContent> {
        self.members
            .iter()
            .find(|(known, _)| known.as_bytes() == name)
            .map(|(_, inside)| *inside)
    }
}

impl Text {
    /// The members whose names only look like what `level` knows, in order, outermost first.
    pub fn alike(&self, level: &'static Level) -> Vec<LookAlike> {
        let mut walk = LevelWalk {
            text: &self.bytes,
            at: 0,
            found: Vec::new(),
        };
        let known = self.noted.as_ref().map(NotedObject::members);
        walk.value(
            MemberContent::Objects(level),
            NotedValue { end: None, known },
        );
        walk.found
    }

    /// The text without these members of it. Everything else stays as it was written.
    #[must_use]
    pub fn without(&self, members: &[LookAlike]) -> Self {
        let mut out = Vec::with_capacity(self.bytes.len());
        let mut at = 0;
        for member in members {
            out.extend_from_slice(&self.bytes[at..member.range.start]);
            at = skip_any(&self.bytes, member.range.end, b" \t\n\r");
            if self.bytes.get(at) == Some(&b',') {
                at += 1;
                continue;
            }
            // It was the last one: the comma before it goes with it.
            let end = out.trim_ascii_end().len();
            if out[..end].ends_with(b",") {
                out.truncate(end - 1);
            }
        }
        out.extend_from_slice(&self.bytes[at..]);
        Self::of_bytes(Bytes::from(out))
    }
}

/// What the reader has noted of the value that is walked next.
#[derive(Clone, Copy)]
struct NotedValue<'t> {
    /// Where it ends.
    end: Option<usize>,
    /// Its members.
    known: Option<KnownMembers<'t>>,
}

impl NotedValue<'_> {
    const UNKNOWN: Self = Self {
        end: None,
        known: None,
    };
}

/// Walks what the reader has not noted; what it has is passed without a look at what is in it.
struct LevelWalk<'t> {
    text: &'t [u8],
    at: usize,
    found: Vec<LookAlike>,
}

impl<'t> LevelWalk<'t> {
    /// Passes the value that stands here. After one whose members are known, the walk goes on where
    /// the next known member stands.
    fn value(&mut self, inside: MemberContent, place: NotedValue<'t>) {
        let known = place.known;
        match (inside, self.text.get(self.at)) {
            (MemberContent::Objects(level), Some(b'{')) => {
                self.object(Some(level), MemberContent::Anything, known);
            }
            (MemberContent::Each(level), Some(b'{')) => {
                self.object(None, MemberContent::Objects(level), known);
            }
            (MemberContent::Objects(level), Some(b'[')) => self.list(level),
            _ => self.pass(place),
        }
    }

    fn pass(&mut self, place: NotedValue<'t>) {
        self.at = place.end.unwrap_or_else(|| skip(self.text, self.at));
    }

    /// Where the key of the next member of an object stands, and what is known of its value, which
    /// is what stands here then; none after the last one.
    fn member(
        &mut self,
        known: &mut Option<KnownMembers<'t>>,
    ) -> Option<(Range<usize>, NotedValue<'t>)> {
        if let Some(known) = known {
            let MemberPlace {
                key, value, known, ..
            } = known.step()?;
            self.at = value.start;
            let end = Some(value.end);
            return Some((key, NotedValue { end, known }));
        }
        let start = skip_any(self.text, self.at, b", \t\n\r");
        if self.text.get(start) != Some(&b'"') {
            self.at = start + 1;
            return None;
        }
        let key = start..skip_string(self.text, start);
        self.at = skip_any(self.text, key.end, b": \t\n\r");
        Some((key, NotedValue::UNKNOWN))
    }

    /// The members of an object, by what is known of them; where nothing is, all of them are
    /// `other`.
    fn object(
        &mut self,
        level: Option<&'static Level>,
        other: MemberContent,
        mut known: Option<KnownMembers<'t>>,
    ) {
        self.at += 1;
        while let Some((key, place)) = self.member(&mut known) {
            let Some(level) = level else {
                self.value(other, place);
                continue;
            };
            // Nearly all are written as they are known.
            let written = &self.text[key.start + 1..key.end - 1];
            if let Some(inside) = level.inside(written) {
                self.value(inside, place);
                continue;
            }
            let start = key.start;
            let Some(name) = decode(&self.text[key]) else {
                self.pass(place);
                continue;
            };
            if let Some(inside) = level.inside(name.as_bytes()) {
                self.value(inside, place);
                continue;
            }
            self.pass(place);
            if let Some(like) = level.alike(&name) {
                let range = start..self.at;
                self.found.push(LookAlike {
                    place: level.place,
                    name: name.into_owned(),
                    like,
                    range,
                });
            }
        }
    }

    fn list(&mut self, level: &'static Level) {
        self.at += 1;
        loop {
            self.at = skip_any(self.text, self.at, b", \t\n\r");
            match self.text.get(self.at) {
                None | Some(b']') => {
                    self.at += 1;
                    return;
                }
                Some(b'{') => self.object(Some(level), MemberContent::Anything, None),
                Some(_) => self.at = skip(self.text, self.at),
            }
        }
    }
}
