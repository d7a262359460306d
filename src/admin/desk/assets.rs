//! The script and the style of the pages, in the program itself.

use crate::admin::OperatorsDoor;
use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

const SCRIPT: &str = include_str!("assets/desk.js");
const STYLE: &str = include_str!("assets/desk.css");

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route(
            "/assets/desk.js",
            get(async || file("text/javascript; charset=utf-8", SCRIPT)),
        )
        .route(
            "/assets/desk.css",
            get(async || file("text/css; charset=utf-8", STYLE)),
        )
}

fn file(kind: &'static str, text: &'static str) -> Response {
    (
        [(header::CONTENT_TYPE, HeaderValue::from_static(kind))],
        text,
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that script and style may have together: a phone loads them at each start.
    const MAX_ASSET_BYTES: usize = 40 << 10;

    /// Nothing of a call may become markup or code: no sink that parses text, and nothing from elsewhere.
    #[test]
    fn the_script_is_small_and_parses_nothing() {
        assert!(SCRIPT.len() + STYLE.len() <= MAX_ASSET_BYTES);
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "Function(",
            "document.write",
            "DOMParser",
            "setAttribute(\"on",
        ] {
            assert!(!SCRIPT.contains(sink), "{sink}");
        }
        for elsewhere in ["http:", "https:", "//cdn", "@import", "url("] {
            assert!(
                !SCRIPT.contains(elsewhere) && !STYLE.contains(elsewhere),
                "{elsewhere}"
            );
        }
    }
}
