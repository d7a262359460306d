//! A held call as a person has to see it to decide in ten seconds: what happens, with which
//! arguments, for whom, why it is asked, and what can be done about it. The words are the
//! contract's; what the agent says is shown as what it is, values and names that are quoted.

use super::DENY_REASONS;
use super::editing::{self, EditField};
use super::effect::Effect;
use super::visible::VisibleText;
use crate::admin::OperatorsDoor;
use crate::admin::operators::OperatorIdentity;
use crate::mcp::pretty::pretty;
use crate::store::approvals::OpenHold;
use serde_json::Value;

/// Letters of a value that are shown at once; the rest is behind a fold, with how long it is.
const SHOWN_VALUE_CHARS: usize = 240;

/// A held call on its page.
#[derive(Debug)]
pub(super) struct ApprovalCard {
    /// As operators read it elsewhere.
    pub hold: OpenHold,
    /// What kind of thing happens.
    pub effect: Effect,
    /// The name of the tool, without its server's.
    pub tool: VisibleText,
    /// The server's.
    pub server: VisibleText,
    /// All arguments.
    pub arguments: Vec<ArgumentRow>,
    /// What else travels, by what it is.
    pub beside: Vec<ArgumentRow>,
    /// Whether the arguments are for who asks to see.
    pub is_open: bool,
    /// Whether who asks may decide.
    pub may_decide: bool,
    /// The operator who is away, and for whom who asks would decide.
    pub on_behalf: Option<String>,
    /// Whether calls like it can be allowed, too.
    pub can_grant: bool,
    /// Arguments that who asks may change.
    pub editable: Vec<EditField>,
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
    pub measured: Option<String>,
    /// Does it matter first?
    pub is_first: bool,
    /// What it was as the agent sent it, where that is something else.
    pub before: Option<VisibleText>,
    /// What it was before an operator changed it.
    pub unedited: Option<VisibleText>,
}

/// A value that does not fit its row.
#[derive(Debug)]
pub(super) struct LongValue {
    /// Its letters.
    pub chars: usize,
    /// All of it.
    pub text: VisibleText,
}

impl ApprovalCard {
    /// The card of `hold` for `known`, who may see it.
    pub(super) fn of(hold: OpenHold, known: &OperatorIdentity, door: &OperatorsDoor) -> Self {
        let right = known.right_to(&hold, door.switches.store.now());
        let may_decide = hold.state == "pending" && right.is_some();
        let is_open = door.operators.audits(known) || right.is_some();
        let (server, tool) = hold.tool.split_once("__").unwrap_or(("", &hold.tool));
        let answers = hold
            .answers
            .iter()
            .map(|value| ("answers to the tool server", value));
        let more = hold
            .beside
            .iter()
            .map(|value| ("beside the arguments", value));
        Self {
            effect: Effect::of(&hold.actions, hold.irreversible),
            tool: VisibleText::of(tool),
            server: VisibleText::of(server),
            arguments: rows(&hold),
            beside: answers
                .chain(more)
                .map(|(name, value)| row(name, value))
                .collect(),
            is_open,
            may_decide,
            on_behalf: right.and_then(|right| right.on_behalf),
            can_grant: false,
            editable: if may_decide && is_open {
                editing::fields(&hold)
            } else {
                Vec::new()
            },
            hold,
        }
    }

    /// The arguments that are numbers, which may be allowed up to a bound: name and value.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (String, String)> {
        let members = self.hold.arguments.as_ref().and_then(Value::as_object);
        let numbers = members
            .into_iter()
            .flatten()
            .filter(|(_, value)| value.is_number());
        numbers.map(|(name, value)| (name.clone(), value.to_string()))
    }

    /// Reasons for a denial that are offered: its contract's, or those that fit everywhere.
    pub(super) fn reasons(&self) -> Vec<String> {
        let own = &self.hold.terms.deny_reasons;
        if own.is_empty() {
            DENY_REASONS.map(str::to_owned).to_vec()
        } else {
            own.clone()
        }
    }

    /// The operators who have changed its arguments.
    pub(super) fn editors(&self) -> String {
        let mut who: Vec<&str> = self.hold.edits.iter().map(|edit| &*edit.who).collect();
        who.dedup();
        who.join(", ")
    }

    /// Whether `known` has allowed it already.
    pub(super) fn is_allowed_by(&self, known: &str) -> bool {
        self.hold.allowed_by.iter().any(|name| name == known)
    }

    /// What happens once it is allowed, and whether that can be undone.
    pub(super) fn consequence(&self) -> String {
        let undone = match &self.hold.undo {
            _ if self.hold.irreversible => "It cannot be undone.".to_owned(),
            Some(how) => format!("It can be undone: {how}."),
            None => "The contract says nothing of undoing it.".to_owned(),
        };
        format!(
            "Runs once, exactly as shown, within {} s of the last word that is needed. {undone}",
            self.hold.execute_within
        )
    }
}

/// One row for each argument, those first that the contract names.
fn rows(hold: &OpenHold) -> Vec<ArgumentRow> {
    let Some(arguments) = &hold.arguments else {
        return Vec::new();
    };
    let first = hold.show.iter().filter_map(|shown| {
        let value = arguments.pointer(shown.pointer())?;
        Some(ArgumentRow {
            measured: shown.measured(arguments),
            is_first: true,
            ..row(shown.pointer().trim_start_matches('/'), value)
        })
    });
    let mut rows: Vec<ArgumentRow> = first.collect();
    let members = arguments.as_object();
    match members {
        Some(members) => rows.extend(members.iter().map(|(name, value)| ArgumentRow {
            before: before(hold.original.as_ref(), name, Some(value)),
            unedited: before(hold.unedited.as_ref(), name, Some(value)),
            ..row(name, value)
        })),
        None => rows.push(row("arguments", arguments)),
    }
    let was = hold.original.as_ref().and_then(Value::as_object);
    let gone = was
        .into_iter()
        .flatten()
        .filter(|(name, _)| arguments.get(name).is_none());
    rows.extend(gone.map(|(name, _)| ArgumentRow {
        before: before(hold.original.as_ref(), name, None),
        ..row(name, &Value::Null)
    }));
    rows
}

/// What the argument was among those of before, if that is not `now`.
fn before(all: Option<&Value>, name: &str, now: Option<&Value>) -> Option<VisibleText> {
    let was = all?.get(name);
    (was != now).then(|| VisibleText::of(&was.map_or_else(|| "not there".to_owned(), text_of)))
}

/// A value as people read it: a text as it is, everything else as JSON.
pub(super) fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| pretty(value), ToOwned::to_owned)
}

fn row(name: &str, value: &Value) -> ArgumentRow {
    let (kind, text) = match value {
        Value::String(text) => ("text", text.clone()),
        Value::Number(number) => ("number", number.to_string()),
        Value::Bool(_) => ("yes or no", value.to_string()),
        Value::Null => ("nothing", "null".to_owned()),
        Value::Array(_) => ("list", pretty(value)),
        Value::Object(_) => ("object", pretty(value)),
    };
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
