//! What is kept of a call with side effects by which it can be found out what became of it, should
//! nobody know (guarantees §4). Fixed when the call begins: what a later policy says was not sent
//! then. Dropped once the call has ended.

use crate::model::digest::Digest;
use crate::model::kept_caller::KeptCaller;
use serde::{Deserialize, Serialize};

/// Bytes that the arguments of a question may have, as JSON; those of a longer one are not kept.
pub const MAX_QUESTION_BYTES: usize = 2 << 10;

/// The ways to find out. All of them are missing in what releases before wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inquiry {
    /// SHA-256 over the key that it carries for its tool server, that server, and where the key
    /// stands; none where it carries none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent_key: Option<Digest>,
    /// What its contract's probe asks of it, where that is kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub question: Option<KeptQuestion>,
}

/// What a probe asks of one call: the parts of its arguments that the contract names for that, and
/// nothing else of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptQuestion {
    /// SHA-256 over the probe as its contract had it: by another one nothing is asked.
    pub probe: Digest,
    /// The tenant of the agent that made the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// By which rights the call was made; none in records from before that was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<KeptCaller>,
    /// The arguments of the question, as JSON of at most [`MAX_QUESTION_BYTES`] bytes; in base64 where
    /// they are encrypted.
    pub arguments: String,
    /// The id of the key that they are encrypted with, if they are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
}
