//! An operator has toolgate ask now what became of a call with an unknown outcome, by the read that its
//! contract names (guarantees §4).

use crate::model::ids::ActionId;
use crate::store::claims::StoreError;
use crate::store::content_key::ContentSealed;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks tool servers what became of calls.
pub(crate) trait OutcomeAsker: Send + Sync {
    /// Asks about the call `action`, as the operator `who` wants.
    fn ask<'a>(
        &'a self,
        action: ActionId,
        who: &'a str,
    ) -> BoxFuture<'a, Result<AskedOutcome, Unasked>>;
}

/// What a look has shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AskedOutcome {
    /// The call.
    pub action_id: String,
    /// `found`, `absent`, `unclear`, or `empty`: something is there, and its contract does not say what
    /// that means.
    pub found: String,
    /// The same in words, with what it comes to together with looks before.
    pub words: String,
    /// What went wrong on the way, if anything did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<String>,
    /// How the call stands now: `unknown`, `completed` or `not_sent`.
    pub state: String,
}

/// Why nothing is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unasked {
    /// No call of that id holds a key.
    #[error("no call {0} holds an idempotency key")]
    NoClaim(ActionId),
    /// It is known, or not yet.
    #[error("the call is `{0}`: only one whose outcome is unknown is asked about")]
    NotUnknown(&'static str),
    /// Nothing was kept when it began.
    #[error(
        "nothing is kept to ask by: its contract named no `idempotency.probe` when it began, `reconcile` was off, its \
         question was too long, held a secret reference, or an operator had changed its arguments"
    )]
    NoQuestion,
    /// Its contract asks otherwise now.
    #[error("its contract's `idempotency.probe` is another one than when the call began")]
    OtherProbe,
    /// The agent is gone.
    #[error("its agent is no longer configured: nothing is asked in its name")]
    NoCaller,
    /// Others of its name have other rights.
    #[error(
        "its agent is known with other rights now, and not only with one set of them: nothing is asked in its name"
    )]
    OtherRights,
    /// The read is gone.
    #[error("the read's tool is not listed, not approved or disabled")]
    NoTool,
    /// What is kept cannot be read.
    #[error("what is kept to ask by cannot be read: {0}")]
    Sealed(#[from] ContentSealed),
    /// Its own text is no JSON.
    #[error("what is kept to ask by is not as it was written")]
    Damaged,
    /// It is asked about, or sent again, at this moment.
    #[error("it is being found out just now")]
    Busy,
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}
