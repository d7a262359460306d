//! What people say of calls, as events have it.

use super::super::Millis;
use super::super::grant::Grant;
use super::super::hold::{Hold, HoldPhase, OperatorDecision, OperatorEdit};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call is held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallHeld {
    /// A digest over what the decision is bound to.
    pub key: Digest,
    /// What is held.
    pub hold: Hold,
}

/// An operator decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldDecided {
    /// The key under which the call is held.
    pub key: Digest,
    /// The hold that was meant.
    pub id: ActionId,
    /// What was said.
    pub decision: OperatorDecision,
    /// What came of it.
    pub phase: HoldPhase,
}

/// An operator changed the arguments of a held call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldEdited {
    /// The key under which the call is held.
    pub key: Digest,
    /// The hold that was meant.
    pub id: ActionId,
    /// Who changed what, and why.
    pub edit: OperatorEdit,
    /// All arguments as they are now. Kept behind the line that says everything else.
    #[serde(skip)]
    pub arguments: Value,
}

impl HoldEdited {
    /// Reads the arguments, which stand behind the rest.
    pub(super) fn fill(&mut self, body: Bytes) -> serde_json::Result<()> {
        let body = Text::read(body, &SERVER_JSON_LIMITS).map_err(serde::de::Error::custom)?;
        self.arguments = body.value();
        Ok(())
    }
}

/// An operator gave a held call more time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldExtended {
    /// The key under which the call is held.
    pub key: Digest,
    /// The hold that was meant.
    pub id: ActionId,
    /// The operator.
    pub who: String,
    /// The operator's reason, if one was given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// Nobody can decide from then on.
    pub approve_by: Millis,
    /// When.
    pub at: Millis,
}

/// A standing grant begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GrantMinted {
    /// The grant.
    pub grant: Grant,
    /// The held call that was shown, and is allowed with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allowed: Option<HoldDecided>,
}
