//! The operators' pages: what waits for a person, what nobody knows the end of, which tools are away,
//! and incidents, for a browser. Everything is rendered here, works with plain forms, and comes from this
//! program; a script adds keys, countdowns and what happens meanwhile.
//!
//! Who asks is who signed in: a cookie, which only these pages take, and never `/api/`. A form brings
//! the secret of its sign-in, so that no other page can send one (threat-model §3B).

mod assets;
mod batch;
mod brought;
mod calls;
mod card;
mod decisions;
mod editing;
mod effect;
mod form;
mod frame;
mod granting;
mod grants;
mod incidents;
mod live;
mod login;
mod overview;
mod past;
pub(super) mod reach;
pub(super) mod sign_in;
mod strangers;
pub(super) mod streams;
mod tools;
mod undoing;
mod visible;

use super::OperatorsDoor;
use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Reasons for which calls are denied most often; an operator may write another.
const DENY_REASONS: [&str; 3] = [
    "The arguments are wrong.",
    "This is not needed.",
    "Ask the person you work for first.",
];
/// What the pages may do: nothing but what comes from here.
pub(super) const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .merge(assets::routes())
        .merge(login::routes())
        .merge(overview::routes())
        .merge(decisions::routes())
        .merge(batch::routes())
        .merge(live::routes())
        .merge(calls::routes())
        .merge(undoing::routes())
        .merge(tools::routes())
        .merge(incidents::routes())
        .merge(grants::routes())
}

/// A page, or what is wrong with its template.
fn page(status: StatusCode, template: &impl askama::Template) -> Response {
    match template.render() {
        Ok(html) => {
            let kind = HeaderValue::from_static("text/html; charset=utf-8");
            (status, [(header::CONTENT_TYPE, kind)], html).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "a page of operators cannot be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Sends the browser on to `path`, which it gets.
fn go_on(path: &str) -> Response {
    let to = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/approvals"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}
