//! What a held call brings, part by part, as pages show it and compare it: its arguments, and what travels
//! beside them. All that runs of a call is in one of its parts.

use super::visible::VisibleText;
use crate::mcp::pretty::pretty;
use crate::store::approvals::OpenHold;
use serde_json::Value;
use std::collections::BTreeSet;

/// Letters of a value that are shown at once; the rest is behind a fold, with how long it is.
const SHOWN_VALUE_CHARS: usize = 240;

/// Something that a call brings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BroughtPart {
    /// All arguments, where they have no names.
    Unnamed,
    /// The argument of the name.
    Argument(String),
    /// What it answers a tool server that asked.
    Answers,
    /// What else travels.
    Beside,
}

/// An argument, or what travels with it.
#[derive(Debug)]
pub(super) struct ArgumentRow {
    /// Its name.
    pub name: VisibleText,
    /// `text`, `number`, …
    pub kind: &'static str,
    /// Its value, or how it begins.
    pub value: VisibleText,
    /// All of it, where that is more.
    pub whole: Option<LongValue>,
    /// As people write it, of a number with a unit.
    pub measured: Option<VisibleText>,
    /// Does it matter first?
    pub is_first: bool,
    /// What it was as the agent sent it, where that is something else.
    pub before: Option<ChangedArgument>,
    /// What it was before operators changed it.
    pub unedited: Option<ChangedArgument>,
}

/// A value that does not fit its row.
#[derive(Debug)]
pub(super) struct LongValue {
    /// Its letters.
    pub chars: usize,
    /// All of it.
    pub text: VisibleText,
}

/// What an argument was before something changed it.
#[derive(Debug)]
pub(super) struct ChangedArgument {
    /// What did.
    pub by: String,
    /// As it was sent, by the agent or on.
    pub sent: VisibleText,
}

impl BroughtPart {
    /// The arguments of `hold`, and those that are not there any more.
    pub(super) fn arguments(hold: &OpenHold) -> Vec<Self> {
        let Some(arguments) = &hold.arguments else {
            return Vec::new();
        };
        let Some(members) = arguments.as_object() else {
            return vec![Self::Unnamed];
        };
        let was = [&hold.original, &hold.unedited].into_iter().flatten();
        let was = was.filter_map(Value::as_object).flat_map(|was| was.keys());
        let gone: BTreeSet<_> = was.filter(|name| !members.contains_key(*name)).collect();
        let names = members.keys().chain(gone);
        names.map(|name| Self::Argument(name.clone())).collect()
    }

    /// What travels beside them.
    pub(super) fn beside(hold: &OpenHold) -> Vec<Self> {
        let parts = [Self::Answers, Self::Beside].into_iter();
        parts.filter(|part| part.now(hold).is_some()).collect()
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Unnamed => "arguments",
            Self::Argument(name) => name,
            Self::Answers => "answers to the tool server",
            Self::Beside => "beside the arguments",
        }
    }

    /// What `hold` has there, as it will be sent.
    pub(super) fn now<'a>(&self, hold: &'a OpenHold) -> Option<&'a Value> {
        match self {
            Self::Unnamed => hold.arguments.as_ref().filter(|value| !value.is_object()),
            Self::Argument(name) => hold.arguments.as_ref()?.get(name),
            Self::Answers => hold.answers.as_ref(),
            Self::Beside => hold.beside.as_ref(),
        }
    }

    /// What its agent had there, and what changed it, if something did.
    fn before<'a>(&self, hold: &'a OpenHold) -> Option<(Option<&'a Value>, &'a [String])> {
        let original = hold.original.as_ref()?;
        let sent = match self {
            Self::Unnamed => Some(original),
            Self::Argument(name) => original.get(name),
            Self::Answers | Self::Beside => return None,
        };
        (sent != self.now(hold)).then_some((sent, hold.changed_by.as_slice()))
    }

    /// What `hold` had there before operators changed it, if they did.
    fn unedited<'a>(&self, hold: &'a OpenHold) -> Option<(Option<&'a Value>, String)> {
        let before = hold.unedited.as_ref()?;
        let was = match self {
            Self::Unnamed => Some(before),
            Self::Argument(name) => before.get(name),
            Self::Answers | Self::Beside => return None,
        };
        (was != self.now(hold)).then(|| (was, editors(hold)))
    }

    /// Whether `hold` has anything there, or had.
    pub(super) fn is_in(&self, hold: &OpenHold) -> bool {
        self.now(hold).is_some() || self.before(hold).is_some() || self.unedited(hold).is_some()
    }

    /// Whether both have the same there, and had.
    pub(super) fn is_same(&self, one: &OpenHold, other: &OpenHold) -> bool {
        self.now(one) == self.now(other)
            && self.before(one) == self.before(other)
            && self.unedited(one) == self.unedited(other)
    }

    /// What is shown of it.
    pub(super) fn row(&self, hold: &OpenHold) -> ArgumentRow {
        let changed = |(was, by): (Option<&Value>, String)| ChangedArgument {
            by,
            sent: VisibleText::of(&was.map_or_else(|| "not there".to_owned(), text_of)),
        };
        let before = self.before(hold).map(|(sent, by)| (sent, by.join(", ")));
        ArgumentRow {
            before: before.map(changed),
            unedited: self.unedited(hold).map(changed),
            ..row(self.name(), self.now(hold).unwrap_or(&Value::Null))
        }
    }
}

/// What is shown of `value`.
pub(super) fn row(name: &str, value: &Value) -> ArgumentRow {
    let kind = match value {
        Value::String(_) => "text",
        Value::Number(_) => "number",
        Value::Bool(_) => "yes or no",
        Value::Null => "nothing",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    let text = text_of(value);
    let chars = text.chars().count();
    let is_long = chars > SHOWN_VALUE_CHARS;
    let head: String = text.chars().take(SHOWN_VALUE_CHARS).collect();
    ArgumentRow {
        name: VisibleText::of(name),
        kind,
        value: VisibleText::of(&head),
        whole: is_long.then(|| LongValue {
            chars,
            text: VisibleText::of(&text),
        }),
        measured: None,
        is_first: false,
        before: None,
        unedited: None,
    }
}

/// The operators who have changed its arguments.
fn editors(hold: &OpenHold) -> String {
    let mut who: Vec<&str> = hold.edits.iter().map(|edit| &*edit.who).collect();
    who.dedup();
    who.join(", ")
}

/// A value as people read it: a text as it is, everything else as JSON.
fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| pretty(value), ToOwned::to_owned)
}
