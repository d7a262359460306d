//! Which HTTP headers of an agent travel to the tool server as they came: no token, no cookie, and
//! nothing that has a meaning between two neighbours.

use crate::mcp::headers::PARAM_HEADER_PREFIX;
use http::{HeaderMap, HeaderName};

/// Those of W3C Trace Context and Baggage, beside each `Mcp-Param-…` that nobody here knows
/// (protocol §1.2).
const TRACE_HEADERS: [&str; 3] = ["traceparent", "tracestate", "baggage"];
/// How many of them travel, and bytes of all their names and values.
const MAX_PASSED_HEADERS: usize = 32;
const MAX_PASSED_BYTES: usize = 8 << 10;

/// The headers that travel with a request, in order: visible text, each name once, and no more than
/// their bounds allow. One that is no text, or comes twice, stays here.
pub(super) fn passed(headers: &HeaderMap) -> Vec<(String, String)> {
    let (mut passed, mut room) = (Vec::new(), MAX_PASSED_BYTES);
    for name in headers.keys().map(HeaderName::as_str) {
        if !TRACE_HEADERS.contains(&name) && !name.starts_with(PARAM_HEADER_PREFIX) {
            continue;
        }
        let mut values = headers.get_all(name).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            continue;
        };
        let Ok(value) = value.to_str() else { continue };
        let Some(left) = room.checked_sub(name.len() + value.len()) else {
            continue;
        };
        if passed.len() < MAX_PASSED_HEADERS {
            room = left;
            passed.push((name.to_owned(), value.to_owned()));
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_travels_has_bounds() {
        let mut headers = HeaderMap::new();
        for nth in 0..2 * MAX_PASSED_HEADERS {
            let name = HeaderName::try_from(format!("mcp-param-{nth}")).unwrap();
            headers.insert(name, "x".parse().unwrap());
        }
        assert_eq!(passed(&headers).len(), MAX_PASSED_HEADERS);
        headers.clear();
        headers.insert("baggage", "x".repeat(MAX_PASSED_BYTES).parse().unwrap());
        headers.insert("tracestate", "a=b".parse().unwrap());
        assert_eq!(
            passed(&headers),
            [("tracestate".to_owned(), "a=b".to_owned())]
        );
    }
}
