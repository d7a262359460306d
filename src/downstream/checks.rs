//! What a request must be before its body is looked at (threat-model §3B): one Host that is ours,
//! no foreign Origin, origin form, one of each header that decides something, a length, no coding.

use super::Door;
use super::body::{HttpAnswer, error};
use crate::mcp::error_codes::INVALID_REQUEST;
use crate::mcp::headers::{
    IDEMPOTENCY_KEY_HEADER, METHOD_HEADER, NAME_HEADER, PROTOCOL_VERSION_HEADER, SESSION_HEADER,
};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
    HeaderName, ORIGIN, TRANSFER_ENCODING,
};
use http::{Request, StatusCode};
use hyper::body::Incoming;

/// Headers of which a second one would let two readers see two things.
const SINGLE_HEADERS: &[&str] = &[
    SESSION_HEADER,
    PROTOCOL_VERSION_HEADER,
    METHOD_HEADER,
    NAME_HEADER,
    IDEMPOTENCY_KEY_HEADER,
    "content-type",
    "authorization",
    "last-event-id",
    "content-length",
];

/// Refuses what should never have reached us.
pub(super) fn connection(door: &Door, request: &Request<Incoming>) -> Result<(), HttpAnswer> {
    let refuse = |status, words: &str| Err(error(status, INVALID_REQUEST, words));
    let headers = request.headers();
    if request.uri().authority().is_some() {
        return refuse(
            StatusCode::BAD_REQUEST,
            "send the path only, not a whole URL, in the request line",
        );
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return refuse(StatusCode::BAD_REQUEST, "exactly one Host header is needed"),
    };
    if !door
        .hosts
        .iter()
        .any(|allowed| allowed.eq_ignore_ascii_case(host))
    {
        return refuse(
            StatusCode::FORBIDDEN,
            "this Host is not served; add it to `allowed_hosts` if it should be",
        );
    }
    for origin in headers.get_all(ORIGIN) {
        let ours = origin.to_str().is_ok_and(|origin| is_ours(door, origin));
        if !ours {
            return refuse(
                StatusCode::FORBIDDEN,
                "this Origin is not allowed; add it to `allowed_origins` if it should be",
            );
        }
    }
    // Of most requests no header does.
    let repeats_some = headers.len() > headers.keys_len();
    for name in SINGLE_HEADERS.iter().filter(|_| repeats_some) {
        if headers.get_all(*name).iter().nth(1).is_some() {
            return refuse(
                StatusCode::BAD_REQUEST,
                &format!("header {name} occurs more than once"),
            );
        }
    }
    Ok(())
}

fn is_ours(door: &Door, origin: &str) -> bool {
    let host = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    door.origins.iter().any(|allowed| allowed == origin)
        || host.is_some_and(|host| {
            door.hosts
                .iter()
                .any(|allowed| allowed.eq_ignore_ascii_case(host))
        })
}

/// Headers that a program between agent and toolgate adds.
const RELAY_HEADERS: [&str; 3] = ["forwarded", "via", "x-real-ip"];
const RELAY_HEADER_PREFIX: &str = "x-forwarded-";

/// Whether a request has come through a program that reads the answer for its agent: it says so, or
/// it came to this machine alone under a name that other machines use, or to an address that others
/// reach under a name that means their own machine (a forwarded port).
pub(super) fn is_relayed(headers: &HeaderMap, is_local: bool) -> bool {
    let says_so = |name: &HeaderName| {
        RELAY_HEADERS.contains(&name.as_str()) || name.as_str().starts_with(RELAY_HEADER_PREFIX)
    };
    headers.keys().any(says_so) || is_local != host_of(headers).is_some_and(is_this_machine)
}

fn host_of(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(HOST)?.to_str().ok()?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    Some(name.trim_start_matches('[').trim_end_matches(']'))
}

fn is_this_machine(name: &str) -> bool {
    let is_loopback = |ip: std::net::IpAddr| ip.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

/// Refuses a POST whose body would not be plain JSON of a known length.
pub(super) fn body(headers: &HeaderMap, longest: usize) -> Result<(), HttpAnswer> {
    let refuse = |status, words: &str| Err(error(status, INVALID_REQUEST, words));
    // Two framings of one body are how requests are smuggled; a length is all that a JSON-RPC
    // message needs.
    if headers.contains_key(TRANSFER_ENCODING) {
        return refuse(
            StatusCode::LENGTH_REQUIRED,
            "send Content-Length, and no Transfer-Encoding",
        );
    }
    let identity = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| !identity(coding))
    {
        return refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the body without Content-Encoding",
        );
    }
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    if !is_json(kind) {
        return refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send Content-Type: application/json",
        );
    }
    let Some(length) = headers.get(CONTENT_LENGTH) else {
        return refuse(
            StatusCode::LENGTH_REQUIRED,
            "send Content-Length, and no Transfer-Encoding",
        );
    };
    if length
        .to_str()
        .ok()
        .and_then(|length| length.parse::<usize>().ok())
        .is_none_or(|length| length > longest)
    {
        return refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("a message has at most {longest} bytes"),
        );
    }
    Ok(())
}

fn is_json(kind: &str) -> bool {
    let mut parts = kind.split(';');
    let essence = parts.next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        && parts.all(|part| {
            part.trim().is_empty()
                || part.trim().to_ascii_lowercase().replace('"', "") == "charset=utf-8"
        })
}

/// Whether the agent takes all these kinds of answers.
pub(super) fn accepts(headers: &HeaderMap, kinds: &[&str]) -> Result<(), HttpAnswer> {
    let given = || {
        let values = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let parts = values.flat_map(|value| value.split(','));
        parts.map(|part| part.split(';').next().unwrap_or_default().trim())
    };
    let takes = |kind: &str| {
        let family = kind.split('/').next().unwrap_or_default();
        let any = |given: &str| {
            given
                .strip_suffix("/*")
                .is_some_and(|given| given.eq_ignore_ascii_case(family))
        };
        given().any(|given| given.eq_ignore_ascii_case(kind) || given == "*/*" || any(given))
    };
    if kinds.iter().all(|kind| takes(kind)) {
        return Ok(());
    }
    Err(error(
        StatusCode::NOT_ACCEPTABLE,
        INVALID_REQUEST,
        &format!("send Accept: {}", kinds.join(", ")),
    ))
}

/// The bearer token.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A header that occurs exactly once, as text.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    first
        .filter(|_| second.is_none())?
        .to_str()
        .ok()
        .map(str::trim)
}

/// A header as text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    /// 004-01: what reads for an agent shows itself by what it adds, or by a name that does not fit the
    /// address.
    #[test]
    fn what_reads_for_an_agent_shows_itself() {
        let relayed = |header: &'static str, value: &'static str, is_local: bool| {
            let mut headers = HeaderMap::new();
            let host = if is_local {
                "localhost:8080"
            } else {
                "toolgate:8080"
            };
            headers.insert(HOST, HeaderValue::from_static(host));
            headers.insert(header, HeaderValue::from_static(value));
            is_relayed(&headers, is_local)
        };
        for is_local in [true, false] {
            for name in [
                "forwarded",
                "via",
                "x-real-ip",
                "x-forwarded-for",
                "x-forwarded-ssl",
            ] {
                assert!(relayed(name, "1", is_local), "{name}");
            }
            assert!(!relayed("accept", "*/*", is_local));
        }
        assert!(relayed("host", "toolgate.example", true));
        // A forwarded port: it acknowledges everything.
        assert!(relayed("host", "localhost:8080", false) && relayed("host", "127.0.0.1", false));
    }
}
