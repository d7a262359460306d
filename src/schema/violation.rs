//! Where arguments break a schema, as agents are told.

use crate::model::refusal::Refusal;
use crate::model::work::WorkExceeded;

/// Said when judging would take more than any message may.
pub(super) const TOO_COSTLY_MESSAGE: &str =
    "fewer or smaller values: by the schema these cost more than 1 s of computing to judge";

/// Where arguments break a schema. Never holds a value of the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    /// JSON pointer to the argument; empty for the arguments as a whole.
    pub pointer: String,
    /// What would have been right, in words that follow "expected".
    pub expected: String,
}

impl From<SchemaViolation> for Refusal {
    fn from(violation: SchemaViolation) -> Self {
        Self::SchemaInvalid {
            pointer: violation.pointer,
            expected: violation.expected,
        }
    }
}

impl From<WorkExceeded> for SchemaViolation {
    fn from(_: WorkExceeded) -> Self {
        Self {
            pointer: String::new(),
            expected: TOO_COSTLY_MESSAGE.to_owned(),
        }
    }
}
