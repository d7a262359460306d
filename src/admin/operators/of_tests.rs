//! Operators as tests name them.

use super::taken::{OperatorTokens, TakenToken};
use super::{OperatorIdentity, Operators};
use crate::model::secret::Secret;
use crate::model::verbs::OperatorVerbs;

impl Operators {
    /// Operators, each with the token that proves it, and what their roles allow.
    pub(crate) fn new<'a>(
        tokens: impl IntoIterator<Item = (OperatorIdentity, &'a Secret)>,
        verbs: OperatorVerbs,
    ) -> Self {
        let (known, secrets): (Vec<OperatorIdentity>, Vec<&Secret>) = tokens.into_iter().unzip();
        let tokens = OperatorTokens::default();
        let taken = known.iter().zip(secrets);
        tokens.put(taken.map(|(known, token)| TakenToken {
            name: &known.name,
            token,
            end: None,
        }));
        Self::with_tokens(known, tokens, verbs)
    }
}
