//! A text that is kept for an undo: arguments of a call, and parts of its result.

use serde::{Deserialize, Serialize};

/// Bytes of a text that is kept for an undo, at most; of a longer one its size is.
pub const MAX_KEPT_TEXT_BYTES: usize = 8 << 10;

/// A text that is kept for an undo, encrypted where answers are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptText {
    /// As it is.
    Plain(String),
    /// Encrypted.
    Sealed {
        /// The id of the key.
        key: String,
        /// What it is encrypted to, in hex digits.
        hex: String,
    },
    /// Longer than [`MAX_KEPT_TEXT_BYTES`], or not to be shown.
    LeftOut {
        /// Bytes that it has.
        bytes: u64,
    },
}

impl KeptText {
    /// A text as it is.
    pub fn plain(text: &str) -> Self {
        if text.len() > MAX_KEPT_TEXT_BYTES {
            return Self::LeftOut {
                bytes: text.len() as u64,
            };
        }
        Self::Plain(text.to_owned())
    }

    /// What is shown in its place.
    pub(super) fn leave_out(&mut self) {
        let bytes = match self {
            Self::Plain(text) => text.len() as u64,
            Self::Sealed { hex, .. } => hex.len() as u64 / 2,
            Self::LeftOut { bytes } => *bytes,
        };
        *self = Self::LeftOut { bytes };
    }
}
