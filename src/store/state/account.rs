//! The account of a user: what all tasks of one user take together, for a span of time. A store
//! keeps it as one more task, and settles it in the same transactions.

use super::budget::BudgetLimits;
use crate::model::digest::Digest;
use crate::model::task::TaskOrigin;
use serde::{Deserialize, Serialize};

/// What a call asks of its user's account, beside its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountDemand {
    /// The account.
    pub key: Digest,
    /// What all tasks of the user may use together.
    pub limits: BudgetLimits,
    /// Whose it is, should it begin.
    pub origin: TaskOrigin,
}

/// The account that pays for a call beside its task, as events name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountShare {
    /// The account.
    pub key: Digest,
    /// Whose it is, if it began with this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub begins: Option<TaskOrigin>,
}
