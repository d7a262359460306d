//! What the operators' door says of itself.

use super::ask;
use crate::admin::openapi;
use axum::body::Body;
use axum::http::{Request, StatusCode};

/// 001-42: what programs are told that they can ask is there, and nothing else is.
#[tokio::test]
async fn the_description_is_of_what_is_there() {
    let described = openapi::document();
    let paths = described["paths"].as_object().unwrap();
    let mut told: Vec<String> = Vec::new();
    for (path, operations) in paths {
        for method in operations.as_object().unwrap().keys() {
            told.push(format!("{method} {path}"));
            let asked = path.replace(['{', '}'], "");
            let request = Request::builder()
                .method(method.to_uppercase().as_str())
                .uri(asked)
                .header("host", "127.0.0.1:7778")
                .body(Body::empty())
                .unwrap();
            let (status, _, text) = ask(true, request).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}: {text}");
        }
    }
    let sources = [
        include_str!("../approvals.rs"),
        include_str!("../calls.rs"),
        include_str!("../incidents.rs"),
        include_str!("../incidents/evidence.rs"),
        include_str!("../overview.rs"),
        include_str!("../desk/live.rs"),
        include_str!("../quarantine.rs"),
        include_str!("../tasks.rs"),
        include_str!("../tools.rs"),
    ];
    let routes = regex::Regex::new(r#"\.route\(\s*"(/api/[^"]+)""#).unwrap();
    for source in sources {
        for route in routes.captures_iter(source) {
            assert!(
                paths.contains_key(&route[1]),
                "{} is not described",
                &route[1]
            );
        }
    }
    assert_eq!(told.len(), 34, "{told:?}");
}
