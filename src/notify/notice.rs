//! What people are told: who asks for what, and what came of it.

use super::visible::visible;
use crate::store::state::Millis;
use crate::store::state::claim::Claim;
use crate::store::state::hold::Hold;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The word for what cannot be undone, beside the actions that contracts declare.
pub(super) const IRREVERSIBLE_EFFECT: &str = "irreversible";
/// Bytes of a name, such as that of a tool.
const NAME_BYTES_MAX: usize = 128;
/// Bytes of an argument that is told, and of the pointer to it.
const MARKED_BYTES_MAX: usize = 96;
/// Roles and effects that are told.
const MAX_LISTED: usize = 8;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NoticeKind {
    /// A call is held.
    Requested,
    /// Operators have allowed or denied it.
    Decided,
    /// Nobody has decided in time, or what was allowed did not run in time.
    Expired,
    /// What was allowed has come to an end.
    Executed,
    /// Nobody knows whether a call has run.
    Unknown,
    /// It is held, and nobody has decided for long.
    Escalated,
}

impl NoticeKind {
    /// The word for programs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Decided => "decided",
            Self::Expired => "expired",
            Self::Executed => "executed",
            Self::Unknown => "unknown",
            Self::Escalated => "escalated",
        }
    }

    /// Whether a person is to do something.
    pub(super) fn is_urgent(self) -> bool {
        match self {
            Self::Requested | Self::Escalated | Self::Unknown => true,
            Self::Decided | Self::Expired | Self::Executed => false,
        }
    }
}

/// What it is about. All texts are as they may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NoticeSubject {
    /// The approval; of a call that was not held, the call.
    pub(super) id: String,
    /// Whether it is an approval.
    pub(super) is_held: bool,
    /// `server__tool`.
    pub(super) tool: String,
    /// Who asks.
    pub(super) agent: String,
    /// Of which tenant.
    pub(super) tenant: Option<String>,
    /// For which user.
    pub(super) user: Option<String>,
    /// What the contract says that it does: its actions, and whether it cannot be undone.
    pub(super) effects: Vec<String>,
    /// Operators with one of these roles may decide.
    pub(super) roles: Vec<String>,
    /// Until when.
    pub(super) approve_by: Option<Millis>,
    /// The arguments that the contract marks, by pointer.
    pub(super) marked: Vec<[String; 2]>,
}

/// One thing that people are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notice {
    /// By which a receiver knows it again: the same whenever it is told.
    pub(super) id: String,
    /// What happened.
    pub(super) kind: NoticeKind,
    /// When.
    pub(super) at: Millis,
    /// How the call stands with it, in a word.
    pub(super) state: String,
    /// The operators who said so.
    pub(super) who: Vec<String>,
    /// What it is about.
    pub(super) about: NoticeSubject,
}

impl NoticeSubject {
    /// A call that is held.
    pub(super) fn held(hold: &Hold) -> Self {
        let question = &hold.question;
        let irreversible = question.irreversible.then_some(IRREVERSIBLE_EFFECT);
        let effects = question
            .actions
            .iter()
            .map(String::as_str)
            .chain(irreversible);
        Self {
            id: hold.id.to_string(),
            is_held: true,
            tool: name(question.tool.as_str()),
            agent: name(&question.agent),
            tenant: question.tenant.as_deref().map(name),
            user: question.user.as_deref().map(name),
            effects: effects.take(MAX_LISTED).map(name).collect(),
            roles: hold.roles.iter().take(MAX_LISTED).map(name).collect(),
            approve_by: Some(hold.approve_by),
            marked: marked(&question.notify, &question.arguments),
        }
    }

    /// An operator has changed its arguments.
    pub(super) fn edit(&mut self, arguments: &Value) {
        let pointers = self.marked.iter().map(|[pointer, _]| pointer.clone());
        self.marked = marked(&pointers.collect::<Vec<_>>(), arguments);
    }

    /// A call of which nobody was asked.
    pub(super) fn of(claim: &Claim) -> Self {
        Self {
            id: claim.action.to_string(),
            is_held: false,
            tool: name(claim.tool.as_str()),
            agent: name(&claim.agent),
            tenant: None,
            user: claim.user.as_deref().map(name),
            effects: Vec::new(),
            roles: Vec::new(),
            approve_by: None,
            marked: Vec::new(),
        }
    }

    /// What happened to it.
    pub(super) fn notice(&self, kind: NoticeKind, at: Millis, state: &str) -> Notice {
        Notice {
            id: format!("{}.{}", self.id, kind.word()),
            kind,
            at,
            state: state.to_owned(),
            who: Vec::new(),
            about: self.clone(),
        }
    }

    /// The same with no text longer than `most` bytes, and without arguments.
    fn shortened(&self, most: usize) -> Self {
        let cut = |text: &String| visible(text, most);
        Self {
            id: self.id.clone(),
            is_held: self.is_held,
            tool: cut(&self.tool),
            agent: cut(&self.agent),
            tenant: self.tenant.as_ref().map(cut),
            user: self.user.as_ref().map(cut),
            effects: self.effects.iter().map(cut).collect(),
            roles: self.roles.iter().map(cut).collect(),
            approve_by: self.approve_by,
            marked: Vec::new(),
        }
    }
}

impl Notice {
    /// The same, said by `who`.
    pub(super) fn by(self, who: &[String]) -> Self {
        let who = who.iter().take(MAX_LISTED).map(name).collect();
        Self { who, ..self }
    }

    /// The same in fewer bytes.
    pub(super) fn shortened(&self, most: usize) -> Self {
        let who = self.who.iter().map(|who| visible(who, most)).collect();
        Self {
            about: self.about.shortened(most),
            who,
            ..self.clone()
        }
    }
}

fn name(text: impl AsRef<str>) -> String {
    visible(text.as_ref(), NAME_BYTES_MAX)
}

fn marked(pointers: &[String], arguments: &Value) -> Vec<[String; 2]> {
    let found = pointers
        .iter()
        .take(MAX_LISTED)
        .filter_map(|pointer| Some((pointer, arguments.pointer(pointer)?)));
    let shown = found.map(|(pointer, value)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        [pointer, &value].map(|text| visible(text, MARKED_BYTES_MAX))
    });
    shown.collect()
}
