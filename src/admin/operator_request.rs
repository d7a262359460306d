//! A request of an operator that says something in its body: who asks, where, and what.

use super::operators::OperatorIdentity;
use super::operators::in_force::OperatorTerms;
use super::{OperatorsDoor, json_body, parse_body, unfit};
use crate::mcp::json::Text;
use crate::model::verbs::OperatorVerb;
use crate::policy::shape::AsWritten;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::response::Response;
use std::sync::Arc;

/// One of them. Nobody else comes in.
pub(super) struct OperatorRequest {
    /// The door that was asked.
    pub(super) door: Arc<OperatorsDoor>,
    /// Who asks.
    pub(super) known: OperatorIdentity,
    /// By what stood then.
    before: Arc<OperatorTerms>,
    headers: HeaderMap,
    body: Body,
}

impl OperatorRequest {
    /// The answer to an operator whose roles do not allow `verb`.
    pub(super) fn permit(&self, verb: OperatorVerb) -> Result<(), Response> {
        self.permit_to(verb.words(), verb)
    }

    /// The same to one who wants to do `what` by that.
    pub(super) fn permit_to(&self, what: &str, verb: OperatorVerb) -> Result<(), Response> {
        self.door.operators.permit(&self.known, &[verb], what)
    }

    /// The body, of `most` bytes at most; none when it is not JSON as it has to be. Once.
    pub(super) async fn text(&mut self, most: usize) -> Result<Option<Text>, Response> {
        let body = std::mem::take(&mut self.body);
        let text = json_body(&self.headers, body, most).await?;
        let operators = &self.door.operators;
        operators.still(&self.known, &self.before, &self.headers)?;
        Ok(text)
    }

    /// What the body says, of `most` bytes at most; `hint` is the answer to one that says anything else.
    /// Once.
    pub(super) async fn written<T: AsWritten>(
        &mut self,
        most: usize,
        hint: &str,
    ) -> Result<T, Response> {
        let body = self.text(most).await?;
        parse_body(body.as_ref()).ok_or_else(|| unfit(hint))
    }
}

impl FromRequest<Arc<OperatorsDoor>> for OperatorRequest {
    type Rejection = Response;

    async fn from_request(request: Request, door: &Arc<OperatorsDoor>) -> Result<Self, Response> {
        let before = door.operators.terms();
        let known = door.operators.known(request.headers())?;
        let (parts, body) = request.into_parts();
        Ok(Self {
            door: door.clone(),
            known,
            before,
            headers: parts.headers,
            body,
        })
    }
}
