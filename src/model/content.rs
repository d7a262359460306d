//! What was sent and what came back of one call, where its contract has the ledger keep it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of a call the ledger keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContentForm {
    /// Hashes alone.
    #[default]
    Digest,
    /// Names and shape; in place of texts and numbers what kind they are and how long.
    Redacted,
    /// All of it.
    Full,
}

/// What of a call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentPart {
    /// The arguments as the agent sent them, where they were rewritten.
    Original,
    /// The arguments as they are sent to the tool server.
    Arguments,
    /// The result as the agent reads it.
    Result,
}

/// What a record of the ledger says of the content that follows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentHead {
    /// The call.
    pub action_id: String,
    /// What of it.
    pub part: ContentPart,
    /// In which form.
    pub form: ContentForm,
    /// Bytes that it has in this form; more than follow: it was too long, and none do.
    pub bytes: u64,
    /// The id of the key with which it is encrypted, if it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
}

impl ContentForm {
    /// As contracts and operators write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Digest => "digest",
            Self::Redacted => "redacted",
            Self::Full => "full",
        }
    }
}

impl ContentPart {
    /// As operators read it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Arguments => "arguments",
            Self::Result => "result",
        }
    }
}
