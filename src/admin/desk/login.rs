//! Signing in with a token, once, and out.

use super::form::{FormFields, SignedForm};
use super::frame::{PageFrame, PageNote};
use super::sign_in::{COOKIE_NAME, SIGN_IN_DURATION};
use super::{go_on, page, reach};
use crate::admin::OperatorsDoor;
use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    frame: PageFrame<'a>,
    next: &'a str,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/", get(async || go_on("/approvals")))
        .route("/login", get(ask).post(enter))
        .route("/logout", post(leave))
}

async fn ask(State(door): State<Arc<OperatorsDoor>>, headers: HeaderMap, uri: Uri) -> Response {
    let query = FormFields::read(uri.query().unwrap_or_default().as_bytes());
    let next = reach::checked_next(query.first("next"));
    if door.operators.sign_ins().of(&headers).is_some() {
        return go_on(next);
    }
    let note = door.operators.is_empty().then(|| {
        PageNote::bad("No operator has a token: configure `admin.tokens` and start toolgate anew.")
    });
    shown(StatusCode::OK, next, note)
}

async fn enter(
    State(door): State<Arc<OperatorsDoor>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Response> {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let fields = FormFields::of_body(kind, body).await?;
    let next = reach::checked_next(fields.first("next"));
    let Some(known) = door.operators.of_token(fields.first("token").trim()) else {
        let note =
            PageNote::bad("This is the token of no operator. Tokens stand in `admin.tokens`.");
        return Ok(shown(StatusCode::UNAUTHORIZED, next, Some(note)));
    };
    let Some(cookie) = door.operators.sign_ins().begin(known) else {
        return Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
    };
    let seconds = SIGN_IN_DURATION.as_secs();
    let mut answer = go_on(next);
    set_cookie(
        &mut answer,
        &format!("{cookie}; Max-Age={seconds}"),
        door.is_reached_by_tls(&headers),
    );
    Ok(answer)
}

async fn leave(
    State(door): State<Arc<OperatorsDoor>>,
    headers: HeaderMap,
    _: SignedForm,
) -> Response {
    door.operators.sign_ins().end(&headers);
    let mut answer = go_on("/login");
    set_cookie(&mut answer, "; Max-Age=0", door.is_reached_by_tls(&headers));
    answer
}

fn set_cookie(answer: &mut Response, value: &str, is_secure: bool) {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

fn shown(status: StatusCode, next: &str, note: Option<PageNote>) -> Response {
    let frame = PageFrame {
        title: "Sign in",
        page: "login",
        who: "",
        form_secret: None,
        note,
    };
    page(status, &LoginPage { frame, next })
}
