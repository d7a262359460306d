//! Every "no" an agent can read. Codes are stable, `snake_case`, and listed in the README; a test compares.

use std::sync::Arc;

/// May the agent try again?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same call will be refused again.
    Never,
    /// The same call may be sent again as it is.
    SameKey,
    /// Again after this many milliseconds.
    AfterMs(u64),
}

impl Retry {
    /// The word on the wire.
    pub fn word(self) -> String {
        match self {
            Self::Never => "never".to_owned(),
            Self::SameKey => "same_key".to_owned(),
            Self::AfterMs(ms) => format!("after_ms:{ms}"),
        }
    }
}

/// Why a call was not answered by the tool. Never holds a value of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Unknown, hidden or without a contract: one answer for all (003-21).
    ToolNotAllowlisted,
    /// The arguments break the tool's schema or the contract's.
    SchemaInvalid {
        /// JSON pointer to the argument.
        pointer: String,
        /// What would have been right.
        expected: String,
    },
    /// The caller has none of the roles the contract asks for (003-22).
    RbacDenied {
        /// The roles of which one is needed.
        needed: Vec<String>,
    },
    /// The call names another tenant than the caller's (003-23).
    TenantMismatch {
        /// JSON pointer to the tenant argument.
        pointer: String,
    },
    /// The call names a resource outside the caller's reach (003-100).
    ResourceDenied {
        /// JSON pointer to the resource argument.
        pointer: String,
    },
    /// A rule of the contract is true (its own code).
    Rule {
        /// The code the contract gives.
        code: Arc<str>,
        /// What the contract says is expected; its author's words.
        expected: String,
    },
    /// The tool server could not be reached; nothing was sent.
    UpstreamUnavailable,
    /// The call was sent and no answer came.
    OutcomeUnknown,
    /// A call that changes nothing broke off; it is safe to repeat.
    UpstreamFailed,
    /// The agent cancelled the call or went away.
    Cancelled,
    /// Too many calls at once.
    Overloaded,
    /// The ledger cannot be written.
    StoreUnavailable,
    /// toolgate broke before anything was sent.
    InternalError,
}

