//! What tells a call with side effects from calls that equal it (guarantees §3).

use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use serde::{Deserialize, Serialize};

/// What tells a call from calls that equal it. All of it is missing in what releases before wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kinship {
    /// SHA-256 over caller, tool and all arguments, whatever its key is made of; none where that is
    /// its key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kin: Option<Digest>,
    /// The trace id that came with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<String>,
    /// The call that has ended under this key and is not this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub past: Option<ActionId>,
}

impl Kinship {
    /// Whether nothing of it is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
