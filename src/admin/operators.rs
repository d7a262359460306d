//! Who is an operator: one with a token of `admin.tokens`, or whom a token of an issuer of `admin.jwt`
//! names; and what one may do, by the roles of `admin.verbs`.

pub(crate) use super::identity::OperatorIdentity;

pub(crate) mod in_force;
#[cfg(test)]
mod of_tests;
pub(super) mod proof;
pub(crate) mod taken;
mod tokens;

use super::desk::sign_in::{ShownToken, SignIn, SignIns};
use super::{OperatorsDoor, refusal};
use crate::model::verbs::{OperatorVerb, OperatorVerbs};
use crate::policy::issuer_keys::IssuerKeys;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use in_force::{OperatorTerms, OperatorsInForce};
use std::sync::Arc;
pub(super) use tokens::RejectedToken;

/// The operators that the configuration names, as it stands, and what their roles allow.
#[derive(Debug, Default, Clone)]
pub(crate) struct Operators {
    in_force: OperatorsInForce,
    sign_ins: Arc<SignIns>,
    /// What fetches the keys of issuers, once operators are served.
    keys: Option<Arc<IssuerKeys>>,
}

impl Operators {
    /// Those who are `in_force` whenever they come.
    pub(crate) fn new(in_force: OperatorsInForce) -> Self {
        Self {
            in_force,
            ..Self::default()
        }
    }

    /// The same, whose issuers' keys `keys` fetches.
    pub(crate) fn with_keys(self, keys: Arc<IssuerKeys>) -> Self {
        let keys = Some(keys);
        Self { keys, ..self }
    }

    /// Says that their door speaks TLS.
    pub(crate) fn are_behind_tls(&self) {
        self.sign_ins.are_behind_tls();
    }

    /// Ends the sign-ins on the pages whose tokens, or the keys that signed them, were taken away, and those of operators
    /// who are others now.
    pub(crate) fn end_stale_sign_ins(&self) {
        let terms = self.in_force.terms();
        self.sign_ins.end_unless(|one| self.stands(one, &terms));
    }

    /// Whether what the operator has shown to sign in proves by `terms` that it is the same still.
    fn stands(&self, one: &SignIn, terms: &OperatorTerms) -> bool {
        let tokens = self.in_force.tokens();
        match (&one.token, &one.proof) {
            (Some(token), _) => {
                let name = &one.operator.name;
                tokens.is_taken(token, name) && terms.named(name) == Some(&one.operator)
            }
            (None, Some(proof)) => terms.issued.still_counts(proof),
            (None, None) => false,
        }
    }

    /// Whether no operator was configured since the start, so that any caller is answered what needs none.
    pub(super) fn are_open(&self) -> bool {
        self.in_force.terms().is_open()
    }

    /// What stands now, for what goes on for a while.
    pub(super) fn terms(&self) -> Arc<OperatorTerms> {
        self.in_force.terms()
    }

    /// The answer to one whose roles allow none of `verbs`, which `what` needs.
    pub(super) fn permit(
        &self,
        known: &OperatorIdentity,
        verbs: &[OperatorVerb],
        what: &str,
    ) -> Result<(), Response> {
        let allowed = &self.in_force.terms().verbs;
        if verbs.iter().any(|verb| allowed.allow(*verb, &known.roles)) {
            return Ok(());
        }
        Err(lacking(allowed, known, verbs, what))
    }

    /// Whether their roles allow it.
    pub(super) fn may(&self, known: &OperatorIdentity, verb: OperatorVerb) -> bool {
        self.in_force.terms().verbs.allow(verb, &known.roles)
    }

    /// Those who have signed in on the pages.
    pub(super) fn sign_ins(&self) -> &SignIns {
        &self.sign_ins
    }

    /// The one who has signed in on the pages, and asks with `headers`.
    pub(super) fn signed_in(&self, headers: &HeaderMap) -> Option<SignIn> {
        let one = self.sign_ins.of(headers)?;
        self.stands(&one, &self.in_force.terms()).then_some(one)
    }

    /// The operator whose token of the configuration it is, and what a sign-in keeps of it.
    pub(super) fn of_token(&self, token: &str) -> Option<(OperatorIdentity, ShownToken)> {
        let proved = self.in_force.tokens().proved(token)?;
        let terms = self.in_force.terms();
        let known = terms.named(&proved.name)?.clone();
        let shown = ShownToken::configured(proved.token, proved.lasts);
        Some((known, shown))
    }

    /// Whether it is theirs to read what others are not shown.
    pub(super) fn audits(&self, known: &OperatorIdentity) -> bool {
        self.may(known, OperatorVerb::Audit)
    }

    /// Whether `asked` is still who asks, by what stood when the request began: a body may take seconds to come, and who
    /// was taken away meanwhile says nothing with it.
    pub(super) fn still(
        &self,
        asked: &OperatorIdentity,
        before: &OperatorTerms,
        headers: &HeaderMap,
    ) -> Result<(), Response> {
        let known = self.known(headers)?;
        if known == *asked && before.verbs == self.terms().verbs {
            return Ok(());
        }
        Err(refusal(
            StatusCode::CONFLICT,
            "the configuration of operators has changed while the request came",
            "send it again",
        ))
    }

    /// Who asks, or the answer that says how to prove it.
    pub(super) fn known(&self, headers: &HeaderMap) -> Result<OperatorIdentity, Response> {
        if self.are_open() {
            let hint = "configure `admin.tokens: [ { name: …, token: \"${…}\", roles: […] } ]`; while no \
                        toolgate runs, `toolgate calls` works on the data directory without a token";
            return Err(refusal(
                StatusCode::FORBIDDEN,
                "no operator has a token, so nobody may do this",
                hint,
            ));
        }
        let configured = tokens::bearer(headers).and_then(|token| self.of_token(token));
        if let Some((known, _)) = configured {
            return Ok(known);
        }
        match self.token(headers).map(|token| self.of_issued(token)) {
            Some(Ok(issued)) => Ok(issued.known),
            Some(Err(why)) => Err(tokens::refused(why)),
            None => Err(tokens::refused(None)),
        }
    }
}

/// The answer to one who is an operator, and has none of the roles.
fn lacking(
    allowed: &OperatorVerbs,
    known: &OperatorIdentity,
    verbs: &[OperatorVerb],
    what: &str,
) -> Response {
    let mut roles: Vec<&str> = verbs
        .iter()
        .flat_map(|verb| allowed.roles(*verb))
        .map(String::as_str)
        .collect();
    roles.dedup();
    let keys: Vec<String> = verbs
        .iter()
        .map(|verb| format!("`admin.verbs.{}`", verb.key()))
        .collect();
    let error = match roles[..] {
        [] => format!(
            "no operator may {what}: {} names no role",
            keys.join(" or ")
        ),
        _ => format!(
            "only an operator with one of these roles may {what}: {}",
            roles.join(", ")
        ),
    };
    let hint = format!(
        "ask one who has it, or add it to the `roles` of `{}` in `admin.tokens`, or a role of `{}` to {}",
        known.name,
        known.name,
        keys.join(" or ")
    );
    refusal(StatusCode::FORBIDDEN, &error, &hint)
}

/// Who asks; nobody else comes in.
impl FromRequestParts<Arc<OperatorsDoor>> for OperatorIdentity {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        door: &Arc<OperatorsDoor>,
    ) -> Result<Self, Response> {
        door.operators.known(&parts.headers)
    }
}
