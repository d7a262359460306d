//! The words for a bound that a text passes, and which bound that is.

use super::{JsonLimits, Malformed};

pub(super) const TEXT_TOO_LONG: &str = "text too long";
pub(super) const STRING_TOO_LONG: &str = "string or key too long";
pub(super) const TOO_MANY_VALUES: &str = "too many values";
pub(super) const TOO_DEEP: &str = "nested too deeply";

impl Malformed {
    /// The bound of `limits` that was passed, if it is one.
    pub(crate) fn bound(&self, limits: &JsonLimits) -> Option<String> {
        let JsonLimits {
            bytes,
            depth,
            nodes,
            key,
            string,
            ..
        } = limits;
        match self.what {
            TEXT_TOO_LONG => Some(format!("at most {bytes} bytes")),
            STRING_TOO_LONG => Some(format!("at most {string} bytes, of a key {key}")),
            TOO_MANY_VALUES => Some(format!("at most {nodes}")),
            TOO_DEEP => Some(format!("at most {depth} levels")),
            _ => None,
        }
    }
}
