//! What of a request a page may have that nothing else at this door takes: a browser's `Origin`, where it
//! is the door's own, and a form.

use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};

/// What a browser says of where a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";

/// Whether `path` is a page's, or what pages load.
pub(in crate::admin) fn is_page(path: &str) -> bool {
    let first = path
        .strip_prefix('/')
        .and_then(|rest| rest.split('/').next());
    matches!(
        first,
        Some(
            "" | "login"
                | "logout"
                | "approvals"
                | "calls"
                | "tools"
                | "incidents"
                | "grants"
                | "assets"
        )
    )
}

/// Whether a page of this door itself sends the request, whose `Host` is `host`; or no page at all, where it
/// only reads.
pub(in crate::admin) fn is_own(host: &HeaderValue, method: &Method, headers: &HeaderMap) -> bool {
    let is_from_here = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let own = origin
            .strip_prefix(b"http://")
            .or(origin.strip_prefix(b"https://"));
        own.is_some_and(|own| own.eq_ignore_ascii_case(host.as_bytes()))
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let reads = method == Method::GET || method == Method::HEAD;
    match headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
        // No page can say so for another. A browser that tells nobody where it comes from (`no-referrer`)
        // writes `null` for the origin of a form.
        Some(b"same-origin") => origins.all(|origin| origin == "null" || is_from_here(origin)),
        // A link leads to a page; what it says is answered to the person who followed it.
        Some(_) => reads && origins.all(is_from_here),
        // A form of a browser says where it comes from, in one way or the other: one that does not is no page's.
        None => {
            let says_where = headers.contains_key(header::ORIGIN);
            (reads || says_where) && origins.all(is_from_here)
        }
    }
}

/// Whether another site has led here: the browser keeps its cookie back then.
pub(super) fn is_led_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    site == Some(b"cross-site")
}

/// Path and query of what is asked, to come back to; only those of a page.
pub(super) fn next(uri: &Uri) -> String {
    let path = uri
        .path_and_query()
        .map_or("/approvals", |path| path.as_str());
    checked_next(path).to_owned()
}

/// `path`, where it is a page's of this door that is got, else the first page.
pub(super) fn checked_next(path: &str) -> &str {
    let is_plain = path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_ours = is_plain && !path.starts_with("//") && is_page(path);
    let leads_on = !matches!(path, "/" | "/login" | "/logout");
    if is_ours && leads_on {
        path
    } else {
        "/approvals"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for &(name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    /// threat-model §3B: forms of other pages change nothing here.
    #[test]
    fn only_pages_of_this_door_send_forms() {
        let host = HeaderValue::from_static("127.0.0.1:7778");
        for (method, pairs, own) in [
            (Method::POST, vec![], false),
            (Method::GET, vec![], true),
            (
                Method::POST,
                vec![("origin", "http://127.0.0.1:7778")],
                true,
            ),
            (
                Method::POST,
                vec![("origin", "http://127.0.0.1:7779")],
                false,
            ),
            (Method::POST, vec![("origin", "null")], false),
            (
                Method::POST,
                vec![
                    ("origin", "http://127.0.0.1:7778"),
                    ("origin", "https://evil.example"),
                ],
                false,
            ),
            (Method::POST, vec![("sec-fetch-site", "same-site")], false),
            (Method::POST, vec![("sec-fetch-site", "none")], false),
            (Method::POST, vec![("sec-fetch-site", "same-origin")], true),
            (
                Method::POST,
                vec![("sec-fetch-site", "same-origin"), ("origin", "null")],
                true,
            ),
            (
                Method::POST,
                vec![("sec-fetch-site", "same-site"), ("origin", "null")],
                false,
            ),
            (Method::GET, vec![("sec-fetch-site", "cross-site")], true),
            (Method::GET, vec![("origin", "https://evil.example")], false),
        ] {
            let sent = headers(&pairs);
            assert_eq!(is_own(&host, &method, &sent), own, "{method} {pairs:?}");
        }
    }

    #[test]
    fn one_comes_back_to_pages_only() {
        for (path, next) in [
            ("/approvals/1?confirm=1", "/approvals/1?confirm=1"),
            ("/calls", "/calls"),
            ("/api/calls", "/approvals"),
            ("//evil.example", "/approvals"),
            ("/\\evil.example", "/approvals"),
            ("/login", "/approvals"),
            ("https://evil.example", "/approvals"),
            ("/approvals\r\nx: y", "/approvals"),
        ] {
            assert_eq!(checked_next(path), next, "{path:?}");
        }
    }
}
