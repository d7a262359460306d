//! A pattern over tool names: `*` stands for any text, everything else for itself, byte for byte,
//! from end to end.

use crate::model::diagnostic::Problems;
use crate::model::ids::{NAME_SEPARATOR, ServerName};
use crate::model::wildcard;

/// Bytes of a pattern: longer than any tool name.
const PATTERN_BYTES_MAX: usize = 256;

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolPattern {
    text: Box<str>,
    any_case: bool,
}

impl ToolPattern {
    /// Takes `text` as a pattern, unless it is blank or looks like another language of patterns:
    /// what its author means and what matches must not differ.
    pub(crate) fn compile(text: &str, problems: &mut Problems) -> Option<Self> {
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
        } else if text.len() > PATTERN_BYTES_MAX {
            problems.error(
                format!("longer than {PATTERN_BYTES_MAX} bytes"),
                "shorten it",
            );
        } else {
            return Some(Self {
                text: text.into(),
                any_case: false,
            });
        }
        None
    }

    /// The pattern that `text` is, which was judged elsewhere.
    pub(super) fn of_text(text: &str) -> Self {
        Self {
            text: text.into(),
            any_case: false,
        }
    }

    /// The same pattern, for which `A` is `a`; beyond ASCII letters are kept apart.
    #[must_use]
    pub(crate) fn in_any_case(self, any_case: bool) -> Self {
        Self { any_case, ..self }
    }

    /// Does it match letters of either case?
    pub(crate) fn is_in_any_case(&self) -> bool {
        self.any_case
    }

    /// As written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Does it match the whole of `name`?
    pub(crate) fn matches(&self, name: &str) -> bool {
        wildcard::matches(&self.text, name, self.any_case)
    }

    /// Does `other` match every name that this one matches? Exact: text that stands in no pattern
    /// stands for any text.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        other.matches(&self.text.replace('*', "\0"))
    }

    /// Is there a name that both match? What stands before the first `*` and behind the last
    /// decides: whatever else the two ask for can stand between, one after the other.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let ends = |pattern: &'_ Self| {
            let (head, tail) = (
                pattern.text.split('*').next()?.to_owned(),
                pattern.text.rsplit('*').next()?.to_owned(),
            );
            Some((head, tail)).filter(|_| pattern.is_wild())
        };
        let agree =
            |one: &str, two: &str, fits: fn(&str, &str) -> bool| fits(one, two) || fits(two, one);
        match (ends(self), ends(other)) {
            (Some((head, tail)), Some((other_head, other_tail))) => {
                agree(&head, &other_head, |long, short| long.starts_with(short))
                    && agree(&tail, &other_tail, |long, short| long.ends_with(short))
            }
            (None, _) => other.matches(&self.text),
            (_, None) => self.matches(&other.text),
        }
    }

    /// Does it stand for more than one name?
    pub(crate) fn is_wild(&self) -> bool {
        self.text.contains('*')
    }

    /// Rises with what it fixes: of two patterns of which one lies within the other, that one has
    /// the higher.
    pub(super) fn weight(&self) -> (usize, std::cmp::Reverse<usize>) {
        let stars = self.text.bytes().filter(|byte| *byte == b'*').count();
        (self.text.len() - stars, std::cmp::Reverse(stars))
    }

    /// Could it match a tool of `server`?
    pub(crate) fn reaches(&self, server: &ServerName) -> bool {
        let case = |text: &str| {
            if self.any_case {
                text.to_ascii_lowercase()
            } else {
                text.to_owned()
            }
        };
        let (text, prefix) = (case(&self.text), case(&format!("{server}{NAME_SEPARATOR}")));
        match text.split_once('*') {
            Some((head, _)) => head.starts_with(&prefix) || prefix.starts_with(head),
            None => text.len() > prefix.len() && text.starts_with(&prefix),
        }
    }
}
