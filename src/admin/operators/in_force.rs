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
    /// Whether there were operators since the start, so that the door is shut where there are none now.
    pub(crate) is_shut: bool,
    /// Done once others stand in their place.
    pub(crate) replaced: CancellationToken,
}

impl OperatorTerms {
    /// Whether the door is open to any caller: no operator was configured since the start.
    pub(super) fn is_open(&self) -> bool {
        self.has_nobody() && !self.is_shut
    }

    /// Whether there are neither operators nor issuers of them.
    fn has_nobody(&self) -> bool {
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

    /// Whether `terms` take the last operator away.
    pub(crate) fn is_emptied_by(&self, terms: &OperatorTerms) -> bool {
        terms.has_nobody() && !self.terms.load().has_nobody()
    }

    /// As [`Self::take`], told in the log.
    pub(crate) fn change(&self, terms: OperatorTerms) -> bool {
        let before = self.terms();
        let is_other = self.take(terms);
        if is_other {
            told(&before, &self.terms());
        }
        is_other
    }

    /// From now on `terms` stand; whether that changes anything. Keys that are known of an issuer stay known. A door that
    /// had operators is not open where there are none any more.
    pub(crate) fn take(&self, mut terms: OperatorTerms) -> bool {
        let before = self.terms();
        terms.is_shut = before.is_shut || !before.has_nobody();
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

/// Tells in the log who came, who went, and whose roles are others.
fn told(before: &OperatorTerms, now: &OperatorTerms) {
    let names = |of: &OperatorTerms, is: &dyn Fn(&OperatorIdentity) -> bool| {
        let all = of.known.iter().filter(|one| is(one));
        all.map(|one| one.name.clone())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let is_in = |of: &OperatorTerms, one: &OperatorIdentity| of.named(&one.name).is_some();
    let is_other = |one: &OperatorIdentity| before.named(&one.name).is_some_and(|was| was != one);
    tracing::info!(
        came = names(now, &|one| !is_in(before, one)),
        gone = names(before, &|one| !is_in(now, one)),
        changed = names(now, &is_other),
        verbs = before.verbs != now.verbs,
        issuers = !Arc::ptr_eq(&before.issued, &now.issued),
        "operators are what the files say now"
    );
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
            stands_in: Vec::new(),
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

    /// threat-model §3E: where the last operator is taken away no operator decides any more, and a door that was opened
    /// for operators with tokens is not opened to other callers.
    #[test]
    fn the_door_stays_shut_without_operators() {
        let in_force = OperatorsInForce::default();
        assert!(!in_force.take(terms(&[])));
        assert!(in_force.terms().is_open(), "as it was opened");
        assert!(in_force.take(terms(&[("ann", "sre")])));
        assert!(in_force.is_emptied_by(&terms(&[])));
        for _ in 0..2 {
            in_force.take(terms(&[]));
            let now = in_force.terms();
            assert!(!now.is_open() && now.named("ann").is_none());
            assert!(!in_force.approvers().current().knows("ann"));
        }
        assert!(in_force.take(terms(&[("bob", "sre")])));
        assert!(in_force.terms().named("bob").is_some());
    }
}
