//! What calls and their arguments are known by in the ledger and to the loop detector.

use crate::gate::call::Call;
use crate::mcp::canonical;
use crate::model::digest::{Digest, sha256};
use serde_json::Value;
use std::sync::Arc;

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

/// What one call is known by, for whatever asks again.
pub struct HashedCall {
    call: Arc<Call>,
    /// [`params_hash`] of its arguments.
    pub(in crate::gate) params_hash: String,
    /// Itself, as the loop detector knows it.
    pub(in crate::gate) seen: u64,
}

impl HashedCall {
    pub(in crate::gate) fn of(call: &Arc<Call>) -> Self {
        let params_hash = params_hash(&call.judged.arguments);
        Self {
            seen: seen_call(call.judged.tool.as_str(), &params_hash),
            params_hash,
            call: call.clone(),
        }
    }

    /// Whether it is of this very call: what rewrites a call makes another.
    pub(in crate::gate) fn is_of(&self, call: &Call) -> bool {
        std::ptr::eq(&raw const *self.call, call)
    }
}
