//! The operators' door, as it runs: who they are, and by which tokens they are known.

use super::Entrance;
use crate::admin::issued::IssuedOperators;
use crate::admin::operators::OperatorIdentity;
use crate::admin::operators::in_force::{OperatorTerms, OperatorsInForce};
use crate::admin::operators::taken::TakenToken;
use crate::guards::identity::tokens::TokenEnd;
use crate::model::absence::Absence;
use crate::model::approvers::{Approver, ApproverName, Approvers};
use crate::model::listen::ListenAddress;
use crate::model::secret::Secret;
use crate::model::verbs::OperatorVerbs;
use std::sync::Arc;

/// The operators' door.
#[derive(Debug)]
pub struct Admin {
    /// Its address.
    pub listen: ListenAddress,
    /// How it is entered.
    pub(crate) entrance: Entrance,
    /// What links to its pages begin with, without a slash at the end, where people reach it otherwise.
    pub public_url: Option<String>,
    /// Values of `Host` that are taken besides those of `listen` and `public_url`.
    pub allowed_hosts: Vec<String>,
    /// Who may use it.
    pub tokens: Vec<Operator>,
    /// They and their tokens, as they stand while toolgate runs.
    pub(crate) in_force: OperatorsInForce,
    /// For what.
    pub verbs: OperatorVerbs,
    /// Who of them is away.
    pub absences: Vec<Absence>,
    /// Those whom issuers name.
    pub(crate) issued: Arc<IssuedOperators>,
}

impl Admin {
    /// The names, with their ports where they have one, under which the door may be called besides those
    /// of `listen`.
    pub(crate) fn named_hosts(&self) -> Vec<String> {
        let public = self.public_url.as_deref();
        let public = public.and_then(|url| url.split_once("://"));
        let public = public.map(|(_, host)| host.to_owned());
        let more = self.allowed_hosts.iter().cloned();
        public.into_iter().chain(more).collect()
    }

    /// Those in whose place the operator `name` decides.
    fn stands_in(&self, name: &str) -> Vec<Absence> {
        let theirs = self.absences.iter().filter(|away| away.delegate == name);
        theirs.cloned().collect()
    }

    /// Says that the operators are these from now on, and that no reading of the files changes them.
    pub(crate) fn are_in_force(&mut self) {
        self.in_force = OperatorsInForce::default();
        self.in_force.tokens().put(self.taken_tokens());
        self.in_force.take(self.terms());
    }

    /// Says that there is no door for operators, so that none of them can be asked, whatever files say.
    pub(crate) fn have_no_door(&mut self) {
        self.tokens.clear();
        self.issued = Arc::default();
        self.are_in_force();
    }

    /// Who they are, and what their roles allow.
    pub(crate) fn terms(&self) -> OperatorTerms {
        let mut known: Vec<OperatorIdentity> = Vec::new();
        for operator in &self.tokens {
            // One of several tokens.
            if known.iter().any(|one| one.name == operator.name) {
                continue;
            }
            known.push(OperatorIdentity {
                name: operator.name.clone(),
                roles: operator.roles.clone(),
                stands_in: self.stands_in(&operator.name),
            });
        }
        OperatorTerms {
            known,
            verbs: self.verbs.clone(),
            issued: self.issued.clone(),
            approvers: self.approvers(),
            ..OperatorTerms::default()
        }
    }

    /// Which tokens are taken, and whose they are.
    pub(crate) fn taken_tokens(&self) -> impl Iterator<Item = TakenToken<'_>> {
        self.tokens.iter().flat_map(|operator| {
            let now = std::iter::once((&operator.token, None));
            let before = operator.previous.iter().map(|one| (&one.token, one.end));
            now.chain(before).map(|(token, end)| TakenToken {
                name: &operator.name,
                token,
                end,
            })
        })
    }

    /// Who may decide about calls that are held: every operator with a token, and those whom issuers
    /// name.
    pub(crate) fn approvers(&self) -> Approvers {
        let one = |known: &Operator| Approver {
            name: ApproverName::One(known.name.clone()),
            stands_in: self
                .stands_in(&known.name)
                .into_iter()
                .map(|away| away.name)
                .collect(),
            roles: known.roles.clone(),
        };
        let issued = (!self.issued.is_empty()).then(|| Approver {
            name: ApproverName::Issued,
            stands_in: Vec::new(),
            roles: self.issued.roles().cloned().collect(),
        });
        Approvers(self.tokens.iter().map(one).chain(issued).collect())
    }
}

/// One operator.
#[derive(Debug)]
pub struct Operator {
    /// The name, for the ledger.
    pub name: String,
    /// The bearer token that proves it.
    pub token: Secret,
    /// Tokens that proved it before.
    pub previous: Vec<EndingToken>,
    /// The operator's roles.
    pub roles: Vec<String>,
}

impl Operator {
    /// All tokens that prove it.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Secret> {
        let before = self.previous.iter().map(|one| &one.token);
        std::iter::once(&self.token).chain(before)
    }
}

/// A token that is about to go.
#[derive(Debug)]
pub struct EndingToken {
    /// The token.
    pub token: Secret,
    /// Until when it is taken; none: for as long as it is configured.
    pub(crate) end: Option<TokenEnd>,
}
