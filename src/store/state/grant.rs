//! A standing grant (guarantees §7): an operator's word that lets calls like one run without being
//! asked about each. Here it is counted; whether a call is like it is judged by the guard of approvals.

use super::Millis;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::amount::Amount;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use std::sync::Arc;

/// Constraints of one grant.
pub const MAX_GRANT_CONSTRAINTS: usize = 32;
/// Bytes of a grant's constraints, as JSON. With it a grant fits a value of the index (guarantees §8).
pub const MAX_GRANT_BYTES: usize = 16 << 10;
/// Milliseconds for which a grant can still be shown after its time: 7 days.
const ENDED_GRANT_RETENTION_MS: Millis = 7 * 24 * 3600 * 1000;

/// A standing grant. Its key is [`Grant::key_of`] its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id.
    pub id: ActionId,
    /// When it was minted.
    pub minted: Millis,
    /// From then on it covers nothing.
    pub until: Millis,
    /// How many calls may begin with it.
    pub max_uses: u64,
    /// Whose calls of what it covers.
    pub scope: GrantScope,
    /// What it says of the arguments. Records keep it behind the line that says everything else, so that
    /// who reads events reads no arguments.
    #[serde(skip)]
    pub constraints: Arc<[ArgumentConstraint]>,
    /// What all its calls may move together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total: Option<GrantTotal>,
    /// The operator who minted it.
    pub who: String,
    /// Why.
    pub why: String,
    /// Operators with one of these roles could decide about the tool's calls when it was minted.
    pub roles: Vec<String>,
    /// The held call that was shown, if one was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shown: Option<ActionId>,
    /// How many calls have begun with it, without those that are known not to have run.
    #[serde(default)]
    pub uses: u64,
    /// What they have moved.
    #[serde(default)]
    pub moved: Amount,
    /// When the last of them began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<Millis>,
    /// That an operator has taken it back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked: Option<GrantRevocation>,
}

/// Whose calls of what a grant covers; all of it has to be the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantScope {
    /// The agent.
    pub agent: String,
    /// Its tenant; none: an agent without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// The user for whom it calls; none: calls that name no user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// `server__tool`.
    pub tool: ToolName,
    /// SHA-256 of its definition, in hex.
    pub schema_hash: String,
    /// What of the policy it is bound to, in hex.
    pub bound_to: String,
    /// SHA-256 of what else of the call travels; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside: Option<Digest>,
}

/// What a grant says of one argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArgumentConstraint {
    /// JSON pointer; the empty one is all arguments.
    pub pointer: String,
    /// Which steps of the pointer, counted from 0, are digits and name a member of an object. Every other step of
    /// digits names an item of an array.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub numbered_members: Vec<usize>,
    /// What the argument has to be.
    pub is: ArgumentRule,
}

/// What an argument has to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRule {
    /// This, to the last digit.
    Equals(Value),
    /// One of these.
    OneOf(Vec<Value>),
    /// A number from 0 to this.
    AtMost(Number),
    /// A text that begins so, and has no `..` between slashes behind that.
    StartsWith(String),
    /// Anything, or not there.
    Any,
}

/// What all calls of a grant may move together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTotal {
    /// JSON pointer to the argument that is added up.
    pub pointer: String,
    /// The largest sum; more than 0.
    pub at_most: Amount,
}

/// That an operator has taken a grant back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRevocation {
    /// The operator.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Millis,
}

/// A standing grant is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRevoked {
    /// The grant.
    pub id: ActionId,
    /// By whom, and why.
    pub revoked: GrantRevocation,
}

/// What one call takes of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantUse {
    /// The grant's key.
    pub key: Digest,
    /// What the call moves of its total; 0 without one.
    #[serde(default)]
    pub amount: Amount,
}

/// Why a grant covers no call any more, whatever the call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantEnd {
    /// There is none.
    Absent,
    /// An operator has taken it back.
    Revoked,
    /// Its time is over.
    Expired,
    /// As many calls as it allows have begun with it.
    UsedUp,
    /// The call would move more than is left.
    TotalUsedUp,
}

/// Grants that can still cover a call, counted for the command `StoreCommand::Mint` only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveGrants {
    /// All of them.
    pub all: usize,
    /// Those of one agent of one tenant.
    pub agent: usize,
}

/// A bound of grants, by what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantBound {
    /// All grants.
    All,
    /// Those of one agent of one tenant.
    Agent,
}

impl Grant {
    /// The key of the grant `id`.
    pub fn key_of(id: ActionId) -> Digest {
        Digest::of_parts("grant", &[id.as_bytes()])
    }

    /// Why it covers nothing at `now`; none while it can.
    pub fn ended(&self, now: Millis) -> Option<GrantEnd> {
        if self.revoked.is_some() {
            Some(GrantEnd::Revoked)
        } else if now >= self.until {
            Some(GrantEnd::Expired)
        } else if self.uses >= self.max_uses {
            Some(GrantEnd::UsedUp)
        } else {
            let total = self.total.as_ref();
            total
                .filter(|total| self.moved >= total.at_most)
                .map(|_| GrantEnd::TotalUsedUp)
        }
    }

    /// Whether one more call that moves `amount` fits at `now`.
    pub fn admit(&self, amount: Amount, now: Millis) -> Result<(), GrantEnd> {
        if let Some(end) = self.ended(now) {
            return Err(end);
        }
        let fits = self.total.as_ref().is_none_or(|total| {
            let sum = self.moved.plus(amount);
            sum.is_some_and(|sum| sum <= total.at_most)
        });
        if fits {
            Ok(())
        } else {
            Err(GrantEnd::TotalUsedUp)
        }
    }

    /// When it last changed.
    pub fn changed(&self) -> Millis {
        let revoked = self.revoked.as_ref().map(|revoked| revoked.at);
        self.minted.max(revoked.max(self.last).unwrap_or(0))
    }

    /// When it may be forgotten. Not before its time, however it ended: a call that took of it may give that
    /// back.
    pub fn outlived(&self) -> Millis {
        self.until.saturating_add(ENDED_GRANT_RETENTION_MS)
    }

    /// Whether it is for the same agent of the same tenant as `scope`.
    pub fn is_alike(&self, scope: &GrantScope) -> bool {
        self.scope.agent == scope.agent && self.scope.tenant == scope.tenant
    }

    /// A call has begun with it.
    pub(super) fn take(&mut self, used: &GrantUse, at: Millis) {
        self.uses = self.uses.saturating_add(1);
        self.moved = self.moved.plus(used.amount).unwrap_or(self.moved);
        self.last = Some(at);
    }

    /// The call that took `used` did not run.
    pub(super) fn give_back(&mut self, used: &GrantUse) {
        self.uses = self.uses.saturating_sub(1);
        self.moved = self.moved.less(used.amount);
    }

    /// Its constraints as they stand behind a record.
    pub fn body(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&*self.constraints)
    }

    /// Reads what `Self::body` wrote.
    pub fn fill(&mut self, body: Bytes) -> serde_json::Result<()> {
        let body = Text::read(body, &SERVER_JSON_LIMITS).map_err(serde::de::Error::custom)?;
        let constraints: Vec<ArgumentConstraint> = body.parse()?;
        self.constraints = constraints.into();
        Ok(())
    }
}