/// The codes that are not a contract's own, with what each means and what an agent can do.
pub const CODES: &[(&str, &str, &str)] = &[
    (
        "tool_not_allowlisted",
        "the tool is unknown, hidden from this caller, or has no contract",
        "list the tools and use one of those",
    ),
    (
        "schema_invalid",
        "an argument breaks the tool's schema or its contract",
        "correct the argument that the pointer names",
    ),
    (
        "rbac_denied",
        "the caller has none of the roles that the contract asks for",
        "ask an operator for one of the roles, or use another tool",
    ),
    ("tenant_mismatch", "the call names another tenant than the caller's", "use the caller's own tenant"),
    ("resource_denied", "the call names a resource outside the caller's reach", "use a resource of the caller's own"),
    (
        "upstream_unavailable",
        "the tool server could not be reached; nothing was sent",
        "send the same call again later",
    ),
    (
        "outcome_unknown",
        "the call was sent and no answer came: it may have run",
        "don't repeat it; ask an operator, naming the action id",
    ),
    ("upstream_failed", "the tool server broke off a call that changes nothing", "send the same call again"),
    ("cancelled", "the agent cancelled the call or went away", "nothing; call again if the answer is still wanted"),
    ("overloaded", "too many calls are in flight", "send the same call again after the given time"),
    (
        "internal_error",
        "toolgate itself broke before anything was sent",
        "don't repeat it; tell an operator, naming the action id",
    ),
    (
        "store_unavailable",
        "the ledger cannot be written, so no side effect may run",
        "send the same call again later; tell an operator",
    ),
];

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::ToolNotAllowlisted => "tool_not_allowlisted",
            Self::SchemaInvalid { .. } => "schema_invalid",
            Self::RbacDenied { .. } => "rbac_denied",
            Self::TenantMismatch { .. } => "tenant_mismatch",
            Self::ResourceDenied { .. } => "resource_denied",
            Self::Rule { code, .. } => code,
            Self::UpstreamUnavailable => "upstream_unavailable",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::UpstreamFailed => "upstream_failed",
            Self::Cancelled => "cancelled",
            Self::Overloaded => "overloaded",
            Self::StoreUnavailable => "store_unavailable",
            Self::InternalError => "internal_error",
        }
    }

    /// The code of a contract's rule; none for toolgate's own.
    pub fn contract_code(&self) -> Option<&Arc<str>> {
        match self {
            Self::Rule { code, .. } => Some(code),
            Self::ToolNotAllowlisted
            | Self::SchemaInvalid { .. }
            | Self::RbacDenied { .. }
            | Self::TenantMismatch { .. }
            | Self::ResourceDenied { .. }
            | Self::UpstreamUnavailable
            | Self::OutcomeUnknown
            | Self::UpstreamFailed
            | Self::Cancelled
            | Self::Overloaded
            | Self::StoreUnavailable
            | Self::InternalError => None,
        }
    }

    /// toolgate's own code, as listed in [`CODES`]; none for a contract's.
    pub fn own_code(&self) -> Option<&'static str> {
        let code = self.contract_code().is_none().then(|| self.code())?;
        CODES.iter().map(|(known, ..)| *known).find(|known| *known == code)
    }

    /// JSON pointer to the argument at fault.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::SchemaInvalid { pointer, .. }
            | Self::TenantMismatch { pointer }
            | Self::ResourceDenied { pointer } => Some(pointer),
            Self::ToolNotAllowlisted
            | Self::RbacDenied { .. }
            | Self::Rule { .. }
            | Self::UpstreamUnavailable
            | Self::OutcomeUnknown
            | Self::UpstreamFailed
            | Self::Cancelled
            | Self::Overloaded
            | Self::StoreUnavailable
            | Self::InternalError => None,
        }
    }

    /// Whether and how to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::UpstreamUnavailable | Self::UpstreamFailed | Self::Cancelled | Self::StoreUnavailable => {
                Retry::SameKey
            }
            Self::Overloaded => Retry::AfterMs(1000),
            Self::ToolNotAllowlisted
            | Self::SchemaInvalid { .. }
            | Self::RbacDenied { .. }
            | Self::TenantMismatch { .. }
            | Self::ResourceDenied { .. }
            | Self::Rule { .. }
            | Self::InternalError
            | Self::OutcomeUnknown => Retry::Never,
        }
    }

    /// Whether the tool may have run.
    pub fn may_have_run(&self) -> bool {
        matches!(self, Self::OutcomeUnknown | Self::UpstreamFailed | Self::Cancelled)
    }

    /// One sentence for the model: the code, where, what was expected, what to do, and whether the tool ran.
    pub fn words(&self) -> String {
        let code = self.code();
        let (what, next) = self.explanation();
        let ran = if self.may_have_run() { "The tool may have run." } else { "The tool did not run." };
        match self.pointer().filter(|pointer| !pointer.is_empty()) {
            Some(pointer) => format!("{code} at {pointer}: {what}. {ran} {next}"),
            None => format!("{code}: {what}. {ran} {next}"),
        }
    }

    fn explanation(&self) -> (String, String) {
        let (what, next): (String, &str) = match self {
            Self::ToolNotAllowlisted => {
                ("this tool is not available to this caller".into(), "List the tools and use one of those.")
            }
            Self::SchemaInvalid { expected, .. } => {
                (format!("expected {expected}"), "Correct the argument and call again.")
            }
            Self::RbacDenied { needed } => (
                format!("the caller needs one of the roles: {}", needed.join(", ")),
                "Ask an operator for the role, or use another tool.",
            ),
            Self::TenantMismatch { .. } => {
                ("expected the caller's own tenant".into(), "Call again with the caller's own tenant.")
            }
            Self::ResourceDenied { .. } => {
                ("expected a resource of the caller's own".into(), "Call again with a resource of the caller's own.")
            }
            Self::Rule { expected, .. } => {
                (expected.clone(), "Change the arguments so that the rule holds, or ask an operator.")
            }
            Self::UpstreamUnavailable => {
                ("the tool server cannot be reached; nothing was sent".into(), "Send the same call again later.")
            }
            Self::OutcomeUnknown => (
                "the call was sent and no answer came".into(),
                "Don't send it again; report the action id to an operator.",
            ),
            Self::UpstreamFailed => {
                ("the tool server broke off; the tool changes nothing".into(), "Send the same call again.")
            }
            Self::Cancelled => ("the call was cancelled".into(), "Call again if the answer is still wanted."),
            Self::Overloaded => ("too many calls are in flight".into(), "Send the same call again in a second."),
            Self::InternalError => (
                "toolgate itself broke; nothing was sent".into(),
                "Don't send it again; report the action id to an operator.",
            ),
            Self::StoreUnavailable => {
                ("the ledger cannot be written".into(), "Send the same call again later and tell an operator.")
            }
        };
        (what, next.to_owned())
    }
}
