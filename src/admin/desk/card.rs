//! A held call as a person has to see it to decide in ten seconds: what happens, with which
//! arguments, for whom, why it is asked, and what can be done about it. The words are the
//! contract's; what the agent says is shown as what it is, values and names that are quoted.

use super::DENY_REASONS;
use super::brought::{ArgumentRow, BroughtPart, row};
use super::editing::{self, EditField};
use super::effect::Effect;
use super::visible::VisibleText;
use crate::admin::OperatorsDoor;
use crate::admin::approvals::word_of;
use crate::admin::operators::OperatorIdentity;
use crate::model::shown_argument::ShownArgument;
use crate::store::approvals::{DecisionView, OpenHold};
use crate::store::operator::time;
use serde_json::Value;

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
    /// When it is as it is shown here, by the clock that decides whether its time is over.
    pub now: String,
    /// Arguments that who asks may change.
    pub editable: Vec<EditField>,
}

impl ApprovalCard {
    /// The card of `hold` for `known`, who may see it.
    pub(super) fn of(hold: OpenHold, known: &OperatorIdentity, door: &OperatorsDoor) -> Self {
        let now = door.switches.store.now();
        let right = known.right_to(&hold, now);
        let may_decide = hold.state == "pending" && right.is_some();
        let is_open = door.operators.audits(known) || right.is_some();
        let (server, tool) = hold.tool.split_once("__").unwrap_or(("", &hold.tool));
        let beside = BroughtPart::beside(&hold);
        Self {
            effect: Effect::of(&hold.actions, hold.irreversible),
            tool: VisibleText::of(tool),
            server: VisibleText::of(server),
            arguments: rows(&hold),
            beside: beside.iter().map(|part| part.row(&hold)).collect(),
            is_open,
            may_decide,
            on_behalf: right.and_then(|right| right.on_behalf),
            can_grant: false,
            now: time(now),
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

    /// Whether `known` has allowed it already.
    pub(super) fn is_allowed_by(&self, known: &str) -> bool {
        self.hold.allowed_by.iter().any(|name| name == known)
    }

    /// What was done with it, in a word.
    pub(super) fn word_of(&self, said: &DecisionView) -> &'static str {
        word_of(&self.hold, said)
    }

    /// What happens once it is allowed, and whether and until when that can be undone; none where nothing will.
    pub(super) fn consequence(&self) -> Option<String> {
        if !["pending", "allowed"].contains(&self.hold.state.as_str()) {
            return None;
        }
        let undone = match (self.hold.undo_words(), self.hold.undo_within) {
            _ if self.hold.irreversible => "It cannot be undone.".to_owned(),
            (Some(how), Some(_)) => format!("It can be undone: {how}."),
            (Some(how), None) => format!("How it is undone: {how}."),
            (None, _) => "The contract says nothing of undoing it.".to_owned(),
        };
        Some(format!(
            "Runs once, exactly as shown, within {} s of the last word that is needed. {undone}",
            self.hold.execute_within
        ))
    }
}

/// One row for each argument, those first that the contract names.
fn rows(hold: &OpenHold) -> Vec<ArgumentRow> {
    let first = hold.show.iter().flat_map(|shown| first_rows(hold, shown));
    let all = BroughtPart::arguments(hold);
    first.chain(all.iter().map(|part| part.row(hold))).collect()
}

/// What matters first: a number with its unit is one row, and what only the agent calls a currency is a row of
/// its own.
fn first_rows(hold: &OpenHold, shown: &ShownArgument) -> Vec<ArgumentRow> {
    let Some(arguments) = &hold.arguments else {
        return Vec::new();
    };
    let measured = shown.measured(arguments);
    let beside = shown.beside().filter(|_| measured.is_none());
    let named = |pointer: &str| {
        let value = arguments.pointer(pointer)?;
        Some(ArgumentRow {
            is_first: true,
            ..row(pointer.trim_start_matches('/'), value)
        })
    };
    let number = named(shown.pointer()).map(|row| ArgumentRow {
        measured: measured.as_deref().map(VisibleText::of),
        ..row
    });
    number.into_iter().chain(beside.and_then(named)).collect()
}
