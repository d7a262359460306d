//! Operators as tests name them.

use super::in_force::{OperatorTerms, OperatorsInForce};
use super::taken::TakenToken;
use super::{OperatorIdentity, Operators};
use crate::model::secret::Secret;
use crate::model::verbs::OperatorVerbs;

impl Operators {
    /// Operators, each with the token that proves it, and what their roles allow.
    pub(crate) fn of<'a>(
        tokens: impl IntoIterator<Item = (OperatorIdentity, &'a Secret)>,
        verbs: OperatorVerbs,
    ) -> Self {
        let (known, secrets): (Vec<OperatorIdentity>, Vec<&Secret>) = tokens.into_iter().unzip();
        let in_force = OperatorsInForce::default();
        let taken = known.iter().zip(secrets);
        in_force
            .tokens()
            .put(taken.map(|(known, token)| TakenToken {
                name: &known.name,
                token,
                end: None,
            }));
        in_force.take(OperatorTerms {
            known,
            verbs,
            ..OperatorTerms::default()
        });
        Self::new(in_force)
    }
}
