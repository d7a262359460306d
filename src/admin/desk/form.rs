//! A form that an operator sends: read within bounds, and taken only from a page of the same sign-in.

use super::sign_in::SignIn;
use crate::admin::{BODY_TIMEOUT, OperatorsDoor, refusal};
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::Response;
use std::sync::Arc;

/// Bytes of a form.
const MAX_FORM_BYTES: usize = 64 << 10;
/// Fields of a form.
const MAX_FORM_FIELDS: usize = 512;

/// The fields of a form, in their order.
#[derive(Debug)]
pub(super) struct FormFields(Vec<(String, String)>);

/// A form, and who sends it.
#[derive(Debug)]
pub(super) struct SignedForm {
    /// Who.
    pub sign_in: SignIn,
    /// What it says.
    pub fields: FormFields,
}

impl FormFields {
    /// What the first field of the name says; nothing, if there is none.
    pub(super) fn first(&self, name: &str) -> &str {
        let named = self.0.iter().find(|(key, _)| key == name);
        named.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// What all fields of the name say.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Fields whose names begin with `prefix`: the rest of the name, and what they say.
    pub(super) fn behind<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let named = self.0.iter();
        named.filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value.as_str())))
    }

    /// A reason as it is kept: on one line.
    pub(super) fn why(&self) -> String {
        let words: Vec<_> = self.first("why").split_whitespace().collect();
        words.join(" ")
    }

    /// The fields of a query, or of a form.
    pub(super) fn read(text: &[u8]) -> Self {
        let fields = url::form_urlencoded::parse(text).into_owned();
        Self(fields.take(MAX_FORM_FIELDS).collect())
    }

    /// The fields of a form as a browser sends it.
    pub(super) async fn of_body(kind: Option<&[u8]>, body: Body) -> Result<Self, Response> {
        if kind != Some(b"application/x-www-form-urlencoded") {
            return Err(refusal(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "pages send forms",
                "programs use /api/ with a token",
            ));
        }
        let arrived = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_FORM_BYTES)).await;
        match arrived {
            Ok(Ok(body)) => Ok(Self::read(&body)),
            Ok(Err(_)) | Err(_) => Err(refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the form is too long, or did not arrive",
                "shorten it, and send it again",
            )),
        }
    }
}

/// Who has signed in; others are told to, in words that a script reads.
impl FromRequestParts<Arc<OperatorsDoor>> for SignIn {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        door: &Arc<OperatorsDoor>,
    ) -> Result<Self, Response> {
        let known = door.operators.signed_in(&parts.headers);
        known.ok_or_else(|| super::strangers::wanted(parts))
    }
}

impl FromRequest<Arc<OperatorsDoor>> for SignedForm {
    type Rejection = Response;

    async fn from_request(request: Request, door: &Arc<OperatorsDoor>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let sign_in = SignIn::from_request_parts(&mut parts, door).await?;
        let kind = parts
            .headers
            .get(header::CONTENT_TYPE)
            .map(http::HeaderValue::as_bytes);
        let fields = FormFields::of_body(kind, body).await?;
        // A form may take seconds: who was taken away meanwhile says nothing with it.
        SignIn::from_request_parts(&mut parts, door).await?;
        if !sign_in.owns(fields.first("form_secret")) {
            return Err(refusal(
                StatusCode::FORBIDDEN,
                "the form is not of a page that you were shown since you signed in",
                "open the page again, and send the form from there",
            ));
        }
        Ok(Self { sign_in, fields })
    }
}
