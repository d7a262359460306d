//! What an HTTP server can do wrong around its tools: statuses, answers that never come, answers
//! that come twice.

use super::fault::{Fault, Orders};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use serde_json::Value;

/// The longest message, in bytes.
const LONGEST: usize = 8 << 20;

/// Lays the faults of the wire around what answers.
pub fn around(router: Router) -> Router {
    router.layer(from_fn(faulty))
}

async fn faulty(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, LONGEST).await else {
        return bare(400);
    };
    let message: Value = serde_json::from_str(&String::from_utf8_lossy(&bytes)).unwrap_or_default();
    let fault = match message["method"].as_str() {
        Some("tools/call") => Orders::of(&message["params"]["arguments"]).fault,
        _ => Fault::None,
    };
    if let Some(status) = fault.status_before() {
        return bare(status);
    }
    if let Fault::Says {
        status,
        body,
        runs: false,
    } = fault
    {
        return said(status, body.write(&message["id"]));
    }
    let answer = next.run(Request::from_parts(head, Body::from(bytes))).await;
    match (fault, fault.status_after()) {
        (Fault::Says { status, body, .. }, _) => said(status, body.write(&message["id"])),
        (_, Some(status)) => bare(status),
        // The connection's task ends, and with it the connection, without a word.
        (Fault::Drop, _) => std::panic::resume_unwind(Box::new("told to drop the connection")),
        (Fault::Twice, _) => twice(answer).await,
        _ => answer,
    }
}

fn bare(status: u16) -> Response {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

fn said(status: u16, (kind, body): (&'static str, String)) -> Response {
    let mut answer = bare(status);
    *answer.body_mut() = Body::from(body);
    if !kind.is_empty() {
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    answer
}

async fn twice(answer: Response) -> Response {
    let events = HeaderValue::from_static("text/event-stream");
    let (mut head, body) = answer.into_parts();
    let bytes = to_bytes(body, LONGEST).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let text = if head.headers.get(header::CONTENT_TYPE) == Some(&events) {
        text.into_owned()
    } else {
        format!("data: {text}\n\n")
    };
    head.headers.insert(header::CONTENT_TYPE, events);
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(text.repeat(2)))
}
