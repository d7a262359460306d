//! The operators as they stand: who they are, what their roles allow, which issuers name more of them, and
//! by which tokens they are known. A reload of the configuration changes them, at once for whatever is asked from
//! then on; what stood open for one who is another now ends.

use super::OperatorIdentity;
use super::taken::OperatorTokens;
use crate::admin::issued::IssuedOperators;
use crate::model::approvers::{Approvers, ApproversInForce};
use crate::model::verbs::OperatorVerbs;
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// All of it. A clone is another handle on the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperatorsInForce {
    terms: Arc<ArcSwap<OperatorTerms>>,
    tokens: OperatorTokens,
    approvers: ApproversInForce,
}

/// What one reading of the configuration says of operators, but for their tokens.
#[derive(Debug, Default)]
pub(crate) struct OperatorTerms {
    /// Those who have tokens, each once.
    pub(crate) known: Vec<OperatorIdentity>,
    /// What their roles allow.
    pub(crate) verbs: OperatorVerbs,
    /// Those whom issuers name.
    pub(crate) issued: Arc<IssuedOperators>,
    /// Who of all of them may decide about held calls.
    pub(crate) approvers: Approvers,
    /// Done once others stand in their place.
    pub(crate) replaced: CancellationToken,
}

impl OperatorTerms {
    /// Whether there are neither operators nor issuers of them.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.issued.is_empty()
    }

    /// The operator of the configuration called `name`.
    pub(super) fn named(&self, name: &str) -> Option<&OperatorIdentity> {
        self.known.iter().find(|known| known.name == name)
    }

    fn says_as(&self, other: &Self) -> bool {
        self.known == other.known
            && self.verbs == other.verbs
            && self.approvers == other.approvers
            && Arc::ptr_eq(&self.issued, &other.issued)
    }
}

impl OperatorsInForce {
    /// What stands now. What is judged by it twice is looked at twice.
    pub(super) fn terms(&self) -> Arc<OperatorTerms> {
        self.terms.load_full()
    }

    /// By which tokens they are known.
    pub(crate) fn tokens(&self) -> &OperatorTokens {
        &self.tokens
    }

    /// Who of them may decide about held calls.
    pub(crate) fn approvers(&self) -> ApproversInForce {
        self.approvers.clone()
    }

    /// Whether `terms` would take the last operator away: everybody could then ask at a door that was opened for
    /// operators with tokens only, so it is left to a restart.
    pub(crate) fn would_open(&self, terms: &OperatorTerms) -> bool {
        terms.is_empty() && !self.terms.load().is_empty()
    }

    /// From now on `terms` stand, unless they would open the door; whether that changes anything. Keys that are known
    /// of an issuer stay known.
    pub(crate) fn take(&self, mut terms: OperatorTerms) -> bool {
        let before = self.terms();
        if self.would_open(&terms) {
            return false;
        }
        if terms.issued.is_as(&before.issued) {
            terms.issued = before.issued.clone();
        } else {
            terms.issued.succeed(&before.issued);
        }
        if terms.says_as(&before) {
            return false;
        }
        self.approvers.put(terms.approvers.clone());
        self.terms.store(Arc::new(terms));
        before.replaced.cancel();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::approvers::{Approver, ApproverName};

    fn terms(known: &[(&str, &str)]) -> OperatorTerms {
        let one = |(name, role): &(&str, &str)| OperatorIdentity {
            name: (*name).to_owned(),
            roles: vec![(*role).to_owned()],
            stands_in: Vec::new(),
        };
        let known: Vec<OperatorIdentity> = known.iter().map(one).collect();
        let approvers = known.iter().map(|one| Approver {
            name: ApproverName::One(one.name.clone()),
            roles: one.roles.clone(),
        });
        OperatorTerms {
            approvers: Approvers(approvers.collect()),
            known,
            ..OperatorTerms::default()
        }
    }

    /// Issue 20 "hot reload of all of it": a role that is given counts at once, at the door and for held calls, and
    /// what says the same ends nothing.
    #[test]
    fn a_role_counts_from_the_reading_that_gives_it() {
        let in_force = OperatorsInForce::default();
        assert!(in_force.take(terms(&[("ann", "sre")])));
        let (before, approvers) = (in_force.terms(), in_force.approvers());
        assert!(!in_force.take(terms(&[("ann", "sre")])));
        assert!(!before.replaced.is_cancelled());
        assert!(in_force.take(terms(&[("ann", "finance")])));
        assert!(before.replaced.is_cancelled());
        let now = in_force.terms();
        assert_eq!(now.named("ann").unwrap().roles, ["finance"]);
        let finance = ["finance".to_owned()];
        assert!(approvers.current().decides("ann", &finance));
        assert!(in_force.take(terms(&[("bob", "sre")])));
        assert!(!approvers.current().knows("ann") && in_force.terms().named("ann").is_none());
    }

    /// threat-model §3E: a door that was opened for operators with tokens is not opened to everybody by a reload.
    #[test]
    fn the_last_operator_is_not_taken_away() {
        let in_force = OperatorsInForce::default();
        assert!(!in_force.would_open(&terms(&[])), "it is open");
        assert!(in_force.take(terms(&[("ann", "sre")])));
        assert!(in_force.would_open(&terms(&[])));
        assert!(!in_force.take(terms(&[])));
        assert!(in_force.terms().named("ann").is_some());
        assert!(in_force.approvers().current().knows("ann"));
    }
}
