//! The answer to one who has not signed in.

use super::{go_on, page, reach};
use crate::admin::refusal;
use askama::Template;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::Response;

#[derive(Template)]
#[template(path = "opening.html")]
struct OpeningPage<'a> {
    path: &'a str,
}

/// A person is led to where one does, a script is told.
pub(super) fn wanted(parts: &Parts) -> Response {
    let accepts = parts
        .headers
        .get(header::ACCEPT)
        .and_then(|kinds| kinds.to_str().ok());
    let is_person =
        parts.method == Method::GET && accepts.is_some_and(|kinds| kinds.contains("text/html"));
    if !is_person {
        let hint = "sign in at /login";
        return refusal(StatusCode::UNAUTHORIZED, "nobody is signed in", hint);
    }
    let path = reach::next(&parts.uri);
    if reach::is_led_from_elsewhere(&parts.headers) {
        return page(StatusCode::OK, &OpeningPage { path: &path });
    }
    let query: String = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("next", &path)
        .finish();
    go_on(&format!("/login?{query}"))
}
