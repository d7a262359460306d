//! A pattern over tool names: `*` stands for any text, everything else for itself, byte for byte, from end to end.

use crate::model::diagnostic::Problems;
use crate::model::ids::{SEPARATOR, ServerName};

/// Bytes of a pattern: longer than any tool name.
const MAX_BYTES: usize = 256;

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// Takes `text` as a pattern, unless it is blank or looks like another language of patterns: what its author means
    /// and what matches must not differ.
    pub fn compile(text: &str, problems: &mut Problems) -> Option<Self> {
        if text.trim() != text || text.is_empty() {
            problems.error(
                "is blank or has blanks around it",
                "write a name such as billing__get_invoice, or take it away",
            );
        } else if let Some(other) = text.chars().find(|letter| "?[]{}!\\\"'".contains(*letter)) {
            problems.error(
                format!("`{other}` has no meaning in a pattern"),
                "only `*` is special; write one pattern a name",
            );
        } else if text.len() > MAX_BYTES {
            problems.error(format!("longer than {MAX_BYTES} bytes"), "shorten it");
        } else {
            return Some(Self(text.into()));
        }
        None
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Does it match the whole of `name`?
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut read) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while read < name.len() {
            if pattern.get(at) == Some(&b'*') {
                star = Some((at, read));
                at += 1;
            } else if pattern.get(at) == Some(&name[read]) {
                at += 1;
                read += 1;
            } else if let Some((behind, from)) = star {
                star = Some((behind, from + 1));
                at = behind + 1;
                read = from + 1;
            } else {
                return false;
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }

    /// Does `other` match every name that this one matches? Exact: text that stands in no pattern stands for any text.
    pub fn is_within(&self, other: &Self) -> bool {
        other.matches(&self.0.replace('*', "\0"))
    }

    /// Is there a name that both match? What stands before the first `*` and behind the last decides: whatever else the
    /// two ask for can stand between, one after the other.
    pub fn meets(&self, other: &Self) -> bool {
        let ends = |pattern: &'_ Self| {
            let (head, tail) = (pattern.0.split('*').next()?.to_owned(), pattern.0.rsplit('*').next()?.to_owned());
            Some((head, tail)).filter(|_| pattern.is_wild())
        };
        let agree = |one: &str, two: &str, fits: fn(&str, &str) -> bool| fits(one, two) || fits(two, one);
        match (ends(self), ends(other)) {
            (Some((head, tail)), Some((other_head, other_tail))) => {
                agree(&head, &other_head, |long, short| long.starts_with(short))
                    && agree(&tail, &other_tail, |long, short| long.ends_with(short))
            }
            (None, _) => other.matches(&self.0),
            (_, None) => self.matches(&other.0),
        }
    }

    /// Does it stand for more than one name?
    pub fn is_wild(&self) -> bool {
        self.0.contains('*')
    }

    /// Rises with what it fixes: of two patterns of which one lies within the other, that one has the higher.
    pub(super) fn weight(&self) -> (usize, std::cmp::Reverse<usize>) {
        let stars = self.0.bytes().filter(|byte| *byte == b'*').count();
        (self.0.len() - stars, std::cmp::Reverse(stars))
    }

    /// Could it match a tool of `server`?
    pub fn reaches(&self, server: &ServerName) -> bool {
        let prefix = format!("{server}{SEPARATOR}");
        match self.0.split_once('*') {
            Some((head, _)) => head.starts_with(&prefix) || prefix.starts_with(head),
            None => self.0.len() > prefix.len() && self.0.starts_with(&prefix),
        }
    }
}
