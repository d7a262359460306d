//! What is to be said of a refusal, all in one: whether a family of this folder says it, or the
//! guard that refuses.

use super::Refusal;
use crate::model::ids::ActionId;
use std::borrow::Cow;

/// May the agent try again?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same call will be refused again.
    Never,
    /// The same call may be sent again as it is.
    SameKey,
    /// Only with a key that was not used before, and only if a second execution is meant.
    NewKey,
    /// The same call, once a person has allowed it; sent before, it waits for that. To be sent again
    /// after this many milliseconds.
    WhenApproved(u64),
    /// Again after this many milliseconds.
    AfterMs(u64),
}

impl Retry {
    /// The word on the wire.
    pub fn word(self) -> String {
        match self {
            Self::Never => "never".to_owned(),
            Self::SameKey => "same_key".to_owned(),
            Self::NewKey => "new_key".to_owned(),
            Self::WhenApproved(_) => "when_approved".to_owned(),
            Self::AfterMs(ms) => format!("after_ms:{ms}"),
        }
    }

    /// After how many milliseconds the same call may be sent again, where that is said.
    pub fn after_ms(self) -> Option<u64> {
        match self {
            Self::WhenApproved(ms) | Self::AfterMs(ms) => Some(ms),
            Self::Never | Self::SameKey | Self::NewKey => None,
        }
    }
}

/// Has the tool run?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// Not with this call.
    No,
    /// With a call before, and not again.
    NotAgain,
    /// With the call that is in flight, and only with that.
    Once,
    /// Nobody knows.
    Maybe,
    /// It has.
    Yes,
}

impl Ran {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::No => "The tool did not run.",
            Self::NotAgain => "The tool did not run again.",
            Self::Once => "The tool runs once.",
            Self::Maybe => "The tool may have run.",
            Self::Yes => "The tool has run.",
        }
    }
}

/// What a code is about, for the commands that compare: replays and reports (003-117).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// The policy does not let this caller make this call, whatever was called before: identity,
    /// permission, schema, rule, hook.
    Violation,
    /// The task has used up what it may, or the tool or the caller what it may in a span of time.
    Overrun,
    /// Anything else: keys, sessions, loops, drafts, people, secrets, tool servers, toolgate
    /// itself.
    Other,
}

/// A code of toolgate's own, as `docs/refusals.md` lists it. Several refusals may have one.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusalCode {
    /// Stable, `snake_case`.
    pub code: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What an agent can do.
    pub remedy: &'static str,
    /// What it is about.
    pub(crate) kind: RefusalKind,
}

/// One refusal of one call. Never holds a value of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalFacts {
    /// The code; none: a contract's own.
    pub(crate) code: Option<&'static RefusalCode>,
    /// What is wrong, for the model; part of a sentence.
    pub(crate) what: Cow<'static, str>,
    /// What to do, for the model; whole sentences.
    pub(crate) next: Cow<'static, str>,
    /// Whether and how to try again.
    pub(crate) retry: Retry,
    /// Whether the tool has run.
    pub(crate) ran: Ran,
    /// It follows from the policy and the call, unless trying again helps.
    pub(crate) is_of_policy: bool,
    /// JSON pointer to the argument at fault; a guard's own refusal says it here.
    pub(crate) pointer: Option<String>,
    /// What was used up, as budgets name it.
    pub(crate) dimension: Option<&'static str>,
    /// The hold that it is about, by which operators know it.
    pub(crate) hold: Option<ActionId>,
}

impl RefusalFacts {
    /// The policy's last word on a call that did not run; whatever is else is written over it.
    pub(crate) fn new(
        code: impl Into<Option<&'static RefusalCode>>,
        what: impl Into<Cow<'static, str>>,
        next: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            code: code.into(),
            what: what.into(),
            next: next.into(),
            retry: Retry::Never,
            ran: Ran::No,
            is_of_policy: true,
            pointer: None,
            dimension: None,
            hold: None,
        }
    }
}

/// A refusal that only its guard knows.
impl From<RefusalFacts> for Refusal {
    fn from(facts: RefusalFacts) -> Self {
        Self::OfGuard(Box::new(facts))
    }
}
