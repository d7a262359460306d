//! What one guard leaves for another: a step that was skipped leaves nothing, so the call that
//! forgets it doesn't compile. What a guard leaves only for the gate stands in its own file.

use super::Mode;

/// The arguments passed the server's schema and the contract's. Left by `arguments`.
#[must_use]
#[derive(Debug)]
pub struct Checked(());

impl Checked {
    pub(super) fn mint() -> Self {
        Self(())
    }
}

/// The caller may call this tool with these arguments. Left by `permission`.
#[must_use]
#[derive(Debug)]
pub struct Permit(());

impl Permit {
    pub(super) fn mint(_: &Checked) -> Self {
        Self(())
    }
}

/// No rule of the contract is true for this call. Left by `rules`.
#[must_use]
#[derive(Debug)]
pub struct Ruled(());

impl Ruled {
    /// Observe mode goes on without proof, and only observe mode can.
    pub fn observed(mode: Mode) -> Option<Self> {
        (mode == Mode::Observe).then_some(Self(()))
    }

    pub(super) fn mint(_: &Permit) -> Self {
        Self(())
    }
}

/// The arguments stay as they are: no hook changed them, or what they became has passed every guard
/// again. Left by `rewrite`.
#[must_use]
#[derive(Debug)]
pub struct Final(());

impl Final {
    pub(super) fn mint(_: Ruled) -> Self {
        Self(())
    }
}

/// The task does not go in circles with this call. Left by `repetition`.
#[must_use]
#[derive(Debug)]
pub struct NotRepeated(());

impl NotRepeated {
    /// Observe mode goes on without proof, and only observe mode can.
    pub fn observed(mode: Mode) -> Option<Self> {
        (mode == Mode::Observe).then_some(Self(()))
    }

    pub(super) fn mint(_: &Final) -> Self {
        Self(())
    }
}
