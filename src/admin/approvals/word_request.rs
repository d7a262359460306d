//! A request in which an operator says something of one held call: of which, who it is, and what they say.

use super::no_id;
use crate::admin::grants::GRANT_BODY_BYTES_MAX;
use crate::admin::operators::OperatorIdentity;
use crate::admin::{OperatorsDoor, json_body, parse_body, unfit};
use crate::model::ids::ActionId;
use crate::policy::shape::AsWritten;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// What can be said of a held call, as a body of JSON.
pub(super) trait WordForm: AsWritten {
    /// What to send, for who sends something else.
    const FORM: &'static str;
}

/// What an operator says of one held call.
pub(super) struct WordRequest<T> {
    /// Where it is said.
    pub door: Arc<OperatorsDoor>,
    /// Who says it, which the token names.
    pub known: OperatorIdentity,
    /// Of which call.
    pub id: ActionId,
    /// What.
    pub body: T,
}

impl<T: WordForm> FromRequest<Arc<OperatorsDoor>> for WordRequest<T> {
    type Rejection = Response;

    async fn from_request(request: Request, door: &Arc<OperatorsDoor>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let named = Path::<String>::from_request_parts(&mut parts, door).await;
        let Path(id) = named.map_err(IntoResponse::into_response)?;
        let before = door.operators.terms();
        let known = OperatorIdentity::from_request_parts(&mut parts, door).await?;
        let body = json_body(&parts.headers, body, GRANT_BODY_BYTES_MAX).await?;
        door.operators.still(&known, &before, &parts.headers)?;
        let id = id.parse().map_err(|_| no_id())?;
        let body = parse_body(body.as_ref()).ok_or_else(|| unfit(T::FORM))?;
        Ok(Self {
            door: door.clone(),
            known,
            id,
            body,
        })
    }
}
