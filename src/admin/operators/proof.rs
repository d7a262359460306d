//! How long what a program has shown proves whose it is, for what stays open beyond its request.

use super::Operators;
use super::in_force::OperatorTerms;
use super::tokens::bearer;
use crate::admin::identity::OperatorIdentity;
use crate::admin::issued::IssuedProof;
use crate::model::clock::Clock;
use crate::model::verbs::OperatorVerb;
use axum::http::HeaderMap;
use std::time::Duration;

/// The token that a request of an operator has brought, by its digest, or by its end and the key that has
/// signed it.
pub(in crate::admin) struct StandingProof {
    operators: Operators,
    /// Whom it has named.
    known: OperatorIdentity,
    shown: Option<ProvingToken>,
}

enum ProvingToken {
    /// One of the configuration: while it is taken.
    Configured([u8; 32]),
    /// One of an issuer: until then, on the steady clock.
    Issued(Duration, IssuedProof),
}

impl Operators {
    /// What a request of `known` proves by; one that proves nothing ends at once.
    pub(in crate::admin) fn proof(
        &self,
        known: &OperatorIdentity,
        headers: &HeaderMap,
    ) -> StandingProof {
        StandingProof {
            operators: self.clone(),
            known: known.clone(),
            shown: self.shown(known, headers),
        }
    }

    fn shown(&self, known: &OperatorIdentity, headers: &HeaderMap) -> Option<ProvingToken> {
        let tokens = self.in_force.tokens();
        let configured = bearer(headers).and_then(|token| tokens.proved(token));
        if let Some(proved) = configured {
            return Some(ProvingToken::Configured(proved.token));
        }
        let issued = self.of_issued(self.token(headers)?).ok()?;
        if issued.known != *known {
            return None;
        }
        let until = Clock.steady() + issued.lasts;
        Some(ProvingToken::Issued(until, issued.proof))
    }
}

impl StandingProof {
    /// Whether the roles of its operator allow `verb` now.
    pub(in crate::admin) fn allows(&self, verb: OperatorVerb) -> bool {
        self.operators.may(&self.known, verb)
    }

    /// Ends when it proves nothing any more, or its operator is another by what is configured then.
    pub(in crate::admin) async fn ends(&self) {
        let Some(shown) = &self.shown else { return };
        loop {
            let terms = self.operators.terms();
            if !self.stands(shown, &terms) {
                return;
            }
            let over = async {
                match shown {
                    ProvingToken::Configured(digest) => {
                        let tokens = self.operators.in_force.tokens();
                        tokens.ends(digest, &self.known.name).await;
                    }
                    ProvingToken::Issued(until, _) => {
                        tokio::time::sleep(until.saturating_sub(Clock.steady())).await;
                    }
                }
            };
            tokio::select! {
                () = over => return,
                // What stands in their place may say the same of this operator.
                () = terms.replaced.cancelled() => {}
            }
        }
    }

    fn stands(&self, shown: &ProvingToken, terms: &OperatorTerms) -> bool {
        match shown {
            ProvingToken::Configured(digest) => {
                let (tokens, name) = (self.operators.in_force.tokens(), &self.known.name);
                tokens.is_taken(digest, name) && terms.named(name) == Some(&self.known)
            }
            ProvingToken::Issued(_, proof) => terms.issued.still_counts(proof),
        }
    }
}
