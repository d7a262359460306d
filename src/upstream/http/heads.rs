//! The heads of the requests to one tool server: what is the same in each of them is made once.

use super::Wire;
use crate::mcp::headers::{
    HOPS_HEADER, IDEMPOTENCY_KEY_HEADER, METHOD_HEADER, NAME_HEADER, PROTOCOL_VERSION_HEADER,
    SESSION_HEADER, encode, name_of,
};
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::{Era, Revision};
use crate::model::reply::Fault;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;

const HOPS_NAME: HeaderName = HeaderName::from_static(HOPS_HEADER);
const IDEMPOTENCY_KEY_NAME: HeaderName = HeaderName::from_static(IDEMPOTENCY_KEY_HEADER);
const METHOD_NAME: HeaderName = HeaderName::from_static(METHOD_HEADER);
const TOOL_NAME: HeaderName = HeaderName::from_static(NAME_HEADER);
const VERSION_NAME: HeaderName = HeaderName::from_static(PROTOCOL_VERSION_HEADER);
const SESSION_NAME: HeaderName = HeaderName::from_static(SESSION_HEADER);
const TRACE_PARENT_NAME: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE_NAME: HeaderName = HeaderName::from_static("tracestate");

const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json");
const ACCEPT_JSON_OR_EVENTS: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
const PLACEHOLDER_VALUE: HeaderValue = HeaderValue::from_static("");

/// Of most requests that a modern server is sent.
const CALL_METHOD: &str = "tools/call";
const CALL_REVISION: Revision = Revision::NEWEST_MODERN;

/// What requests to one server begin with.
pub(super) struct RequestHeads {
    /// Any.
    all: HeaderMap,
    /// A modern request, with places for what differs: a map that does not grow costs less.
    modern: HeaderMap,
    /// A call of [`CALL_REVISION`], with places for its tool's name and its hops.
    call: HeaderMap,
}

impl RequestHeads {
    /// With these headers in every request.
    pub(super) fn new(all: HeaderMap) -> Self {
        let mut modern = HeaderMap::with_capacity(all.len() + 8);
        modern.extend(all.clone());
        modern.insert(CONTENT_TYPE, JSON_TYPE);
        modern.insert(ACCEPT, ACCEPT_JSON_OR_EVENTS);
        for name in [VERSION_NAME, METHOD_NAME, TOOL_NAME] {
            modern.insert(name, PLACEHOLDER_VALUE);
        }
        let mut call = modern.clone();
        call.insert(
            VERSION_NAME,
            HeaderValue::from_static(CALL_REVISION.as_str()),
        );
        call.insert(METHOD_NAME, HeaderValue::from_static(CALL_METHOD));
        call.insert(HOPS_NAME, PLACEHOLDER_VALUE);
        Self { all, modern, call }
    }

    /// Those of every request.
    pub(super) fn of_all(&self) -> &HeaderMap {
        &self.all
    }

    /// Of a request that is no message, or whose message says nothing of itself in headers.
    pub(super) fn plain(&self, wire: &Wire) -> Result<HeaderMap, Fault> {
        let mut headers = self.all.clone();
        if let Some(revision) = wire.revision {
            headers.insert(VERSION_NAME, HeaderValue::from_static(revision.as_str()));
        }
        add_wire(&mut headers, wire)?;
        Ok(headers)
    }

    /// Of a message in a POST, whatever it is.
    pub(super) fn posted(&self, wire: &Wire) -> Result<HeaderMap, Fault> {
        let mut headers = self.plain(wire)?;
        headers.insert(CONTENT_TYPE, JSON_TYPE);
        headers.insert(ACCEPT, ACCEPT_JSON_OR_EVENTS);
        Ok(headers)
    }

    /// Of `message` in a POST.
    pub(super) fn of(&self, message: &Message, wire: &Wire) -> Result<HeaderMap, Fault> {
        let revision = wire.revision.filter(|revision| {
            message.kind == MessageKind::Request && revision.era() == Era::Modern
        });
        let Some(revision) = revision else {
            return self.posted(wire);
        };
        let mut headers = if revision == CALL_REVISION && message.method == CALL_METHOD {
            let mut headers = self.call.clone();
            if !wire.params.iter().any(|(name, _)| name == HOPS_HEADER) {
                headers.remove(HOPS_NAME);
            }
            headers
        } else {
            let mut headers = self.modern.clone();
            headers.insert(VERSION_NAME, HeaderValue::from_static(revision.as_str()));
            headers.insert(
                METHOD_NAME,
                HeaderValue::from_str(&message.method).map_err(|_| unfit())?,
            );
            headers
        };
        match name_of(message) {
            Some(name) => drop(headers.insert(TOOL_NAME, mirrored(&name).map_err(|_| unfit())?)),
            None => drop(headers.remove(TOOL_NAME)),
        }
        add_wire(&mut headers, wire)?;
        Ok(headers)
    }
}

