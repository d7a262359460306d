//! What calls and their arguments are known by in the ledger and to the loop detector.

use crate::mcp::canonical;
use crate::model::digest::{Digest, sha256};
use serde_json::Value;

/// SHA-256 over the RFC 8785 form, so that key order and white space don't matter (003-70).
pub fn params_hash(arguments: &Value) -> String {
    canonical::form(arguments).map_or_else(
        || sha256(arguments.to_string().as_bytes()),
        |text| sha256(&text),
    )
}

/// Tool and arguments, as the loop detector knows them.
pub(in crate::gate) fn seen_call(tool: &str, params_hash: &str) -> u64 {
    Digest::of_parts("seen", &[tool.as_bytes(), params_hash.as_bytes()]).short()
}
