//! By which rights a call was made, so that one that is made later in its caller's place is made by the same:
//! an agent may have several entries, and an issuer may name it for people of several roles.

use super::digest::Digest;
use serde::{Deserialize, Serialize};

/// What a caller is found again by, beside its agent and tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptCaller {
    /// SHA-256 over what was said of it that decides about its calls.
    pub rights: Digest,
    /// Its roles: those of one that an issuer names are said by its tokens alone.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub roles: Vec<String>,
}