fn unfit() -> Fault {
    Fault::unsent("the method cannot travel as a header")
}

/// A name as a header mirrors it: the bytes of the message themselves, where these can travel so.
fn mirrored(name: &Text) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let read = name.as_str().unwrap_or_default();
    match (encode(&read), name.unescaped()) {
        (Cow::Borrowed(_), Some(written)) => HeaderValue::from_maybe_shared(written),
        (encoded, _) => HeaderValue::from_str(&encoded),
    }
}

/// The session, and what was made of the message for headers.
fn add_wire(headers: &mut HeaderMap, wire: &Wire) -> Result<(), Fault> {
    if let Some(session) = &wire.session {
        headers.insert(SESSION_NAME, session.clone());
    }
    for (name, value) in &wire.params {
        let (Some(name), Ok(value)) = (header_name(name), HeaderValue::from_str(value)) else {
            return Err(Fault::unsent("an argument cannot travel as a header"));
        };
        headers.insert(name, value);
    }
    Ok(())
}

/// Those that most calls have need no memory of their own.
fn header_name(name: &str) -> Option<HeaderName> {
    match name {
        HOPS_HEADER => Some(HOPS_NAME),
        IDEMPOTENCY_KEY_HEADER => Some(IDEMPOTENCY_KEY_NAME),
        "traceparent" => Some(TRACE_PARENT_NAME),
        "tracestate" => Some(TRACE_STATE_NAME),
        _ => HeaderName::from_bytes(name.as_bytes()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::reply::Sent;
    use serde_json::json;

    fn heads() -> RequestHeads {
        let mut all = HeaderMap::new();
        all.insert("x-team", HeaderValue::from_static("blue"));
        RequestHeads::new(all)
    }

    fn request(method: &str, params: &serde_json::Value) -> Message {
        Message::request(1, method, Some(Text::of(params)))
    }

    fn modern(params: &[(&str, &str)]) -> Wire {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Wire {
            revision: Some(CALL_REVISION),
            params: params.iter().map(owned).collect(),
            ..Wire::default()
        }
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let shown = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        let mut all: Vec<String> = headers.iter().map(shown).collect();
        all.sort();
        all
    }

    /// What was prepared for a call is what each header says, and no place for one is left empty.
    #[test]
    fn a_call_is_headed_by_what_is_its_own() {
        let same = [
            "accept: application/json, text/event-stream",
            "content-type: application/json",
        ];
        for (name, mirrored) in [
            ("read", "read"),
            ("a\"b", "a\"b"),
            ("Zürich", "=?base64?WsO8cmljaA==?="),
            (" x", "=?base64?IHg=?="),
        ] {
            let call = request("tools/call", &json!({ "name": name }));
            let headers = heads().of(&call, &modern(&[(HOPS_HEADER, "2")])).unwrap();
            let own = [
                "mcp-method: tools/call".to_owned(),
                format!("mcp-name: {mirrored}"),
                "mcp-protocol-version: 2026-07-28".to_owned(),
                "toolgate-hops: 2".to_owned(),
                "x-team: blue".to_owned(),
            ];
            let all = same.iter().map(|&line| line.to_owned()).chain(own);
            assert_eq!(shown(&headers), all.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_place_that_nothing_comes_into_is_no_header() {
        for (method, params) in [
            ("tools/call", json!({ "name": 1 })),
            ("tools/call", json!({ "name": "read" })),
            ("tools/list", json!({})),
            ("resources/read", json!({ "uri": "file:///a" })),
        ] {
            let headers = heads().of(&request(method, &params), &modern(&[])).unwrap();
            assert!(headers.values().all(|value| !value.is_empty()), "{method}");
            assert_eq!(headers[METHOD_NAME], method);
            let mirrored = headers.get(TOOL_NAME).map(HeaderValue::as_bytes);
            let name = params.get("name").or(params.get("uri"));
            let name = name.and_then(serde_json::Value::as_str);
            assert_eq!(mirrored, name.map(str::as_bytes), "{method}");
            assert!(!headers.contains_key(HOPS_NAME), "{method}");
        }
    }

    /// A header that is made of an argument is in the head, and stands for no other one.
    #[test]
    fn what_cannot_be_a_header_is_not_sent() {
        let call = request("tools/call", &json!({ "name": "read" }));
        let wire = modern(&[("mcp-param-region", "eu"), ("TraceParent", "00-1")]);
        let headers = heads().of(&call, &wire).unwrap();
        assert_eq!(headers["mcp-param-region"], "eu");
        assert_eq!(headers[TRACE_PARENT_NAME], "00-1");
        for broken in [("a b", "eu"), ("mcp-param-region", "e\nu")] {
            let refused = heads().of(&call, &modern(&[broken])).unwrap_err();
            assert_eq!(refused.sent, Sent::Nothing, "{broken:?}");
        }
    }
}
