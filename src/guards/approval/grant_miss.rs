//! Why a standing grant does not cover a call, in words for operators and in a word for programs.

use crate::model::pointer;
use std::fmt;

/// Why a grant does not cover a call, or can cover none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantMiss {
    /// It is for another agent, tenant, user or tool.
    Scope(&'static str),
    /// The tool, or what the policy says of it, is not as it was, or nobody may decide so any more.
    Dead(GrantDeath),
    /// The call brings more than its arguments, or other things than what was shown.
    Beside,
    /// The grant does not speak of the argument.
    Unnamed(String),
    /// The argument is not as the grant says.
    Other(String),
    /// What would be added up is no amount.
    NoAmount(String),
    /// The argument is more than is left of what may be added up.
    OverTotal(String),
    /// No grant stands for a person's word on such a call.
    Ungrantable(String),
    /// The same, because nothing takes the effect back.
    Irreversible,
    /// No person is asked about such a call.
    Unasked,
    /// The argument may be whatever it is by the grant, and not by what counts for such a call.
    LeftOpen(String),
    /// No contract names the tool.
    Uncontracted,
    /// No tool server lists the tool.
    Unlisted,
    /// No operator has approved the tool's definition.
    Unapproved,
    /// No caller has the agent's name and tenant.
    Uncalled,
    /// The agent may not use the tool.
    Unpermitted,
    /// The tool has no such argument.
    Nowhere(String),
    /// The argument can never be as the grant says.
    Impossible {
        /// JSON pointer to it.
        pointer: String,
        /// What it is by its schema, in words that follow its name.
        why: String,
    },
    /// Every call has the member of that name, and the grant does not speak of it.
    Required(String),
}

/// What has changed since a grant was minted, so that it covers no call any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantDeath {
    /// What the policy says of the tool.
    Contract,
    /// The tool's definition.
    Definition,
    /// Who minted it may not decide any more.
    Operator,
}

impl GrantDeath {
    /// As operators read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Contract => "what the policy says of the tool has changed since it was granted",
            Self::Definition => "the tool has changed since it was granted",
            Self::Operator => {
                "the operator who granted it is none any more who may decide about the tool's calls"
            }
        }
    }
}

impl GrantMiss {
    /// Which condition it is that does not hold, in a word for programs.
    pub fn condition(&self) -> &'static str {
        match self {
            Self::Scope(what) => what,
            Self::Dead(GrantDeath::Contract)
            | Self::Ungrantable(_)
            | Self::Unasked
            | Self::Uncontracted => "contract",
            Self::Dead(GrantDeath::Definition) | Self::Unapproved => "definition",
            Self::Dead(GrantDeath::Operator) => "operator",
            Self::Beside => "beside",
            Self::Unnamed(_)
            | Self::Other(_)
            | Self::LeftOpen(_)
            | Self::Nowhere(_)
            | Self::Impossible { .. }
            | Self::Required(_) => "argument",
            Self::NoAmount(_) | Self::OverTotal(_) => "total",
            Self::Irreversible => "irreversible",
            Self::Unlisted => "tool",
            Self::Uncalled | Self::Unpermitted => "agent",
        }
    }

    /// JSON pointer to the argument that it is about, if it is about one; empty for all of them.
    pub fn pointer(&self) -> Option<String> {
        match self {
            Self::Unnamed(pointer)
            | Self::Other(pointer)
            | Self::NoAmount(pointer)
            | Self::OverTotal(pointer)
            | Self::LeftOpen(pointer)
            | Self::Nowhere(pointer)
            | Self::Impossible { pointer, .. } => Some(pointer.clone()),
            Self::Required(name) => Some(pointer::of(std::slice::from_ref(name))),
            Self::Scope(_)
            | Self::Dead(_)
            | Self::Beside
            | Self::Ungrantable(_)
            | Self::Irreversible
            | Self::Unasked
            | Self::Uncontracted
            | Self::Unlisted
            | Self::Unapproved
            | Self::Uncalled
            | Self::Unpermitted => None,
        }
    }
}

impl fmt::Display for GrantMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: &str = match self {
            Self::Scope(what) => return write!(f, "it is for another {what}"),
            Self::Dead(death) => death.words(),
            Self::Ungrantable(why) => why,
            Self::Unnamed(pointer) if pointer.is_empty() => {
                "it says nothing of the arguments as a whole"
            }
            Self::Other(pointer) if pointer.is_empty() => {
                "the arguments are not exactly those that were granted"
            }
            Self::Unnamed(pointer) => {
                return write!(f, "it does not speak of the argument `{pointer}`");
            }
            Self::Other(pointer) => {
                return write!(f, "the argument `{pointer}` is not as it was granted");
            }
            Self::LeftOpen(pointer) => {
                let rest = "which the contract does not for such a call";
                return write!(f, "it leaves the argument `{pointer}` open, {rest}");
            }
            Self::NoAmount(pointer) => {
                let rest = "is no amount that can be added up";
                return write!(f, "the argument `{pointer}` {rest}");
            }
            Self::OverTotal(pointer) => {
                return write!(
                    f,
                    "the argument `{pointer}` is more than is left of its total"
                );
            }
            Self::Nowhere(pointer) => {
                return write!(f, "the tool has no argument `{pointer}`");
            }
            Self::Impossible { pointer, why } => {
                return write!(f, "the argument `{pointer}` {why}");
            }
            Self::Required(name) => {
                let pointer = pointer::of(std::slice::from_ref(name));
                let rest = "of which it does not speak";
                return write!(f, "every call has the argument `{pointer}`, {rest}");
            }
            Self::Beside => "the call brings other things beside its arguments",
            Self::Irreversible => "the effect is irreversible, so a person has to allow each call",
            Self::Unasked => {
                "nobody is asked about calls of the tool, so there is nothing to grant"
            }
            Self::Uncontracted => "no contract names the tool",
            Self::Unlisted => "no tool server lists the tool now, so nothing can be bound to it",
            Self::Unapproved => "no operator has approved the tool as it is",
            Self::Uncalled => "no agent of that name and tenant is configured",
            Self::Unpermitted => "the agent may not use the tool",
        };
        f.write_str(words)
    }
}
