//! What calls and their arguments are known by in the ledger and to the loop detector.

use crate::mcp::canonical;
use crate::model::digest::Digest;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// SHA-256 in hex.
pub fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
            text
        })
}

/// SHA-256 over the RFC 8785 form, so that key order and white space don't matter (003-70).
pub fn params_hash(arguments: &Value) -> String {
    canonical::form(arguments).map_or_else(
        || hash(arguments.to_string().as_bytes()),
        |text| hash(&text),
    )
}

/// Tool and arguments, as the loop detector knows them.
pub(in crate::gate) fn seen_call(tool: &str, params_hash: &str) -> u64 {
    Digest::of_parts("seen", &[tool.as_bytes(), params_hash.as_bytes()]).short()
}
