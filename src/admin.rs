//! Floor 5: the operators' door. It has its own listener, so that nothing here can be reached
//! through the agents' door.
//!
//! Whether it is ready, and metrics, need no token; what is below `/api/` needs one, and most of it
//! a role. What a browser page could do with this door is closed: foreign names in `Host` (DNS
//! rebinding), anything that carries an `Origin`, and elsewhere than below `/api/` every method
//! that could change something (threat-model §3B, §10).

pub(crate) mod approvals;
mod asked;
pub(crate) mod calls;
mod desk;
pub(crate) mod grants;
pub(crate) mod health;
mod hints;
mod identity;
pub(crate) mod incidents;
pub(crate) mod issued;
pub(crate) mod looks;
pub(crate) mod open_counts;
pub(crate) mod openapi;
mod operator_request;
pub(crate) mod operators;
pub(crate) mod overview;
mod quarantine;
pub(crate) mod status;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod tools;
pub(crate) mod undo;

use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::listen::ListenAddress;
use crate::policy::shape::AsWritten;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use desk::streams::EventStreams;
use operators::Operators;
use serde_json::json;
use status::ProcessStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tools::Switches;

/// How long a request's body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The names under which the listener may be called: the loopback names with its port, and what the
/// configuration adds, each as written and, if written without a port, also with the listener's. A
/// socket has no port.
pub(crate) fn hosts(listen: ListenAddress, configured: &[String]) -> Vec<String> {
    let loopback = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned);
    let Some(port) = listen.tcp().map(|address| address.port()) else {
        return loopback
            .into_iter()
            .chain(configured.iter().cloned())
            .collect();
    };
    let mut hosts = Vec::new();
    for name in loopback {
        if matches!(port, 80 | 443) {
            hosts.push(name.clone());
        }
        hosts.push(format!("{name}:{port}"));
    }
    for name in configured {
        hosts.push(name.clone());
        if !has_port(name) {
            hosts.push(format!("{name}:{port}"));
        }
    }
    hosts
}

fn has_port(host: &str) -> bool {
    let after_address = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
    after_address.contains(':')
}

/// What the routes answer from.
struct OperatorsDoor {
    status: Arc<dyn ProcessStatus>,
    switches: Switches,
    operators: Operators,
    /// Who looks on.
    streams: EventStreams,
    /// The place of the one who reads a bundle.
    bundles: Arc<Semaphore>,
}

/// How the door is reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct DoorReach {
    /// All names a request may use, with their ports: see [`hosts`].
    pub hosts: Vec<String>,
    /// What links to the pages begin with, where that is not the listener's own address.
    pub public_url: Option<String>,
    /// Connections that it takes at once.
    pub places: usize,
}

/// The routes for operators.
pub(crate) fn router(
    status: Arc<dyn ProcessStatus>,
    switches: Switches,
    operators: Operators,
    reach: DoorReach,
) -> Router {
    let DoorReach {
        hosts,
        public_url,
        places,
    } = reach;
    operators.sign_ins().are_reached_at(public_url.as_deref());
    let door = Arc::new(OperatorsDoor {
        status,
        switches,
        operators,
        streams: EventStreams::within(places),
        bundles: Arc::new(Semaphore::new(1)),
    });
    health::routes()
        .merge(overview::routes())
        .merge(quarantine::routes())
        .merge(calls::routes())
        .merge(undo::routes())
        .merge(approvals::routes())
        .merge(grants::routes())
        .merge(tools::routes())
        .merge(incidents::routes())
        .merge(tasks::routes())
        .merge(desk::routes())
        .with_state(door)
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(Arc::<[String]>::from(hosts), guard))
        .layer(from_fn(seal))
}

async fn nothing_here() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "there is nothing at this path",
        "use /approvals in a browser, or /healthz, /readyz, /metrics, /api/status, /api/calls, /api/approvals, /api/grants, /api/tasks, /api/tools, \
         /api/incidents or /api/quarantined",
    )
}

async fn not_so() -> Response {
    refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path is not for that method",
        "GET reads, POST changes",
    )
}

/// An answer that is not what was asked for: what is wrong, and what to do.
fn refusal(status: StatusCode, error: &str, hint: &str) -> Response {
    json_answer(status, &json!({ "error": error, "hint": hint }))
}

