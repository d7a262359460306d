//! What one guard leaves for the next: a step that was skipped leaves nothing, so the call that
//! forgets it doesn't compile.

use super::Mode;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;

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

/// What the call confirms, if it confirms anything, is a draft that its task has made.
/// Left by `confirms`.
#[must_use]
#[derive(Debug)]
pub struct Confirmed(Option<ActionId>);

impl Confirmed {
    pub(super) fn mint(draft: Option<ActionId>) -> Self {
        Self(draft)
    }

    /// The call that made the draft.
    pub fn draft(&self) -> Option<ActionId> {
        self.0
    }
}

/// The caller calls no faster than it may. Left by `rate`.
#[must_use]
#[derive(Debug)]
pub(crate) struct Paced(());

impl Paced {
    /// Observe mode goes on without proof, and only observe mode can.
    pub(crate) fn observed(mode: Mode) -> Option<Self> {
        (mode == Mode::Observe).then_some(Self(()))
    }

    pub(super) fn mint() -> Self {
        Self(())
    }
}

/// Nobody has to be asked about the call, or a person has allowed it. Left by `approval`.
#[must_use]
#[derive(Debug)]
pub struct Approved(Option<Digest>);

impl Approved {
    pub(super) fn mint(hold: Option<Digest>) -> Self {
        Self(hold)
    }

    /// The hold that the call uses up.
    pub fn hold(&self) -> Option<Digest> {
        self.0
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
