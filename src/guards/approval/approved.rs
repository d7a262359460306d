//! The proof that nobody has to be asked about a call, or that a person has allowed it.

use crate::model::digest::Digest;
use crate::store::state::grant::GrantUse;
use crate::store::state::hold::EditedCall;

/// Nobody has to be asked about the call, or a person has allowed it.
#[must_use]
#[derive(Debug)]
pub struct Approved {
    hold: Option<Digest>,
    /// Boxed, since few calls have it and each has the room for it.
    edited: Option<Box<EditedCall>>,
    grant: Option<GrantUse>,
}

impl Approved {
    /// The hold that the call uses up.
    pub fn hold(&self) -> Option<Digest> {
        self.hold
    }

    /// What the call takes of the grant that covers it.
    pub fn grant(&self) -> Option<GrantUse> {
        self.grant
    }

    /// What the call carries of the hold, where an operator has changed its arguments.
    pub fn edited(&self) -> Option<EditedCall> {
        self.edited.as_deref().copied()
    }

    /// The same, of the call as an operator has changed it.
    pub fn of_edited(self, edited: Option<EditedCall>) -> Self {
        let edited = edited.map(Box::new);
        Self { edited, ..self }
    }

    pub(super) fn by(hold: Option<Digest>) -> Self {
        Self {
            hold,
            edited: None,
            grant: None,
        }
    }

    pub(super) fn by_grant(used: GrantUse) -> Self {
        Self {
            hold: None,
            edited: None,
            grant: Some(used),
        }
    }
}
