//! The operators' pages and their streams, without a network: who is shown what, and for how long.

use super::approvals::{ApprovalsFixture, BOB_TOKEN};
use super::*;
use crate::model::absence::DecidingRight;
use crate::store::approvals::{DecisionRequest, decide};
use axum::http::header;
use std::time::Duration;

const HOST: (&str, &str) = ("host", "127.0.0.1:7778");
const STREAM: &str = "/approvals/events";

/// Sends a form of the door's own pages.
async fn sends(
    desk: &ApprovalsFixture,
    path: &str,
    more: &[(&str, &str)],
    form: &str,
) -> Response<Body> {
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let headers = [&[HOST, kind], more].concat();
    let request = request("POST", path, &headers).map(|_| Body::from(form.to_owned()));
    desk.router.clone().oneshot(request).await.unwrap()
}

/// Signs in with the token; the cookie.
async fn signs_in(desk: &ApprovalsFixture, token: &str) -> String {
    let origin = ("origin", "http://127.0.0.1:7778");
    let answer = sends(desk, "/login", &[origin], &format!("token={token}")).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

async fn gets(desk: &ApprovalsFixture, path: &str, known: (&str, &str)) -> Response<Body> {
    let request = request("GET", path, &[HOST, known]);
    desk.router.clone().oneshot(request).await.unwrap()
}

async fn text(answer: Response<Body>) -> String {
    let read = tokio::time::timeout(Duration::from_secs(20), answer.into_body().collect());
    let read = read.await.expect("the answer ends").unwrap();
    String::from_utf8(read.to_bytes().to_vec()).unwrap()
}

/// threat-model §3E: among the last like calls of a card are none that are for other operators.
#[tokio::test]
async fn like_calls_of_others_are_not_told_of() {
    let desk = ApprovalsFixture::new();
    let theirs = desk.hold_for("payroll", 1, json!({ "amount": 1 })).await;
    let said = DecisionRequest {
        who: "max".to_owned(),
        right: DecidingRight {
            roles: vec!["payroll".to_owned()],
            on_behalf: None,
        },
        allow: false,
        why: "a-reason-of-others".to_owned(),
        usual: None,
        shown: None,
        surface: None,
    };
    let id = theirs.parse().unwrap();
    decide(&*desk.store, &|_| None, id, said).await.unwrap();
    let shown = format!("/approvals/{}", desk.hold(2).await);
    for (token, is_told) in [(ANN_TOKEN, false), (BOB_TOKEN, true)] {
        let cookie = signs_in(&desk, token).await;
        let page = text(gets(&desk, &shown, ("cookie", &cookie)).await).await;
        assert!(page.contains("pays an invoice"), "{page}");
        for secret in [theirs.as_str(), "a-reason-of-others"] {
            assert_eq!(page.contains(secret), is_told, "{token} {secret}: {page}");
        }
    }
}

/// What stands in the page behind `before`, up to the next quotation mark.
fn quoted(page: &str, before: &str) -> String {
    let (_, behind) = page.split_once(&format!("{before}=\"")).expect(before);
    behind.split('"').next().unwrap().to_owned()
}

/// threat-model §3E: a form that changes arguments tells nothing of a call that is for others: neither that it is
/// there, nor what its arguments are.
#[tokio::test]
async fn a_form_tells_nothing_of_calls_for_others() {
    let desk = ApprovalsFixture::new();
    let arguments = json!({ "amount": 1, "note": "a text" });
    let theirs = desk.hold_for("payroll", 1, arguments).await;
    let never = crate::model::ids::ActionId::generate().to_string();
    let cookie = signs_in(&desk, ANN_TOKEN).await;
    let list = text(gets(&desk, "/approvals", ("cookie", &cookie)).await).await;
    let secret = quoted(&list, "name=\"form_secret\" value");
    let headers = [("origin", "http://127.0.0.1:7778"), ("cookie", &*cookie)];
    for id in [&theirs, &never] {
        for (field, value) in [("amount", "abc"), ("note", "abc"), ("amount", "2")] {
            let form =
                format!("decision=edit&edit:/{field}={value}&why=x&shown=z&form_secret={secret}");
            let answer = sends(&desk, &format!("/approvals/{id}"), &headers, &form).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{id} {field}");
            let said = text(answer).await;
            let is_gone = said.contains("expired or not found");
            assert!(is_gone && !said.contains("no JSON"), "{id} {field}: {said}");
        }
    }
}

/// Pages say when they were made, by the clock that decides, whatever the wall's shows. A word that a page sends too
/// late is refused, and the answer is the call as it stands, without a form.
#[tokio::test]
async fn pages_go_by_the_clock_that_decides() {
    let desk = ApprovalsFixture::new();
    let path = format!("/approvals/{}", desk.hold(1).await);
    let cookie = signs_in(&desk, ANN_TOKEN).await;
    desk.hands.jump(3600);
    desk.hands.pass(Duration::from_millis(599_999));
    let mut page = String::new();
    for shown in ["/approvals", &path] {
        page = text(gets(&desk, shown, ("cookie", &cookie)).await).await;
        let time = |name| quoted(&page, name).parse::<jiff::Timestamp>().unwrap();
        let left = time("data-until").as_millisecond() - time("data-now").as_millisecond();
        assert_eq!(left, 1, "{page}");
    }
    let value = |name: &str| quoted(&page, &format!("name=\"{name}\" value"));
    let (secret, shown) = (value("form_secret"), value("shown"));
    let form = format!("decision=allow&why=due&form_secret={secret}&shown={shown}");
    let headers = [("origin", "http://127.0.0.1:7778"), ("cookie", &*cookie)];
    desk.hands.pass(Duration::from_millis(1));
    let late = sends(&desk, &path, &headers, &form).await;
    assert_eq!(late.status(), StatusCode::CONFLICT);
    let late = text(late).await;
    assert!(late.contains("data-state=\"expired\""), "{late}");
    assert!(!late.contains("name=\"decision\""), "{late}");
    let never = format!("/approvals/{}", crate::model::ids::ActionId::generate());
    let unknown = sends(&desk, &never, &headers, &form).await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

/// A form of a browser says where it comes from; what does not is no page's of this door.
#[tokio::test]
async fn a_form_says_where_it_comes_from() {
    let desk = ApprovalsFixture::new();
    let form = format!("token={ANN_TOKEN}");
    for (more, status) in [
        (&[][..], StatusCode::FORBIDDEN),
        (
            &[("sec-fetch-site", "same-site")][..],
            StatusCode::FORBIDDEN,
        ),
        (
            &[("sec-fetch-site", "cross-site")][..],
            StatusCode::FORBIDDEN,
        ),
        (
            &[("origin", "http://127.0.0.1:5173")][..],
            StatusCode::FORBIDDEN,
        ),
        (
            &[("sec-fetch-site", "same-origin")][..],
            StatusCode::SEE_OTHER,
        ),
        (
            &[("origin", "http://127.0.0.1:7778")][..],
            StatusCode::SEE_OTHER,
        ),
    ] {
        let answer = sends(&desk, "/login", more, &form).await;
        assert_eq!(answer.status(), status, "{more:?}");
    }
}

/// Streams have a part of the places, one operator a part of that, and who finds none is told when to look again.
#[tokio::test]
async fn streams_leave_places_for_others() {
    let desk = ApprovalsFixture::new();
    let bearer = |token: &str| format!("Bearer {token}");
    let (ann, bob) = (bearer(ANN_TOKEN), bearer(BOB_TOKEN));
    let opens = async |who: &str| {
        let path = "/api/approvals/events";
        gets(&desk, path, ("authorization", who)).await
    };
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(opens(&ann).await);
    }
    let crowded = opens(&ann).await;
    assert_eq!(crowded.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(crowded.headers()[header::RETRY_AFTER], "5");
    open.push(opens(&bob).await);
    assert!(open.iter().all(|one| one.status() == StatusCode::OK));
    assert_eq!(opens(&bob).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let id = desk.hold(1).await;
    let path = format!("/api/approvals/{id}");
    let word = json!({ "decision": "deny", "why": "too dear" }).to_string();
    let (status, told) = desk.ask(Some(ANN_TOKEN), &path, Some(&word)).await;
    assert_eq!(
        status, 200,
        "those who look on keep no one from deciding: {told}"
    );
    open.remove(0);
    assert_eq!(
        opens(&ann).await.status(),
        StatusCode::OK,
        "one is free again"
    );
}

/// threat-model §3E: what stands open for a sign-in ends with it, at once.
#[tokio::test]
async fn a_stream_ends_when_its_operator_signs_out() {
    let desk = ApprovalsFixture::new();
    let cookie = signs_in(&desk, ANN_TOKEN).await;
    let known = ("cookie", cookie.as_str());
    let stream = gets(&desk, STREAM, known).await;
    assert_eq!(stream.status(), StatusCode::OK);
    let list = text(gets(&desk, "/approvals", known).await).await;
    let secret = list.split("name=\"form_secret\" value=\"").nth(1).unwrap();
    let secret = secret.split('"').next().unwrap();
    let origin = ("origin", "http://127.0.0.1:7778");
    let left = sends(
        &desk,
        "/logout",
        &[known, origin],
        &format!("form_secret={secret}"),
    )
    .await;
    assert_eq!(left.status(), StatusCode::SEE_OTHER);
    let told = text(stream).await;
    assert!(
        told.starts_with("retry:") && !told.contains("event:"),
        "{told}"
    );
    let again = gets(&desk, STREAM, known).await;
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
}
