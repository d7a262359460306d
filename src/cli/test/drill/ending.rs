//! How a drill has ended.

use super::baseline::BaselineReading;
use crate::model::ids::ActionId;

/// What came of a drill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrillVerdict {
    /// The call was made, taken back, and the baseline is the same.
    Proven,
    /// Nothing was called.
    NotDrilled,
    /// It is not so, and what is wrong is known.
    Failed,
    /// Nobody knows what has run.
    Unknown,
}

/// A drill that has ended.
#[derive(Debug, Clone)]
pub(super) struct DrillEnd {
    pub(super) verdict: DrillVerdict,
    /// The call, once it was made.
    pub(super) action: Option<ActionId>,
    /// As the undo stands: `done`, `failed` …; nothing where it was not asked for.
    pub(super) undone: Option<String>,
    /// The call that took it back.
    pub(super) undone_by: Option<String>,
    /// Hashes of the baseline before the call and at the end, as far as they were read.
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    /// Whether an effect is left, or may be.
    pub(super) is_left: bool,
    /// Whether it was not made because toolgate was told to end.
    pub(super) is_interrupted: bool,
    /// Why it is not proven.
    pub(super) why: Option<String>,
}

impl DrillEnd {
    pub(super) fn of(verdict: DrillVerdict, why: Option<String>) -> Self {
        Self {
            verdict,
            action: None,
            undone: None,
            undone_by: None,
            before: None,
            after: None,
            is_left: false,
            is_interrupted: false,
            why,
        }
    }

    /// Nothing was called.
    pub(super) fn not_drilled(why: String) -> Self {
        Self::of(DrillVerdict::NotDrilled, Some(why))
    }

    /// Nothing was called any more: toolgate was told to end.
    pub(super) fn interrupted() -> Self {
        Self {
            is_interrupted: true,
            ..Self::not_drilled("toolgate was told to end".to_owned())
        }
    }

    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::of(DrillVerdict::Failed, Some(why.into()))
    }

    pub(super) fn unknown(why: String) -> Self {
        Self {
            is_left: true,
            ..Self::of(DrillVerdict::Unknown, Some(why))
        }
    }

    pub(super) fn leaving(self) -> Self {
        Self {
            is_left: true,
            ..self
        }
    }

    pub(super) fn at(self, action: ActionId, before: &BaselineReading) -> Self {
        Self {
            action: Some(action),
            before: Some(before.hash()),
            ..self
        }
    }
}
