//! Patterns for resources: text, `*` for any text, and the caller's own names.

use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::UserId;

#[derive(Debug)]
enum ReachPart {
    Text(String),
    Tenant,
    User,
    Agent,
    Any,
}

/// One pattern. Matches the whole text.
#[derive(Debug)]
pub(super) struct ReachPattern {
    parts: Vec<ReachPart>,
    /// As the contract has it.
    written: String,
}

impl ReachPattern {
    /// Reads a pattern; notes a placeholder that doesn't exist.
    pub(super) fn compile(pattern: &str, problems: &mut Problems) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some(at) = rest.find(['*', '{', '}']) {
            let (text, special) = rest.split_at(at);
            if !text.is_empty() {
                parts.push(ReachPart::Text(text.to_owned()));
            }
            let (part, length) = match special {
                _ if special.starts_with('*') => (ReachPart::Any, 1),
                _ if special.starts_with("{tenant}") => (ReachPart::Tenant, "{tenant}".len()),
                _ if special.starts_with("{user}") => (ReachPart::User, "{user}".len()),
                _ if special.starts_with("{agent}") => (ReachPart::Agent, "{agent}".len()),
                _ => {
                    let hint = "the placeholders are `{tenant}`, `{user}` and `{agent}`";
                    problems.error("a `{` or `}` that belongs to no known placeholder", hint);
                    return None;
                }
            };
            parts.push(part);
            rest = special.get(length..).unwrap_or_default();
        }
        if !rest.is_empty() {
            parts.push(ReachPart::Text(rest.to_owned()));
        }
        if parts.is_empty() {
            problems.error(
                "an empty pattern",
                "write a resource's name, with `*` for any text",
            );
            return None;
        }
        Some(Self {
            parts,
            written: pattern.to_owned(),
        })
    }

    /// As the contract has it.
    pub(super) fn written(&self) -> &str {
        &self.written
    }

    /// What it means for `caller`, with `*` for any text; none: it reaches nothing.
    pub(super) fn meant_for(&self, caller: &Caller) -> Option<String> {
        self.pieces(caller).map(|pieces| pieces.join("*"))
    }

    /// Whether `text` is what the pattern means for `caller`.
    pub(super) fn matches(&self, text: &str, caller: &Caller) -> bool {
        // Between two stars stands fixed text; `*` alone matches, so what climbs out of a path must
        // not come through it.
        match self.pieces(caller).as_deref() {
            Some([whole]) => text == whole,
            Some([first, middle @ .., last]) => !climbs(text) && wild(text, first, middle, last),
            Some([]) | None => false,
        }
    }

    /// The fixed texts before, between and behind the stars. A caller without the name that a
    /// placeholder asks for reaches nothing.
    fn pieces(&self, caller: &Caller) -> Option<Vec<String>> {
        let mut pieces = vec![String::new()];
        for part in &self.parts {
            let fixed = match part {
                ReachPart::Text(text) => text.as_str(),
                ReachPart::Agent => caller.agent.as_str(),
                ReachPart::Tenant => caller.tenant.as_ref()?.as_str(),
                // A person may choose that name: it is one step of a path, or reaches nothing.
                ReachPart::User => {
                    let name = caller.user.as_ref().map(UserId::as_str);
                    name.filter(|user| is_one_step(user))?
                }
                ReachPart::Any => {
                    pieces.push(String::new());
                    continue;
                }
            };
            if let Some(last) = pieces.last_mut() {
                last.push_str(fixed);
            }
        }
        Some(pieces)
    }
}

fn wild(text: &str, first: &str, middle: &[String], last: &str) -> bool {
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    for piece in middle {
        match rest.find(piece.as_str()) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn is_one_step(name: &str) -> bool {
    name != "." && name != ".." && !name.contains(['/', '\\', '%', '?', '#'])
}

/// Whether `text` may name something outside of what it begins with: `..` between separators,
/// written plainly or as `%XX`, or a control character.
fn climbs(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let encoded = ["%2e", "%2f", "%5c", "%25"]
        .iter()
        .any(|code| lower.contains(code));
    encoded
        || text.chars().any(char::is_control)
        || text
            .split(['/', '\\'])
            .any(|segment| segment.trim() == "..")
}
