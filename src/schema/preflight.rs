//! Judges a tool's input schema before it is compiled: shape, dialect, bounds (SECURITY §4).

use serde_json::Value;

/// Why a tool's schema cannot be trusted to judge arguments, so that the tool is not offered at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Quarantine {
    /// Not a JSON object.
    #[error("the input schema is not a JSON object")]
    NotAnObject,
}

impl Quarantine {
    /// The stable label, for `toolgate_quarantined_tools{reason}`.
    pub fn label(self) -> &'static str {
        match self {
            Self::NotAnObject => "not_an_object",
        }
    }
}

/// Judges `schema`.
pub fn judge(schema: &Value) -> Result<(), Quarantine> {
    schema.is_object().then_some(()).ok_or(Quarantine::NotAnObject)
}
