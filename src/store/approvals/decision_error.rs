//! Why what an operator says of a held call counts for nothing.

use crate::model::ids::ActionId;
use crate::store::claims::{Store, StoreError};
use crate::store::state::hold::Hold;
use crate::store::undos::known;

/// Why an operator's word counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecisionError {
    /// Which of the two is told to nobody.
    #[error("approval {0} is expired or not found")]
    Gone(ActionId),
    /// Not this operator's to decide.
    #[error("{}", not_yours(.roles, *.is_itself))]
    NotYours {
        /// Operators with one of these roles may decide.
        roles: Vec<String>,
        /// The operator is named like the agent that asks.
        is_itself: bool,
    },
    /// The operator has asked for the undo that the call makes.
    #[error("an undo is not decided by an operator who has asked for it")]
    AskedUndo,
    /// The first decision stands.
    #[error("it is {} already, and that stands", if *.allowed { "allowed" } else { "denied" })]
    Other {
        /// Was it allowed?
        allowed: bool,
    },
    /// It is about another call than the one that would run now, or an incident has ended it.
    #[error("it is void, nothing runs as things stand: {0}")]
    Void(String),
    /// It is not what the operator was shown.
    #[error("it is not what you were shown any more")]
    Changed,
    /// Its arguments were changed, and the operator does not say that these were shown.
    #[error("its arguments were changed by an operator: say what you were shown")]
    Unshown,
    /// The arguments cannot be changed so.
    #[error("the arguments cannot be changed so: {0}")]
    Uneditable(String),
    /// It was given more time before.
    #[error("it was given more time already, and that can be done once")]
    Extended,
    /// What was said cannot be used.
    #[error("{0}")]
    Unfit(String),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why what these say of `hold`, which is one word, does not count.
pub(super) async fn not_theirs(
    store: &dyn Store,
    hold: &Hold,
    names: impl Iterator<Item = &String> + Clone,
) -> Result<DecisionError, StoreError> {
    let question = &hold.question;
    let undo = match &question.undoes {
        Some(undoes) => known(store, undoes.of).await?,
        None => None,
    };
    let has_asked = |who: &String| {
        let is_later = undo.as_ref().is_some_and(|undo| undo.is_asked_by(who));
        is_later || question.is_asked_by(who)
    };
    let is_itself = !hold.self_approval && names.clone().any(|who| question.is_of(who));
    if !hold.self_approval && !is_itself && names.clone().any(has_asked) {
        return Ok(DecisionError::AskedUndo);
    }
    Ok(DecisionError::NotYours {
        roles: hold.roles.clone(),
        is_itself,
    })
}

fn not_yours(roles: &[String], is_itself: bool) -> String {
    if is_itself {
        return "a call is not decided by an operator of the same name as its agent or user"
            .to_owned();
    }
    format!(
        "only an operator with one of these roles can decide: {}",
        roles.join(", ")
    )
}
