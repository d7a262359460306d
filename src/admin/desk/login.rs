//! Signing in with a token, once, and out.

use super::form::{FormFields, SignedForm};
use super::frame::{PageFrame, PageNote};
use super::sign_in::{CookieName, ShownToken};
use super::{go_on, page, reach};
use crate::admin::OperatorsDoor;
use crate::admin::identity::OperatorIdentity;
use crate::admin::operators::RejectedToken;
use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;
use std::time::Duration;

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
    if door.operators.signed_in(&headers).is_some() {
        return go_on(next);
    }
    // An operator whom a proxy has named need not show a token.
    if let Some(issued) = door.operators.of_proxy(&headers) {
        let token = ShownToken::issued(issued.lasts).signed_by(issued.proof);
        return sign_in(&door, &headers, issued.known, token, next);
    }
    let note = door
        .operators
        .are_open()
        .then(|| PageNote::bad("No operator has a token: configure `admin.tokens`."));
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
    let token = fields.first("token").trim();
    // Every request's own token was seen to before; this one stands in its body.
    if let Some(lacking) = door.operators.key_for(token) {
        door.operators.supply(lacking).await;
    }
    let of_issued = || {
        let issued = door.operators.of_issued(token)?;
        let shown = ShownToken::issued(issued.lasts).signed_by(issued.proof);
        Ok((issued.known, shown))
    };
    match door.operators.of_token(token).map_or_else(of_issued, Ok) {
        Ok((known, token)) => Ok(sign_in(&door, &headers, known, token, next)),
        Err(why) => Ok(rejected(&door.operators.rejected(why), next)),
    }
}

/// The form once more, and why the token was not taken.
fn rejected(why: &RejectedToken, next: &str) -> Response {
    let words = format!("You are not signed in: {}; {}.", why.words, why.hint);
    let mut answer = shown(why.status, next, Some(PageNote::bad(words)));
    why.delay(&mut answer);
    answer
}

/// Signs the operator in who has shown `token`, and goes on to where one wanted to be.
fn sign_in(
    door: &OperatorsDoor,
    headers: &HeaderMap,
    known: OperatorIdentity,
    token: ShownToken,
    next: &str,
) -> Response {
    let (sign_ins, lasts) = (door.operators.sign_ins(), token.lasts);
    let Some(cookie) = sign_ins.begin(known, token) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let name = sign_ins.cookie_name(headers);
    let mut answer = go_on(next);
    set_cookie(&mut answer, &name, &cookie, lasts);
    answer
}

async fn leave(
    State(door): State<Arc<OperatorsDoor>>,
    headers: HeaderMap,
    _: SignedForm,
) -> Response {
    let sign_ins = door.operators.sign_ins();
    sign_ins.end(&headers);
    let mut answer = go_on("/login");
    let name = sign_ins.cookie_name(&headers);
    set_cookie(&mut answer, &name, "", Duration::ZERO);
    answer
}

/// For `lasts` from now on.
fn set_cookie(answer: &mut Response, name: &CookieName, value: &str, lasts: Duration) {
    let cookie = name.set_to(value, &format!("; Max-Age={}", lasts.as_secs()));
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