fn json_answer(status: StatusCode, body: &impl serde::Serialize) -> Response {
    let headers = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    )];
    match serde_json::to_string(body) {
        Ok(text) => (status, headers, text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Who a connection belongs to from this request on: the operator whose token came, or, on what
/// needs none, nobody by name. None: the request has proved nothing.
pub(crate) fn holder<B>(
    operators: &Operators,
    hosts: &[String],
    request: &axum::http::Request<B>,
) -> Option<String> {
    if refused(hosts, request.method(), request.uri(), request.headers()).is_some() {
        return None;
    }
    if desk::reach::is_page(request.uri().path()) {
        let known = operators.signed_in(request.headers());
        return known.map(|known| known.operator.name);
    }
    if operators.brings_token(request.headers()) {
        return operators
            .known(request.headers())
            .ok()
            .map(|known| known.name);
    }
    health::PUBLIC_PATHS
        .contains(&request.uri().path())
        .then(String::new)
}

/// The answer to a request that was not read, for want of room; its connection ends.
pub(crate) fn overloaded(words: &str) -> Response {
    let mut answer = refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        words,
        "close connections that are not used",
    );
    answer
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// The answer to one who goes on guessing; the connection ends.
pub(crate) fn too_many(wait: Duration) -> Response {
    let words = "too many requests from this address prove nothing";
    let mut answer = refusal(
        StatusCode::TOO_MANY_REQUESTS,
        words,
        "send a token of `admin.tokens`",
    );
    let headers = answer.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// The body of a request that changes something; none when it is not JSON as it has to be.
async fn json_body(
    headers: &HeaderMap,
    body: Body,
    bytes: usize,
) -> Result<Option<Text>, Response> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    if !kind
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    {
        let hint = "send `Content-Type: application/json`";
        return Err(refusal(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body has to be JSON",
            hint,
        ));
    }
    let Ok(arrived) = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, bytes)).await else {
        return Ok(None);
    };
    // One that is cut off is nobody's to answer.
    let body = arrived.map_err(|_| {
        let error = format!("the request is longer than {} KiB", bytes >> 10);
        refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            &error,
            "shorten it; of a long result, say what matters",
        )
    })?;
    Ok(Text::read(body, &AGENT_JSON_LIMITS).ok())
}

/// What a body says, where it is all that one of this kind has to say, and nothing else (002-07).
fn parse_body<T: AsWritten>(body: Option<&Text>) -> Option<T> {
    // A list would be read as members without names.
    body.filter(|body| body.is_object())?.parse().ok()
}

fn unfit(hint: &str) -> Response {
    refusal(StatusCode::BAD_REQUEST, "the request cannot be used", hint)
}

async fn guard(State(hosts): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    match refused(&hosts, request.method(), request.uri(), request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

fn refused(hosts: &[String], method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    let names = headers.get_all(header::HOST);
    let mut names = names.iter();
    let (Some(name), None, None) = (names.next(), names.next(), uri.authority()) else {
        let hint = "send a plain path and the listener's own name, such as 127.0.0.1 and its port, in Host";
        return Some(refusal(
            StatusCode::BAD_REQUEST,
            "a request needs exactly one Host",
            hint,
        ));
    };
    if !hosts
        .iter()
        .any(|host| name.as_bytes().eq_ignore_ascii_case(host.as_bytes()))
    {
        let hint = "use 127.0.0.1 or localhost with the listener's port, or add the name to `admin.allowed_hosts`";
        return Some(refusal(
            StatusCode::FORBIDDEN,
            "this Host is not served here",
            hint,
        ));
    }
    let is_page = desk::reach::is_page(uri.path());
    let is_own = is_page && desk::reach::is_own(name, method, headers);
    if (is_page || headers.contains_key(header::ORIGIN)) && !is_own {
        let hint = "open the address directly; pages of other origins have no access";
        return Some(refusal(
            StatusCode::FORBIDDEN,
            "requests of web pages are not served here",
            hint,
        ));
    }
    let may_change = method == Method::POST && (uri.path().starts_with("/api/") || is_page);
    if method != Method::GET && method != Method::HEAD && !may_change {
        let mut answer = refusal(
            StatusCode::METHOD_NOT_ALLOWED,
            "nothing can be changed here",
            "use GET",
        );
        answer
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(answer);
    }
    None
}

/// What every answer carries, refusals too.
async fn seal(request: Request, next: Next) -> Response {
    let is_page = desk::reach::is_page(request.uri().path());
    let policy = if is_page {
        desk::PAGE_POLICY
    } else {
        "default-src 'none'; frame-ancestors 'none'"
    };
    let mut answer = next.run(request).await;
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}
